-- Invitations are seen by those they are for, where the address is known to be theirs; API tokens name what made them.
ALTER TABLE users ADD COLUMN email_unverified BOOLEAN NOT NULL DEFAULT FALSE; -- the user typed it at an invite's link, and nobody has seen to it
UPDATE users SET email_unverified = TRUE WHERE EXISTS (SELECT 1 FROM invites i WHERE i.used_by = users.id AND i.used_at = users.created_at);

ALTER TABLE invites ADD COLUMN mail_hash TEXT;                                 -- sha256 hex of the token that went by mail alone, NULL = none
CREATE UNIQUE INDEX invites_by_mail_hash ON invites(mail_hash);
CREATE INDEX invites_by_email ON invites(email, created_at);

ALTER TABLE api_tokens ADD COLUMN parent_id TEXT REFERENCES api_tokens(id) ON DELETE CASCADE; -- the token that made it, NULL = none did
ALTER TABLE api_tokens ADD COLUMN session_id TEXT NOT NULL DEFAULT '';         -- the login session it was made in, '' = in none
ALTER TABLE api_tokens ADD COLUMN session_name TEXT NOT NULL DEFAULT '';       -- its browser
CREATE INDEX api_tokens_by_parent ON api_tokens(parent_id);
