-- How much of a segment is in usage_hours already. The rest is found by an index that holds what is not wholly there.
ALTER TABLE segments ADD COLUMN rolled_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE segments ADD COLUMN rolled_nano BIGINT NOT NULL DEFAULT 0;
CREATE INDEX segments_unrolled ON segments(started_at) WHERE ended_at = 0 OR rolled_ms < ended_at - started_at;
-- When a sandbox's latest segment ended is asked at each of its starts.
CREATE INDEX segments_by_sandbox ON segments(sandbox_id, ended_at);
