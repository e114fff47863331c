-- The schema. Times are BIGINT ms UTC, ids TEXT, JSON as TEXT. The SQLite and the PostgreSQL text differ only in BLOB and BYTEA.
-- A migration that was released never changes: the next change of the schema is the next number, in both folders.

-- === Users, teams and signing in ===

-- A person with an account on this instance.
CREATE TABLE users (
    id               TEXT PRIMARY KEY,
    email            TEXT NOT NULL UNIQUE,      -- lower case
    name             TEXT NOT NULL,
    password_hash    TEXT NOT NULL,             -- argon2id, PHC string
    operator         BOOLEAN NOT NULL DEFAULT FALSE,
    created_at       BIGINT NOT NULL,
    suspended_at     BIGINT NOT NULL DEFAULT 0, -- 0 = not suspended
    password_at      BIGINT NOT NULL DEFAULT 0, -- when the password was last set; password_hash '' = none
    email_unverified BOOLEAN NOT NULL DEFAULT FALSE, -- typed at an invite's link and confirmed by nobody
    light_terminal   BOOLEAN NOT NULL DEFAULT FALSE, -- their terminals are light: what programs that ask are answered until a viewer comes
    avatar           TEXT NOT NULL DEFAULT '' -- the version of their picture in avatars; '' = none
);

-- A person's picture in two sizes, as the server made them.
CREATE TABLE avatars (
    user_id TEXT PRIMARY KEY REFERENCES users(id) ON DELETE CASCADE,
    small   BYTEA NOT NULL, -- JPEG
    large   BYTEA NOT NULL  -- JPEG
);

-- A team: the tenant that everything else belongs to.
CREATE TABLE teams (
    id                 TEXT PRIMARY KEY,
    slug               TEXT NOT NULL UNIQUE,
    name               TEXT NOT NULL,
    next_workspace_num BIGINT NOT NULL DEFAULT 1, -- the number in PW-1
    next_task_num      BIGINT NOT NULL DEFAULT 1, -- the number in PW-T1
    created_at         BIGINT NOT NULL,
    weakest_boundary   TEXT NOT NULL DEFAULT '', -- none, process, container, gvisor, microvm; '' = the instance's
    default_executor   TEXT NOT NULL DEFAULT '', -- '' = the instance's
    allow_user_choice  BOOLEAN NOT NULL DEFAULT TRUE, -- members may choose an executor; FALSE: everybody has the team's default
    suspended_at       BIGINT NOT NULL DEFAULT 0,
    second_factor      BOOLEAN NOT NULL DEFAULT FALSE -- its members need one
);

-- A user's membership of a team, with the role.
CREATE TABLE members (
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    role       TEXT NOT NULL,            -- owner, admin, member, viewer
    created_at BIGINT NOT NULL,
    source     TEXT NOT NULL DEFAULT '', -- '' = set by people; else the identity provider whose groups set it
    PRIMARY KEY (team_id, user_id)
);
CREATE INDEX members_by_user ON members(user_id);

-- A browser that is signed in.
CREATE TABLE login_sessions (
    id_hash      TEXT PRIMARY KEY,         -- sha256 hex of the cookie's value
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    created_at   BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    user_agent   TEXT NOT NULL DEFAULT '',
    ip           TEXT NOT NULL DEFAULT '',
    id           TEXT NOT NULL DEFAULT '', -- public: users revoke the session by it
    factors      TEXT NOT NULL DEFAULT 'password', -- how the user proved who they are, comma-separated: password, totp, recovery_code, passkey, sso, sso_mfa, link
    provider     TEXT NOT NULL DEFAULT '', -- the identity provider, '' = none
    confirmed_at BIGINT NOT NULL DEFAULT 0 -- when the user last proved who they are
);
CREATE INDEX login_sessions_by_user ON login_sessions(user_id);
CREATE UNIQUE INDEX login_sessions_by_id ON login_sessions(id);

-- A user's API token. Only its hash is stored.
CREATE TABLE api_tokens (
    id           TEXT PRIMARY KEY,
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    token_hash   TEXT NOT NULL UNIQUE,      -- sha256 hex
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    expires_at   BIGINT NOT NULL DEFAULT 0, -- 0 = never
    scopes       TEXT NOT NULL DEFAULT '',  -- JSON list, '' = everything its user may do
    team_id      TEXT REFERENCES teams(id) ON DELETE CASCADE, -- the only team it works in, NULL = all
    last_used_ip TEXT NOT NULL DEFAULT '',
    parent_id    TEXT REFERENCES api_tokens(id) ON DELETE CASCADE, -- the token that made it, NULL = none
    session_id   TEXT NOT NULL DEFAULT '',  -- the login session that made it, '' = none
    session_name TEXT NOT NULL DEFAULT ''   -- that session's browser
);
CREATE INDEX api_tokens_by_user ON api_tokens(user_id);
CREATE INDEX api_tokens_by_parent ON api_tokens(parent_id);

-- A user's authenticator app. Parawork asks for a code from it once confirmed_at is set.
CREATE TABLE totp (
    user_id      TEXT PRIMARY KEY REFERENCES users(id) ON DELETE CASCADE,
    sealed       TEXT NOT NULL,
    last_step    BIGINT NOT NULL DEFAULT 0, -- time step of the last code accepted: each is accepted once
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL DEFAULT 0
);

-- A one-time code that replaces a user's second factor.
CREATE TABLE recovery_codes (
    user_id   TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    code_hash TEXT NOT NULL, -- sha256 hex: a code is as random as a token
    used_at   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, code_hash)
);

-- A user's passkey (WebAuthn credential).
CREATE TABLE passkeys (
    id            TEXT PRIMARY KEY,
    user_id       TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    name          TEXT NOT NULL,
    credential_id TEXT NOT NULL UNIQUE, -- base64url
    credential    TEXT NOT NULL,        -- JSON: public key, counter, flags, transports
    created_at    BIGINT NOT NULL,
    last_used_at  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX passkeys_by_user ON passkeys(user_id, created_at);

-- A sign-in or re-authentication that has begun and not ended: a user who owes a second factor, a passkey's challenge, a
-- round trip to an identity provider.
CREATE TABLE ceremonies (
    id_hash    TEXT PRIMARY KEY, -- sha256 hex of the value in the browser
    kind       TEXT NOT NULL,
    user_id    TEXT REFERENCES users(id) ON DELETE CASCADE, -- NULL = not known yet
    sealed     TEXT NOT NULL,    -- JSON, encrypted
    failures   BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX ceremonies_by_end ON ceremonies(expires_at);

-- A user's account at an identity provider. Issuer and subject identify it; the e-mail address is for people to read.
CREATE TABLE identities (
    id           TEXT PRIMARY KEY,
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    provider     TEXT NOT NULL, -- its name in config.json
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    email        TEXT NOT NULL DEFAULT '',
    name         TEXT NOT NULL DEFAULT '',
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    UNIQUE (issuer, subject)
);
CREATE INDEX identities_by_user ON identities(user_id, created_at);

-- An invitation to a team.
CREATE TABLE invites (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    role       TEXT NOT NULL,
    email      TEXT NOT NULL DEFAULT '', -- only this address may accept, '' = whoever has the link
    token_hash TEXT NOT NULL UNIQUE,     -- sha256 hex
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    mailed_at  BIGINT NOT NULL DEFAULT 0,
    used_at    BIGINT NOT NULL DEFAULT 0,
    used_by    TEXT NOT NULL DEFAULT '',
    revoked_at BIGINT NOT NULL DEFAULT 0,
    mail_hash  TEXT                      -- sha256 hex of the token that went only by mail, NULL = none
);
CREATE INDEX invites_by_team ON invites(team_id, created_at);
CREATE UNIQUE INDEX invites_by_mail_hash ON invites(mail_hash);
CREATE INDEX invites_by_email ON invites(email, created_at);

-- A link with which a user sets a new password.
CREATE TABLE password_links (
    token_hash TEXT PRIMARY KEY,         -- sha256 hex
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    created_by TEXT NOT NULL DEFAULT '', -- an operator, '' = requested by mail
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX password_links_by_user ON password_links(user_id);

-- === Projects and workspaces ===

-- A git repository that a team works on.
CREATE TABLE projects (
    id             TEXT PRIMARY KEY,
    team_id        TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    name           TEXT NOT NULL,
    source_kind    TEXT NOT NULL,              -- url, path, sample, runner
    source         TEXT NOT NULL,              -- the URL without credentials, or the folder
    git_dir        TEXT NOT NULL,              -- the common git dir on the host
    default_branch TEXT NOT NULL DEFAULT '',
    state          TEXT NOT NULL,              -- cloning, ready, failed
    state_reason   TEXT NOT NULL DEFAULT '',
    setup_script   TEXT NOT NULL DEFAULT '',
    copy_ignored   TEXT NOT NULL DEFAULT '[]', -- JSON list of patterns
    fetched_at     BIGINT NOT NULL DEFAULT 0,
    created_by     TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    deleted_at     BIGINT NOT NULL DEFAULT 0,
    executor       TEXT NOT NULL DEFAULT '',   -- the default of its workspaces; '' = the team's
    limits         TEXT NOT NULL DEFAULT '{}', -- JSON: cpus, memory_mb, processes, disk_mb, wall_minutes
    network        TEXT NOT NULL DEFAULT '{}', -- JSON: mode, allow
    image          TEXT NOT NULL DEFAULT '{}', -- JSON: what containers are made from
    no_caches      BOOLEAN NOT NULL DEFAULT FALSE, -- its workspaces use no shared caches
    runner_id      TEXT NOT NULL DEFAULT '',   -- of source_kind runner: the runner that has its folder
    checks         TEXT NOT NULL DEFAULT '[]', -- JSON: commands that verify work: id, name, command, timeout_seconds, required
    merging        TEXT NOT NULL DEFAULT '{}', -- JSON: strategy, queue, require_checks, require_approval
    forge          TEXT NOT NULL DEFAULT '{}', -- JSON: kind, api_url, repository, where the remote's address does not tell
    keep_ignored   TEXT NOT NULL DEFAULT '[]', -- JSON: patterns of ignored files that snapshots include
    allowed_commands TEXT NOT NULL DEFAULT '[]', -- JSON: programs that commands may start on the server itself
    deleted_by     TEXT NOT NULL DEFAULT '',
    size_bytes     BIGINT NOT NULL DEFAULT -1, -- on disk when last measured; -1 = never
    purged_at      BIGINT NOT NULL DEFAULT 0   -- when the deleted project's files were removed; negative while the removal runs
);
CREATE INDEX projects_by_team ON projects(team_id, created_at);

-- A piece of work: one branch in one git worktree of a project.
CREATE TABLE workspaces (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id    TEXT NOT NULL REFERENCES projects(id),
    num           BIGINT NOT NULL,
    name          TEXT NOT NULL,
    branch        TEXT NOT NULL,
    base          TEXT NOT NULL,              -- the base branch as people name it
    base_commit   TEXT NOT NULL DEFAULT '',
    executor      TEXT NOT NULL,
    state         TEXT NOT NULL,              -- creating, setting_up, ready, paused, failed, archived
    state_reason  TEXT NOT NULL DEFAULT '',
    path          TEXT NOT NULL DEFAULT '',   -- the worktree on the host
    steps         TEXT NOT NULL DEFAULT '[]', -- JSON: creation steps with times
    merged_at     BIGINT NOT NULL DEFAULT 0,
    merged_commit TEXT NOT NULL DEFAULT '',
    snapshot      TEXT NOT NULL DEFAULT '',   -- JSON: what the last archive or deletion saved
    created_by    TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    archived_at   BIGINT NOT NULL DEFAULT 0,
    deleted_at    BIGINT NOT NULL DEFAULT 0,
    limits        TEXT NOT NULL DEFAULT '{}', -- JSON: override the project's
    allowed_hosts TEXT NOT NULL DEFAULT '[]', -- JSON: hosts allowed for this workspace alone
    fallback_ok   BOOLEAN NOT NULL DEFAULT FALSE, -- its owner agreed that it may start on this server when its executor is unavailable
    runner_folder TEXT NOT NULL DEFAULT '',   -- on a runner: the allowed folder whose repository it uses through alternates; '' = a copy of its own
    private       BOOLEAN NOT NULL DEFAULT FALSE, -- only its creator sees it
    deleted_by    TEXT NOT NULL DEFAULT '',
    size_bytes    BIGINT NOT NULL DEFAULT -1, -- on disk when last measured; -1 = never
    purged_at     BIGINT NOT NULL DEFAULT 0,  -- as in projects; the row stays for the ledger and the audit
    UNIQUE (team_id, num)
);
CREATE INDEX workspaces_by_team ON workspaces(team_id, created_at);
CREATE INDEX workspaces_by_project ON workspaces(project_id);
-- A team's list of active workspaces, in its order.
CREATE INDEX workspaces_active ON workspaces(team_id, created_at, id, state) WHERE deleted_at = 0 AND archived_at = 0;

-- The first session of a workspace that was created with one, until it is there.
CREATE TABLE first_starts (
    workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL,             -- chosen before it is started
    request      TEXT NOT NULL,             -- JSON: agent, prompt, arguments, account, permissions
    state        TEXT NOT NULL,             -- waiting, starting, handed, failed
    code         TEXT NOT NULL DEFAULT '',  -- of the error
    reason       TEXT NOT NULL DEFAULT '',
    retried      BOOLEAN NOT NULL DEFAULT FALSE,
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    state_at     BIGINT NOT NULL
);
CREATE INDEX first_starts_by_team ON first_starts(team_id);
CREATE INDEX first_starts_by_session ON first_starts(session_id);

-- The files that go with its prompt.
CREATE TABLE first_start_files (
    workspace_id TEXT NOT NULL REFERENCES first_starts(workspace_id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    num          BIGINT NOT NULL,
    name         TEXT NOT NULL,
    content      BYTEA NOT NULL,
    PRIMARY KEY (workspace_id, num)
);

-- The executor that a user last chose in a project.
CREATE TABLE chosen_executors (
    project_id TEXT NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,
    team_id    TEXT NOT NULL,
    executor   TEXT NOT NULL, -- a kind such as docker, or runner:<id>
    chosen_at  BIGINT NOT NULL,
    PRIMARY KEY (project_id, user_id)
);

-- What a person may and wants of the places of a team. user_id '' is what holds for members without a row.
CREATE TABLE place_people (
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id       TEXT NOT NULL,
    trusted       BOOLEAN,                        -- may use this server without isolation; NULL = as the team says, and all may where it says nothing
    machine_first BOOLEAN NOT NULL DEFAULT FALSE, -- new workspaces go to their own machine while it is connected
    executor      TEXT NOT NULL DEFAULT '',       -- their default; '' = none
    fallback      TEXT NOT NULL DEFAULT '',       -- where work on their machine goes when that goes away; '' = it waits
    fallback_nano BIGINT NOT NULL DEFAULT 0,      -- what an hour there cost when they agreed
    PRIMARY KEY (team_id, user_id)
);

-- Why a workspace lives where it does: the steps of the choice when it was made or moved.
CREATE TABLE workspace_places (
    workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL,
    executor     TEXT NOT NULL,              -- it was decided for
    steps        TEXT NOT NULL DEFAULT '[]', -- JSON
    latency_ms   BIGINT NOT NULL DEFAULT 0,  -- the round trip to the region then; 0 = not measured
    away_from    TEXT NOT NULL DEFAULT '',   -- the machine it left when that went away
    decided_at   BIGINT NOT NULL
);

-- An entry of a workspace's activity feed.
CREATE TABLE activity (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    at           BIGINT NOT NULL,
    actor_id     TEXT NOT NULL DEFAULT '', -- a user, or '' for Parawork itself
    kind         TEXT NOT NULL,            -- workspace.created, session.started, commit, merge, ...
    text         TEXT NOT NULL,
    data         TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX activity_by_workspace ON activity(workspace_id, at, id);

-- A workspace's move from one executor to another.
CREATE TABLE moves (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    from_executor TEXT NOT NULL,
    to_executor   TEXT NOT NULL,
    folder        TEXT NOT NULL DEFAULT '',
    state         TEXT NOT NULL,              -- running, done, failed
    reason        TEXT NOT NULL DEFAULT '',
    steps         TEXT NOT NULL DEFAULT '[]', -- JSON, as a workspace's
    sessions      TEXT NOT NULL DEFAULT '[]', -- JSON: agents that resume after the move
    actor_id      TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    ended_at      BIGINT NOT NULL DEFAULT 0,
    from_folder   TEXT NOT NULL DEFAULT ''    -- the runner's folder the workspace used before: it uses it again when it moves back
);
CREATE UNIQUE INDEX moves_open ON moves(workspace_id) WHERE ended_at = 0;

-- A single row that transactions lock when they add a project from a folder of the server, so that each sees those before it.
CREATE TABLE folder_claims (
    id   INTEGER PRIMARY KEY,
    turn BIGINT NOT NULL DEFAULT 0
);
INSERT INTO folder_claims (id) VALUES (1);

-- === Secrets ===

-- A value of a user or a team, encrypted with a key outside the database.
CREATE TABLE secrets (
    id          TEXT PRIMARY KEY,
    user_id     TEXT REFERENCES users(id) ON DELETE CASCADE,
    team_id     TEXT REFERENCES teams(id) ON DELETE CASCADE,
    name        TEXT NOT NULL,   -- what it is for; authenticated with the ciphertext, like the id and the owner
    sealed      BYTEA NOT NULL,   -- AES-256-GCM
    key_version BIGINT NOT NULL, -- how it is encrypted
    last_four   TEXT NOT NULL DEFAULT '',
    created_by  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    CHECK ((user_id IS NULL) <> (team_id IS NULL))
);
CREATE INDEX secrets_by_user ON secrets(user_id);
CREATE INDEX secrets_by_team ON secrets(team_id);

-- An account at an agent's provider: a user's own, or one that a team shares.
CREATE TABLE agent_accounts (
    id         TEXT PRIMARY KEY,
    user_id    TEXT REFERENCES users(id) ON DELETE CASCADE,
    team_id    TEXT REFERENCES teams(id) ON DELETE CASCADE,
    agent      TEXT NOT NULL,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,                  -- api_key, terminal, existing_login
    secret_id  TEXT REFERENCES secrets(id) ON DELETE CASCADE,
    base_url   TEXT NOT NULL DEFAULT '',
    api        TEXT NOT NULL DEFAULT '',       -- messages, responses or chat; '' = as is usual for the key
    is_default BOOLEAN NOT NULL DEFAULT FALSE, -- used where a session names none
    in_home    BOOLEAN NOT NULL DEFAULT FALSE, -- the agent's folder in the user's home is this account's; other accounts have a folder of their own
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CHECK ((user_id IS NULL) <> (team_id IS NULL))
);
CREATE UNIQUE INDEX agent_accounts_user_name ON agent_accounts(user_id, agent, name);
CREATE UNIQUE INDEX agent_accounts_team_name ON agent_accounts(team_id, agent, name);
-- One default per owner and agent, and one account in the user's home.
CREATE UNIQUE INDEX agent_accounts_user_default ON agent_accounts(user_id, agent) WHERE is_default;
CREATE UNIQUE INDEX agent_accounts_team_default ON agent_accounts(team_id, agent) WHERE is_default;
CREATE UNIQUE INDEX agent_accounts_home ON agent_accounts(user_id, agent) WHERE in_home;

-- A secret that sessions receive: of a team, of one of its projects, or of one user.
CREATE TABLE session_secrets (
    id           TEXT PRIMARY KEY,
    team_id      TEXT REFERENCES teams(id) ON DELETE CASCADE, -- NULL = a user's own
    project_id   TEXT REFERENCES projects(id) ON DELETE CASCADE,
    user_id      TEXT REFERENCES users(id) ON DELETE CASCADE,
    kind         TEXT NOT NULL,                 -- env, file, git
    name         TEXT NOT NULL,                 -- of the variable; of a file or credential: a label
    target       TEXT NOT NULL DEFAULT '',      -- file: its path below the worktree or home; git: the host
    username     TEXT NOT NULL DEFAULT '',      -- git
    in_sandbox   BOOLEAN NOT NULL DEFAULT TRUE, -- git: FALSE unless the project says so
    agents       TEXT NOT NULL DEFAULT '[]',    -- JSON list, empty = every session
    secret_id    TEXT NOT NULL REFERENCES secrets(id),
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    rotated_at   BIGINT NOT NULL DEFAULT 0,     -- when its value was last replaced
    last_used_at BIGINT NOT NULL DEFAULT 0,
    CHECK ((user_id IS NULL) <> (team_id IS NULL)),
    CHECK (project_id IS NULL OR team_id IS NOT NULL)
);
CREATE UNIQUE INDEX session_secrets_name ON session_secrets(COALESCE(team_id, ''), COALESCE(project_id, ''), COALESCE(user_id, ''), kind, name, target);
CREATE INDEX session_secrets_by_team ON session_secrets(team_id);
CREATE INDEX session_secrets_by_project ON session_secrets(project_id);
CREATE INDEX session_secrets_by_user ON session_secrets(user_id);

-- A file with secrets that a workspace received, kept as long as the workspace: sessions end, values are replaced, commits stay.
CREATE TABLE workspace_secret_files (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    path         TEXT NOT NULL,            -- below the worktree; '' = below the home
    sum          TEXT NOT NULL,            -- sha256 hex of what was written
    blob         TEXT NOT NULL DEFAULT '', -- its git object id in a SHA-1 repository, '' = it is empty
    blob256      TEXT NOT NULL DEFAULT '', -- the same in a SHA-256 repository
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, path, sum)
);
CREATE INDEX workspace_secret_files_by_team ON workspace_secret_files(team_id);

-- A secret value that a workspace received, kept as long as the workspace, so that it stays masked.
CREATE TABLE workspace_secret_values (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    secret_id    TEXT NOT NULL REFERENCES secrets(id) ON DELETE CASCADE, -- the encrypted value, which stays as long as a row names it
    use_id       TEXT NOT NULL,            -- the session_secrets row it was given as; authenticated with the ciphertext
    user_id      TEXT NOT NULL DEFAULT '', -- its owner, '' = the team
    kind         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, secret_id)
);
CREATE INDEX workspace_secret_values_by_team ON workspace_secret_values(team_id);
CREATE INDEX workspace_secret_values_by_secret ON workspace_secret_values(secret_id);

-- A user's consent that their own secrets are given to what they start in a workspace where others, who could read them, work too.
CREATE TABLE secret_consents (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    agreed_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
);

-- === Sandboxes ===

-- A live instance made by an executor for a workspace.
CREATE TABLE sandboxes (
    id             TEXT PRIMARY KEY,
    team_id        TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id   TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    kind           TEXT NOT NULL,
    handle_version BIGINT NOT NULL DEFAULT 0,
    handle_state   BYTEA,
    state          TEXT NOT NULL,              -- starting, running, paused, stopping, gone, failed
    state_reason   TEXT NOT NULL DEFAULT '',
    started_at     BIGINT NOT NULL,
    health_at      BIGINT NOT NULL DEFAULT 0,
    ended_at       BIGINT NOT NULL DEFAULT 0,
    user_id        TEXT NOT NULL DEFAULT '',   -- who asked for it, '' = the server
    purpose        TEXT NOT NULL DEFAULT '',   -- the strongest use so far: agent, app, execution
    steps          TEXT NOT NULL DEFAULT '[]', -- JSON: how it was created, step by step
    cpus           BIGINT NOT NULL DEFAULT 0,  -- its size, where the executor has sizes
    memory_mb      BIGINT NOT NULL DEFAULT 0,
    price_nano     BIGINT NOT NULL DEFAULT 0,  -- nano-USD an hour while it runs
    lease_until    BIGINT NOT NULL DEFAULT 0,  -- when the executor pauses or destroys it unless it is extended; 0 = never
    run_ends_at    BIGINT NOT NULL DEFAULT 0,  -- it is not extended beyond this; 0 = no limit
    paused_for     TEXT NOT NULL DEFAULT '',   -- person, idle, limit, ceiling, lease
    pooled         BOOLEAN NOT NULL DEFAULT FALSE -- taken from the pool
);
CREATE INDEX sandboxes_by_workspace ON sandboxes(workspace_id, started_at);
-- One live sandbox per workspace.
CREATE UNIQUE INDEX sandboxes_live ON sandboxes(workspace_id) WHERE ended_at = 0;

-- A sandbox made ahead of time that belongs to nobody yet. A taken one is also a row of sandboxes, under another id.
CREATE TABLE warm_sandboxes (
    id             TEXT PRIMARY KEY,
    executor       TEXT NOT NULL,
    class          TEXT NOT NULL,           -- template and size
    handle_version BIGINT NOT NULL DEFAULT 0,
    handle_state   BYTEA,
    state          TEXT NOT NULL,           -- making, ready, taken, ending
    state_reason   TEXT NOT NULL DEFAULT '',
    created_at     BIGINT NOT NULL,
    ready_at       BIGINT NOT NULL DEFAULT 0,
    lease_until    BIGINT NOT NULL DEFAULT 0,
    ended_at       BIGINT NOT NULL DEFAULT 0,
    taken_by       TEXT NOT NULL DEFAULT '' -- the sandbox it became; its row stays open as long as that one's
);
CREATE INDEX warm_sandboxes_open ON warm_sandboxes(executor, class) WHERE ended_at = 0;

-- What operators set for an executor in the browser. Keys in config.json take precedence.
CREATE TABLE place_settings (
    executor    TEXT PRIMARY KEY,
    settings    TEXT NOT NULL DEFAULT '{}', -- JSON, without secrets
    sealed      BYTEA,                       -- the executor's key, AES-256-GCM
    key_version BIGINT NOT NULL DEFAULT 0,
    last_four   TEXT NOT NULL DEFAULT '',
    updated_by  TEXT NOT NULL,
    updated_at  BIGINT NOT NULL
);

-- A build of an image from a project's own Dockerfile or devcontainer.json.
CREATE TABLE image_builds (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
    source       TEXT NOT NULL,            -- the file in the repository
    commit_id    TEXT NOT NULL DEFAULT '',
    tag          TEXT NOT NULL DEFAULT '', -- of the image, once built
    state        TEXT NOT NULL,            -- building, ready, failed, cancelled
    state_reason TEXT NOT NULL DEFAULT '',
    log          TEXT NOT NULL DEFAULT '', -- the end of what the build printed
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX image_builds_by_project ON image_builds(project_id, created_at);

-- The system user that owns the files of an isolated workspace. A number is never reused.
CREATE TABLE sandbox_users (
    number       BIGINT PRIMARY KEY, -- 1, 2, 3, ...
    workspace_id TEXT NOT NULL UNIQUE
);

-- The system group through which a team's workspaces share caches. A number is never reused.
CREATE TABLE team_groups (
    number  BIGINT PRIMARY KEY, -- 1, 2, 3, ...
    team_id TEXT NOT NULL UNIQUE
);

-- A host that the egress gate refused to a workspace.
CREATE TABLE refused_hosts (
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    host         TEXT NOT NULL,
    port         BIGINT NOT NULL,
    reason       TEXT NOT NULL, -- stable: not_listed, private_address, no_network, unresolved, bad_port
    times        BIGINT NOT NULL DEFAULT 1,
    first_at     BIGINT NOT NULL,
    last_at      BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, host, port)
);

-- A host that a workspace reached through the egress gate.
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

-- === Runners: members' own machines ===

-- A machine that a member enrolled. The runner connects to the server; each side pins the other's public key.
CREATE TABLE runners (
    id             TEXT PRIMARY KEY,
    team_id        TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id        TEXT NOT NULL,              -- the machine's owner
    name           TEXT NOT NULL,
    public_key     BYTEA NOT NULL,              -- Ed25519, 32 bytes: the machine's identity
    hello          TEXT NOT NULL DEFAULT '{}', -- JSON: what it last reported of itself (wire.Hello)
    version        TEXT NOT NULL DEFAULT '',   -- of its program
    protocol       BIGINT NOT NULL DEFAULT 0,
    connected_at   BIGINT NOT NULL DEFAULT 0,  -- of the live connection, 0 = offline
    connected_to   TEXT NOT NULL DEFAULT '',   -- which server process holds it
    seen_at        BIGINT NOT NULL DEFAULT 0,  -- the last heartbeat that was written
    offline_at     BIGINT NOT NULL DEFAULT 0,  -- since when it is offline
    offline_reason TEXT NOT NULL DEFAULT '',   -- in words
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    revoked_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX runners_by_team ON runners(team_id, created_at);
CREATE UNIQUE INDEX runners_by_name ON runners(team_id, user_id, name) WHERE revoked_at = 0;

-- A token that enrols a runner. Only its hash is stored.
CREATE TABLE runner_tokens (
    id         TEXT PRIMARY KEY,               -- part of the token
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,                  -- the owner of what it enrols
    name       TEXT NOT NULL DEFAULT '',       -- the machine's name unless it gives another
    hash       BYTEA NOT NULL,                  -- SHA-256 of the secret
    reusable   BOOLEAN NOT NULL DEFAULT FALSE, -- enrols several until revoked
    runner_id  TEXT NOT NULL DEFAULT '',       -- with renews: the runner that gets a new key; else the one it enrolled last
    renews     BOOLEAN NOT NULL DEFAULT FALSE, -- replaces the key of runner_id
    uses       BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,      -- 0 = never
    used_at    BIGINT NOT NULL DEFAULT 0,
    revoked_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX runner_tokens_by_team ON runner_tokens(team_id, created_at);

-- A connection of a runner, and why it ended.
CREATE TABLE runner_connections (
    id        TEXT PRIMARY KEY,
    runner_id TEXT NOT NULL REFERENCES runners(id) ON DELETE CASCADE,
    team_id   TEXT NOT NULL,
    address   TEXT NOT NULL DEFAULT '', -- the remote address
    version   TEXT NOT NULL DEFAULT '',
    began_at  BIGINT NOT NULL,
    ended_at  BIGINT NOT NULL DEFAULT 0,
    reason    TEXT NOT NULL DEFAULT ''  -- in words
);
CREATE INDEX runner_connections_by_runner ON runner_connections(runner_id, began_at);

-- === Sessions and commands ===

-- A run of an agent or a shell in a workspace.
CREATE TABLE sessions (
    id             TEXT PRIMARY KEY,
    team_id        TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id   TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    sandbox_id     TEXT NOT NULL DEFAULT '',
    agent          TEXT NOT NULL,
    argv           TEXT NOT NULL DEFAULT '[]', -- JSON list, without secrets
    prompt         TEXT NOT NULL DEFAULT '',
    prompt_sent_at BIGINT NOT NULL DEFAULT 0,
    conversation   TEXT NOT NULL DEFAULT '',   -- the agent's own id of its conversation, for resume
    state          TEXT NOT NULL,              -- starting, working, waiting, idle, exited, failed, lost
    state_reason   TEXT NOT NULL DEFAULT '',
    state_at       BIGINT NOT NULL,
    title          TEXT NOT NULL DEFAULT '',
    cols           BIGINT NOT NULL,
    rows           BIGINT NOT NULL,
    exit_code      BIGINT,
    exit_signal    TEXT NOT NULL DEFAULT '',
    bytes          BIGINT NOT NULL DEFAULT 0,
    created_by     TEXT NOT NULL,
    started_at     BIGINT NOT NULL,
    ended_at       BIGINT NOT NULL DEFAULT 0,
    basis          TEXT NOT NULL DEFAULT '',   -- JSON: the evidence for the state
    account_id     TEXT NOT NULL DEFAULT '',   -- the agent's account, '' = none was chosen
    permissions    TEXT NOT NULL DEFAULT ''    -- ask, or all where the agent asks for nothing; '' = unknown
);
CREATE INDEX sessions_by_workspace ON sessions(workspace_id, started_at);
CREATE INDEX sessions_open ON sessions(state) WHERE ended_at = 0;
CREATE INDEX sessions_by_account ON sessions(account_id) WHERE ended_at = 0;
CREATE INDEX sessions_open_by_team ON sessions(team_id) WHERE ended_at = 0;
-- The inbox reads the last ended session of each workspace from this index alone.
CREATE INDEX sessions_ended ON sessions(workspace_id, ended_at, id, agent, team_id) WHERE ended_at > 0;

-- A command that the API ran in a sandbox.
CREATE TABLE commands (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    sandbox_id   TEXT NOT NULL DEFAULT '',
    actor_id     TEXT NOT NULL,
    argv         TEXT NOT NULL,                 -- JSON list
    cwd          TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,                 -- pending, executing, completed, failed, cancelled, timed_out
    state_reason TEXT NOT NULL DEFAULT '',
    background   BOOLEAN NOT NULL DEFAULT FALSE,
    exit_code    BIGINT,
    stdout       BYTEA,
    stderr       BYTEA,
    truncated    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at   BIGINT NOT NULL,
    started_at   BIGINT NOT NULL DEFAULT 0,
    ended_at     BIGINT NOT NULL DEFAULT 0,
    own_secrets  BOOLEAN NOT NULL DEFAULT FALSE -- it received secrets that are its starter's own: nobody else works in the sandbox without their consent
);
CREATE INDEX commands_by_workspace ON commands(workspace_id, created_at);
CREATE INDEX commands_open ON commands(state) WHERE ended_at = 0;

-- Which session an agent's conversation belongs to: several sessions may store their records in one home.
CREATE TABLE conversation_claims (
    home         TEXT NOT NULL, -- where the agent stores its records: of a user, of a workspace's sandbox, of a runner
    agent        TEXT NOT NULL,
    conversation TEXT NOT NULL, -- the agent's own id of it
    session_id   TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    claimed_at   BIGINT NOT NULL,
    PRIMARY KEY (home, agent, conversation)
);
CREATE INDEX conversation_claims_by_session ON conversation_claims(session_id);

-- A question that an agent asks in a session.
CREATE TABLE questions (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    ask_key      TEXT NOT NULL,              -- identifies the question within its session across restarts
    kind         TEXT NOT NULL,              -- permission, choice, text
    title        TEXT NOT NULL,
    detail       TEXT NOT NULL DEFAULT '',
    options      TEXT NOT NULL DEFAULT '[]', -- JSON
    multi        BOOLEAN NOT NULL DEFAULT FALSE,
    free_text    BOOLEAN NOT NULL DEFAULT FALSE,
    source       TEXT NOT NULL,              -- hook, screen, notice
    asked_at     BIGINT NOT NULL,
    state        TEXT NOT NULL,              -- open, answered, withdrawn
    answered_by  TEXT NOT NULL DEFAULT '',   -- a user, '' = somebody at the terminal
    answered_at  BIGINT NOT NULL DEFAULT 0,  -- also when withdrawn
    answer       TEXT NOT NULL DEFAULT '',
    via          TEXT NOT NULL DEFAULT ''
);
CREATE INDEX questions_by_session ON questions(session_id, asked_at, id);
CREATE INDEX questions_open ON questions(team_id) WHERE state = 'open';

-- A prompt that is queued for a session's agent, or was.
CREATE TABLE prompts (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL,                  -- the recipient; a resumed session takes over what is queued
    position     BIGINT NOT NULL,                -- order within the session
    text         TEXT NOT NULL,
    state        TEXT NOT NULL,                  -- queued, sending, sent, failed, cancelled
    reason       TEXT NOT NULL DEFAULT '',       -- why it failed
    held         TEXT NOT NULL DEFAULT '',       -- why a queued one waits for a person, '' = it does not
    urgent       BOOLEAN NOT NULL DEFAULT FALSE, -- a person chose "send now"
    frame        BIGINT NOT NULL DEFAULT 0,      -- number of its first input frame, once sending
    frames       BIGINT NOT NULL DEFAULT 0,      -- how many, Enter last
    bracketed    BOOLEAN NOT NULL DEFAULT FALSE, -- sent as a bracketed paste
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    sent_at      BIGINT NOT NULL DEFAULT 0       -- when Enter was sent
);
CREATE INDEX prompts_by_session ON prompts(session_id, position);
CREATE INDEX prompts_by_workspace ON prompts(workspace_id);

-- A link with which somebody without a login watches one session.
CREATE TABLE watch_links (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL,
    name         TEXT NOT NULL DEFAULT '', -- for whom
    token_hash   TEXT NOT NULL UNIQUE,     -- sha256 hex
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL DEFAULT 0,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    uses         BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX watch_links_by_team ON watch_links(team_id, created_at);
CREATE INDEX watch_links_by_session ON watch_links(session_id);

-- One prompt sent to several workspaces at once, to compare the results.
CREATE TABLE runs (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL REFERENCES projects(id),
    name       TEXT NOT NULL,
    prompt     TEXT NOT NULL,
    kept       TEXT NOT NULL DEFAULT '', -- the attempt that a user chose
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX runs_by_team ON runs(team_id, created_at);

-- One workspace and session of a run.
CREATE TABLE run_attempts (
    id           TEXT PRIMARY KEY,
    run_id       TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    num          BIGINT NOT NULL,
    name         TEXT NOT NULL,            -- of the workspace
    agent        TEXT NOT NULL,
    account_id   TEXT NOT NULL DEFAULT '',
    args         TEXT NOT NULL DEFAULT '[]', -- JSON: additional arguments of the agent
    base         TEXT NOT NULL DEFAULT '',
    executor     TEXT NOT NULL DEFAULT '',
    workspace_id TEXT NOT NULL DEFAULT '', -- '' until it exists
    made         BOOLEAN NOT NULL,         -- the run created the workspace
    session_id   TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,            -- making, starting, started, failed
    code         TEXT NOT NULL DEFAULT '', -- of the error
    reason       TEXT NOT NULL DEFAULT '',
    state_at     BIGINT NOT NULL,
    UNIQUE (run_id, num)
);
CREATE INDEX run_attempts_open ON run_attempts(state) WHERE state IN ('making', 'starting');
CREATE INDEX run_attempts_by_workspace ON run_attempts(workspace_id);

-- === Files, changes and snapshots ===

-- The summary of a workspace's changes against its base.
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

-- A file that differs from the base of its workspace. Paths are raw bytes, as git has them.
CREATE TABLE changes (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    path         BYTEA NOT NULL, -- raw bytes as git has them
    old_path     BYTEA,
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

-- All files of a workspace at one moment. Hidden refs of the repository keep the trees until expires_at.
CREATE TABLE snapshots (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    at            BIGINT NOT NULL,
    kind          TEXT NOT NULL,              -- poll (files changed), turn (an agent's turn ended), commit, kept (before an action), manual
    reason        TEXT NOT NULL DEFAULT '',   -- of kept: stop, archive, delete, discard, update, merge, clean_up, move, expiry, restore, edit, take
    title         TEXT NOT NULL DEFAULT '',   -- a commit's subject, the beginning of a turn's prompt, what a person wrote
    actor_id      TEXT NOT NULL DEFAULT '',   -- '' = Parawork itself
    session_id    TEXT NOT NULL DEFAULT '',   -- of a turn
    commit_id     TEXT NOT NULL,              -- the hidden commit; its parents are the snapshot before and head
    tree_id       TEXT NOT NULL,              -- all files, untracked ones included
    head          TEXT NOT NULL,              -- where the branch was
    base_commit   TEXT NOT NULL,
    files         BIGINT NOT NULL DEFAULT 0,  -- that differ from the snapshot before
    additions     BIGINT NOT NULL DEFAULT 0,
    deletions     BIGINT NOT NULL DEFAULT 0,
    missing       TEXT NOT NULL DEFAULT '[]', -- JSON: paths that could not be saved, with the reason
    pinned        BOOLEAN NOT NULL DEFAULT FALSE, -- kept until a user unpins it
    expires_at    BIGINT NOT NULL DEFAULT 0,  -- 0 = with the workspace
    ignored       TEXT NOT NULL DEFAULT '',   -- the commit of ignored files that the project keeps, '' = none
    ignored_files BIGINT NOT NULL DEFAULT 0   -- how many
);
CREATE INDEX snapshots_by_workspace ON snapshots(workspace_id, at, id);
CREATE INDEX snapshots_by_end ON snapshots(expires_at);

-- A file of a remote sandbox as the host worktree has it. Paths are raw bytes, as git has them.
CREATE TABLE synced_files (
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    path         BYTEA NOT NULL,
    hash         TEXT NOT NULL,            -- sha256 of the content, or of a link's target; '' = the file is deleted
    mode         TEXT NOT NULL DEFAULT '', -- as git writes it: 100644, 100755, 120000
    size         BIGINT NOT NULL DEFAULT 0,
    state        TEXT NOT NULL,            -- synced, too_large, refused, failed
    reason       TEXT NOT NULL DEFAULT '',
    synced_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, path)
);

-- A file that changed both in the sandbox and on the server; both versions are kept.
CREATE TABLE sync_conflicts (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    path         BYTEA NOT NULL,            -- where the sandbox's version is
    kept_path    BYTEA NOT NULL,            -- where the server's version is
    found_at     BIGINT NOT NULL,
    settled_at   BIGINT NOT NULL DEFAULT 0 -- when a user marked it as resolved
);
CREATE INDEX sync_conflicts_open ON sync_conflicts(workspace_id) WHERE settled_at = 0;

-- How far a remote sandbox and its host worktree are synced.
CREATE TABLE sync_states (
    workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    sandbox_id   TEXT NOT NULL,
    base_commit  TEXT NOT NULL DEFAULT '',  -- what the host worktree is based on
    state        TEXT NOT NULL,             -- synced, syncing, behind
    pending      BIGINT NOT NULL DEFAULT 0, -- files not synced yet
    reason       TEXT NOT NULL DEFAULT '',  -- why it is behind
    synced_at    BIGINT NOT NULL DEFAULT 0  -- when everything was last synced
);

-- Two workspaces of one project that cannot both be merged without conflicts.
CREATE TABLE "overlaps" ( -- a keyword in PostgreSQL: quoted wherever it is named
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id  TEXT NOT NULL,
    first_id    TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE, -- the smaller id of the two
    second_id   TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    first_tree  TEXT NOT NULL, -- what was compared
    second_tree TEXT NOT NULL,
    files       TEXT NOT NULL, -- JSON: path, kind
    at          BIGINT NOT NULL,
    PRIMARY KEY (first_id, second_id)
);
CREATE INDEX overlaps_by_project ON "overlaps"(project_id);
CREATE INDEX overlaps_by_team ON "overlaps"(team_id);
-- The primary key begins with the first workspace.
CREATE INDEX overlaps_by_second ON "overlaps"(second_id);

-- === Review, checks and merging ===

-- A user's review of a workspace's changes.
CREATE TABLE reviews (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    author_id    TEXT NOT NULL,
    state        TEXT NOT NULL,            -- draft, queued, sent, failed, cancelled
    verdict      TEXT NOT NULL DEFAULT '', -- comment, changes, approve; '' while a draft
    body         TEXT NOT NULL DEFAULT '',
    from_commit  TEXT NOT NULL DEFAULT '', -- what was compared
    snapshot_id  TEXT NOT NULL DEFAULT '', -- with what
    tree_id      TEXT NOT NULL DEFAULT '', -- what was approved
    session_id   TEXT NOT NULL DEFAULT '', -- the agent it was sent to
    prompt_id    TEXT NOT NULL DEFAULT '',
    reason       TEXT NOT NULL DEFAULT '', -- why sending failed
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    sent_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX reviews_by_workspace ON reviews(workspace_id, created_at);
CREATE UNIQUE INDEX reviews_draft ON reviews(workspace_id, author_id) WHERE state = 'draft';
CREATE INDEX reviews_by_team ON reviews(team_id, state, sent_at);

-- A comment on lines of a file, or a reply to one.
CREATE TABLE review_comments (
    id              TEXT PRIMARY KEY,
    team_id         TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id    TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    review_id       TEXT NOT NULL REFERENCES reviews(id) ON DELETE CASCADE,
    reply_to        TEXT NOT NULL DEFAULT '',   -- the comment it answers
    author_id       TEXT NOT NULL,
    path            TEXT NOT NULL,              -- wire form
    side            TEXT NOT NULL,              -- old, new
    line            BIGINT NOT NULL,            -- first line, 0 = the whole file
    end_line        BIGINT NOT NULL,
    quoted          TEXT NOT NULL DEFAULT '',   -- the lines as they were
    around          TEXT NOT NULL DEFAULT '{}', -- JSON: lines before and after, to find the position again
    commit_id       TEXT NOT NULL DEFAULT '',   -- the tree the lines are of
    now_path        TEXT NOT NULL DEFAULT '',   -- the current position
    now_line        BIGINT NOT NULL DEFAULT 0,
    outdated        BOOLEAN NOT NULL DEFAULT FALSE, -- the lines are no longer there unchanged
    anchored_tree   TEXT NOT NULL DEFAULT '',   -- the tree for which the position was computed
    body            TEXT NOT NULL,
    state           TEXT NOT NULL,              -- open, resolved
    answered_commit TEXT NOT NULL DEFAULT '',   -- changed the lines after the comment was sent
    answered_at     BIGINT NOT NULL DEFAULT 0,
    resolved_by     TEXT NOT NULL DEFAULT '',
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE INDEX review_comments_by_workspace ON review_comments(workspace_id, created_at);
CREATE INDEX review_comments_by_review ON review_comments(review_id);

-- A file that a user marked as viewed, in the version they saw.
CREATE TABLE viewed_files (
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL,
    path         TEXT NOT NULL, -- wire form
    mark         TEXT NOT NULL, -- the object ids of both sides that were seen; if they differ now, the file counts as not viewed
    at           BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id, path)
);

-- A pull or merge request of a workspace's branch, as the forge last reported it.
CREATE TABLE pull_requests (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    project_id    TEXT NOT NULL,
    forge         TEXT NOT NULL,              -- github, gitlab, gitea, forgejo
    host          TEXT NOT NULL,
    repository    TEXT NOT NULL,
    number        BIGINT NOT NULL,
    url           TEXT NOT NULL,
    title         TEXT NOT NULL,
    state         TEXT NOT NULL,              -- draft, open, merged, closed
    head          TEXT NOT NULL,
    head_commit   TEXT NOT NULL DEFAULT '',
    base          TEXT NOT NULL,
    mergeable     TEXT NOT NULL DEFAULT '',   -- yes, no, '' = the forge does not know yet
    blocked       TEXT NOT NULL DEFAULT '',   -- why it cannot be merged
    checks_state  TEXT NOT NULL DEFAULT '',   -- pending, passed, failed, '' = none
    checks        TEXT NOT NULL DEFAULT '[]', -- JSON: name, state, url
    reviews       TEXT NOT NULL DEFAULT '[]', -- JSON: author, verdict
    opened_by     TEXT NOT NULL,
    opened_at     BIGINT NOT NULL,
    merged_at     BIGINT NOT NULL DEFAULT 0,
    merged_commit TEXT NOT NULL DEFAULT '',
    synced_at     BIGINT NOT NULL DEFAULT 0,
    error         TEXT NOT NULL DEFAULT '',   -- why the last sync failed
    UNIQUE (workspace_id, host, repository, number)
);
CREATE INDEX pull_requests_by_team ON pull_requests(team_id);

-- One run of one of a project's checks.
CREATE TABLE check_runs (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL,
    batch_id     TEXT NOT NULL,            -- runs that were started together
    queue_id     TEXT NOT NULL DEFAULT '', -- the merge queue entry it is for
    check_id     TEXT NOT NULL,            -- within the project
    name         TEXT NOT NULL,
    command      TEXT NOT NULL,
    required     BOOLEAN NOT NULL,
    tree_id      TEXT NOT NULL,            -- the files it ran on
    commit_id    TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,            -- waiting, running, passed, failed, timed_out, cancelled, lost
    reason       TEXT NOT NULL DEFAULT '',
    exit_code    BIGINT,
    output       TEXT NOT NULL DEFAULT '', -- its end, at most 256 KiB, secrets masked
    truncated    BOOLEAN NOT NULL DEFAULT FALSE,
    command_id   TEXT NOT NULL DEFAULT '', -- the command in the sandbox
    started_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    started_at   BIGINT NOT NULL DEFAULT 0,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX check_runs_by_workspace ON check_runs(workspace_id, created_at);
CREATE INDEX check_runs_by_team ON check_runs(team_id, ended_at);

-- A workspace in its project's merge queue.
CREATE TABLE merge_queue (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    base         TEXT NOT NULL,
    strategy     TEXT NOT NULL,
    message      TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,            -- waiting, checking, merging, merged, failed, cancelled
    reason       TEXT NOT NULL DEFAULT '',
    head         TEXT NOT NULL DEFAULT '', -- of the branch, when it was queued
    base_commit  TEXT NOT NULL DEFAULT '',
    commit_id    TEXT NOT NULL DEFAULT '', -- the merged result the checks ran on
    position     BIGINT NOT NULL,
    added_by     TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX merge_queue_by_project ON merge_queue(project_id, position);
CREATE UNIQUE INDEX merge_queue_open ON merge_queue(workspace_id) WHERE ended_at = 0;
CREATE INDEX merge_queue_by_team ON merge_queue(team_id) WHERE ended_at = 0;

-- === Inbox and notifications ===

-- What a user did with an item of their inbox.
CREATE TABLE inbox_marks (
    user_id       TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    item_id       TEXT NOT NULL,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    snoozed_until BIGINT NOT NULL DEFAULT 0,
    done_at       BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, item_id)
);
-- The inbox reads what a user marked as done from this index alone.
CREATE INDEX inbox_marks_by_team ON inbox_marks(team_id, user_id, item_id, done_at);

-- An inbox item for which notifications were already sent.
CREATE TABLE notified_items (
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    item_id     TEXT NOT NULL,
    notified_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, item_id)
);
CREATE INDEX notified_items_by_age ON notified_items(notified_at);

-- An entry of a user's notification centre.
CREATE TABLE notices (
    user_id        TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    id             TEXT NOT NULL,            -- of the item
    team_id        TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    kind           TEXT NOT NULL,
    workspace_id   TEXT NOT NULL DEFAULT '',
    workspace_key  TEXT NOT NULL DEFAULT '',
    workspace_name TEXT NOT NULL DEFAULT '', -- at that time
    session_id     TEXT NOT NULL DEFAULT '',
    text           TEXT NOT NULL,
    at             BIGINT NOT NULL,
    read_at        BIGINT NOT NULL DEFAULT 0, -- 0 = unread
    PRIMARY KEY (user_id, id)
);
CREATE INDEX notices_by_age ON notices(user_id, at);
CREATE INDEX notices_by_team ON notices(team_id);

-- A workspace that a user does not want to be disturbed by.
CREATE TABLE mutes (
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    mode         TEXT NOT NULL,              -- until, question, always
    until        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, workspace_id)
);
CREATE INDEX mutes_by_workspace ON mutes(workspace_id);

-- Which notifications a user wants.
CREATE TABLE notification_rules (
    user_id    TEXT PRIMARY KEY REFERENCES users(id) ON DELETE CASCADE,
    rules      TEXT NOT NULL, -- JSON: kind to off, mine, all
    updated_at BIGINT NOT NULL
);

-- A team's webhook.
CREATE TABLE webhooks (
    id              TEXT PRIMARY KEY,
    team_id         TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    shown           TEXT NOT NULL,             -- the part of the address that may be shown
    format          TEXT NOT NULL,             -- json, slack, discord
    kinds           TEXT NOT NULL,             -- JSON list
    enabled         BOOLEAN NOT NULL,
    disabled_reason TEXT NOT NULL DEFAULT '',  -- why it was disabled automatically
    secret_id       TEXT NOT NULL,             -- address and signing key
    failed_at       BIGINT NOT NULL DEFAULT 0, -- since when deliveries fail
    created_by      TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE INDEX webhooks_by_team ON webhooks(team_id, created_at);

-- A browser that receives a user's push notifications.
CREATE TABLE push_subscriptions (
    id         TEXT PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    endpoint   TEXT NOT NULL UNIQUE,
    p256dh     TEXT NOT NULL,
    auth       TEXT NOT NULL,
    label      TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX push_subscriptions_by_user ON push_subscriptions(user_id, created_at);

-- A notification on its way to a webhook or a browser (outbox).
CREATE TABLE deliveries (
    id              TEXT PRIMARY KEY,
    team_id         TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    webhook_id      TEXT REFERENCES webhooks(id) ON DELETE CASCADE,
    subscription_id TEXT REFERENCES push_subscriptions(id) ON DELETE CASCADE,
    secret_id       TEXT NOT NULL DEFAULT '',  -- where it goes when it is neither
    item_id         TEXT NOT NULL,
    kind            TEXT NOT NULL,
    body            TEXT NOT NULL,
    state           TEXT NOT NULL,             -- pending, delivered, given_up, dropped
    attempts        BIGINT NOT NULL DEFAULT 0,
    next_at         BIGINT NOT NULL DEFAULT 0,
    claimed_until   BIGINT NOT NULL DEFAULT 0,
    status          BIGINT NOT NULL DEFAULT 0, -- HTTP status
    error           TEXT NOT NULL DEFAULT '',
    duration_ms     BIGINT NOT NULL DEFAULT 0,
    created_at      BIGINT NOT NULL,
    done_at         BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX deliveries_by_webhook ON deliveries(webhook_id, created_at, id);
CREATE INDEX deliveries_pending ON deliveries(next_at) WHERE state = 'pending';
CREATE INDEX deliveries_done ON deliveries(done_at);
CREATE INDEX deliveries_about ON deliveries(item_id);

-- An e-mail on its way (outbox).
CREATE TABLE mails (
    id            TEXT PRIMARY KEY,
    team_id       TEXT REFERENCES teams(id) ON DELETE CASCADE, -- NULL = the instance's
    kind          TEXT NOT NULL,
    recipient     TEXT NOT NULL,
    sealed        TEXT NOT NULL, -- subject and text, encrypted, as they may hold a link; '' once sent
    state         TEXT NOT NULL, -- pending, sent, given_up
    attempts      BIGINT NOT NULL DEFAULT 0,
    next_at       BIGINT NOT NULL DEFAULT 0,
    claimed_until BIGINT NOT NULL DEFAULT 0,
    error         TEXT NOT NULL DEFAULT '',
    created_at    BIGINT NOT NULL,
    done_at       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX mails_pending ON mails(next_at) WHERE state = 'pending';

-- === Metering and limits. Amounts are whole nano-USD. A limit that is NULL does not apply ===

-- A usage interval: a sandbox ran for this time at one price. Rows outlive the sandbox, workspace and user they name.
CREATE TABLE segments (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL,             -- '' = the instance, as for the pool
    workspace_id TEXT NOT NULL DEFAULT '',
    sandbox_id   TEXT NOT NULL,
    user_id      TEXT NOT NULL DEFAULT '',  -- whose quota and budget it counts in
    executor     TEXT NOT NULL,
    purpose      TEXT NOT NULL DEFAULT '',  -- agent, app, execution, pool
    cpus         BIGINT NOT NULL DEFAULT 0,
    memory_mb    BIGINT NOT NULL DEFAULT 0,
    price_nano   BIGINT NOT NULL,           -- nano-USD an hour, at its start
    started_at   BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,           -- when it was last known to run
    ended_at     BIGINT NOT NULL DEFAULT 0,
    end_source   TEXT NOT NULL DEFAULT '',  -- source of the end time: executor, server, heartbeat, clock; day or price where the run goes on in the next segment
    cost_nano    BIGINT NOT NULL DEFAULT 0, -- up to seen_at, or ended_at
    project_id   TEXT NOT NULL DEFAULT '',
    metered      BOOLEAN NOT NULL DEFAULT FALSE,
    price_id     TEXT NOT NULL DEFAULT '',
    adjusts_id   TEXT NOT NULL DEFAULT '',  -- the segment that this row corrects
    rolled_ms    BIGINT NOT NULL DEFAULT 0, -- how much of it is in usage_hours
    rolled_nano  BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX segments_open ON segments(sandbox_id) WHERE ended_at = 0;
CREATE INDEX segments_by_team ON segments(team_id, started_at);
CREATE INDEX segments_by_workspace ON segments(workspace_id, started_at);
CREATE INDEX segments_by_start ON segments(started_at);
CREATE INDEX segments_by_user ON segments(team_id, user_id, started_at);
-- Segments that usage_hours does not cover completely yet.
CREATE INDEX segments_unrolled ON segments(started_at) WHERE ended_at = 0 OR rolled_ms < ended_at - started_at;
-- Each start asks when the sandbox's latest segment ended.
CREATE INDEX segments_by_sandbox ON segments(sandbox_id, ended_at);

-- What a segment used in one UTC hour. The hours of a segment add up to its exact cost. A frozen hour never changes: what arrives
-- late is booked in the hour in which it was noticed.
CREATE TABLE usage_hours (
    team_id      TEXT NOT NULL,   -- '' = the instance
    hour         BIGINT NOT NULL, -- its start
    segment_id   TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    project_id   TEXT NOT NULL,
    executor     TEXT NOT NULL,
    purpose      TEXT NOT NULL,
    metered      BOOLEAN NOT NULL,
    run_ms       BIGINT NOT NULL,
    vcpu_ms      BIGINT NOT NULL, -- run_ms x vCPUs
    mib_ms       BIGINT NOT NULL, -- run_ms x MiB
    cost_nano    BIGINT NOT NULL,
    PRIMARY KEY (segment_id, hour)
);
CREATE INDEX usage_hours_by_team ON usage_hours(team_id, hour);
CREATE INDEX usage_hours_by_hour ON usage_hours(hour);

-- What an executor costs from a date on. One without a row costs nothing and counts towards nobody's hours. Rows never change: a
-- new price is a new row.
CREATE TABLE prices (
    id               TEXT PRIMARY KEY,
    executor         TEXT NOT NULL,
    vcpu_second_nano BIGINT NOT NULL,
    gib_second_nano  BIGINT NOT NULL,
    metered          BOOLEAN NOT NULL,         -- its time counts in users' hours and in how many run at once
    effective_from   BIGINT NOT NULL,
    created_by       TEXT NOT NULL DEFAULT '', -- '' = from the program or config.json
    created_at       BIGINT NOT NULL
);
CREATE UNIQUE INDEX prices_by_executor ON prices(executor, effective_from);

-- A start that was admitted and does not run yet. It counts as if it ran for one lease.
CREATE TABLE reservations (
    sandbox_id TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL,   -- '' = the instance
    user_id    TEXT NOT NULL DEFAULT '',
    executor   TEXT NOT NULL,
    price_nano BIGINT NOT NULL, -- an hour
    cost_nano  BIGINT NOT NULL, -- what is reserved for it
    hours_ms   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX reservations_by_team ON reservations(team_id, user_id);

-- The start of a metered sandbox, to limit how many a user makes in an hour.
CREATE TABLE creations (
    sandbox_id TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL,
    user_id    TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL
);
CREATE INDEX creations_by_user ON creations(team_id, user_id, created_at);

-- A set of limits and a price that teams choose or are given.
CREATE TABLE plans (
    id              TEXT PRIMARY KEY,          -- free, pro, enterprise, or an operator's own slug
    name            TEXT NOT NULL,
    description     TEXT NOT NULL DEFAULT '',
    position        BIGINT NOT NULL DEFAULT 0,
    offered         BOOLEAN NOT NULL DEFAULT TRUE, -- teams may choose it themselves
    hours_month     BIGINT,                    -- of each user, in whole hours of metered executors
    concurrent_user BIGINT,                    -- metered sandboxes at once, of each user
    concurrent_team BIGINT,
    cpus            BIGINT,                    -- largest size
    memory_mb       BIGINT,
    session_minutes BIGINT,                    -- longest run of a sandbox
    creations_hour  BIGINT,                    -- metered sandboxes that a user may make in an hour
    seats           BIGINT,                    -- members
    seat_month_nano BIGINT NOT NULL DEFAULT 0, -- price of a seat a month, whole cents
    trial_days      BIGINT NOT NULL DEFAULT 0,
    metered_usage   BOOLEAN NOT NULL DEFAULT FALSE, -- usage is reported to Stripe and billed on top
    updated_by      TEXT NOT NULL DEFAULT '',
    updated_at      BIGINT NOT NULL DEFAULT 0
);
INSERT INTO plans (id, name, description, position, offered, hours_month, concurrent_user, concurrent_team, cpus, memory_mb, session_minutes, creations_hour, seat_month_nano)
VALUES ('free', 'Free', 'To try it out.', 1, TRUE, 10, 1, 3, 1, 2048, 60, 20, 0),
       ('pro', 'Pro', 'For people who work with agents every day.', 2, TRUE, 100, 10, 50, 2, 8192, 1440, 120, 20000000000),
       ('enterprise', 'Enterprise', 'No limits but your own.', 3, FALSE, NULL, NULL, NULL, 8, NULL, NULL, NULL, 0);

-- A team's plan and subscription. A team without a row has the instance's default plan.
CREATE TABLE team_billing (
    team_id         TEXT PRIMARY KEY REFERENCES teams(id) ON DELETE CASCADE,
    plan_id         TEXT REFERENCES plans(id), -- NULL = the default one
    plan_source     TEXT NOT NULL DEFAULT '',  -- operator, stripe
    customer_id     TEXT NOT NULL DEFAULT '',  -- at Stripe
    subscription_id TEXT NOT NULL DEFAULT '',
    status          TEXT NOT NULL DEFAULT '',  -- active, trialing, past_due, incomplete, incomplete_expired, unpaid, canceled, paused; '' = none
    paid_plan_id    TEXT NOT NULL DEFAULT '',  -- what the subscription is for
    seats           BIGINT NOT NULL DEFAULT 0, -- paid
    trial_ends_at   BIGINT NOT NULL DEFAULT 0,
    period_start    BIGINT NOT NULL DEFAULT 0,
    period_end      BIGINT NOT NULL DEFAULT 0,
    cancel_at       BIGINT NOT NULL DEFAULT 0,
    past_due_since  BIGINT NOT NULL DEFAULT 0,
    suspended_for   TEXT NOT NULL DEFAULT '',  -- why no new paid sandboxes start: dispute, fraud
    synced_at       BIGINT NOT NULL DEFAULT 0,
    updated_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX team_billing_by_customer ON team_billing(customer_id) WHERE customer_id <> '';

-- Limits of one user in a team. A key that is absent takes the plan's limit; null does not apply.
CREATE TABLE quotas (
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id     TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    limits      TEXT NOT NULL DEFAULT '{}',     -- JSON: hours_month, concurrent, cpus, memory_mb, session_minutes
    by_operator BOOLEAN NOT NULL DEFAULT FALSE, -- may exceed the plan
    updated_by  TEXT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (team_id, user_id)
);

-- What a team may spend in a month (UTC).
CREATE TABLE budgets (
    team_id          TEXT PRIMARY KEY REFERENCES teams(id) ON DELETE CASCADE,
    limit_nano       BIGINT,
    count_tokens     BOOLEAN NOT NULL DEFAULT FALSE, -- the cost of models counts
    thresholds       TEXT NOT NULL DEFAULT '[80,90,100]', -- percent, JSON
    overage          BOOLEAN NOT NULL DEFAULT FALSE, -- at 100 % work continues, up to the cap
    overage_cap_nano BIGINT, -- beyond the limit; NULL = no cap
    grace_seconds    BIGINT NOT NULL DEFAULT 300,
    notify_app       BOOLEAN NOT NULL DEFAULT TRUE,
    notify_mail      BOOLEAN NOT NULL DEFAULT TRUE, -- owners and admins
    notify_webhooks  BOOLEAN NOT NULL DEFAULT TRUE,
    updated_by       TEXT NOT NULL DEFAULT '',
    updated_at       BIGINT NOT NULL DEFAULT 0
);

-- A threshold that was passed. Each notifies once in its period, and again once its limit was raised in between.
CREATE TABLE limit_alerts (
    scope    TEXT NOT NULL,   -- user_hours, team_budget, team_overage, instance_budget
    scope_id TEXT NOT NULL,   -- of the user or team; '' of the instance
    team_id  TEXT NOT NULL,   -- '' of the instance
    period   TEXT NOT NULL,   -- the month (UTC), such as 2026-11
    percent  BIGINT NOT NULL,
    used     BIGINT NOT NULL, -- nano-USD, or ms
    limit_at BIGINT NOT NULL, -- the limit at that time
    noted_at BIGINT NOT NULL,
    PRIMARY KEY (scope, scope_id, team_id, period, percent)
);

-- A workspace that goes on for a while after it reached a limit, or was suspended when that time was over.
CREATE TABLE graces (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id      TEXT NOT NULL DEFAULT '',
    scope        TEXT NOT NULL,   -- as of limit_alerts, session_minutes, kill_switch, past_due
    scope_id     TEXT NOT NULL DEFAULT '',
    period       TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,   -- counting, stopping, stopped, lifted
    state_reason TEXT NOT NULL DEFAULT '',
    began_at     BIGINT NOT NULL,
    ends_at      BIGINT NOT NULL, -- when the workspace is suspended
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX graces_open ON graces(workspace_id) WHERE state <> 'lifted';
CREATE INDEX graces_by_state ON graces(state);

-- A named value that billing remembers: how far the roll-up is, the kill switch, when Stripe's events were last listed.
CREATE TABLE billing_marks (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- === Models: requests, prices and limits ===

-- What a model costs from a date on, nano-USD per million tokens. NULL = not distinguished, or unknown.
CREATE TABLE model_prices (
    id                    TEXT PRIMARY KEY,
    model                 TEXT NOT NULL, -- a name, or the beginning of names followed by *
    input_nano            BIGINT NOT NULL,
    output_nano           BIGINT NOT NULL,
    cache_read_nano       BIGINT,
    cache_write_nano      BIGINT,        -- kept for five minutes
    cache_write_hour_nano BIGINT,        -- kept for an hour
    effective_from        BIGINT NOT NULL,
    created_by            TEXT NOT NULL DEFAULT '', -- '' = from the program
    created_at            BIGINT NOT NULL
);
CREATE UNIQUE INDEX model_prices_by_model ON model_prices(model, effective_from);

-- A model's answer. cost_nano is NULL when its cost is unknown.
CREATE TABLE model_requests (
    id                      TEXT PRIMARY KEY,
    team_id                 TEXT NOT NULL,
    workspace_id            TEXT NOT NULL,
    project_id              TEXT NOT NULL DEFAULT '',
    session_id              TEXT NOT NULL,
    user_id                 TEXT NOT NULL DEFAULT '',
    agent                   TEXT NOT NULL DEFAULT '',
    account_id              TEXT NOT NULL DEFAULT '',
    source                  TEXT NOT NULL,   -- gateway, transcript, telemetry
    external_id             TEXT NOT NULL,   -- its id at the source: reported twice, it counts once
    api                     TEXT NOT NULL DEFAULT '', -- messages, responses, chat_completions, embeddings
    model                   TEXT NOT NULL DEFAULT '',
    upstream                TEXT NOT NULL DEFAULT '', -- host
    status                  BIGINT NOT NULL DEFAULT 0, -- HTTP, 0 = no answer
    error                   TEXT NOT NULL DEFAULT '', -- stable: budget_exceeded, rate_limited, model_not_allowed, upstream_unreachable, upstream_error, cut, client_gone
    attempts                BIGINT NOT NULL DEFAULT 1,
    input_tokens            BIGINT,          -- NULL = unknown
    output_tokens           BIGINT,
    cache_read_tokens       BIGINT,
    cache_write_tokens      BIGINT,
    cache_write_hour_tokens BIGINT,
    reasoning_tokens        BIGINT,
    price_id                TEXT NOT NULL DEFAULT '',
    cost_nano               BIGINT,
    first_byte_ms           BIGINT NOT NULL DEFAULT 0,
    duration_ms             BIGINT NOT NULL DEFAULT 0,
    at                      BIGINT NOT NULL, -- when it began
    estimate_nano           BIGINT           -- what a request of unknown cost may have cost, for budgets only; NULL = unknown, or the cost is known
);
CREATE UNIQUE INDEX model_requests_once ON model_requests(session_id, source, external_id);
CREATE INDEX model_requests_by_team ON model_requests(team_id, at);
CREATE INDEX model_requests_by_session ON model_requests(session_id, at);
CREATE INDEX model_requests_by_workspace ON model_requests(workspace_id, at);
CREATE INDEX model_requests_by_time ON model_requests(at);

-- What is reserved of a team's budget for a request to a model that is under way. Once settled the row says what it cost, for as
-- long as somebody may still rely on a sum of the month read before.
CREATE TABLE model_holds (
    request_id TEXT PRIMARY KEY, -- model_requests.external_id
    team_id    TEXT NOT NULL,
    cost_nano  BIGINT NOT NULL,  -- the most it may cost
    settled    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL   -- until when it counts; extended while the request is under way
);
CREATE INDEX model_holds_by_team ON model_holds(team_id);

-- What a team may ask of a model. model is a name, a prefix followed by *, or * for all.
CREATE TABLE model_limits (
    team_id         TEXT NOT NULL, -- '' = every team
    model           TEXT NOT NULL,
    allowed         BOOLEAN NOT NULL DEFAULT TRUE,
    requests_minute BIGINT,
    tokens_minute   BIGINT,
    updated_by      TEXT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (team_id, model)
);

-- The token that a session's agent shows to the model gateway in place of a key.
CREATE TABLE gateway_tokens (
    token_hash TEXT PRIMARY KEY, -- sha256 hex
    session_id TEXT NOT NULL UNIQUE,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL DEFAULT 0
);

-- === Stripe ===

-- An event from Stripe, stored before it is acted on.
CREATE TABLE stripe_events (
    id           TEXT PRIMARY KEY,
    type         TEXT NOT NULL,
    object_id    TEXT NOT NULL DEFAULT '',
    customer_id  TEXT NOT NULL DEFAULT '',
    livemode     BOOLEAN NOT NULL,
    created      BIGINT NOT NULL,
    received_at  BIGINT NOT NULL,
    source       TEXT NOT NULL, -- webhook, sweep
    state        TEXT NOT NULL, -- new, done, failed, ignored
    state_reason TEXT NOT NULL DEFAULT '',
    attempts     BIGINT NOT NULL DEFAULT 0,
    try_at       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX stripe_events_due ON stripe_events(try_at) WHERE state = 'new';

-- A call to Stripe that is to be made. The id is the idempotency key.
CREATE TABLE stripe_outbox (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL DEFAULT '',
    kind         TEXT NOT NULL, -- customer, seats, cancel, invoice_item
    payload      TEXT NOT NULL, -- JSON
    result_id    TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL, -- pending, sent, failed
    state_reason TEXT NOT NULL DEFAULT '',
    attempts     BIGINT NOT NULL DEFAULT 0,
    try_at       BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    sent_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX stripe_outbox_due ON stripe_outbox(try_at) WHERE state = 'pending';

-- An object that this instance made at Stripe.
CREATE TABLE stripe_objects (
    name        TEXT NOT NULL,            -- product:pro, price:pro:seat, price:pro:vcpu_seconds, meter:vcpu_seconds, webhook
    livemode    BOOLEAN NOT NULL,
    object_id   TEXT NOT NULL,
    fingerprint TEXT NOT NULL DEFAULT '', -- of the parameters it was made with
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (name, livemode)
);

-- Usage of a frozen hour, reported to Stripe.
CREATE TABLE usage_reports (
    identifier    TEXT PRIMARY KEY, -- pw_<instance>_<team>_<meter>_<hour>_r<revision>
    team_id       TEXT NOT NULL,
    meter         TEXT NOT NULL,    -- vcpu_seconds, mib_seconds
    hour          BIGINT NOT NULL,
    revision      BIGINT NOT NULL,
    quantity      BIGINT NOT NULL,
    customer_id   TEXT NOT NULL,
    state         TEXT NOT NULL,    -- pending, sent, confirmed, failed, unknown
    state_reason  TEXT NOT NULL DEFAULT '',
    attempts      BIGINT NOT NULL DEFAULT 0,
    try_at        BIGINT NOT NULL DEFAULT 0,
    first_sent_at BIGINT NOT NULL DEFAULT 0,
    sent_at       BIGINT NOT NULL DEFAULT 0,
    created_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX usage_reports_by_hour ON usage_reports(team_id, meter, hour, revision);
CREATE INDEX usage_reports_due ON usage_reports(try_at) WHERE state = 'pending';

-- An hour for which the ledger and Stripe disagree.
CREATE TABLE discrepancies (
    team_id    TEXT NOT NULL,
    meter      TEXT NOT NULL,
    hour       BIGINT NOT NULL,
    ours       BIGINT NOT NULL,
    theirs     BIGINT NOT NULL,
    state      TEXT NOT NULL, -- open, repaired, accepted
    found_at   BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, meter, hour)
);

-- A payment begun in a browser.
CREATE TABLE checkouts (
    id          TEXT PRIMARY KEY,
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    plan_id     TEXT NOT NULL,
    seats       BIGINT NOT NULL,
    external_id TEXT NOT NULL DEFAULT '', -- at Stripe
    state       TEXT NOT NULL,            -- open, done, failed, expired
    created_by  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX checkouts_by_team ON checkouts(team_id, created_at);
CREATE UNIQUE INDEX checkouts_by_external ON checkouts(external_id) WHERE external_id <> '';

-- An invoice of a team, as Stripe has it.
CREATE TABLE invoices (
    id           TEXT PRIMARY KEY, -- at Stripe
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    number       TEXT NOT NULL DEFAULT '',
    status       TEXT NOT NULL,
    total_cents  BIGINT NOT NULL,
    due_cents    BIGINT NOT NULL DEFAULT 0,
    currency     TEXT NOT NULL,
    period_start BIGINT NOT NULL,
    period_end   BIGINT NOT NULL,
    url          TEXT NOT NULL DEFAULT '',
    created_at   BIGINT NOT NULL,
    synced_at    BIGINT NOT NULL
);
CREATE INDEX invoices_by_team ON invoices(team_id, created_at);

-- === The instance ===

-- A named value of the instance.
CREATE TABLE instance (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- A key pair of the instance, encrypted with the key outside the database.
CREATE TABLE instance_keys (
    name        TEXT PRIMARY KEY, -- "runner": signs messages to runners
    public_key  BYTEA NOT NULL,
    sealed      BYTEA NOT NULL,
    key_version BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);

-- An audit entry: rows are only ever added. Each holds the seal of the one before it in its chain.
CREATE TABLE audit (
    chain       TEXT NOT NULL,              -- a team's id, or 'instance'; kept when the team is gone
    seq         BIGINT NOT NULL,            -- 1, 2, ... without gaps
    id          TEXT NOT NULL UNIQUE,
    at          BIGINT NOT NULL,
    actor_kind  TEXT NOT NULL,              -- user, token, link, command_line, system, nobody
    actor_id    TEXT NOT NULL DEFAULT '',
    actor_name  TEXT NOT NULL DEFAULT '',   -- at that time
    credential  TEXT NOT NULL DEFAULT '',   -- id of the login session, token or link
    ip          TEXT NOT NULL DEFAULT '',
    action      TEXT NOT NULL,
    target_kind TEXT NOT NULL DEFAULT '',
    target_id   TEXT NOT NULL DEFAULT '',
    target_name TEXT NOT NULL DEFAULT '',
    result      TEXT NOT NULL,              -- done, refused, failed
    code        TEXT NOT NULL DEFAULT '',   -- of the error
    request_id  TEXT NOT NULL DEFAULT '',
    data        TEXT NOT NULL DEFAULT '{}', -- JSON: text by name
    seal        TEXT NOT NULL,              -- HMAC-SHA-256 hex of all of the above and of the seal before
    PRIMARY KEY (chain, seq)
);
CREATE INDEX audit_by_time ON audit(chain, at, seq);
CREATE INDEX audit_by_actor ON audit(chain, actor_id, seq);

-- The answer to a request with an Idempotency-Key, for when it is repeated.
CREATE TABLE idempotency_keys (
    user_id      TEXT NOT NULL,
    key          TEXT NOT NULL,
    route        TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    status       BIGINT NOT NULL DEFAULT 0, -- 0 while the first request is under way
    body         BYTEA,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (user_id, key)
);

-- === Tools ===

-- One call of a tool. Texts are beginnings, at most 4 KiB, with secrets masked.
CREATE TABLE tool_calls (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT REFERENCES workspaces(id) ON DELETE CASCADE, -- NULL outside a workspace
    session_id   TEXT NOT NULL DEFAULT '', -- the session whose agent called
    user_id      TEXT NOT NULL,
    agent        TEXT NOT NULL DEFAULT '',
    client       TEXT NOT NULL DEFAULT '', -- the calling program's own name
    tool         TEXT NOT NULL,
    arguments    TEXT NOT NULL DEFAULT '',
    result       TEXT NOT NULL DEFAULT '',
    outcome      TEXT NOT NULL,            -- running, done, failed, refused, broken, cancelled, timed_out, unknown
    code         TEXT NOT NULL DEFAULT '', -- of the error
    cause        TEXT NOT NULL DEFAULT '', -- the error in words
    result_bytes BIGINT NOT NULL DEFAULT 0,
    truncated    BOOLEAN NOT NULL DEFAULT FALSE,
    started_at   BIGINT NOT NULL,
    duration_ms  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX tool_calls_by_workspace ON tool_calls(workspace_id, started_at, id);
CREATE INDEX tool_calls_by_session ON tool_calls(session_id, started_at, id);
CREATE INDEX tool_calls_by_team ON tool_calls(team_id);
CREATE INDEX tool_calls_by_time ON tool_calls(started_at);

-- === Tasks ===

-- Planned work of a project, which people and agents share.
CREATE TABLE tasks (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
    num          BIGINT NOT NULL,               -- the number in PW-T1
    title        TEXT NOT NULL,
    description  TEXT NOT NULL DEFAULT '',
    type         TEXT NOT NULL,                 -- task, bug, feature, epic, chore
    priority     BIGINT NOT NULL,               -- 0 = critical ... 4 = some day
    status       TEXT NOT NULL,                 -- open, in_progress, blocked, closed
    reason       TEXT NOT NULL DEFAULT '',      -- why it was closed
    labels       TEXT NOT NULL DEFAULT '[]',    -- JSON list
    parent_id    TEXT NOT NULL DEFAULT '',      -- a task of the same project
    blockers     BIGINT NOT NULL DEFAULT 0,     -- how many tasks that block it are not closed: kept with each change, for the index
    assignee     TEXT NOT NULL DEFAULT '',      -- id of a user or a session
    claimed_at   BIGINT NOT NULL DEFAULT 0,
    workspace_id TEXT NOT NULL DEFAULT '',      -- where it is worked on
    linked_at    BIGINT NOT NULL DEFAULT 0,     -- since when: a merge after that closes it
    files        TEXT NOT NULL DEFAULT '[]',    -- JSON list of paths that changed while it was worked on
    external_id  TEXT NOT NULL DEFAULT '',      -- in the tracker it was imported from
    external_ref TEXT NOT NULL DEFAULT '',      -- the issue of a forge it stands for, such as gh-9
    created_by   TEXT NOT NULL,                 -- user
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    closed_at    BIGINT NOT NULL DEFAULT 0,
    version      BIGINT NOT NULL DEFAULT 1,
    UNIQUE (team_id, num)
);
CREATE INDEX tasks_ready ON tasks(project_id, status, blockers, priority, num);
CREATE INDEX tasks_by_project ON tasks(project_id, priority, num);
CREATE INDEX tasks_by_team ON tasks(team_id, priority, num);
CREATE INDEX tasks_by_parent ON tasks(parent_id) WHERE parent_id <> '';
CREATE INDEX tasks_by_workspace ON tasks(workspace_id) WHERE workspace_id <> '';
CREATE UNIQUE INDEX tasks_by_external ON tasks(project_id, external_id) WHERE external_id <> '';

-- What a task depends on. Both tasks are of one project.
CREATE TABLE task_dependencies (
    team_id    TEXT NOT NULL,
    task_id    TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
    depends_on TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
    type       TEXT NOT NULL, -- blocks, discovered-from, related, duplicates, supersedes
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, depends_on)
);
CREATE INDEX task_dependencies_reversed ON task_dependencies(depends_on, type);

-- === Artifacts ===

-- A file that outlives the sandbox it was made in; each row is a version. It stays when the workspace is gone.
CREATE TABLE artifacts (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL REFERENCES projects(id),
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL DEFAULT '', -- the session that made it
    created_by   TEXT NOT NULL,
    name         TEXT NOT NULL,
    version      BIGINT NOT NULL,          -- of its name in the workspace, from 1; 0 while it is pending
    mime         TEXT NOT NULL,
    size         BIGINT NOT NULL,
    sha256       TEXT NOT NULL,            -- hex; '' while it is pending
    metadata     TEXT NOT NULL,            -- JSON: text by name
    state        TEXT NOT NULL,            -- pending, ready, deleting
    source       TEXT NOT NULL DEFAULT '', -- while it is pending: the file it is copied from
    source_at    BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);
CREATE INDEX artifacts_by_name ON artifacts(workspace_id, name, version);
CREATE INDEX artifacts_by_project ON artifacts(project_id, created_at);
CREATE INDEX artifacts_by_team ON artifacts(team_id, created_at);
CREATE INDEX artifacts_unfinished ON artifacts(created_at) WHERE state <> 'ready';

-- A file of an artifacts folder as it was when it was last collected.
CREATE TABLE artifact_sources (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    path         TEXT NOT NULL, -- the user whose home it is in, a colon, the path in the folder
    team_id      TEXT NOT NULL,
    size         BIGINT NOT NULL,
    mtime        BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, path)
);

-- A link with which somebody without a login reads one artifact.
CREATE TABLE artifact_links (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    artifact_id  TEXT NOT NULL REFERENCES artifacts(id) ON DELETE CASCADE,
    name         TEXT NOT NULL DEFAULT '', -- for whom
    token_hash   TEXT NOT NULL UNIQUE,     -- sha256 hex
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL DEFAULT 0,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    uses         BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX artifact_links_by_artifact ON artifact_links(artifact_id, created_at);

-- === Subagents ===

-- An agent that works on a part of another agent's task.
CREATE TABLE subagents (
    id                TEXT PRIMARY KEY,
    team_id           TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id        TEXT NOT NULL,
    from_workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE, -- where it was asked for
    parent_session_id TEXT NOT NULL DEFAULT '', -- '' = a person outside a session asked for it
    root              TEXT NOT NULL,            -- the session at the top of its tree, or the workspace
    depth             BIGINT NOT NULL,
    name              TEXT NOT NULL,
    task              TEXT NOT NULL,
    agent             TEXT NOT NULL,
    model             TEXT NOT NULL DEFAULT '',
    mode              TEXT NOT NULL DEFAULT '', -- of Parawork's own agent
    tools             TEXT NOT NULL DEFAULT 'null', -- JSON: the only groups and tools it may use; null = all of its project
    place             TEXT NOT NULL,            -- same, sibling
    workspace_id      TEXT NOT NULL,            -- reserved before it is made
    branch            TEXT NOT NULL DEFAULT '',
    session_id        TEXT NOT NULL UNIQUE,     -- reserved before it is started
    snapshot_id       TEXT NOT NULL DEFAULT '',
    status            TEXT NOT NULL,            -- spawned, starting, working, waiting, completed, failed, cancelled
    live              BOOLEAN NOT NULL,         -- its session may still run, or is still to be started
    stop              BOOLEAN NOT NULL,         -- its session is to be stopped
    worked            BOOLEAN NOT NULL,
    retried           BOOLEAN NOT NULL,
    prompt_id         TEXT NOT NULL DEFAULT '', -- the latest message to it
    result            TEXT NOT NULL DEFAULT '',
    files             TEXT NOT NULL DEFAULT '[]', -- JSON: paths that it changed
    more_files        BIGINT NOT NULL DEFAULT 0,
    to_return         BOOLEAN NOT NULL DEFAULT FALSE, -- its caller is to be given the result as a message, or will be
    code              TEXT NOT NULL DEFAULT '', -- of the error
    error             TEXT NOT NULL DEFAULT '',
    kept              BOOLEAN NOT NULL,
    max_cost_nano     BIGINT NOT NULL DEFAULT 0,
    timeout_ms        BIGINT NOT NULL,
    deadline_at       BIGINT NOT NULL,
    created_by        TEXT NOT NULL,
    created_at        BIGINT NOT NULL,
    started_at        BIGINT NOT NULL DEFAULT 0,
    ended_at          BIGINT NOT NULL DEFAULT 0,
    updated_at        BIGINT NOT NULL
);
CREATE INDEX subagents_by_root ON subagents(root, created_at);
CREATE INDEX subagents_from_workspace ON subagents(from_workspace_id, created_at);
CREATE INDEX subagents_in_workspace ON subagents(workspace_id, created_at);
CREATE INDEX subagents_live ON subagents(id) WHERE live OR to_return;
CREATE INDEX subagents_to_return ON subagents(parent_session_id) WHERE to_return;

-- === Checkpoints ===

-- A state of a workspace to go back to: a snapshot with what the files do not show.
CREATE TABLE checkpoints (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL DEFAULT '',              -- in which it was taken, or for which
    agent        TEXT NOT NULL DEFAULT '',
    snapshot_id  TEXT NOT NULL REFERENCES snapshots(id), -- kept while this row exists
    reason       TEXT NOT NULL,                          -- manual, prompt, timeout, token_limit
    note         TEXT NOT NULL DEFAULT '',
    next_step    TEXT NOT NULL DEFAULT '',               -- what to do when the work is resumed
    files        BIGINT NOT NULL DEFAULT 0,              -- that differ from the workspace's base
    messages     TEXT NOT NULL DEFAULT '{}',             -- JSON: position in the conversation, and its end
    tasks        TEXT NOT NULL DEFAULT '[]',             -- JSON: id, title and status of each
    artifacts    TEXT NOT NULL DEFAULT '[]',             -- JSON: ids
    created_by   TEXT NOT NULL DEFAULT '',               -- '' = Parawork itself
    at           BIGINT NOT NULL
);
CREATE INDEX checkpoints_by_workspace ON checkpoints(workspace_id, at, id);
CREATE INDEX checkpoints_by_session ON checkpoints(session_id, at);
CREATE INDEX checkpoints_by_snapshot ON checkpoints(snapshot_id);

-- A fact that agents and people remember for a project, or for one session.
CREATE TABLE memories (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
    session_id TEXT NOT NULL DEFAULT '', -- the session that alone recalls it
    key        TEXT NOT NULL DEFAULT '', -- the next fact with this name replaces it
    text       TEXT NOT NULL,            -- at most 8 KiB, secrets masked
    tags       TEXT NOT NULL DEFAULT '[]',
    user_id    TEXT NOT NULL,
    agent      TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0, -- 0 = never
    vector       BYTEA, -- of its meaning: little-endian float32 of unit length; NULL = not computed
    vector_model TEXT NOT NULL DEFAULT '' -- which made it
);
CREATE INDEX memories_by_project ON memories(project_id, session_id, created_at);
CREATE UNIQUE INDEX memories_by_key ON memories(project_id, session_id, key) WHERE key <> '';
CREATE INDEX memories_by_team ON memories(team_id);

-- === Groups of tools ===

-- The groups of tools that a project has switched other than their default.
CREATE TABLE project_tools (
    project_id TEXT PRIMARY KEY REFERENCES projects(id) ON DELETE CASCADE,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    switched   TEXT NOT NULL -- JSON: true or false by name of a group
);

-- === OAuth clients and what people granted them ===

-- A program that registered itself.
CREATE TABLE oauth_clients (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,             -- JSON list
    created_at    BIGINT NOT NULL,
    used_at       BIGINT NOT NULL DEFAULT 0  -- when it was last allowed something, or renewed that; 0 = never
);
CREATE INDEX oauth_clients_by_use ON oauth_clients(used_at, created_at);

-- What a person allowed a client: an API token that the client renews.
CREATE TABLE oauth_grants (
    token_id     TEXT PRIMARY KEY REFERENCES api_tokens(id) ON DELETE CASCADE,
    client_id    TEXT NOT NULL REFERENCES oauth_clients(id) ON DELETE CASCADE,
    code_hash    TEXT NOT NULL UNIQUE,       -- sha256 hex
    challenge    TEXT NOT NULL,              -- of PKCE, S256
    redirect_uri TEXT NOT NULL,              -- that the code was sent to
    family_hash  TEXT UNIQUE,                -- of what its refresh tokens have in common, NULL = the code was not exchanged yet
    refresh_hash TEXT NOT NULL DEFAULT '',   -- of the rest of the valid refresh token
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL             -- of the code, then of the refresh token
);
CREATE INDEX oauth_grants_by_client ON oauth_grants(client_id);
CREATE INDEX oauth_grants_by_end ON oauth_grants(expires_at);

-- === Edits ===

-- One change of one file between two snapshots, and who made it.
CREATE TABLE edits (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id    TEXT NOT NULL DEFAULT '',
    agent         TEXT NOT NULL DEFAULT '',
    call_id       TEXT NOT NULL DEFAULT '', -- the tool call, if it is one
    tool          TEXT NOT NULL DEFAULT '',
    calls         TEXT NOT NULL DEFAULT '[]', -- JSON: all calls that may have made it
    turn          TEXT NOT NULL DEFAULT '',
    user_id       TEXT NOT NULL DEFAULT '', -- for whom Parawork changed the file
    operation     TEXT NOT NULL DEFAULT '', -- what Parawork did
    undo_of       TEXT NOT NULL DEFAULT '',
    evidence      TEXT NOT NULL,            -- record, operation, interval
    path          TEXT NOT NULL,            -- as in the API
    old_path      TEXT NOT NULL DEFAULT '',
    kind          TEXT NOT NULL,            -- created, modified, deleted, renamed
    before_blob   TEXT NOT NULL DEFAULT '',
    after_blob    TEXT NOT NULL DEFAULT '',
    before_mode   TEXT NOT NULL DEFAULT '',
    after_mode    TEXT NOT NULL DEFAULT '',
    additions     BIGINT NOT NULL DEFAULT 0,
    deletions     BIGINT NOT NULL DEFAULT 0,
    is_binary     BOOLEAN NOT NULL DEFAULT FALSE,
    at            BIGINT NOT NULL,
    snapshot_id   TEXT NOT NULL DEFAULT '', -- the first that has it; it may be gone
    undone_at     BIGINT NOT NULL DEFAULT 0,
    undone_by     TEXT NOT NULL DEFAULT '',
    verified      TEXT NOT NULL DEFAULT '', -- passed, failed
    verified_at   BIGINT NOT NULL DEFAULT 0,
    verified_tree TEXT NOT NULL DEFAULT ''
);
CREATE INDEX edits_by_workspace ON edits(workspace_id, at, id);

-- How far the timeline of a workspace was read.
CREATE TABLE edit_cursors (
    workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    snapshot_id  TEXT NOT NULL,
    tree         TEXT NOT NULL,
    at           BIGINT NOT NULL,
    left_out     BIGINT NOT NULL DEFAULT 0, -- changes that were too many at once
    pruned       BIGINT NOT NULL DEFAULT 0  -- edits that made room
);

-- === Issues of forges, and what else tasks have ===

-- What a project has set about its tasks.
CREATE TABLE task_settings (
    project_id TEXT PRIMARY KEY REFERENCES projects(id) ON DELETE CASCADE,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    direction  TEXT NOT NULL DEFAULT 'off', -- of the sync with the forge's issues: off, both, in, out
    label      TEXT NOT NULL,               -- issues with it become tasks
    all_tasks  BOOLEAN NOT NULL DEFAULT FALSE, -- every task becomes an issue, not only those with the label
    file       TEXT NOT NULL DEFAULT '',    -- path of the tasks in the repository; '' = none
    since      BIGINT NOT NULL DEFAULT 0,   -- what changed on the forge before that was read
    page       BIGINT NOT NULL DEFAULT 1,   -- next page of the round that goes on
    reading    BIGINT NOT NULL DEFAULT 0,   -- since of the next round, as known so far
    begun_at   BIGINT NOT NULL DEFAULT 0,   -- the forge's time when the round began
    next_at    BIGINT NOT NULL DEFAULT 0,   -- when the forge is asked again
    fails      BIGINT NOT NULL DEFAULT 0,   -- in a row
    synced_at  BIGINT NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT ''     -- of the last round, for people
);
CREATE INDEX task_settings_due ON task_settings(next_at) WHERE direction <> 'off';

-- A task that is an issue of a forge.
CREATE TABLE task_issues (
    task_id    TEXT PRIMARY KEY REFERENCES tasks(id) ON DELETE CASCADE,
    team_id    TEXT NOT NULL,
    project_id TEXT NOT NULL,
    forge      TEXT NOT NULL,
    host       TEXT NOT NULL,
    repository TEXT NOT NULL,
    number     BIGINT NOT NULL,
    url        TEXT NOT NULL,
    assignee   TEXT NOT NULL DEFAULT '', -- names there
    base       TEXT NOT NULL,            -- JSON: the fields as both sides last had them
    synced_at  BIGINT NOT NULL,
    UNIQUE (project_id, host, repository, number)
);

-- Changes of tasks that the forge does not have yet: one row for a task, whatever changed.
CREATE TABLE issue_outbox (
    task_id    TEXT PRIMARY KEY REFERENCES tasks(id) ON DELETE CASCADE,
    team_id    TEXT NOT NULL,
    project_id TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    revision   BIGINT NOT NULL DEFAULT 1,  -- counts changes: a row that changed while it was sent stays
    attempts   BIGINT NOT NULL DEFAULT 0,
    next_at    BIGINT NOT NULL,
    lease      BIGINT NOT NULL DEFAULT 0,  -- until when somebody sends it
    asked_at   BIGINT NOT NULL DEFAULT 0,  -- when a new issue was first asked for: it may be there
    posted     TEXT NOT NULL DEFAULT '',   -- JSON: the fields it was asked for with
    failed     BOOLEAN NOT NULL DEFAULT FALSE, -- given up until somebody retries it
    error      TEXT NOT NULL DEFAULT ''
);
CREATE INDEX issue_outbox_due ON issue_outbox(next_at) WHERE NOT failed;
CREATE INDEX issue_outbox_by_project ON issue_outbox(project_id, changed_at);

-- What happened to a task that its fields no longer show.
CREATE TABLE task_history (
    id      TEXT PRIMARY KEY,
    team_id TEXT NOT NULL,
    task_id TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
    kind    TEXT NOT NULL, -- lost_title, lost_description
    text    TEXT NOT NULL,
    at      BIGINT NOT NULL
);
CREATE INDEX task_history_by_task ON task_history(task_id, at);

-- Artifacts that belong to a task.
CREATE TABLE task_artifacts (
    task_id     TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
    artifact_id TEXT NOT NULL REFERENCES artifacts(id) ON DELETE CASCADE,
    team_id     TEXT NOT NULL,
    at          BIGINT NOT NULL,
    detached    BOOLEAN NOT NULL DEFAULT FALSE, -- its session saved it, but it does not belong to the task
    PRIMARY KEY (task_id, artifact_id)
);
CREATE INDEX task_artifacts_reversed ON task_artifacts(artifact_id);
-- === Code ===

-- Code that ran in an interpreter that keeps its variables.
CREATE TABLE code_runs (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL DEFAULT '',   -- of the agent that ran it
    user_id      TEXT NOT NULL,
    agent        TEXT NOT NULL DEFAULT '',
    language     TEXT NOT NULL,
    kernel       TEXT NOT NULL,
    code         TEXT NOT NULL,              -- at most 64 KiB of it
    state        TEXT NOT NULL,              -- running, ok, failed, interrupted, timed_out, died, lost
    fresh        BOOLEAN NOT NULL,
    cause        TEXT NOT NULL DEFAULT '',
    exit_code    BIGINT,
    outputs      TEXT NOT NULL DEFAULT '[]', -- JSON, in order, at most 256 KiB of contents
    error        TEXT NOT NULL DEFAULT '',   -- JSON: name, value, traceback; '' = none
    truncated    BOOLEAN NOT NULL,
    process_id   TEXT NOT NULL,
    sandbox_id   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    took_ms      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX code_runs_by_workspace ON code_runs(workspace_id, created_at, id);
CREATE INDEX code_runs_running ON code_runs(id) WHERE state = 'running';

-- === Counters ===

-- What was counted of the instance's sandboxes since since, for operators.
CREATE TABLE sandbox_counters (
    executor TEXT NOT NULL,
    purpose  TEXT NOT NULL, -- '' = counted for all purposes together
    name     TEXT NOT NULL,
    value    BIGINT NOT NULL,
    since    BIGINT NOT NULL,
    PRIMARY KEY (executor, purpose, name)
);

-- === Language servers ===

-- When language servers report problems in edited files to the agents of a project.
CREATE TABLE project_languages (
    project_id  TEXT PRIMARY KEY REFERENCES projects(id) ON DELETE CASCADE,
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    after_edits TEXT NOT NULL -- off, errors, on_demand, turn_end
);

-- The language servers that run, for the next run of the server: they go on without it.
CREATE TABLE language_servers (
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    language     TEXT NOT NULL,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    process_id   TEXT NOT NULL,
    state        TEXT NOT NULL, -- JSON: the program, its abilities, and the files it knows of
    PRIMARY KEY (workspace_id, language)
);

-- === Sandboxes without a repository ===

-- Each is a workspace of the team's hidden project. The row is there before the workspace, and has its id.
CREATE TABLE api_sandboxes (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL,
    key          TEXT NOT NULL,            -- '' = not found by a key
    purpose      TEXT NOT NULL,            -- app, execution, desktop
    workspace_id TEXT NOT NULL,
    executor     TEXT NOT NULL,            -- as asked for; '' = the default
    image        TEXT NOT NULL DEFAULT '{}', -- JSON as of projects.image: what it is made from
    network      TEXT NOT NULL DEFAULT '{}', -- JSON as of projects.network: it takes away from what the project says
    idle_ms      BIGINT NOT NULL,
    session_id   TEXT NOT NULL DEFAULT '', -- it ends with this session
    created_at   BIGINT NOT NULL,
    used_at      BIGINT NOT NULL,
    checked_at   BIGINT NOT NULL,          -- when it was last found healthy
    ends_at      BIGINT NOT NULL,
    ends_by      BIGINT NOT NULL DEFAULT 0, -- it ends then at the latest, used or not; 0 = only when nobody uses it
    ended_at     BIGINT NOT NULL DEFAULT 0,
    cleaned      BOOLEAN NOT NULL DEFAULT FALSE -- ended, and nothing of it is left
);
CREATE UNIQUE INDEX api_sandboxes_by_key ON api_sandboxes(team_id, user_id, key, purpose) WHERE key <> '' AND ended_at = 0;
CREATE UNIQUE INDEX api_sandboxes_by_workspace ON api_sandboxes(workspace_id);
CREATE INDEX api_sandboxes_by_team ON api_sandboxes(team_id, created_at, id);
CREATE INDEX api_sandboxes_unclean ON api_sandboxes(ends_at) WHERE NOT cleaned;

-- === Links to ports ===

-- A link with which somebody without a login sees one port of a workspace's sandbox.
CREATE TABLE port_links (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    port         BIGINT NOT NULL,
    name         TEXT NOT NULL,        -- for whom
    token_hash   TEXT NOT NULL UNIQUE, -- sha256 hex
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX port_links_by_workspace ON port_links(workspace_id);
CREATE INDEX port_links_by_maker ON port_links(team_id, created_by);

-- === Threads of Parawork's own agent ===

CREATE TABLE threads (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL,              -- the session it belongs to now
    conversation TEXT NOT NULL,              -- sessions' ID of it
    parent_id    TEXT NOT NULL DEFAULT '',   -- the thread it was forked from
    created_by   TEXT NOT NULL,
    model        TEXT NOT NULL,
    mode         TEXT NOT NULL,              -- build, plan, ask, review
    state        TEXT NOT NULL,              -- idle, working, waiting, failed
    reason       TEXT NOT NULL DEFAULT '',
    code         TEXT NOT NULL DEFAULT '',
    undoing      TEXT NOT NULL DEFAULT '',   -- JSON: an undo of files that is being made
    version      BIGINT NOT NULL,            -- grows with every change of the thread and its rows
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX threads_by_conversation ON threads(workspace_id, conversation);

CREATE TABLE thread_messages (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    thread_id  TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
    turn_id    TEXT NOT NULL,
    seq        BIGINT NOT NULL,
    role       TEXT NOT NULL,                -- user, assistant, summary, clear
    state      TEXT NOT NULL,                -- streaming, complete, discarded, undone
    user_id    TEXT NOT NULL DEFAULT '',
    parts      TEXT NOT NULL,                -- JSON
    model      TEXT NOT NULL DEFAULT '',
    stop       TEXT NOT NULL DEFAULT '',
    usage      TEXT NOT NULL DEFAULT '{}',   -- JSON
    note       TEXT NOT NULL DEFAULT '',     -- why it was discarded
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    done_at    BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX thread_messages_by_seq ON thread_messages(thread_id, seq);
CREATE INDEX thread_messages_by_version ON thread_messages(thread_id, version);
CREATE INDEX thread_messages_by_turn ON thread_messages(turn_id, seq);
CREATE INDEX thread_messages_markers ON thread_messages(thread_id, seq) WHERE role IN ('summary', 'clear');

CREATE TABLE thread_turns (
    id          TEXT PRIMARY KEY,
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    thread_id   TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
    state       TEXT NOT NULL,               -- running, completed, interrupted, failed
    reason      TEXT NOT NULL DEFAULT '',
    code        TEXT NOT NULL DEFAULT '',
    steps       BIGINT NOT NULL DEFAULT 0,
    compactions BIGINT NOT NULL DEFAULT 0,
    files_before TEXT NOT NULL DEFAULT '',   -- snapshot from before its first change; '?' = there is none
    files_after  TEXT NOT NULL DEFAULT '',   -- snapshot from its end
    owner       TEXT NOT NULL,               -- the server that runs it
    lease_until BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    started_at  BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX thread_turns_running ON thread_turns(thread_id) WHERE state = 'running';
CREATE INDEX thread_turns_by_thread ON thread_turns(thread_id, version);

CREATE TABLE thread_calls (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    thread_id  TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
    turn_id    TEXT NOT NULL,
    message_id TEXT NOT NULL REFERENCES thread_messages(id) ON DELETE CASCADE,
    ordinal    BIGINT NOT NULL,
    call_id    TEXT NOT NULL,                -- the model's ID of it
    tool       TEXT NOT NULL,
    args       TEXT NOT NULL,                -- JSON
    state      TEXT NOT NULL,                -- pending, asked, running, done, failed, denied, unknown, skipped
    content    TEXT NOT NULL DEFAULT '[]',   -- JSON: the result, as the model is sent it
    cut        BOOLEAN NOT NULL DEFAULT FALSE,
    details    TEXT NOT NULL DEFAULT '{}',   -- JSON: what people need of the result
    version    BIGINT NOT NULL,
    started_at BIGINT NOT NULL DEFAULT 0,
    ended_at   BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX thread_calls_by_message ON thread_calls(message_id, ordinal);
CREATE INDEX thread_calls_by_version ON thread_calls(thread_id, version);

-- What messages and calls refer to: pictures, attached files, whole results.
CREATE TABLE thread_media (
    thread_id  TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
    id         TEXT NOT NULL,                -- of its content
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    mime       TEXT NOT NULL,
    content    BYTEA NOT NULL,
    size       BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (thread_id, id)
);
CREATE INDEX thread_media_by_id ON thread_media(id);

-- === Permission rules of Parawork's own agent ===

CREATE TABLE permission_rules (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id TEXT REFERENCES projects(id) ON DELETE CASCADE,     -- NULL = of the team
    session_id TEXT REFERENCES sessions(id) ON DELETE CASCADE,     -- NULL = not of one session alone
    tool       TEXT NOT NULL,                -- a tool, a group of tools, or *
    pattern    TEXT NOT NULL DEFAULT '',     -- '' = every call
    effect     TEXT NOT NULL,                -- allow, ask, deny
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX permission_rules_by_team ON permission_rules(team_id, project_id);
CREATE INDEX permission_rules_by_session ON permission_rules(session_id);

-- What a turn of that agent may take at most, beside config.json; NULL = no limit of its own.
CREATE TABLE agent_limits (
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL DEFAULT '',     -- '' = in the whole team
    steps      BIGINT,
    minutes    BIGINT,
    cost_nano  BIGINT,                       -- nano-USD
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, project_id)
);

-- === Jobs ===

CREATE TABLE jobs (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    created_by   TEXT NOT NULL,
    key          TEXT NOT NULL,              -- the Idempotency-Key it was asked for with, '' = none
    hash         TEXT NOT NULL,              -- of what was asked for
    request      TEXT NOT NULL,              -- JSON
    private      BOOLEAN NOT NULL,           -- only its user sees it
    hook_url     TEXT NOT NULL DEFAULT '',   -- where its end is reported, without what is secret; '' = nowhere
    secret_id    TEXT NOT NULL DEFAULT '',
    sandbox_id   TEXT NOT NULL DEFAULT '',
    workspace_id TEXT NOT NULL DEFAULT '',   -- reserved before it is made
    session_id   TEXT NOT NULL,              -- reserved before it is started
    status       TEXT NOT NULL,              -- queued, running, completed, failed, timeout, cancelled
    step         TEXT NOT NULL,              -- waiting, making, working, ending, cleaning, removing, done
    outcome      TEXT NOT NULL DEFAULT '',   -- the status it ends with
    retried      BOOLEAN NOT NULL DEFAULT FALSE,
    refusals     BIGINT NOT NULL DEFAULT 0,
    reason       TEXT NOT NULL DEFAULT '',
    code         TEXT NOT NULL DEFAULT '',
    error        TEXT NOT NULL DEFAULT '',
    output       TEXT NOT NULL DEFAULT '',
    warnings     TEXT NOT NULL DEFAULT '[]', -- JSON
    files        TEXT NOT NULL DEFAULT '[]', -- JSON: its artifacts
    cost_nano    BIGINT,                     -- NULL = unknown
    version      BIGINT NOT NULL,            -- grows with every change
    created_at   BIGINT NOT NULL,
    started_at   BIGINT NOT NULL DEFAULT 0,
    deadline     BIGINT NOT NULL DEFAULT 0,
    retry_at     BIGINT NOT NULL DEFAULT 0,
    ended_at     BIGINT NOT NULL DEFAULT 0,
    removed_at   BIGINT NOT NULL DEFAULT 0,  -- somebody deleted it: nobody sees it, and the row goes once it has ended
    updated_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX jobs_by_key ON jobs(team_id, created_by, key) WHERE key <> '';
CREATE INDEX jobs_by_team ON jobs(team_id, created_at, id);
CREATE INDEX jobs_live ON jobs(id) WHERE step <> 'done';
CREATE INDEX jobs_by_workspace ON jobs(workspace_id);

-- === Automations: what starts jobs by itself ===

CREATE TABLE automations (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    created_by TEXT NOT NULL,
    name       TEXT NOT NULL,
    trigger    TEXT NOT NULL,             -- JSON: when it acts
    work       TEXT NOT NULL,             -- JSON: the job it asks for
    attempts   BIGINT NOT NULL,
    limits     TEXT NOT NULL,             -- JSON
    secret_id  TEXT NOT NULL DEFAULT '',  -- what reports to it are signed with
    paused     BOOLEAN NOT NULL DEFAULT FALSE,
    because    TEXT NOT NULL DEFAULT '',  -- why the server paused it
    failures   BIGINT NOT NULL DEFAULT 0, -- runs that failed in a row
    next_at    BIGINT NOT NULL DEFAULT 0, -- 0 = no time is set
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    removed_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX automations_by_team ON automations(team_id, created_at, id);
CREATE INDEX automations_due ON automations(next_at) WHERE next_at > 0;

CREATE TABLE automation_runs (
    id            TEXT PRIMARY KEY,
    automation_id TEXT NOT NULL REFERENCES automations(id) ON DELETE CASCADE,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    event_id      TEXT NOT NULL,
    cause         TEXT NOT NULL,             -- schedule, missed, event, manual
    event         TEXT NOT NULL DEFAULT '',
    fields        TEXT NOT NULL,             -- JSON: what its template may use
    folded        BIGINT NOT NULL DEFAULT 0, -- further events while it waited
    depth         BIGINT NOT NULL DEFAULT 0, -- how many runs led to it
    state         TEXT NOT NULL,             -- waiting, running, completed, failed, skipped
    job_ids       TEXT NOT NULL DEFAULT '[]',
    code          TEXT NOT NULL DEFAULT '',
    error         TEXT NOT NULL DEFAULT '',
    cost_nano     BIGINT,                    -- NULL = unknown
    version       BIGINT NOT NULL,
    due_at        BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    started_at    BIGINT NOT NULL DEFAULT 0,
    ended_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX automation_runs_by_automation ON automation_runs(automation_id, created_at, id);
CREATE INDEX automation_runs_live ON automation_runs(created_at, id) WHERE state IN ('waiting', 'running');
CREATE INDEX automation_runs_ended ON automation_runs(ended_at) WHERE ended_at > 0;

-- Which events an automation was reported, so that none acts twice.
CREATE TABLE automation_events (
    automation_id TEXT NOT NULL REFERENCES automations(id) ON DELETE CASCADE,
    event_id      TEXT NOT NULL,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    run_id        TEXT NOT NULL,
    at            BIGINT NOT NULL,
    PRIMARY KEY (automation_id, event_id)
);
CREATE INDEX automation_events_at ON automation_events(at);

-- === Pull requests that are brought to their merge ===

CREATE TABLE tendings (
    workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    created_by   TEXT NOT NULL,
    max_rounds   BIGINT NOT NULL,
    max_nano     BIGINT NOT NULL,              -- 0 = no limit of money
    merge        TEXT NOT NULL DEFAULT '',     -- merge, squash, rebase; '' = people merge it
    agent        TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,                -- watching, working, needs_you, ended
    code         TEXT NOT NULL DEFAULT '',
    because      TEXT NOT NULL DEFAULT '',
    since        BIGINT NOT NULL,
    rounds       BIGINT NOT NULL DEFAULT 0,
    spent_nano   BIGINT NOT NULL DEFAULT 0,
    others       TEXT NOT NULL DEFAULT '[]',   -- JSON: comments of people who may not write
    pushed_at    BIGINT NOT NULL DEFAULT 0,
    next_at      BIGINT NOT NULL DEFAULT 0,    -- 0 = never
    tries        BIGINT NOT NULL DEFAULT 0,
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);
CREATE INDEX tendings_by_team ON tendings(team_id);
CREATE INDEX tendings_due ON tendings(next_at) WHERE next_at > 0;

CREATE TABLE tending_rounds (
    id           TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    n            BIGINT NOT NULL,
    step         TEXT NOT NULL,                -- asking, working, pushing, answering, over, dropped
    detail       TEXT NOT NULL,                -- JSON: what it is about and did
    cost_nano    BIGINT NOT NULL DEFAULT 0,
    started_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX tending_rounds_by_workspace ON tending_rounds(workspace_id, started_at, id);
CREATE INDEX tending_rounds_by_team ON tending_rounds(team_id);

-- === Skills, and what Parawork's own agent reads ===

CREATE TABLE thread_briefings (
    thread_id TEXT PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
    team_id   TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    content   TEXT NOT NULL                  -- JSON: the sections of the system prompt, and hashes of what it read since
);

CREATE TABLE skills (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL DEFAULT '',     -- '' = of the whole team
    name       TEXT NOT NULL,
    in_use     BIGINT NOT NULL,              -- the version that agents read; 0 = none yet
    draft      BIGINT NOT NULL,              -- the version that waits for a member; 0 = none
    latest     BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX skills_by_name ON skills(team_id, project_id, name);

CREATE TABLE skill_versions (
    skill_id    TEXT NOT NULL REFERENCES skills(id) ON DELETE CASCADE,
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    version     BIGINT NOT NULL,
    description TEXT NOT NULL,
    text        TEXT NOT NULL,               -- at most 32 KiB, secrets masked
    user_id     TEXT NOT NULL,
    agent       TEXT NOT NULL DEFAULT '',
    session_id  TEXT NOT NULL DEFAULT '',
    saved_at    BIGINT NOT NULL,
    named       TEXT NOT NULL,               -- the distinct words of name and description, as searches compare them
    words       TEXT NOT NULL,               -- likewise of the text
    PRIMARY KEY (skill_id, version)
);

CREATE TABLE agent_instructions (
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL DEFAULT '',     -- '' = of the whole team
    text       TEXT NOT NULL,                -- at most 32 KiB, secrets masked
    accepts    BOOLEAN NOT NULL DEFAULT FALSE, -- of a team: skills that agents save are in use at once
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, project_id)
);
