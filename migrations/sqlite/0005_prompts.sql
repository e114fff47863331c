-- Prompts that wait for a session's agent, and what became of them. They go with their workspace.
CREATE TABLE prompts (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL,                  -- that is to get it; a resumed session takes over what waits
    position     BIGINT NOT NULL,                -- order within the session
    text         TEXT NOT NULL,
    state        TEXT NOT NULL,                  -- queued, sending, sent, failed, cancelled
    reason       TEXT NOT NULL DEFAULT '',       -- why it failed
    held         TEXT NOT NULL DEFAULT '',       -- why a queued one waits for a person, '' = it does not
    urgent       BOOLEAN NOT NULL DEFAULT FALSE, -- a person said "send now"
    frame        BIGINT NOT NULL DEFAULT 0,      -- number of its first frame of input, once it is sending
    frames       BIGINT NOT NULL DEFAULT 0,      -- how many, Enter last
    bracketed    BOOLEAN NOT NULL DEFAULT FALSE, -- sent as a bracketed paste
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    sent_at      BIGINT NOT NULL DEFAULT 0       -- when Enter was on its way
);
CREATE INDEX prompts_by_session ON prompts(session_id, position);
CREATE INDEX prompts_by_workspace ON prompts(workspace_id);
