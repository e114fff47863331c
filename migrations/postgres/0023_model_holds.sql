-- What is held back of a team's budget for questions to models that are under way. Once one is settled its row says what it cost, for as long
-- as a sum of the month that was read before may be believed.
CREATE TABLE model_holds (
    request_id TEXT PRIMARY KEY,                     -- model_requests.external_id
    team_id    TEXT NOT NULL,
    cost_nano  BIGINT NOT NULL,                      -- what it may cost at most
    settled    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL                       -- it counts until then: put off while somebody is at it
);
CREATE INDEX model_holds_by_team ON model_holds(team_id);
