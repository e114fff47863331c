-- When what was deleted was removed for good; negative while that is being done. The row stays for the ledger and the audit.
ALTER TABLE workspaces ADD COLUMN purged_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN purged_at BIGINT NOT NULL DEFAULT 0;
