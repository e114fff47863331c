-- Places on other machines: what they cost, how long they live, what of their disk has come home.
ALTER TABLE teams ADD COLUMN allow_user_choice BOOLEAN NOT NULL DEFAULT TRUE; -- members may name a place; FALSE: the team's default is everybody's
ALTER TABLE workspaces ADD COLUMN fallback_ok BOOLEAN NOT NULL DEFAULT FALSE; -- its owner agreed that it may start on this server when its place cannot serve

ALTER TABLE sandboxes ADD COLUMN user_id TEXT NOT NULL DEFAULT '';            -- who asked for it, '' = the server
ALTER TABLE sandboxes ADD COLUMN purpose TEXT NOT NULL DEFAULT '';            -- the strongest use so far: agent, app, execution
ALTER TABLE sandboxes ADD COLUMN steps TEXT NOT NULL DEFAULT '[]';            -- JSON: how it was made, step by step
ALTER TABLE sandboxes ADD COLUMN cpus BIGINT NOT NULL DEFAULT 0;              -- its size, where its place has sizes
ALTER TABLE sandboxes ADD COLUMN memory_mb BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN price_nano BIGINT NOT NULL DEFAULT 0;        -- nano-USD an hour while it runs
ALTER TABLE sandboxes ADD COLUMN lease_until BIGINT NOT NULL DEFAULT 0;       -- when its place pauses or ends it unless it is extended; 0 = never
ALTER TABLE sandboxes ADD COLUMN run_ends_at BIGINT NOT NULL DEFAULT 0;       -- beyond this nothing is extended; 0 = for ever
ALTER TABLE sandboxes ADD COLUMN paused_for TEXT NOT NULL DEFAULT '';         -- why it stands still: person, idle, limit, ceiling, lease
ALTER TABLE sandboxes ADD COLUMN pooled BOOLEAN NOT NULL DEFAULT FALSE;       -- it was taken from the pool

-- One metered stretch of a sandbox running. Rows outlive what they are about.
CREATE TABLE segments (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL,                  -- '' = the instance's own, as of the pool
    workspace_id TEXT NOT NULL DEFAULT '',
    sandbox_id   TEXT NOT NULL,
    user_id      TEXT NOT NULL DEFAULT '',       -- whose quota and budget it is
    executor     TEXT NOT NULL,
    purpose      TEXT NOT NULL DEFAULT '',       -- agent, app, execution, pool
    cpus         BIGINT NOT NULL DEFAULT 0,
    memory_mb    BIGINT NOT NULL DEFAULT 0,
    price_nano   BIGINT NOT NULL,                -- nano-USD an hour, as of its beginning
    started_at   BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,                -- when it was last known to run
    ended_at     BIGINT NOT NULL DEFAULT 0,
    witness      TEXT NOT NULL DEFAULT '',       -- who says when it ended: place, heartbeat, server
    cost_nano    BIGINT NOT NULL DEFAULT 0       -- up to seen_at, or ended_at
);
CREATE UNIQUE INDEX segments_open ON segments(sandbox_id) WHERE ended_at = 0;
CREATE INDEX segments_by_team ON segments(team_id, started_at);
CREATE INDEX segments_by_workspace ON segments(workspace_id, started_at);

-- Sandboxes made ahead of time, of nobody yet. One that was taken is a row of sandboxes under another id.
CREATE TABLE warm_sandboxes (
    id             TEXT PRIMARY KEY,
    executor       TEXT NOT NULL,
    class          TEXT NOT NULL,                -- template and size
    handle_version BIGINT NOT NULL DEFAULT 0,
    handle_state   BYTEA,
    state          TEXT NOT NULL,                -- making, ready, taken, ending
    state_reason   TEXT NOT NULL DEFAULT '',
    created_at     BIGINT NOT NULL,
    ready_at       BIGINT NOT NULL DEFAULT 0,
    lease_until    BIGINT NOT NULL DEFAULT 0,
    ended_at       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX warm_sandboxes_open ON warm_sandboxes(executor, class) WHERE ended_at = 0;

-- What the host worktree of a workspace in a place with a disk of its own holds of it. Paths are raw bytes as git has them.
CREATE TABLE synced_files (
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    path         BYTEA NOT NULL,
    hash         TEXT NOT NULL,                  -- sha256 of the bytes, or of a link's target; '' = the file is gone
    mode         TEXT NOT NULL DEFAULT '',       -- as git writes it: 100644, 100755, 120000
    size         BIGINT NOT NULL DEFAULT 0,
    state        TEXT NOT NULL,                  -- synced, too_large, refused, failed
    reason       TEXT NOT NULL DEFAULT '',
    synced_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, path)
);

-- Files that changed on both sides: both are kept.
CREATE TABLE sync_conflicts (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    path         BYTEA NOT NULL,                  -- where the sandbox's version is
    kept_path    BYTEA NOT NULL,                  -- where the server's version is
    found_at     BIGINT NOT NULL,
    settled_at   BIGINT NOT NULL DEFAULT 0       -- when somebody said that it is dealt with
);
CREATE INDEX sync_conflicts_open ON sync_conflicts(workspace_id) WHERE settled_at = 0;

CREATE TABLE sync_states (
    workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    sandbox_id   TEXT NOT NULL,
    base_commit  TEXT NOT NULL DEFAULT '',       -- what the host worktree is built on
    state        TEXT NOT NULL,                  -- synced, syncing, behind
    pending      BIGINT NOT NULL DEFAULT 0,      -- files not home yet
    reason       TEXT NOT NULL DEFAULT '',       -- why it is behind, in words
    synced_at    BIGINT NOT NULL DEFAULT 0       -- when everything was last home
);

-- What operators say about places; config.json goes before it.
CREATE TABLE place_settings (
    executor    TEXT PRIMARY KEY,
    settings    TEXT NOT NULL DEFAULT '{}',      -- JSON, without secrets
    sealed      BYTEA,                            -- its key, AES-256-GCM
    key_version BIGINT NOT NULL DEFAULT 0,
    last_four   TEXT NOT NULL DEFAULT '',
    updated_by  TEXT NOT NULL,
    updated_at  BIGINT NOT NULL
);
