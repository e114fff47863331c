-- What a workspace was ever given of secrets, for as long as there is the workspace: sessions end, values are replaced, commits stay.

CREATE TABLE workspace_secret_files (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    path         TEXT NOT NULL,                  -- below the worktree; '' = below the home
    sum          TEXT NOT NULL,                  -- sha256 hex of what was written
    blob         TEXT NOT NULL DEFAULT '',       -- git's name of it in a repository of SHA-1, '' = it is empty
    blob256      TEXT NOT NULL DEFAULT '',       -- likewise, of SHA-256
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, path, sum)
);
CREATE INDEX workspace_secret_files_by_team ON workspace_secret_files(team_id);

CREATE TABLE workspace_secret_values (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    secret_id    TEXT NOT NULL REFERENCES secrets(id) ON DELETE CASCADE, -- the sealed value, which stays as long as it is named here
    use_id       TEXT NOT NULL,                  -- of the session_secrets it was given as; sealed in
    user_id      TEXT NOT NULL DEFAULT '',       -- whose own it is, '' = the team's
    kind         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, secret_id)
);
CREATE INDEX workspace_secret_values_by_team ON workspace_secret_values(team_id);
CREATE INDEX workspace_secret_values_by_secret ON workspace_secret_values(secret_id);
