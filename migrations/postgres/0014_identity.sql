-- Identity and permission: further ways to sign in, invites, suspension, private work, links to watch, secrets for sessions, the audit.

ALTER TABLE users ADD COLUMN suspended_at BIGINT NOT NULL DEFAULT 0;       -- 0 = not suspended
ALTER TABLE users ADD COLUMN password_at BIGINT NOT NULL DEFAULT 0;        -- when the password was last set; password_hash '' = none
ALTER TABLE teams ADD COLUMN suspended_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE teams ADD COLUMN second_factor BOOLEAN NOT NULL DEFAULT FALSE; -- its members need one
ALTER TABLE members ADD COLUMN source TEXT NOT NULL DEFAULT '';            -- '' = by people; else the provider whose groups say so

ALTER TABLE login_sessions ADD COLUMN id TEXT NOT NULL DEFAULT '';         -- what people end it by; no secret
ALTER TABLE login_sessions ADD COLUMN factors TEXT NOT NULL DEFAULT 'password'; -- how who it is was proven, by commas: password, totp, recovery_code, passkey, sso, sso_mfa, link
ALTER TABLE login_sessions ADD COLUMN provider TEXT NOT NULL DEFAULT '';   -- that vouched
ALTER TABLE login_sessions ADD COLUMN confirmed_at BIGINT NOT NULL DEFAULT 0; -- when who it is was last proven
UPDATE login_sessions SET id = 'lgs_' || substr(id_hash, 1, 24), confirmed_at = created_at;
CREATE UNIQUE INDEX login_sessions_by_id ON login_sessions(id);

ALTER TABLE api_tokens ADD COLUMN scopes TEXT NOT NULL DEFAULT '';         -- JSON list, '' = all its user may do
ALTER TABLE api_tokens ADD COLUMN team_id TEXT REFERENCES teams(id) ON DELETE CASCADE; -- the only team it acts in, NULL = all
ALTER TABLE api_tokens ADD COLUMN last_used_ip TEXT NOT NULL DEFAULT '';

-- An authenticator app. Until confirmed_at it is not asked for.
CREATE TABLE totp (
    user_id      TEXT PRIMARY KEY REFERENCES users(id) ON DELETE CASCADE,
    sealed       TEXT NOT NULL,
    last_step    BIGINT NOT NULL DEFAULT 0,      -- of the last code taken: each is taken once
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE recovery_codes (
    user_id   TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    code_hash TEXT NOT NULL,                     -- sha256 hex: a code has the entropy of a token
    used_at   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, code_hash)
);

CREATE TABLE passkeys (
    id            TEXT PRIMARY KEY,
    user_id       TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    name          TEXT NOT NULL,
    credential_id TEXT NOT NULL UNIQUE,          -- base64url
    credential    TEXT NOT NULL,                 -- JSON: public key, counter, flags, transports
    created_at    BIGINT NOT NULL,
    last_used_at  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX passkeys_by_user ON passkeys(user_id, created_at);

-- What a sign-in or a proof has begun and not ended yet: who waits for a second factor, a passkey's challenge, a way to a provider and back.
CREATE TABLE ceremonies (
    id_hash    TEXT PRIMARY KEY,                 -- sha256 hex of the value the browser holds
    kind       TEXT NOT NULL,
    user_id    TEXT REFERENCES users(id) ON DELETE CASCADE, -- NULL = not known yet
    sealed     TEXT NOT NULL,                    -- JSON, sealed
    failures   BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX ceremonies_by_end ON ceremonies(expires_at);

-- Who a provider says somebody is. The e-mail address is for people to read; the identity is issuer and subject.
CREATE TABLE identities (
    id           TEXT PRIMARY KEY,
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    provider     TEXT NOT NULL,                  -- its name in config.json
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    email        TEXT NOT NULL DEFAULT '',
    name         TEXT NOT NULL DEFAULT '',
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    UNIQUE (issuer, subject)
);
CREATE INDEX identities_by_user ON identities(user_id, created_at);

CREATE TABLE invites (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    role       TEXT NOT NULL,
    email      TEXT NOT NULL DEFAULT '',         -- only this address may accept, '' = whoever has the link
    token_hash TEXT NOT NULL UNIQUE,             -- sha256 hex
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    mailed_at  BIGINT NOT NULL DEFAULT 0,
    used_at    BIGINT NOT NULL DEFAULT 0,
    used_by    TEXT NOT NULL DEFAULT '',
    revoked_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX invites_by_team ON invites(team_id, created_at);

-- Links by which a user sets a (new) password.
CREATE TABLE password_links (
    token_hash TEXT PRIMARY KEY,                 -- sha256 hex
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    created_by TEXT NOT NULL DEFAULT '',         -- an operator, '' = asked for by mail
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX password_links_by_user ON password_links(user_id);

-- Links with which somebody without a login watches one session.
CREATE TABLE watch_links (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL,
    name         TEXT NOT NULL DEFAULT '',       -- for whom
    token_hash   TEXT NOT NULL UNIQUE,           -- sha256 hex
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL DEFAULT 0,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    uses         BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX watch_links_by_team ON watch_links(team_id, created_at);
CREATE INDEX watch_links_by_session ON watch_links(session_id);

-- Only who made a private workspace sees it.
ALTER TABLE workspaces ADD COLUMN private BOOLEAN NOT NULL DEFAULT FALSE;

-- What sessions are given that nobody may read: of a team, of one project of it, or of one person.
CREATE TABLE session_secrets (
    id           TEXT PRIMARY KEY,
    team_id      TEXT REFERENCES teams(id) ON DELETE CASCADE,     -- NULL = a person's own
    project_id   TEXT REFERENCES projects(id) ON DELETE CASCADE,
    user_id      TEXT REFERENCES users(id) ON DELETE CASCADE,
    kind         TEXT NOT NULL,                  -- env, file, git
    name         TEXT NOT NULL,                  -- of the variable; of a file or credential: for people
    target       TEXT NOT NULL DEFAULT '',       -- file: its path below the worktree or home; git: the host it is for
    username     TEXT NOT NULL DEFAULT '',       -- git
    in_sandbox   BOOLEAN NOT NULL DEFAULT TRUE,  -- git: FALSE unless the project says so
    agents       TEXT NOT NULL DEFAULT '[]',     -- JSON list, empty = every session
    secret_id    TEXT NOT NULL REFERENCES secrets(id),
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    rotated_at   BIGINT NOT NULL DEFAULT 0,      -- when its value was last replaced
    last_used_at BIGINT NOT NULL DEFAULT 0,
    CHECK ((user_id IS NULL) <> (team_id IS NULL)),
    CHECK (project_id IS NULL OR team_id IS NOT NULL)
);
CREATE UNIQUE INDEX session_secrets_name ON session_secrets(COALESCE(team_id, ''), COALESCE(project_id, ''), COALESCE(user_id, ''), kind, name, target);
CREATE INDEX session_secrets_by_team ON session_secrets(team_id);
CREATE INDEX session_secrets_by_project ON session_secrets(project_id);
CREATE INDEX session_secrets_by_user ON session_secrets(user_id);

-- Who did what: only ever added to. Each entry holds the seal of the one before it in its chain.
CREATE TABLE audit (
    chain       TEXT NOT NULL,                   -- a team's id, or 'instance'; kept when the team is gone
    seq         BIGINT NOT NULL,                 -- 1, 2, ... without gaps
    id          TEXT NOT NULL UNIQUE,
    at          BIGINT NOT NULL,
    actor_kind  TEXT NOT NULL,                   -- user, token, link, command_line, system, nobody
    actor_id    TEXT NOT NULL DEFAULT '',
    actor_name  TEXT NOT NULL DEFAULT '',        -- as it was then
    credential  TEXT NOT NULL DEFAULT '',        -- id of the login session, token or link
    ip          TEXT NOT NULL DEFAULT '',
    action      TEXT NOT NULL,
    target_kind TEXT NOT NULL DEFAULT '',
    target_id   TEXT NOT NULL DEFAULT '',
    target_name TEXT NOT NULL DEFAULT '',
    result      TEXT NOT NULL,                   -- done, refused, failed
    code        TEXT NOT NULL DEFAULT '',        -- of the error
    request_id  TEXT NOT NULL DEFAULT '',
    data        TEXT NOT NULL DEFAULT '{}',      -- JSON: text by name
    seal        TEXT NOT NULL,                   -- HMAC-SHA-256 hex of all above and of the seal before
    PRIMARY KEY (chain, seq)
);
CREATE INDEX audit_by_time ON audit(chain, at, seq);
CREATE INDEX audit_by_actor ON audit(chain, actor_id, seq);

-- Mail that is to be sent.
CREATE TABLE mails (
    id            TEXT PRIMARY KEY,
    team_id       TEXT REFERENCES teams(id) ON DELETE CASCADE, -- NULL = of the instance
    kind          TEXT NOT NULL,
    recipient     TEXT NOT NULL,
    sealed        TEXT NOT NULL,                 -- subject and text, sealed: it may hold a link; '' once sent
    state         TEXT NOT NULL,                 -- pending, sent, given_up
    attempts      BIGINT NOT NULL DEFAULT 0,
    next_at       BIGINT NOT NULL DEFAULT 0,
    claimed_until BIGINT NOT NULL DEFAULT 0,
    error         TEXT NOT NULL DEFAULT '',
    created_at    BIGINT NOT NULL,
    done_at       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX mails_pending ON mails(next_at) WHERE state = 'pending';
