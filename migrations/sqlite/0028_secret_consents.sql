-- Who has agreed that their own secrets are given to what they start in a workspace that others work in, who could read them there.
CREATE TABLE secret_consents (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    agreed_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
);
