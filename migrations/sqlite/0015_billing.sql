-- Time and money. Amounts are whole nano-USD, times ms UTC. A limit that is NULL does not bind.

-- What places cost from when on. An executor without a row costs nothing and counts in nobody's hours. Rows never change: a new price is a new row.
CREATE TABLE prices (
    id               TEXT PRIMARY KEY,
    executor         TEXT NOT NULL,
    vcpu_second_nano BIGINT NOT NULL,
    gib_second_nano  BIGINT NOT NULL,
    metered          BOOLEAN NOT NULL,               -- its time counts in people's hours and in how many run at once
    effective_from   BIGINT NOT NULL,
    created_by       TEXT NOT NULL DEFAULT '',       -- '' = came with the program or its config.json
    created_at       BIGINT NOT NULL
);
CREATE UNIQUE INDEX prices_by_executor ON prices(executor, effective_from);

ALTER TABLE segments ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
ALTER TABLE segments ADD COLUMN metered BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE segments ADD COLUMN price_id TEXT NOT NULL DEFAULT '';
ALTER TABLE segments ADD COLUMN adjusts_id TEXT NOT NULL DEFAULT '';             -- a correction of that segment, which stays as it was
UPDATE segments SET metered = TRUE WHERE price_nano > 0;
UPDATE segments SET project_id = COALESCE((SELECT w.project_id FROM workspaces w WHERE w.id = segments.workspace_id), '');
CREATE INDEX segments_by_user ON segments(team_id, user_id, started_at);

-- The ledger by UTC hour. The hours of a segment add up to its cost to the nano-dollar. A frozen hour never changes; what came late is told of the hour it was noted in.
CREATE TABLE usage_hours (
    team_id      TEXT NOT NULL,                      -- '' = the instance's own
    hour         BIGINT NOT NULL,                    -- when it began
    segment_id   TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    project_id   TEXT NOT NULL,
    executor     TEXT NOT NULL,
    purpose      TEXT NOT NULL,
    metered      BOOLEAN NOT NULL,
    run_ms       BIGINT NOT NULL,
    vcpu_ms      BIGINT NOT NULL,                    -- run_ms x vCPUs
    mib_ms       BIGINT NOT NULL,                    -- run_ms x MiB
    cost_nano    BIGINT NOT NULL,
    PRIMARY KEY (segment_id, hour)
);
CREATE INDEX usage_hours_by_team ON usage_hours(team_id, hour);
CREATE INDEX usage_hours_by_hour ON usage_hours(hour);

-- Small things rooms remember, by name: how far the roll-up is, the kill switch, when events of the payment service were last looked for.
CREATE TABLE billing_marks (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- What teams may choose, or are given.
CREATE TABLE plans (
    id               TEXT PRIMARY KEY,               -- free, pro, enterprise, or an operator's own slug
    name             TEXT NOT NULL,
    description      TEXT NOT NULL DEFAULT '',
    position         BIGINT NOT NULL DEFAULT 0,
    offered          BOOLEAN NOT NULL DEFAULT TRUE,  -- teams may choose it themselves
    hours_month      BIGINT,                         -- of each user, in whole hours of metered places
    concurrent_user  BIGINT,                         -- sandboxes of metered places at once, of each user
    concurrent_team  BIGINT,
    cpus             BIGINT,                         -- largest size
    memory_mb        BIGINT,
    session_minutes  BIGINT,                         -- longest run of a sandbox
    creations_hour   BIGINT,                         -- sandboxes of metered places a user may make in an hour
    seats            BIGINT,                         -- members
    seat_month_nano  BIGINT NOT NULL DEFAULT 0,      -- price of a seat a month, whole cents
    trial_days       BIGINT NOT NULL DEFAULT 0,
    metered_usage    BOOLEAN NOT NULL DEFAULT FALSE, -- usage is reported to the payment service and billed on top
    updated_by       TEXT NOT NULL DEFAULT '',
    updated_at       BIGINT NOT NULL DEFAULT 0
);
INSERT INTO plans (id, name, description, position, hours_month, concurrent_user, concurrent_team, cpus, memory_mb, session_minutes, creations_hour, seat_month_nano)
VALUES ('free', 'Free', 'To try it out.', 1, 10, 1, 3, 1, 2048, 60, 20, 0),
       ('pro', 'Pro', 'For people who work with agents every day.', 2, 100, 10, 50, 2, 8192, 1440, 120, 20000000000),
       ('enterprise', 'Enterprise', 'No limits but your own.', 3, NULL, NULL, NULL, 8, NULL, NULL, NULL, 0);
UPDATE plans SET offered = FALSE WHERE id = 'enterprise';

-- How a team stands. A team without a row has the instance's default plan.
CREATE TABLE team_billing (
    team_id          TEXT PRIMARY KEY REFERENCES teams(id) ON DELETE CASCADE,
    plan_id          TEXT REFERENCES plans(id),      -- NULL = the default one
    plan_source      TEXT NOT NULL DEFAULT '',       -- operator, stripe
    customer_id      TEXT NOT NULL DEFAULT '',       -- at the payment service
    subscription_id  TEXT NOT NULL DEFAULT '',
    status           TEXT NOT NULL DEFAULT '',       -- active, trialing, past_due, incomplete, incomplete_expired, unpaid, canceled, paused; '' = none
    paid_plan_id     TEXT NOT NULL DEFAULT '',       -- what the subscription is for
    seats            BIGINT NOT NULL DEFAULT 0,      -- paid
    trial_ends_at    BIGINT NOT NULL DEFAULT 0,
    period_start     BIGINT NOT NULL DEFAULT 0,
    period_end       BIGINT NOT NULL DEFAULT 0,
    cancel_at        BIGINT NOT NULL DEFAULT 0,
    past_due_since   BIGINT NOT NULL DEFAULT 0,
    suspended_for    TEXT NOT NULL DEFAULT '',       -- why no new paid sandboxes begin: dispute, fraud
    synced_at        BIGINT NOT NULL DEFAULT 0,
    updated_at       BIGINT NOT NULL
);
CREATE UNIQUE INDEX team_billing_by_customer ON team_billing(customer_id) WHERE customer_id <> '';

-- What somebody said of one user's limits. A key that is absent is the plan's; null does not bind.
CREATE TABLE quotas (
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    limits     TEXT NOT NULL DEFAULT '{}',           -- JSON: hours_month, concurrent, cpus, memory_mb, session_minutes
    by_operator BOOLEAN NOT NULL DEFAULT FALSE,      -- may go beyond the plan
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, user_id)
);

-- What a team may spend in a month (UTC).
CREATE TABLE budgets (
    team_id           TEXT PRIMARY KEY REFERENCES teams(id) ON DELETE CASCADE,
    limit_nano        BIGINT,
    count_tokens      BOOLEAN NOT NULL DEFAULT FALSE, -- what models cost counts in it
    thresholds        TEXT NOT NULL DEFAULT '[80,90,100]', -- percent, JSON
    overage           BOOLEAN NOT NULL DEFAULT FALSE, -- at 100 % work goes on, up to the cap
    overage_cap_nano  BIGINT,                        -- beyond the limit; NULL = no cap
    grace_seconds     BIGINT NOT NULL DEFAULT 300,
    tell_app          BOOLEAN NOT NULL DEFAULT TRUE,
    tell_mail         BOOLEAN NOT NULL DEFAULT TRUE, -- owners and admins
    tell_webhooks     BOOLEAN NOT NULL DEFAULT TRUE,
    updated_by        TEXT NOT NULL DEFAULT '',
    updated_at        BIGINT NOT NULL DEFAULT 0
);

-- Starts that were let in and do not run yet. They count as if they ran for a lease.
CREATE TABLE reservations (
    sandbox_id TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL,                        -- '' = the instance's own
    user_id    TEXT NOT NULL DEFAULT '',
    executor   TEXT NOT NULL,
    price_nano BIGINT NOT NULL,                      -- an hour
    cost_nano  BIGINT NOT NULL,                      -- what is held back for it
    hours_ms   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX reservations_by_team ON reservations(team_id, user_id);

-- Sandboxes of metered places that were begun, to bound how many somebody makes in an hour.
CREATE TABLE creations (
    sandbox_id TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL,
    user_id    TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL
);
CREATE INDEX creations_by_user ON creations(team_id, user_id, created_at);

-- Thresholds that were passed: each is told once in its period, and again once its limit was raised in between.
CREATE TABLE limit_alerts (
    scope      TEXT NOT NULL,                        -- user_hours, team_budget, team_overage, instance_budget
    scope_id   TEXT NOT NULL,                        -- of the user or team; '' of the instance
    team_id    TEXT NOT NULL,                        -- '' of the instance
    period     TEXT NOT NULL,                        -- the month (UTC), such as 2026-11
    percent    BIGINT NOT NULL,
    used       BIGINT NOT NULL,                      -- nano-USD, or ms
    limit_at   BIGINT NOT NULL,                      -- what the limit was
    noted_at   BIGINT NOT NULL,
    PRIMARY KEY (scope, scope_id, team_id, period, percent)
);
INSERT INTO limit_alerts (scope, scope_id, team_id, period, percent, used, limit_at, noted_at)
    SELECT 'instance_budget', '', '', period, percent, spent_nano, limit_nano, noted_at FROM budget_alerts;
DROP TABLE budget_alerts;

-- Work that goes on for a little while after its limit, and what was made to stand still when that was over.
CREATE TABLE graces (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id      TEXT NOT NULL DEFAULT '',
    scope        TEXT NOT NULL,                      -- as of limit_alerts, session_minutes, kill_switch, past_due
    scope_id     TEXT NOT NULL DEFAULT '',
    period       TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,                      -- counting, stopping, stopped, lifted
    state_reason TEXT NOT NULL DEFAULT '',
    began_at     BIGINT NOT NULL,
    ends_at      BIGINT NOT NULL,                    -- when it stands still
    ended_at     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX graces_open ON graces(workspace_id) WHERE state <> 'lifted';
CREATE INDEX graces_by_state ON graces(state);

-- What models cost from when on, nano-USD for a million tokens. NULL = not told apart, or unknown.
CREATE TABLE model_prices (
    id             TEXT PRIMARY KEY,
    model          TEXT NOT NULL,                    -- a name, or the beginning of names followed by *
    input_nano     BIGINT NOT NULL,
    output_nano    BIGINT NOT NULL,
    cache_read_nano  BIGINT,
    cache_write_nano BIGINT,                         -- kept for five minutes
    cache_write_hour_nano BIGINT,                    -- kept for an hour
    effective_from BIGINT NOT NULL,
    created_by     TEXT NOT NULL DEFAULT '',         -- '' = came with the program
    created_at     BIGINT NOT NULL
);
CREATE UNIQUE INDEX model_prices_by_model ON model_prices(model, effective_from);

-- Answers of models, one row each. cost_nano is NULL when nobody knows what it cost.
CREATE TABLE model_requests (
    id                 TEXT PRIMARY KEY,
    team_id            TEXT NOT NULL,
    workspace_id       TEXT NOT NULL,
    project_id         TEXT NOT NULL DEFAULT '',
    session_id         TEXT NOT NULL,
    user_id            TEXT NOT NULL DEFAULT '',
    agent              TEXT NOT NULL DEFAULT '',
    account_id         TEXT NOT NULL DEFAULT '',
    source             TEXT NOT NULL,                -- gateway, transcript, telemetry
    external_id        TEXT NOT NULL,                -- what it is called where it comes from: told twice, it counts once
    api                TEXT NOT NULL DEFAULT '',     -- messages, responses, chat_completions
    model              TEXT NOT NULL DEFAULT '',
    upstream           TEXT NOT NULL DEFAULT '',     -- host
    status             BIGINT NOT NULL DEFAULT 0,    -- HTTP, 0 = no answer
    error              TEXT NOT NULL DEFAULT '',     -- stable: budget_exceeded, rate_limited, model_not_allowed, upstream_unreachable, upstream_error, cut, client_gone
    attempts           BIGINT NOT NULL DEFAULT 1,
    input_tokens       BIGINT,                       -- NULL = unknown
    output_tokens      BIGINT,
    cache_read_tokens  BIGINT,
    cache_write_tokens BIGINT,
    cache_write_hour_tokens BIGINT,
    reasoning_tokens   BIGINT,
    price_id           TEXT NOT NULL DEFAULT '',
    cost_nano          BIGINT,
    first_byte_ms      BIGINT NOT NULL DEFAULT 0,
    duration_ms        BIGINT NOT NULL DEFAULT 0,
    at                 BIGINT NOT NULL               -- when it began
);
CREATE UNIQUE INDEX model_requests_once ON model_requests(session_id, source, external_id);
CREATE INDEX model_requests_by_team ON model_requests(team_id, at);
CREATE INDEX model_requests_by_session ON model_requests(session_id, at);
CREATE INDEX model_requests_by_workspace ON model_requests(workspace_id, at);
CREATE INDEX model_requests_by_time ON model_requests(at);

-- What a session's agent shows to the gateway in place of a key.
CREATE TABLE gateway_tokens (
    token_hash TEXT PRIMARY KEY,                     -- sha256 hex
    session_id TEXT NOT NULL UNIQUE,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL DEFAULT 0
);

-- What a team may ask of models. model is a name, the beginning of names followed by *, or * for all.
CREATE TABLE model_limits (
    team_id         TEXT NOT NULL,                   -- '' = every team
    model           TEXT NOT NULL,
    allowed         BOOLEAN NOT NULL DEFAULT TRUE,
    requests_minute BIGINT,
    tokens_minute   BIGINT,
    updated_by      TEXT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (team_id, model)
);

-- What the payment service told, kept before it is acted on.
CREATE TABLE stripe_events (
    id           TEXT PRIMARY KEY,
    type         TEXT NOT NULL,
    object_id    TEXT NOT NULL DEFAULT '',
    customer_id  TEXT NOT NULL DEFAULT '',
    livemode     BOOLEAN NOT NULL,
    created      BIGINT NOT NULL,
    received_at  BIGINT NOT NULL,
    source       TEXT NOT NULL,                      -- webhook, sweep
    state        TEXT NOT NULL,                      -- new, done, failed, ignored
    state_reason TEXT NOT NULL DEFAULT '',
    attempts     BIGINT NOT NULL DEFAULT 0,
    try_at       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX stripe_events_due ON stripe_events(try_at) WHERE state = 'new';

-- What the payment service is to be told. The id is the key by which a repeated call counts once.
CREATE TABLE stripe_outbox (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL DEFAULT '',
    kind         TEXT NOT NULL,                      -- customer, seats, cancel, invoice_item
    payload      TEXT NOT NULL,                      -- JSON
    result_id    TEXT NOT NULL DEFAULT '',
    state        TEXT NOT NULL,                      -- pending, sent, failed
    state_reason TEXT NOT NULL DEFAULT '',
    attempts     BIGINT NOT NULL DEFAULT 0,
    try_at       BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    sent_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX stripe_outbox_due ON stripe_outbox(try_at) WHERE state = 'pending';

-- Usage of frozen hours as it is reported.
CREATE TABLE usage_reports (
    identifier   TEXT PRIMARY KEY,                   -- pw_<instance>_<team>_<meter>_<hour>_r<revision>
    team_id      TEXT NOT NULL,
    meter        TEXT NOT NULL,                      -- vcpu_seconds, mib_seconds
    hour         BIGINT NOT NULL,
    revision     BIGINT NOT NULL,
    quantity     BIGINT NOT NULL,
    customer_id  TEXT NOT NULL,
    state        TEXT NOT NULL,                      -- pending, sent, confirmed, failed, unknown
    state_reason TEXT NOT NULL DEFAULT '',
    attempts     BIGINT NOT NULL DEFAULT 0,
    try_at       BIGINT NOT NULL DEFAULT 0,
    first_sent_at BIGINT NOT NULL DEFAULT 0,
    sent_at      BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX usage_reports_by_hour ON usage_reports(team_id, meter, hour, revision);
CREATE INDEX usage_reports_due ON usage_reports(try_at) WHERE state = 'pending';

-- Objects of ours at the payment service.
CREATE TABLE stripe_objects (
    name       TEXT NOT NULL,                        -- product:pro, price:pro:seat, price:pro:vcpu_seconds, meter:vcpu_seconds, webhook
    livemode   BOOLEAN NOT NULL,
    object_id  TEXT NOT NULL,
    fingerprint TEXT NOT NULL DEFAULT '',            -- of what it was made with
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (name, livemode)
);

-- Payments that were begun in a browser.
CREATE TABLE checkouts (
    id          TEXT PRIMARY KEY,
    team_id     TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    plan_id     TEXT NOT NULL,
    seats       BIGINT NOT NULL,
    external_id TEXT NOT NULL DEFAULT '',            -- at the payment service
    state       TEXT NOT NULL,                       -- open, done, failed, expired
    created_by  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX checkouts_by_team ON checkouts(team_id, created_at);
CREATE UNIQUE INDEX checkouts_by_external ON checkouts(external_id) WHERE external_id <> '';

CREATE TABLE invoices (
    id           TEXT PRIMARY KEY,                   -- at the payment service
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    number       TEXT NOT NULL DEFAULT '',
    status       TEXT NOT NULL,
    total_cents  BIGINT NOT NULL,
    due_cents    BIGINT NOT NULL DEFAULT 0,
    currency     TEXT NOT NULL,
    period_start BIGINT NOT NULL,
    period_end   BIGINT NOT NULL,
    url          TEXT NOT NULL DEFAULT '',
    created_at   BIGINT NOT NULL,
    synced_at    BIGINT NOT NULL
);
CREATE INDEX invoices_by_team ON invoices(team_id, created_at);

-- Where the ledger and the payment service do not say the same.
CREATE TABLE discrepancies (
    team_id      TEXT NOT NULL,
    meter        TEXT NOT NULL,
    hour         BIGINT NOT NULL,
    ours         BIGINT NOT NULL,
    theirs       BIGINT NOT NULL,
    state        TEXT NOT NULL,                      -- open, repaired, accepted
    found_at     BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (team_id, meter, hour)
);
