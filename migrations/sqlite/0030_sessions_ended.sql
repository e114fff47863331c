-- The last ended session of each workspace is read for an inbox out of this index alone.
CREATE INDEX sessions_ended ON sessions(workspace_id, ended_at, id, agent, team_id) WHERE ended_at > 0;
