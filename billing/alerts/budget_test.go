package alerts_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/noticestore"
	"github.com/parawork/parawork/store/storetest"
)

// emptyInbox waits for nobody.
type emptyInbox struct{}

func (emptyInbox) Items(context.Context, string) ([]notify.Item, error) { return nil, nil }

// Alerts of the instance's budget go to every operator who may sign in, by mail and by the webhooks they made, once for each threshold,
// and to nobody else.
func TestTheInstancesBudgetIsReportedToItsOperators(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	ctx := tenant.All(t.Context(), "a test")
	operator, team := storetest.Seed(t, db)
	other, _ := storetest.Seed(t, db)
	gone, _ := storetest.Seed(t, db)
	for _, q := range []struct {
		sql string
		id  string
	}{{`UPDATE users SET operator = TRUE WHERE id = ?`, operator.ID}, {`UPDATE users SET operator = TRUE, suspended_at = 1 WHERE id = ?`, gone.ID}} {
		if _, err := db.Exec(ctx, q.sql, q.id); err != nil {
			t.Fatal(err)
		}
	}
	sealed := vault.New(vault.Config{Store: store.NewAccounts(db), Key: make([]byte, vault.KeyBytes)})
	post := mail.New(mail.Config{Server: mail.Server{Host: "mail.example.com", From: "parawork@example.com"}, Store: store.NewMails(db), Sealer: sealed})
	reported := notify.New(notify.Config{Store: store.NewNotify(db), Notices: noticestore.New(db), Inbox: emptyInbox{}, Bus: events.New(), Secrets: sealed, Client: egress.New(egress.Config{})})
	people := directory.New(directory.Config{Store: store.NewAccounts(db), Hasher: password.NewHasher(rand.Reader), Limits: password.NewLimits(time.Now), Mailer: post})
	budget := alerts.NewBudget(alerts.BudgetConfig{Paid: store.NewBilling(db), People: people, Notify: reported, Mail: post, PublicURL: "https://pw.example.com"})
	address := "https://hooks.example.com/budget"
	hook := func(by string) notify.Webhook {
		w, _, err := reported.AddWebhook(ctx, team.ID, by, notify.WebhookChange{URL: &address, Kinds: &[]string{notify.Budget}})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	mine, others := hook(operator.ID), hook(other.ID)
	mails := func() (to []string) {
		all, _, err := store.NewMails(db).DueMails(ctx, time.Now().Add(time.Hour).UnixMilli(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if m.Kind == "budget" {
				to = append(to, m.To)
			}
		}
		return to
	}
	sent := func(w notify.Webhook) int {
		all, _, err := reported.Deliveries(ctx, w.ID, page.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for i, percent := range []int{billing.WarnPercent, billing.FullPercent} {
		a := billing.Alert{Period: "2026-11", Percent: percent, SpentNano: int64(percent) * billing.Nano, LimitNano: 100 * billing.Nano, At: int64(1000 + i)}
		if err := budget.Notify(ctx, a); err != nil {
			t.Fatal(err)
		}
		if got := mails(); len(got) != i+1 || strings.Join(got, "") != strings.Repeat(operator.Email, i+1) {
			t.Errorf("at %d %% mails went to %v", percent, got)
		}
		if got := sent(mine); got != i+1 {
			t.Errorf("at %d %% the operator's webhook was called %d times", percent, got)
		}
	}
	if got := sent(others); got != 0 {
		t.Errorf("another user's webhook was called %d times", got)
	}
}
