-- What people outside the web app are told: webhooks, browsers with a push service, and the outbox.

CREATE TABLE webhooks (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    shown      TEXT NOT NULL,                    -- what may be seen of the address
    format     TEXT NOT NULL,                    -- json, slack, discord
    kinds      TEXT NOT NULL,                    -- JSON list
    enabled    BOOLEAN NOT NULL,
    why        TEXT NOT NULL DEFAULT '',         -- why it was switched off by itself
    secret_id  TEXT NOT NULL,                    -- address and signing key
    failed_at  BIGINT NOT NULL DEFAULT 0,        -- since when deliveries fail
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX webhooks_by_team ON webhooks(team_id, created_at);

CREATE TABLE push_subscriptions (
    id         TEXT PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    endpoint   TEXT NOT NULL UNIQUE,
    p256dh     TEXT NOT NULL,
    auth       TEXT NOT NULL,
    label      TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX push_subscriptions_by_user ON push_subscriptions(user_id, created_at);

CREATE TABLE notification_rules (
    user_id    TEXT PRIMARY KEY REFERENCES users(id) ON DELETE CASCADE,
    rules      TEXT NOT NULL,                    -- JSON: kind to off, mine, all
    updated_at BIGINT NOT NULL
);

-- Items of the inbox that were seen: each is told once.
CREATE TABLE noted_items (
    team_id  TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    item_id  TEXT NOT NULL,
    noted_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, item_id)
);
CREATE INDEX noted_items_by_age ON noted_items(noted_at);

CREATE TABLE deliveries (
    id              TEXT PRIMARY KEY,
    team_id         TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    webhook_id      TEXT REFERENCES webhooks(id) ON DELETE CASCADE,
    subscription_id TEXT REFERENCES push_subscriptions(id) ON DELETE CASCADE,
    item_id         TEXT NOT NULL,
    kind            TEXT NOT NULL,
    body            TEXT NOT NULL,
    state           TEXT NOT NULL,               -- pending, delivered, given_up, dropped
    attempts        BIGINT NOT NULL DEFAULT 0,
    next_at         BIGINT NOT NULL DEFAULT 0,
    claimed_until   BIGINT NOT NULL DEFAULT 0,
    status          BIGINT NOT NULL DEFAULT 0,   -- HTTP
    error           TEXT NOT NULL DEFAULT '',
    duration_ms     BIGINT NOT NULL DEFAULT 0,
    created_at      BIGINT NOT NULL,
    done_at         BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX deliveries_by_webhook ON deliveries(webhook_id, created_at, id);
CREATE INDEX deliveries_pending ON deliveries(next_at) WHERE state = 'pending';
CREATE INDEX deliveries_done ON deliveries(done_at);
