-- Members' own machines as places to work. A machine calls the server; the server's key is pinned there, and the machine's here.
CREATE TABLE runners (
    id              TEXT PRIMARY KEY,
    team_id         TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id         TEXT NOT NULL,                  -- whose machine it is
    name            TEXT NOT NULL,
    public_key      BYTEA NOT NULL,                  -- Ed25519, 32 bytes: who the machine is
    hello           TEXT NOT NULL DEFAULT '{}',     -- JSON: what it last said of itself (wire.Hello)
    version         TEXT NOT NULL DEFAULT '',       -- of its program
    protocol        BIGINT NOT NULL DEFAULT 0,
    connected_at    BIGINT NOT NULL DEFAULT 0,      -- of the connection that lives, 0 = offline
    connected_to    TEXT NOT NULL DEFAULT '',       -- which server process holds it
    seen_at         BIGINT NOT NULL DEFAULT 0,      -- the last heartbeat that was worth a write
    offline_at      BIGINT NOT NULL DEFAULT 0,      -- since when it is offline
    offline_reason  TEXT NOT NULL DEFAULT '',       -- in words
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revoked_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX runners_by_team ON runners(team_id, created_at);
CREATE UNIQUE INDEX runners_by_name ON runners(team_id, user_id, name) WHERE revoked_at = 0;

-- What a machine is enrolled with. Only the hash is kept.
CREATE TABLE runner_tokens (
    id          TEXT PRIMARY KEY,                   -- part of the token
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id     TEXT NOT NULL,                      -- whose machines it enrols
    name        TEXT NOT NULL DEFAULT '',           -- what the machine is to be called unless it says otherwise
    hash        BYTEA NOT NULL,                      -- SHA-256 of the secret
    reusable    BOOLEAN NOT NULL DEFAULT FALSE,     -- enrols many until it is revoked
    runner_id   TEXT NOT NULL DEFAULT '',           -- of one that gives this machine a new key; else what it enrolled last
    renews      BOOLEAN NOT NULL DEFAULT FALSE,     -- it replaces the key of runner_id
    uses        BIGINT NOT NULL DEFAULT 0,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL DEFAULT 0,          -- 0 = never
    used_at     BIGINT NOT NULL DEFAULT 0,
    revoked_at  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX runner_tokens_by_team ON runner_tokens(team_id, created_at);

-- When machines were connected, and why each connection ended.
CREATE TABLE runner_connections (
    id         TEXT PRIMARY KEY,
    runner_id  TEXT NOT NULL REFERENCES runners(id) ON DELETE CASCADE,
    team_id    TEXT NOT NULL,
    address    TEXT NOT NULL DEFAULT '',            -- where it called from
    version    TEXT NOT NULL DEFAULT '',
    began_at   BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL DEFAULT 0,
    reason     TEXT NOT NULL DEFAULT ''             -- in words
);
CREATE INDEX runner_connections_by_runner ON runner_connections(runner_id, began_at);

-- Keys of the instance itself, sealed with the key that is kept outside the database.
CREATE TABLE instance_keys (
    name        TEXT PRIMARY KEY,                   -- "runner": signs what machines are told
    public_key  BYTEA NOT NULL,
    sealed      BYTEA NOT NULL,
    key_version BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);

-- Where a person last chose to work in a project.
CREATE TABLE project_places (
    project_id TEXT NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,
    team_id    TEXT NOT NULL,
    executor   TEXT NOT NULL,                       -- a kind: docker, or runner:<id>
    chosen_at  BIGINT NOT NULL,
    PRIMARY KEY (project_id, user_id)
);

ALTER TABLE projects ADD COLUMN runner_id TEXT NOT NULL DEFAULT '';      -- of source_kind runner: the machine its folder is on
ALTER TABLE workspaces ADD COLUMN runner_folder TEXT NOT NULL DEFAULT ''; -- on a machine: the allowed folder whose repository it borrows; '' = a copy of its own
