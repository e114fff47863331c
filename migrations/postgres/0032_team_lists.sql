-- A team's list of active workspaces comes in its order from this index, and what asks for somebody in them begins there.
CREATE INDEX workspaces_active ON workspaces(team_id, created_at, id, state) WHERE deleted_at = 0 AND archived_at = 0;
-- What somebody has called done is read out of this index alone.
DROP INDEX inbox_marks_by_team;
CREATE INDEX inbox_marks_by_team ON inbox_marks(team_id, user_id, item_id, done_at);
-- An overlap is looked for by either of its workspaces; the primary key begins with the first.
CREATE INDEX overlaps_by_second ON "overlaps"(second_id);
