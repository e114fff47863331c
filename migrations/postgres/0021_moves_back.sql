-- The folder of a member's machine that a workspace borrowed from before it was moved: one that goes back works with it again.
ALTER TABLE moves ADD COLUMN from_folder TEXT NOT NULL DEFAULT '';
