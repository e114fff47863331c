-- From "the agent is done" to "it is merged". Times ms UTC. Trees and commits are git's names in the project's repository.

ALTER TABLE projects ADD COLUMN checks TEXT NOT NULL DEFAULT '[]';               -- JSON: commands that say whether work is good: id, name, command, timeout_seconds, required
ALTER TABLE projects ADD COLUMN merging TEXT NOT NULL DEFAULT '{}';              -- JSON: strategy, queue, require_checks, require_approval
ALTER TABLE projects ADD COLUMN forge TEXT NOT NULL DEFAULT '{}';                -- JSON: kind, api_url, repository, where the remote's address does not say it
ALTER TABLE projects ADD COLUMN keep_ignored TEXT NOT NULL DEFAULT '[]';         -- JSON: patterns of ignored files that snapshots keep too
ALTER TABLE projects ADD COLUMN deleted_by TEXT NOT NULL DEFAULT '';
ALTER TABLE projects ADD COLUMN size_bytes BIGINT NOT NULL DEFAULT -1;           -- on disk when it was last counted; -1 = never
ALTER TABLE workspaces ADD COLUMN deleted_by TEXT NOT NULL DEFAULT '';
ALTER TABLE workspaces ADD COLUMN size_bytes BIGINT NOT NULL DEFAULT -1;         -- on disk when it was last counted; -1 = never

-- What a workspace's files were at a moment. The trees are kept by hidden refs of the repository until expires_at.
CREATE TABLE snapshots (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    at           BIGINT NOT NULL,
    kind         TEXT NOT NULL,                      -- poll (files changed), turn (an agent's turn ended), commit, kept (before something), manual
    reason       TEXT NOT NULL DEFAULT '',           -- of kept: stop, archive, delete, discard, update, merge, clean_up, move, expiry, restore, edit, take
    title        TEXT NOT NULL DEFAULT '',           -- a commit's subject, the beginning of a turn's prompt, what a person wrote
    actor_id     TEXT NOT NULL DEFAULT '',           -- '' = Parawork itself
    session_id   TEXT NOT NULL DEFAULT '',           -- of a turn
    commit_id    TEXT NOT NULL,                      -- the hidden commit: parents are the snapshot before and head
    tree_id      TEXT NOT NULL,                      -- all files, untracked ones included
    head         TEXT NOT NULL,                      -- where the branch was
    base_commit  TEXT NOT NULL,
    files        BIGINT NOT NULL DEFAULT 0,          -- that differ from the snapshot before
    additions    BIGINT NOT NULL DEFAULT 0,
    deletions    BIGINT NOT NULL DEFAULT 0,
    missing      TEXT NOT NULL DEFAULT '[]',         -- JSON: paths that could not be kept, with why
    pinned       BOOLEAN NOT NULL DEFAULT FALSE,     -- kept until a person lets go
    expires_at   BIGINT NOT NULL DEFAULT 0           -- 0 = with the workspace
);
CREATE INDEX snapshots_by_workspace ON snapshots(workspace_id, at, id);
CREATE INDEX snapshots_by_end ON snapshots(expires_at);

-- What one person says of a workspace's changes, comments and all.
CREATE TABLE reviews (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    author_id    TEXT NOT NULL,
    state        TEXT NOT NULL,                      -- draft, queued, sent, failed, cancelled
    verdict      TEXT NOT NULL DEFAULT '',           -- comment, changes, approve; '' while a draft
    body         TEXT NOT NULL DEFAULT '',
    from_commit  TEXT NOT NULL DEFAULT '',           -- what was compared
    snapshot_id  TEXT NOT NULL DEFAULT '',           -- with what
    tree_id      TEXT NOT NULL DEFAULT '',           -- what was approved
    session_id   TEXT NOT NULL DEFAULT '',           -- the agent it was sent to
    prompt_id    TEXT NOT NULL DEFAULT '',
    reason       TEXT NOT NULL DEFAULT '',           -- why it failed
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    sent_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX reviews_by_workspace ON reviews(workspace_id, created_at);
CREATE UNIQUE INDEX reviews_draft ON reviews(workspace_id, author_id) WHERE state = 'draft';

CREATE TABLE review_comments (
    id              TEXT PRIMARY KEY,
    team_id         TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id    TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    review_id       TEXT NOT NULL REFERENCES reviews(id) ON DELETE CASCADE,
    reply_to        TEXT NOT NULL DEFAULT '',        -- the comment it answers
    author_id       TEXT NOT NULL,
    path            TEXT NOT NULL,                   -- wire form
    side            TEXT NOT NULL,                   -- old, new
    line            BIGINT NOT NULL,                 -- first line, 0 = the whole file
    end_line        BIGINT NOT NULL,
    quoted          TEXT NOT NULL DEFAULT '',        -- the lines as they were
    around          TEXT NOT NULL DEFAULT '{}',      -- JSON: lines before and after, to find the place again
    commit_id       TEXT NOT NULL DEFAULT '',        -- the tree the lines are of
    now_path        TEXT NOT NULL DEFAULT '',        -- where they are now
    now_line        BIGINT NOT NULL DEFAULT 0,
    outdated        BOOLEAN NOT NULL DEFAULT FALSE,  -- they are no longer there as they were
    anchored_tree   TEXT NOT NULL DEFAULT '',        -- of when that was worked out
    body            TEXT NOT NULL,
    state           TEXT NOT NULL,                   -- open, resolved
    answered_commit TEXT NOT NULL DEFAULT '',        -- that changed the lines after it was sent
    answered_at     BIGINT NOT NULL DEFAULT 0,
    resolved_by     TEXT NOT NULL DEFAULT '',
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE INDEX review_comments_by_workspace ON review_comments(workspace_id, created_at);
CREATE INDEX review_comments_by_review ON review_comments(review_id);

-- Files somebody has looked at, as they were then.
CREATE TABLE viewed_files (
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL,
    path         TEXT NOT NULL,                      -- wire form
    mark         TEXT NOT NULL,                      -- of what was seen: the objects on both sides; another one = not viewed
    at           BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id, path)
);

-- Pull and merge requests of workspaces' branches, as the forge said last.
CREATE TABLE pull_requests (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    project_id    TEXT NOT NULL,
    forge         TEXT NOT NULL,                     -- github, gitlab, gitea, forgejo
    host          TEXT NOT NULL,
    repository    TEXT NOT NULL,
    number        BIGINT NOT NULL,
    url           TEXT NOT NULL,
    title         TEXT NOT NULL,
    state         TEXT NOT NULL,                     -- draft, open, merged, closed
    head          TEXT NOT NULL,
    head_commit   TEXT NOT NULL DEFAULT '',
    base          TEXT NOT NULL,
    mergeable     TEXT NOT NULL DEFAULT '',          -- yes, no, '' = the forge does not know yet
    blocked       TEXT NOT NULL DEFAULT '',          -- why it cannot be merged, in words
    checks_state  TEXT NOT NULL DEFAULT '',          -- pending, passed, failed, '' = none
    checks        TEXT NOT NULL DEFAULT '[]',        -- JSON: name, state, url
    reviews       TEXT NOT NULL DEFAULT '[]',        -- JSON: who, what
    opened_by     TEXT NOT NULL,
    opened_at     BIGINT NOT NULL,
    merged_at     BIGINT NOT NULL DEFAULT 0,
    merged_commit TEXT NOT NULL DEFAULT '',
    synced_at     BIGINT NOT NULL DEFAULT 0,
    error         TEXT NOT NULL DEFAULT '',          -- why the last look failed
    UNIQUE (workspace_id, host, repository, number)
);

-- Runs of a project's checks.
CREATE TABLE check_runs (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL,
    batch_id     TEXT NOT NULL,                      -- runs that were begun together
    queue_id     TEXT NOT NULL DEFAULT '',           -- the entry of the merge queue it was for
    check_id     TEXT NOT NULL,                      -- within the project
    name         TEXT NOT NULL,
    command      TEXT NOT NULL,
    required     BOOLEAN NOT NULL,
    tree_id      TEXT NOT NULL,                      -- the files it ran on
    commit_id    TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,                      -- waiting, running, passed, failed, timed_out, cancelled, lost
    reason       TEXT NOT NULL DEFAULT '',
    exit_code    BIGINT,
    output       TEXT NOT NULL DEFAULT '',           -- its end, at most 256 KiB, secrets masked
    truncated    BOOLEAN NOT NULL DEFAULT FALSE,
    command_id   TEXT NOT NULL DEFAULT '',           -- the command in the sandbox
    started_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    started_at   BIGINT NOT NULL DEFAULT 0,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX check_runs_by_workspace ON check_runs(workspace_id, created_at);

CREATE TABLE merge_queue (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    base         TEXT NOT NULL,
    strategy     TEXT NOT NULL,
    message      TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,                      -- waiting, checking, merging, merged, failed, cancelled
    reason       TEXT NOT NULL DEFAULT '',
    head         TEXT NOT NULL DEFAULT '',           -- of the branch, as it was asked for
    base_commit  TEXT NOT NULL DEFAULT '',
    commit_id    TEXT NOT NULL DEFAULT '',           -- the merged result the checks ran on
    position     BIGINT NOT NULL,
    added_by     TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX merge_queue_by_project ON merge_queue(project_id, position);
CREATE UNIQUE INDEX merge_queue_open ON merge_queue(workspace_id) WHERE ended_at = 0;

-- Workspaces of one project whose work cannot be merged one after the other without help.
CREATE TABLE "overlaps" ( -- a word of its own in PostgreSQL: quoted wherever it is named
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id  TEXT NOT NULL,
    first_id    TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,   -- the smaller id of the two
    second_id   TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    first_tree  TEXT NOT NULL,                       -- what was compared
    second_tree TEXT NOT NULL,
    files       TEXT NOT NULL,                       -- JSON: path, kind
    at          BIGINT NOT NULL,
    PRIMARY KEY (first_id, second_id)
);
CREATE INDEX overlaps_by_project ON "overlaps"(project_id);

-- Workspaces on their way to another place.
CREATE TABLE moves (
    id            TEXT PRIMARY KEY,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    from_executor TEXT NOT NULL,
    to_executor   TEXT NOT NULL,
    folder        TEXT NOT NULL DEFAULT '',
    state         TEXT NOT NULL,                     -- running, done, failed
    reason        TEXT NOT NULL DEFAULT '',
    steps         TEXT NOT NULL DEFAULT '[]',        -- JSON, as a creation's
    sessions      TEXT NOT NULL DEFAULT '[]',        -- JSON: agents that go on in the new place
    actor_id      TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    ended_at      BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX moves_open ON moves(workspace_id) WHERE ended_at = 0;
