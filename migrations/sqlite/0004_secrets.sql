-- Secrets, sealed with a key outside the database, of a user or of a team; and the agents' accounts, now several for one agent.

CREATE TABLE secrets (
    id          TEXT PRIMARY KEY,
    user_id     TEXT REFERENCES users(id) ON DELETE CASCADE,
    team_id     TEXT REFERENCES teams(id) ON DELETE CASCADE,
    name        TEXT NOT NULL,                   -- what it is for; sealed in, like the id and the owner
    sealed      BLOB NOT NULL,                   -- AES-256-GCM
    key_version BIGINT NOT NULL,                 -- of the key it is sealed with; 0: as before this table, bound to user and agent
    last_four   TEXT NOT NULL DEFAULT '',
    created_by  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    CHECK ((user_id IS NULL) <> (team_id IS NULL))
);
CREATE INDEX secrets_by_user ON secrets(user_id);
CREATE INDEX secrets_by_team ON secrets(team_id);
CREATE INDEX secrets_by_key ON secrets(key_version);

ALTER TABLE agent_accounts RENAME TO agent_accounts_before;

-- An agent's account: a user's own, or one a team shares.
CREATE TABLE agent_accounts (
    id         TEXT PRIMARY KEY,
    user_id    TEXT REFERENCES users(id) ON DELETE CASCADE,
    team_id    TEXT REFERENCES teams(id) ON DELETE CASCADE,
    agent      TEXT NOT NULL,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,                    -- api_key, terminal, existing_login
    secret_id  TEXT REFERENCES secrets(id) ON DELETE CASCADE,
    base_url   TEXT NOT NULL DEFAULT '',
    is_default BOOLEAN NOT NULL DEFAULT FALSE,   -- used where a session names none
    in_home    BOOLEAN NOT NULL DEFAULT FALSE,   -- the agent's folder in the user's home itself is its own; others have one apart
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CHECK ((user_id IS NULL) <> (team_id IS NULL))
);

INSERT INTO secrets (id, user_id, name, sealed, key_version, last_four, created_by, created_at, updated_at)
SELECT 'sec_' || user_id || '_' || n, user_id, 'agent account acc_' || user_id || '_' || n || ' ' || agent, secret, 0, last_four, user_id, updated_at, updated_at
FROM (SELECT *, CAST(ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY agent) AS TEXT) AS n FROM agent_accounts_before) b
WHERE secret IS NOT NULL;

INSERT INTO agent_accounts (id, user_id, agent, name, kind, secret_id, base_url, is_default, in_home, created_by, created_at, updated_at)
SELECT 'acc_' || user_id || '_' || n, user_id, agent, 'My account', kind, CASE WHEN secret IS NULL THEN NULL ELSE 'sec_' || user_id || '_' || n END,
       base_url, TRUE, TRUE, user_id, updated_at, updated_at
FROM (SELECT *, CAST(ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY agent) AS TEXT) AS n FROM agent_accounts_before) b;

DROP TABLE agent_accounts_before;

CREATE UNIQUE INDEX agent_accounts_user_name ON agent_accounts(user_id, agent, name);
CREATE UNIQUE INDEX agent_accounts_team_name ON agent_accounts(team_id, agent, name);
-- One default each, and one that lives in the home itself.
CREATE UNIQUE INDEX agent_accounts_user_default ON agent_accounts(user_id, agent) WHERE is_default;
CREATE UNIQUE INDEX agent_accounts_team_default ON agent_accounts(team_id, agent) WHERE is_default;
CREATE UNIQUE INDEX agent_accounts_home ON agent_accounts(user_id, agent) WHERE in_home;

ALTER TABLE sessions ADD COLUMN account_id TEXT NOT NULL DEFAULT ''; -- the agent's account, '' = none was chosen
CREATE INDEX sessions_by_account ON sessions(account_id) WHERE ended_at = 0;
