package gateway_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/store"
)

// Of 60 questions at once, each of which may cost $3.20, no more go on than $4 pay for.
func TestManyQuestionsAtOnceDoNotPassTheBudget(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	q := h.budget(time.Second)
	limit := int64(52 * billing.Nano)
	if _, err := q.ChangeBudget(h.ctx, h.team, h.user, func(b *quota.Budget) { b.LimitNano, b.CountTokens = &limit, true }); err != nil {
		t.Fatal(err)
	}
	if err := h.meter.Record(h.ctx, tokens.Request{TeamID: h.team, WorkspaceID: "ws_1", ProjectID: "prj_1", SessionID: "ses_1", UserID: h.user, Source: tokens.FromGateway, ExternalID: "before", API: "messages",
		Model: "claude-opus-4-8", Status: 200, Tokens: tokens.Tokens{Input: new(int64(0)), Output: new(int64(1_920_000))}, At: time.Now().UnixMilli()}); err != nil {
		t.Fatal(err)
	}
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"id":"m","model":"claude-opus-4-8","type":"message","usage":{"input_tokens":40,"output_tokens":128000}}`)
	})
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			h.post("/anthropic/v1/messages", `{"model":"claude-opus-4-8","max_tokens":128000,"messages":[{"role":"user","content":"go"}]}`)
		})
	}
	all.Wait()
	spent, _, _, err := h.meter.Spent(h.ctx, h.team, 0, 1<<60)
	if err != nil || spent > limit {
		t.Errorf("%s were spent of %s, %v", billing.Dollars(spent), billing.Dollars(limit), err)
	}
}

// budget has the gateway ask a real budget, and questions wait for money that others hold no longer than holdMost.
func (h *harness) budget(holdMost time.Duration) *quota.Service {
	h.t.Helper()
	q := quota.New(quota.Config{Store: store.NewQuota(h.db), Now: func() int64 { return time.Now().UnixMilli() }, Tokens: h.meter.Spent})
	h.again(func(c *gateway.Config) { c.Budget, c.HoldMost = q, holdMost })
	return q
}
