-- How an agent was started: ask, or all where it asks for nothing; '' = before it was kept.
ALTER TABLE sessions ADD COLUMN permissions TEXT NOT NULL DEFAULT '';
