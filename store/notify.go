package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/notify"
)

// Notify keeps webhooks, browsers, rules and the outbox.
type Notify struct {
	*Instance
	db *DB
}

var _ notify.Store = (*Notify)(nil)

// NewNotify returns the storage of notifications in db.
func NewNotify(db *DB) *Notify { return &Notify{NewInstance(db), db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Notify) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

// TeamIDs returns the ids of all teams.
func (s *Notify) TeamIDs(ctx context.Context) ([]string, error) {
	return Column[string](s.db.Query(ctx, `SELECT id FROM teams WHERE {team:teams.id} ORDER BY id`))
}

// NoteItem stores that an item was seen; false when it was already.
func (s *Notify) NoteItem(ctx context.Context, teamID, itemID string, at int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO notified_items (team_id, item_id, notified_at) VALUES ({team?},?,?) ON CONFLICT DO NOTHING`, teamID, itemID, at))
}

const webhookColumns = `id, team_id, name, shown, format, kinds, enabled, disabled_reason, secret_id, failed_at, created_by, created_at, updated_at`

func scanWebhook(r Scanner) (w notify.Webhook, err error) {
	var kinds string
	if err := r.Scan(&w.ID, &w.TeamID, &w.Name, &w.Shown, &w.Format, &kinds, &w.Enabled, &w.Why, &w.SecretID, &w.FailedAt, &w.CreatedBy, &w.CreatedAt, &w.UpdatedAt); err != nil {
		return w, err
	}
	if err := json.Unmarshal([]byte(kinds), &w.Kinds); err != nil {
		return w, fmt.Errorf("kinds of webhook %s: %w", w.ID, err)
	}
	return w, nil
}

// InsertWebhook stores a new webhook.
func (s *Notify) InsertWebhook(ctx context.Context, w notify.Webhook) error {
	kinds, err := json.Marshal(w.Kinds)
	if err != nil {
		return fmt.Errorf("encoding kinds: %w", err)
	}
	_, err = s.db.Exec(ctx, `INSERT INTO webhooks (`+webhookColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?)`, w.ID, w.TeamID, w.Name, w.Shown, w.Format, string(kinds),
		w.Enabled, w.Why, w.SecretID, w.FailedAt, w.CreatedBy, w.CreatedAt, w.UpdatedAt)
	return err
}

// UpdateWebhook writes everything that may change of a webhook.
func (s *Notify) UpdateWebhook(ctx context.Context, w notify.Webhook) error {
	kinds, err := json.Marshal(w.Kinds)
	if err != nil {
		return fmt.Errorf("encoding kinds: %w", err)
	}
	return changed(s.db.Exec(ctx, `UPDATE webhooks SET name = ?, shown = ?, format = ?, kinds = ?, enabled = ?, disabled_reason = ?, secret_id = ?, failed_at = ?, updated_at = ?
		WHERE id = ? AND {team}`, w.Name, w.Shown, w.Format, string(kinds), w.Enabled, w.Why, w.SecretID, w.FailedAt, w.UpdatedAt, w.ID))
}

// DeleteWebhook removes a webhook with its deliveries.
func (s *Notify) DeleteWebhook(ctx context.Context, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM webhooks WHERE id = ? AND {team}`, id))
}

// Webhook returns one webhook; fault.NotFound when there is none.
func (s *Notify) Webhook(ctx context.Context, id string) (notify.Webhook, error) {
	return scanWebhook(s.db.QueryRow(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE id = ? AND {team}`, id))
}

// Webhooks returns a team's webhooks, oldest first.
func (s *Notify) Webhooks(ctx context.Context, teamID string) ([]notify.Webhook, error) {
	rows, err := s.db.Query(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE team_id = {team?} ORDER BY created_at, id`, teamID)
	return Collect(rows, err, scanWebhook)
}

const deliveryColumns = `id, team_id, webhook_id, subscription_id, secret_id, item_id, kind, body, state, attempts, next_at, status, error, duration_ms, created_at, done_at`

func scanDelivery(r Scanner) (d notify.Delivery, err error) {
	var webhook, subscription sql.NullString
	err = r.Scan(&d.ID, &d.TeamID, &webhook, &subscription, &d.SecretID, &d.ItemID, &d.Kind, &d.Body, &d.State, &d.Attempts, &d.NextAt, &d.Status, &d.Error, &d.DurationMs,
		&d.CreatedAt, &d.DoneAt)
	d.WebhookID, d.SubscriptionID = webhook.String, subscription.String
	return d, err
}

func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// InsertDelivery puts a delivery into the outbox.
func (s *Notify) InsertDelivery(ctx context.Context, d notify.Delivery) error {
	_, err := s.db.Exec(ctx, `INSERT INTO deliveries (`+deliveryColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, d.ID, d.TeamID, nullable(d.WebhookID),
		nullable(d.SubscriptionID), d.SecretID, d.ItemID, d.Kind, d.Body, string(d.State), d.Attempts, d.NextAt, d.Status, d.Error, d.DurationMs, d.CreatedAt, d.DoneAt)
	return err
}

// Due returns deliveries to try now, oldest first, and when the next one after them is due (0 = none).
func (s *Notify) Due(ctx context.Context, now int64, limit int) (due []notify.Delivery, next int64, err error) {
	rows, err := s.db.Query(ctx, `SELECT `+deliveryColumns+` FROM deliveries WHERE {team} AND state = 'pending' AND next_at <= ? AND claimed_until <= ?
		ORDER BY next_at, id LIMIT ?`, now, now, limit)
	if due, err = Collect(rows, err, scanDelivery); err != nil {
		return nil, 0, err
	}
	var soonest sql.NullInt64
	err = s.db.QueryRow(ctx, `SELECT MIN(CASE WHEN claimed_until > next_at THEN claimed_until ELSE next_at END) FROM deliveries
		WHERE {team} AND state = 'pending' AND (next_at > ? OR claimed_until > ?)`, now, now).Scan(&soonest)
	return due, soonest.Int64, err
}

// Claim reserves a pending delivery until a time; false when somebody else has it.
func (s *Notify) Claim(ctx context.Context, id string, now, until int64) (bool, error) {
	res, err := s.db.Exec(ctx, `UPDATE deliveries SET claimed_until = ? WHERE id = ? AND {team} AND state = 'pending' AND claimed_until <= ?`, until, id, now)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// UpdateDelivery writes how an attempt went and gives the claim back. One that is gone is no error.
func (s *Notify) UpdateDelivery(ctx context.Context, d notify.Delivery) error {
	_, err := s.db.Exec(ctx, `UPDATE deliveries SET state = ?, attempts = ?, next_at = ?, claimed_until = 0, status = ?, error = ?, duration_ms = ?, done_at = ?
		WHERE id = ? AND {team}`, string(d.State), d.Attempts, d.NextAt, d.Status, d.Error, d.DurationMs, d.DoneAt, d.ID)
	return err
}

// Delivery returns one delivery; fault.NotFound when there is none.
func (s *Notify) Delivery(ctx context.Context, id string) (notify.Delivery, error) {
	return scanDelivery(s.db.QueryRow(ctx, `SELECT `+deliveryColumns+` FROM deliveries WHERE id = ? AND {team}`, id))
}

// Deliveries returns a page of a webhook's deliveries, newest first.
func (s *Notify) Deliveries(ctx context.Context, webhookID string, pg page.Page) ([]notify.Delivery, string, error) {
	query, args, err := Keyset(`SELECT `+deliveryColumns+` FROM deliveries WHERE webhook_id = ? AND {team}`, "created_at", []any{webhookID}, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	all, err := Collect(rows, err, scanDelivery)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, all, func(d notify.Delivery) page.Key { return page.Key{At: d.CreatedAt, ID: d.ID} })
	return items, next, nil
}

// DeliveriesAbout returns those about an item, newest first.
func (s *Notify) DeliveriesAbout(ctx context.Context, itemID string) ([]notify.Delivery, error) {
	rows, err := s.db.Query(ctx, `SELECT `+deliveryColumns+` FROM deliveries WHERE item_id = ? AND {team} ORDER BY created_at DESC, id DESC LIMIT 50`, itemID)
	return Collect(rows, err, scanDelivery)
}

// Prune drops deliveries that ended before a time, and records of items that old, which nobody is notified of any more.
func (s *Notify) Prune(ctx context.Context, before int64) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM deliveries WHERE {team} AND state <> 'pending' AND done_at < ?`, before); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `DELETE FROM notified_items WHERE {team} AND notified_at < ?`, before)
	return err
}

// Targets returns the browsers of a team's members and their rules.
func (s *Notify) Targets(ctx context.Context, teamID string) ([]notify.Target, error) {
	rows, err := s.db.Query(ctx, `SELECT p.id, p.user_id, COALESCE(r.rules, '') FROM push_subscriptions p
		JOIN members m ON m.user_id = p.user_id JOIN users u ON u.id = p.user_id JOIN teams t ON t.id = m.team_id LEFT JOIN notification_rules r ON r.user_id = p.user_id
		WHERE m.team_id = {team?} AND u.suspended_at = 0 AND t.suspended_at = 0 ORDER BY p.id`, teamID)
	return Collect(rows, err, func(r Scanner) (t notify.Target, err error) {
		var rules string
		if err = r.Scan(&t.SubscriptionID, &t.UserID, &rules); err != nil || rules == "" {
			return t, err
		}
		return t, json.Unmarshal([]byte(rules), &t.Rules)
	})
}

const subscriptionColumns = `id, user_id, endpoint, p256dh, auth, label, created_at, used_at`

func scanSubscription(r Scanner) (p notify.Subscription, err error) {
	err = r.Scan(&p.ID, &p.UserID, &p.Endpoint, &p.P256dh, &p.Auth, &p.Label, &p.CreatedAt, &p.UsedAt)
	return p, err
}

// PutSubscription stores a browser; one with the same endpoint is replaced.
func (s *Notify) PutSubscription(ctx context.Context, p notify.Subscription) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM push_subscriptions WHERE endpoint = ?`, p.Endpoint); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `INSERT INTO push_subscriptions (`+subscriptionColumns+`) VALUES (?,?,?,?,?,?,?,?)`, p.ID, p.UserID, p.Endpoint, p.P256dh, p.Auth,
		p.Label, p.CreatedAt, p.UsedAt)
	return err
}

// Subscription returns one browser; fault.NotFound when there is none.
func (s *Notify) Subscription(ctx context.Context, id string) (notify.Subscription, error) {
	return scanSubscription(s.db.QueryRow(ctx, `SELECT `+subscriptionColumns+` FROM push_subscriptions WHERE id = ?`, id))
}

// Subscriptions returns a user's browsers, oldest first.
func (s *Notify) Subscriptions(ctx context.Context, userID string) ([]notify.Subscription, error) {
	rows, err := s.db.Query(ctx, `SELECT `+subscriptionColumns+` FROM push_subscriptions WHERE user_id = ? ORDER BY created_at, id`, userID)
	return Collect(rows, err, scanSubscription)
}

// DeleteSubscription deletes a browser and its pending deliveries. A missing one is not an error.
func (s *Notify) DeleteSubscription(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM push_subscriptions WHERE id = ?`, id)
	return err
}

// UsedSubscription notes when a browser's push service last took a message.
func (s *Notify) UsedSubscription(ctx context.Context, id string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE push_subscriptions SET used_at = ? WHERE id = ?`, at, id)
	return err
}

// Rules returns a user's rules; nil when none were chosen.
func (s *Notify) Rules(ctx context.Context, userID string) (r notify.Rules, err error) {
	var raw string
	err = s.db.QueryRow(ctx, `SELECT rules FROM notification_rules WHERE user_id = ?`, userID).Scan(&raw)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw), &r)
	}
	return r, err
}

// PutRules stores a user's rules.
func (s *Notify) PutRules(ctx context.Context, userID string, r notify.Rules, at int64) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding rules: %w", err)
	}
	_, err = s.db.Exec(ctx, `INSERT INTO notification_rules (user_id, rules, updated_at) VALUES (?,?,?)
		ON CONFLICT (user_id) DO UPDATE SET rules = excluded.rules, updated_at = excluded.updated_at`, userID, string(raw), at)
	return err
}
