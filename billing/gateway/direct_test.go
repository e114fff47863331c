package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/internal/fault"
)

// direct asks as the server's own agent does.
func (h *harness) direct(ctx context.Context) (*http.Response, error) {
	h.t.Helper()
	d, err := h.service.Direct(h.ctx, gateway.Grant{SessionID: "ses_1", TeamID: h.team, WorkspaceID: "ws_1", ProjectID: "prj_1", UserID: h.user, Agent: "parawork", AccountID: "acc_1"})
	if err != nil {
		h.t.Fatal(err)
	}
	if d.API != "anthropic" || d.Own {
		h.t.Errorf("%+v", d)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.BaseURL()+"/v1/messages", strings.NewReader(`{"model":"claude-sonnet-4-5","stream":true,"messages":[]}`))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return d.Client.Do(req)
}

// The server's own agent asks within the process, with the key that it does not know, and is counted and limited as others are.
func TestTheServersAgentAsksWithinTheProcess(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, _ *http.Request) {
		sse(w, `{"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":1}}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`)
	})
	resp, err := h.direct(h.ctx)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), "message_stop") {
		t.Errorf("%d %s %v", resp.StatusCode, body, err)
	}
	if asked, _ := h.asked(); asked[0].Header.Get("X-Api-Key") != realKey {
		t.Errorf("asked with %v", asked[0].Header)
	}
	if r := h.row(); r.SessionID != "ses_1" || r.ExternalID == "" || resp.Header.Get(gateway.RequestHeader) != r.ExternalID || r.Status != 200 || r.Input == nil || *r.Input != 100 || r.Output == nil || *r.Output != 7 {
		t.Errorf("%+v", r)
	}
	h.mu.Lock()
	h.admit = budget
	h.mu.Unlock()
	if resp, err = h.direct(h.ctx); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode < 400 || resp.Header.Get("X-Parawork-Error") != fault.CodeOf(budget()) {
		t.Errorf("over the budget: %d %v", resp.StatusCode, resp.Header)
	}
}

// An answer that the provider cuts is no complete one, and a request that is given up ends at the provider.
func TestTheServersAgentsRequestsEnd(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, _ *http.Request) {
		sse(w, `{"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":1}}}`)
		panic(http.ErrAbortHandler)
	})
	resp, err := h.direct(h.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err == nil && !strings.Contains(string(body), `"error"`) {
		t.Errorf("a cut answer looks complete: %s", body)
	}
	left := make(chan struct{})
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		sse(w, `{"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":1}}}`)
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(h.ctx)
	if resp, err = h.direct(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("given up: %v", err)
	}
	resp.Body.Close()
	<-left
}
