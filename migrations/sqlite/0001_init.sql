-- The first schema. Times are BIGINT ms UTC, ids TEXT, JSON as TEXT. The PostgreSQL twin differs only where it must (BLOB/BYTEA).

CREATE TABLE users (
    id            TEXT PRIMARY KEY,
    email         TEXT NOT NULL UNIQUE,          -- lower case
    name          TEXT NOT NULL,
    password_hash TEXT NOT NULL,                 -- argon2id, PHC string
    operator      BOOLEAN NOT NULL DEFAULT FALSE,
    created_at    BIGINT NOT NULL
);

CREATE TABLE teams (
    id                 TEXT PRIMARY KEY,
    slug               TEXT NOT NULL UNIQUE,
    name               TEXT NOT NULL,
    next_workspace_num BIGINT NOT NULL DEFAULT 1, -- the number in PW-1
    created_at         BIGINT NOT NULL
);

CREATE TABLE members (
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    role       TEXT NOT NULL,                    -- owner, admin, member, viewer
    created_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, user_id)
);
CREATE INDEX members_by_user ON members(user_id);

CREATE TABLE login_sessions (
    id_hash    TEXT PRIMARY KEY,                 -- sha256 hex of the cookie's value
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    user_agent TEXT NOT NULL DEFAULT '',
    ip         TEXT NOT NULL DEFAULT ''
);
CREATE INDEX login_sessions_by_user ON login_sessions(user_id);

CREATE TABLE api_tokens (
    id           TEXT PRIMARY KEY,
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    token_hash   TEXT NOT NULL UNIQUE,           -- sha256 hex
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    expires_at   BIGINT NOT NULL DEFAULT 0       -- 0 = never
);
CREATE INDEX api_tokens_by_user ON api_tokens(user_id);

-- The agent's own account, chosen per user and agent.
CREATE TABLE agent_accounts (
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    agent      TEXT NOT NULL,
    kind       TEXT NOT NULL,                    -- api_key, terminal, existing_login
    secret     BLOB,                             -- AES-256-GCM, key outside the database
    last_four  TEXT NOT NULL DEFAULT '',
    base_url   TEXT NOT NULL DEFAULT '',
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, agent)
);

CREATE TABLE instance (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE projects (
    id             TEXT PRIMARY KEY,
    team_id        TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    name           TEXT NOT NULL,
    source_kind    TEXT NOT NULL,                -- url, path, sample
    source         TEXT NOT NULL,                -- the URL without credentials, or the folder
    git_dir        TEXT NOT NULL,                -- the common git dir on the host
    default_branch TEXT NOT NULL DEFAULT '',
    state          TEXT NOT NULL,                -- cloning, ready, failed
    state_reason   TEXT NOT NULL DEFAULT '',
    setup_script   TEXT NOT NULL DEFAULT '',
    copy_ignored   TEXT NOT NULL DEFAULT '[]',   -- JSON list of patterns
    fetched_at     BIGINT NOT NULL DEFAULT 0,
    created_by     TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    deleted_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX projects_by_team ON projects(team_id, created_at);

CREATE TABLE workspaces (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL REFERENCES projects(id),
    num          BIGINT NOT NULL,
    name         TEXT NOT NULL,
    branch       TEXT NOT NULL,
    base         TEXT NOT NULL,                  -- the base branch as people name it
    base_commit  TEXT NOT NULL DEFAULT '',
    executor     TEXT NOT NULL,
    state        TEXT NOT NULL,                  -- creating, setting_up, ready, paused, failed, archived
    state_reason TEXT NOT NULL DEFAULT '',
    path         TEXT NOT NULL DEFAULT '',       -- the worktree on the host
    steps        TEXT NOT NULL DEFAULT '[]',     -- JSON: creation steps with times
    merged_at    BIGINT NOT NULL DEFAULT 0,
    merged_commit TEXT NOT NULL DEFAULT '',
    snapshot     TEXT NOT NULL DEFAULT '',       -- JSON: what the last archive or deletion kept
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    archived_at  BIGINT NOT NULL DEFAULT 0,
    deleted_at   BIGINT NOT NULL DEFAULT 0,
    UNIQUE (team_id, num)
);
CREATE INDEX workspaces_by_team ON workspaces(team_id, created_at);
CREATE INDEX workspaces_by_project ON workspaces(project_id);

CREATE TABLE activity (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    at           BIGINT NOT NULL,
    actor_id     TEXT NOT NULL DEFAULT '',       -- a user, or '' for Parawork itself
    kind         TEXT NOT NULL,                  -- workspace.created, session.started, commit, merge, ...
    text         TEXT NOT NULL,
    data         TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX activity_by_workspace ON activity(workspace_id, at, id);

CREATE TABLE sandboxes (
    id             TEXT PRIMARY KEY,
    team_id        TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id   TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    kind           TEXT NOT NULL,
    handle_version BIGINT NOT NULL DEFAULT 0,
    handle_state   BLOB,
    state          TEXT NOT NULL,                -- starting, running, paused, stopping, gone, failed
    state_reason   TEXT NOT NULL DEFAULT '',
    started_at     BIGINT NOT NULL,
    health_at      BIGINT NOT NULL DEFAULT 0,
    ended_at       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sandboxes_by_workspace ON sandboxes(workspace_id, started_at);
-- One live sandbox a workspace.
CREATE UNIQUE INDEX sandboxes_live ON sandboxes(workspace_id) WHERE ended_at = 0;

CREATE TABLE commands (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    sandbox_id   TEXT NOT NULL DEFAULT '',
    actor_id     TEXT NOT NULL,
    argv         TEXT NOT NULL,                  -- JSON list
    cwd          TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,                  -- pending, executing, completed, failed, cancelled, timed_out
    state_reason TEXT NOT NULL DEFAULT '',
    background   BOOLEAN NOT NULL DEFAULT FALSE,
    exit_code    BIGINT,
    stdout       BLOB,
    stderr       BLOB,
    truncated    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at   BIGINT NOT NULL,
    started_at   BIGINT NOT NULL DEFAULT 0,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX commands_by_workspace ON commands(workspace_id, created_at);
CREATE INDEX commands_open ON commands(state) WHERE ended_at = 0;

CREATE TABLE sessions (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    sandbox_id    TEXT NOT NULL DEFAULT '',
    agent         TEXT NOT NULL,
    argv          TEXT NOT NULL DEFAULT '[]',    -- JSON list, without secrets
    prompt        TEXT NOT NULL DEFAULT '',
    prompt_sent_at BIGINT NOT NULL DEFAULT 0,
    conversation  TEXT NOT NULL DEFAULT '',      -- the agent's own id of its conversation, for resume
    state         TEXT NOT NULL,                 -- starting, working, waiting, idle, exited, failed, lost
    state_reason  TEXT NOT NULL DEFAULT '',
    state_at      BIGINT NOT NULL,
    title         TEXT NOT NULL DEFAULT '',
    cols          BIGINT NOT NULL,
    rows          BIGINT NOT NULL,
    exit_code     BIGINT,
    exit_signal   TEXT NOT NULL DEFAULT '',
    bytes         BIGINT NOT NULL DEFAULT 0,
    created_by    TEXT NOT NULL,
    started_at    BIGINT NOT NULL,
    ended_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sessions_by_workspace ON sessions(workspace_id, started_at);
CREATE INDEX sessions_open ON sessions(state) WHERE ended_at = 0;

CREATE TABLE change_sets (
    workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL,
    version      BIGINT NOT NULL,
    base_commit  TEXT NOT NULL DEFAULT '',
    head_commit  TEXT NOT NULL DEFAULT '',
    branch       TEXT NOT NULL DEFAULT '',
    files        BIGINT NOT NULL DEFAULT 0,
    additions    BIGINT NOT NULL DEFAULT 0,
    deletions    BIGINT NOT NULL DEFAULT 0,
    error        TEXT NOT NULL DEFAULT '',
    synced_at    BIGINT NOT NULL
);

CREATE TABLE changes (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    path         BLOB NOT NULL,                  -- raw bytes as git has them
    old_path     BLOB,
    status       TEXT NOT NULL,
    mode         TEXT NOT NULL DEFAULT '',
    old_mode     TEXT NOT NULL DEFAULT '',
    size         BIGINT NOT NULL DEFAULT 0,
    is_binary    BOOLEAN NOT NULL DEFAULT FALSE,
    additions    BIGINT NOT NULL DEFAULT 0,
    deletions    BIGINT NOT NULL DEFAULT 0,
    hash         TEXT NOT NULL DEFAULT '',
    staged       BOOLEAN NOT NULL DEFAULT FALSE,
    committed    BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (workspace_id, path)
);

-- Answers kept for a repeated Idempotency-Key.
CREATE TABLE idempotency_keys (
    user_id      TEXT NOT NULL,
    key          TEXT NOT NULL,
    route        TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    status       BIGINT NOT NULL DEFAULT 0,      -- 0 while the first request is under way
    body         BLOB,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (user_id, key)
);
