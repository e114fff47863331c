-- Names a workspace's agents reached through the gate.
CREATE TABLE reached_hosts (
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    host         TEXT NOT NULL,
    port         BIGINT NOT NULL,
    times        BIGINT NOT NULL DEFAULT 1,
    first_at     BIGINT NOT NULL,
    last_at      BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, host, port)
);
