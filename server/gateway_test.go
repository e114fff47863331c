package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
)

func TestModelsThroughTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	operator, admin, member, other := bearer(p.tokens["operator"]), bearer(p.tokens["admin"]), bearer(p.tokens["member"]), bearer(p.tokens["outsider"])
	ctx := tenant.All(t.Context(), "a test")
	team := "/api/v1/teams/" + p.team.Slug

	// Prices: an operator adds one, and it is what the next answer is priced with.
	var price api.ModelPrice
	r := h.do("POST", "/api/v1/instance/model-prices", `{"model":"harness-model","input_nano":2000000000,"output_nano":4000000000,"effective_from":1}`, operator...)
	r.into(t, &price)
	if r.StatusCode != 201 || price.BuiltIn || !price.InForce || price.CacheReadNano != nil {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	for body, want := range map[string]int{`{"model":"harness-model","input_nano":1,"output_nano":1,"effective_from":1}`: 409, `{"model":"a b","input_nano":1,"output_nano":1}`: 400,
		`{"model":"x","input_nano":-1,"output_nano":1}`: 400} {
		if r := h.do("POST", "/api/v1/instance/model-prices", body, operator...); r.StatusCode != want {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	var prices api.ModelPriceList
	h.do("GET", "/api/v1/instance/model-prices", "", operator...).into(t, &prices)
	if len(prices.Items) == 0 {
		t.Error("no prices are listed")
	}

	// Requests: of a session, of a team, in pages, without what is private.
	n := func(v int64) *int64 { return &v }
	for i, ws := range []string{p.ids["workspace"], p.ids["workspace"], "ws_elsewhere"} {
		q := tokens.Request{TeamID: p.team.ID, WorkspaceID: ws, SessionID: p.ids["session"], Source: tokens.FromGateway, ExternalID: string(rune('a' + i)), API: "messages", Model: "harness-model",
			Upstream: "api.example.com", Status: 200, At: h.cfg.Ledger.Now() - 1000, Attempts: 1 + i, FirstByteMs: 100}
		if i > 0 {
			q.Input, q.Output = n(1_000_000), n(1_000_000)
		}
		if err := h.cfg.Tokens.Record(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	var all api.ModelRequestList
	r = h.do("GET", "/api/v1/sessions/"+p.ids["session"]+"/model-requests", "", member...)
	r.into(t, &all)
	if len(all.Items) != 3 || all.Items[2].CostNano != nil || all.Items[2].InputTokens != nil || *all.Items[1].CostNano != 6_000_000_000 {
		t.Errorf("of the session: %s", r.body)
	}
	r = h.do("GET", team+"/model-requests?limit=2", "", member...)
	r.into(t, &all)
	if len(all.Items) != 2 || all.NextCursor == nil {
		t.Fatalf("a page: %s", r.body)
	}
	r = h.do("GET", team+"/model-requests?limit=2&cursor="+url.QueryEscape(*all.NextCursor), "", member...)
	r.into(t, &all)
	if len(all.Items) != 1 || all.NextCursor != nil {
		t.Errorf("the next page: %s", r.body)
	}
	if r := h.do("PATCH", "/api/v1/workspaces/"+p.ids["workspace"], `{"private":true}`, bearer(p.tokens["owner"])...); r.StatusCode != 200 {
		t.Fatalf("making it private: %d %s", r.StatusCode, r.body)
	}
	r = h.do("GET", team+"/model-requests", "", admin...)
	r.into(t, &all)
	if len(all.Items) != 1 || all.Items[0].WorkspaceId != "ws_elsewhere" {
		t.Errorf("what others see of a private workspace: %s", r.body)
	}
	if r := h.do("GET", "/api/v1/sessions/"+p.ids["session"]+"/model-requests", "", admin...); r.StatusCode != 404 {
		t.Errorf("of a private session: %d %s", r.StatusCode, r.body)
	}

	// Rules: the team's and the server's, replaced as a whole.
	var limits api.ModelLimitList
	r = h.do("PUT", "/api/v1/instance/model-limits", `{"items":[{"model":"*","allowed":true,"requests_minute":600,"tokens_minute":null}]}`, operator...)
	r.into(t, &limits)
	if len(limits.Items) != 1 || *limits.Items[0].RequestsMinute != 600 || limits.Items[0].TokensMinute != nil {
		t.Errorf("the server's rules: %d %s", r.StatusCode, r.body)
	}
	r = h.do("PUT", team+"/model-limits", `{"items":[{"model":"*","allowed":false,"requests_minute":null,"tokens_minute":null},{"model":"claude-*","allowed":true,"requests_minute":null,"tokens_minute":5}]}`, admin...)
	if r.StatusCode != 200 {
		t.Fatalf("the team's rules: %d %s", r.StatusCode, r.body)
	}
	h.do("GET", team+"/model-limits", "", bearer(p.tokens["viewer"])...).into(t, &limits)
	if len(limits.Items) != 2 || len(limits.Instance) != 1 || limits.Items[0].Model != "*" || limits.Items[0].Allowed || *limits.Items[1].TokensMinute != 5 {
		t.Errorf("the team's rules: %+v", limits)
	}
	if row := h.newest(t, p.team.ID); row.Action != "model_limits.set" || row.Data["rules"] != "* forbidden; claude-* 5 tokens/min" {
		t.Errorf("the audit says %s %v", row.Action, row.Data)
	}
	for _, bad := range []string{`{"items":[{"model":"a","allowed":true,"requests_minute":0,"tokens_minute":null}]}`, `{"items":[{"model":"a b","allowed":true,"requests_minute":null,"tokens_minute":null}]}`,
		`{"items":[{"model":"a","allowed":true,"requests_minute":null,"tokens_minute":null},{"model":"a","allowed":false,"requests_minute":null,"tokens_minute":null}]}`} {
		if r := h.do("PUT", team+"/model-limits", bad, admin...); r.StatusCode != 400 || !strings.Contains(string(r.body), "invalid_model_limit") {
			t.Errorf("%s: %d %s", bad, r.StatusCode, r.body)
		}
	}
	if r := h.do("PUT", team+"/model-limits", `{"items":[]}`, member...); r.StatusCode != 403 {
		t.Errorf("a member: %d", r.StatusCode)
	}
	if r := h.do("GET", team+"/model-limits", "", other...); r.StatusCode != 404 {
		t.Errorf("an outsider: %d", r.StatusCode)
	}

	// What operators see, in the browser and in Prometheus.
	door := httptest.NewServer(h.cfg.Gateway.Handler())
	defer door.Close()
	resp, err := door.Client().Post(door.URL+"/anthropic/v1/messages", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", resp.StatusCode)
	}
	var report api.GatewayReport
	r = h.do("GET", "/api/v1/instance/gateway", "", operator...)
	r.into(t, &report)
	if l := report.Hour.All; l.Requests != 3 || l.Retries != 3 || *l.FirstByteP95Ms != 100 || len(report.Day.Upstreams) != 1 || report.Day.Models[0].Name != "harness-model" || !report.Day.Whole {
		t.Errorf("the report: %s", r.body)
	}
	text := string(h.do("GET", "/metrics", "", operator...).body)
	for _, want := range []string{`parawork_gateway_requests_total{api="messages",outcome="gateway_token_invalid"} 1`, "parawork_gateway_retries_total 0", "parawork_gateway_first_byte_seconds_count 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
