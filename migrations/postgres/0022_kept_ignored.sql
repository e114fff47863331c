-- Ignored files that a project wants kept, which a snapshot holds beside its tree.
ALTER TABLE snapshots ADD COLUMN ignored TEXT NOT NULL DEFAULT '';            -- their commit, '' = none
ALTER TABLE snapshots ADD COLUMN ignored_files BIGINT NOT NULL DEFAULT 0;     -- how many they are
