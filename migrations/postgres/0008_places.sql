-- What teams, projects and workspaces say about the places they work in.
ALTER TABLE teams ADD COLUMN weakest_boundary TEXT NOT NULL DEFAULT ''; -- none, process, container, gvisor, microvm; '' = the instance's
ALTER TABLE teams ADD COLUMN default_executor TEXT NOT NULL DEFAULT ''; -- '' = the instance's
ALTER TABLE projects ADD COLUMN executor TEXT NOT NULL DEFAULT '';      -- where its workspaces live; '' = the team's
ALTER TABLE projects ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';      -- JSON: cpus, memory_mb, processes, disk_mb, wall_minutes
ALTER TABLE projects ADD COLUMN network TEXT NOT NULL DEFAULT '{}';     -- JSON: mode, allow
ALTER TABLE projects ADD COLUMN image TEXT NOT NULL DEFAULT '{}';       -- JSON: what containers are made from
ALTER TABLE workspaces ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';    -- JSON: on top of the project's
ALTER TABLE workspaces ADD COLUMN allowed_hosts TEXT NOT NULL DEFAULT '[]'; -- JSON: names allowed for this workspace alone

-- The user of this machine that owns what an isolated workspace may write. A number is never given twice.
CREATE TABLE box_users (
    number       BIGINT PRIMARY KEY,             -- 1, 2, 3, ...
    workspace_id TEXT NOT NULL UNIQUE
);

-- Names a workspace's agents were refused.
CREATE TABLE refused_hosts (
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    host         TEXT NOT NULL,
    port         BIGINT NOT NULL,
    reason       TEXT NOT NULL,                  -- stable: not_listed, private_address, no_network, unresolved, bad_port
    times        BIGINT NOT NULL DEFAULT 1,
    first_at     BIGINT NOT NULL,
    last_at      BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, host, port)
);

-- Images built from a project's own Dockerfile or devcontainer.json.
CREATE TABLE image_builds (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    project_id   TEXT NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
    source       TEXT NOT NULL,                  -- the file it is built from, in the repository
    commit_id    TEXT NOT NULL DEFAULT '',
    tag          TEXT NOT NULL DEFAULT '',       -- of the image, once it is built
    state        TEXT NOT NULL,                  -- building, ready, failed, cancelled
    state_reason TEXT NOT NULL DEFAULT '',
    log          TEXT NOT NULL DEFAULT '',       -- the end of what the build printed
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX image_builds_by_project ON image_builds(project_id, created_at);
