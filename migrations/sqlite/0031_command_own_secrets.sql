-- Whether a command was given secrets that are its starter's own: nobody else works beside it without their consent, also after a restart.
ALTER TABLE commands ADD COLUMN own_secrets BOOLEAN NOT NULL DEFAULT FALSE;
