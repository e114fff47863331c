-- Caches the workspaces of a team share.
ALTER TABLE projects ADD COLUMN no_caches BOOLEAN NOT NULL DEFAULT FALSE; -- its workspaces go without

-- The group of this machine through which a team's workspaces share its caches. A number is never given twice.
CREATE TABLE team_groups (
    number  BIGINT PRIMARY KEY, -- 1, 2, 3, ...
    team_id TEXT NOT NULL UNIQUE
);
