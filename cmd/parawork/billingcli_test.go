package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/teststripe"
)

func TestBilling(t *testing.T) {
	t.Parallel()
	want(t, run(nil, "", "billing"), 2, "setup", "status")
	want(t, run(nil, "", "billing", "help"), 0, "--dry-run")
	want(t, run(nil, "", "billing", "pay"), 2, `"billing pay"`)
	s := teststripe.Start(t, teststripe.Options{})
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	write := func(stripe map[string]any) {
		text, err := json.Marshal(map[string]any{"dataDir": dir, "server": map[string]any{"publicUrl": "https://parawork.example.com"}, "billing": map[string]any{"stripe": stripe}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(map[string]any{})
	billing := func(args ...string) result {
		return run(nil, "", append([]string{"billing"}, append(args, "--config", file)...)...)
	}
	want(t, billing("setup"), 1, "billing.stripe.secretKey")
	want(t, billing("status"), 0, "off: there is no billing.stripe.secretKey")
	write(map[string]any{"secretKey": s.Key(), "apiBase": s.Base()})
	want(t, billing("status"), 0, "test mode, not set up", "last one never")
	want(t, billing("setup", "--dry-run"), 0, "would be made  price of the plan Pro: $20.00 for each member and month", "webhook endpoint https://parawork.example.com/api/v1/webhooks/stripe", "Nothing was changed")
	for _, c := range s.Calls("") {
		if c.Method != "GET" {
			t.Fatalf("a dry run asked for %s %s", c.Method, c.Path)
		}
	}
	want(t, billing("setup"), 0, "made  price of the plan Pro", "The signing secret of the webhook endpoint is in "+filepath.Join(dir, "stripe-webhook-secrets"), "webhookSecretsFile")
	secret := func() []string {
		info, err := os.Stat(filepath.Join(dir, "stripe-webhook-secrets"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", info, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "stripe-webhook-secrets"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
	first := secret()
	r := billing("setup")
	want(t, r, 0, "is there")
	if strings.Contains(r.out, "made") || strings.Contains(r.out+r.errout, first[0]) || strings.Contains(r.out+r.errout, s.Key()) {
		t.Fatalf("the second time:\n%s%s", r.out, r.errout)
	}
	write(map[string]any{"secretKey": s.Key(), "apiBase": s.Base(), "webhookSecretsFile": filepath.Join(dir, "stripe-webhook-secrets")})
	want(t, billing("status"), 0, "test mode\n", "webhooks       taken")
	want(t, billing("setup", "--new-webhook"), 0, "replaced  webhook endpoint", "Restart the server")
	if both := secret(); len(both) != 2 || both[1] != first[0] || both[0] == first[0] {
		t.Fatalf("%d secrets, the one before is not beside the new one", len(both))
	}
	s.Break(teststripe.Fault{Path: "GET /v1/products", Status: 403, Times: -1})
	want(t, billing("setup"), 1, "HTTP 403")
	s.Repair()
	write(map[string]any{"secretKey": "sk_test_of_somebody_else", "apiBase": s.Base()})
	r = billing("setup")
	want(t, r, 1, "HTTP 401")
	if strings.Contains(r.out+r.errout, "somebody_else") {
		t.Fatalf("the key is printed:\n%s%s", r.out, r.errout)
	}
}
