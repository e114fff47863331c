-- Lists and inboxes read what belongs to a team: without these they read every team's rows.
CREATE INDEX reviews_by_team ON reviews(team_id, state);
CREATE INDEX pull_requests_by_team ON pull_requests(team_id);
CREATE INDEX check_runs_by_team ON check_runs(team_id);
CREATE INDEX overlaps_by_team ON "overlaps"(team_id);
CREATE INDEX merge_queue_by_team ON merge_queue(team_id) WHERE ended_at = 0;
CREATE INDEX sessions_open_by_team ON sessions(team_id) WHERE ended_at = 0;
