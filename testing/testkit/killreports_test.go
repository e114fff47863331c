package testkit_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testkit"
	"github.com/parawork/parawork/testing/teststripe"
)

// The server is killed at every point of reporting usage: the payment service counts each second once.
func TestKilledWhileItReportsUsage(t *testing.T) {
	t.Parallel()
	const secret = "whsec_0123456789abcdef"
	service := teststripe.Start(t, teststripe.Options{})
	h := testkit.Start(t, fmt.Sprintf(`"billing":{"stripe":{"secretKey":%q,"apiBase":%q,"webhookSecrets":[%q]}}`, service.Key(), service.Base(), secret))
	ctx := tenant.All(t.Context(), "test")
	db, err := store.Open(ctx, store.Config{URL: "sqlite", DataDir: h.DataDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sql := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(ctx, query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	// A team that pays for what it uses.
	var team struct{ ID string }
	h.API("GET", "/teams/"+h.Team, nil, &team)
	sql(`UPDATE plans SET metered_usage = TRUE WHERE id = 'pro'`)
	pay := stripe.New(stripe.Config{SecretKey: service.Key(), APIBase: service.Base(), Store: store.NewStripe(db), PastDueDays: 7, Team: func(context.Context, string) (stripe.Team, error) { return stripe.Team{}, nil }})
	if _, err := stripe.Setup(ctx, stripe.SetupConfig{Payments: pay, Store: store.NewUsageReports(db), Rates: stripe.Rates{VCPUSecondNano: 14_000, GiBSecondNano: 4_500}}); err != nil {
		t.Fatal(err)
	}
	var way struct{ URL string }
	h.API("POST", "/teams/"+h.Team+"/billing/checkout", map[string]any{"plan_id": "pro"}, &way)
	sessions := service.Objects("checkout.session")
	if _, err := service.Pay(sessions[len(sessions)-1]["id"].(string)); err != nil {
		t.Fatal(err)
	}
	h.API("POST", "/teams/"+h.Team+"/billing/sync", map[string]any{}, nil)
	sub := service.Objects("subscription")[0]
	customer := sub["customer"].(string)
	// It began a day ago, so that there are hours that are over.
	now := time.Now().UnixMilli()
	const hour = 3_600_000
	sql(`UPDATE team_billing SET period_start = ? WHERE team_id = ?`, now-24*hour, team.ID)

	reported := func(from int64) (out []string) {
		for _, e := range service.MeterEvents() {
			if e.Timestamp*1000 == from {
				out = append(out, fmt.Sprintf("%s %d", e.Name, e.Value))
			}
		}
		slices.Sort(out)
		return out
	}
	for i, at := range failpoint.OfReports {
		begin := now - now%hour - int64(10-i)*hour
		h.DieAt(at, func() {
			id := fmt.Sprintf("seg%d", i)
			sql(`INSERT INTO segments (id, team_id, workspace_id, sandbox_id, user_id, executor, purpose, cpus, memory_mb, price_nano, started_at, seen_at, ended_at, end_source, cost_nano, metered, rolled_ms)
				VALUES (?, ?, 'w', ?, 'u', 'e2b', 'agent', 2, 512, 1, ?, ?, ?, 'executor', 1, TRUE, 600000)`, id, team.ID, id, begin, begin+600_000, begin+600_000)
			sql(`INSERT INTO usage_hours (team_id, hour, segment_id, user_id, workspace_id, project_id, executor, purpose, metered, run_ms, vcpu_ms, mib_ms, cost_nano)
				VALUES (?, ?, ?, 'u', 'w', '', 'e2b', 'agent', TRUE, 600000, 1200000, 307200000, 1)`, team.ID, begin, id)
			// The server that has just started may not have stored a mark yet: what it stores against this one is not stored.
			sql(`INSERT INTO billing_marks (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, "stripe.reported:"+team.ID, fmt.Sprintf("%s %d", sub["id"], begin))
			body := []byte(fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"invoice.created","livemode":false,"created":%d,"api_version":"2023-10-16","data":{"object":{"id":"in_1","object":"invoice","customer":%q}}}`, i, now/1000, customer))
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/webhooks/stripe", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Stripe-Signature", teststripe.Sign(secret, time.Now().Unix(), body))
			if resp, err := http.DefaultClient.Do(r); err == nil { // the server may be dead before it has answered
				resp.Body.Close()
			}
		})
		// What the one that died was sending is nobody else's for two minutes, unless somebody asks for it.
		rows, err := store.NewUsageReports(db).Reports(ctx, team.ID, begin, begin+1)
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %d reports, %v", at, len(rows), err)
		}
		h.Wait("usage is reported, and that it is is known, after "+string(at), func() bool {
			rows, err := store.NewUsageReports(db).Reports(ctx, team.ID, begin, begin+1)
			sent := err == nil && len(rows) == 2
			for _, r := range rows {
				if r.State != stripe.ReportSent { // asked for while it is under way, it is sent once more: it counts once
					h.API("POST", "/instance/billing/reports/"+r.Identifier+"/retry", nil, nil)
					sent = false
				}
			}
			return sent
		})
		if got, want := reported(begin), []string{"parawork_mib_seconds 307200", "parawork_vcpu_seconds 1200"}; !slices.Equal(got, want) {
			t.Fatalf("%s: told %v, want %v", at, got, want)
		}
	}
}
