-- One prompt in several workspaces at once, to compare what comes of it.
CREATE TABLE runs (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL REFERENCES projects(id),
    name       TEXT NOT NULL,
    prompt     TEXT NOT NULL,
    kept       TEXT NOT NULL DEFAULT '',     -- the attempt somebody decided for
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX runs_by_team ON runs(team_id, created_at);

CREATE TABLE run_attempts (
    id           TEXT PRIMARY KEY,
    run_id       TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    num          BIGINT NOT NULL,
    name         TEXT NOT NULL,              -- of the workspace
    agent        TEXT NOT NULL,
    account_id   TEXT NOT NULL DEFAULT '',
    base         TEXT NOT NULL DEFAULT '',
    executor     TEXT NOT NULL DEFAULT '',
    workspace_id TEXT NOT NULL DEFAULT '',   -- '' until it is made
    made         BOOLEAN NOT NULL,           -- the workspace is the run's own
    session_id   TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,              -- making, starting, started, failed
    code         TEXT NOT NULL DEFAULT '',   -- of the error
    reason       TEXT NOT NULL DEFAULT '',
    state_at     BIGINT NOT NULL,
    UNIQUE (run_id, num)
);
CREATE INDEX run_attempts_open ON run_attempts(state) WHERE state IN ('making', 'starting');
CREATE INDEX run_attempts_by_workspace ON run_attempts(workspace_id);
