ALTER TABLE sessions ADD COLUMN basis TEXT NOT NULL DEFAULT ''; -- JSON: what the state rests on
