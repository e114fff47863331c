-- What the ledger and the pool need beside their tables.
CREATE INDEX segments_by_start ON segments(started_at);
ALTER TABLE warm_sandboxes ADD COLUMN taken_by TEXT NOT NULL DEFAULT ''; -- the sandbox it became; its row stays open as long as that one's

-- Thresholds of the instance's budget people were told of: once a month each, until the budget is raised.
CREATE TABLE budget_alerts (
    period     TEXT NOT NULL,   -- the month (UTC), such as 2026-11
    percent    BIGINT NOT NULL,
    spent_nano BIGINT NOT NULL,
    limit_nano BIGINT NOT NULL,
    noted_at   BIGINT NOT NULL,
    PRIMARY KEY (period, percent)
);
