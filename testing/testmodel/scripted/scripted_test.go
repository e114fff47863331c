package scripted_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/testing/testmodel/scripted"
)

type answer struct {
	parts   []providers.Part
	stop    providers.Stop
	usage   providers.Usage
	deltas  int
	retries []providers.ErrorKind
	err     error
}

func ask(t *testing.T, p providers.Provider, req providers.Request) (out answer) {
	t.Helper()
	for e, err := range p.Stream(t.Context(), req) {
		switch {
		case err != nil:
			out.err = err
		case e.Kind == providers.Retry:
			out = answer{retries: append(out.retries, e.Error.Kind)}
		case e.Kind == providers.PartDone:
			out.parts = append(out.parts, e.Part)
		case e.Kind == providers.Done:
			out.stop, out.usage = e.Stop, e.Usage
		default:
			out.deltas++
		}
	}
	return out
}

func said(role providers.Role, parts ...providers.Part) providers.Message {
	return providers.Message{Role: role, Parts: parts}
}

func text(s string) providers.Part { return providers.Part{Kind: providers.Text, Text: s} }

// A script plays the same by each API: reasoning, texts in pieces, calls in parallel, results, errors of each kind, usage and reasons to stop.
func TestScriptInEachAPI(t *testing.T) {
	t.Parallel()
	const script = `#script [
		{"error":{"status":429,"type":"rate_limit_error","message":"Wait.","retry_after":0.01,"times":1},"thinking":"Hm.","text":"I look at all of it, which takes a while to say.","tools":[{"name":"read","input":{"path":"a"}},{"name":"list","raw_input":"{\"a\""}],"usage":{"in":70,"out":33,"cache_read":20}},
		{"error":{"type":"server_error","message":"Oh.","where":"middle","times":1},"text":"Seen.","usage":{"in":5,"out":2}},
		{"error":{"where":"cut","times":1},"text":"More of it.","stop":"max_tokens","usage":{"in":5,"out":2}},
		{"error":{"status":400,"type":"invalid_request_error","message":"No."}}]`
	for name, provider := range map[string]func(providers.Config) providers.Provider{"messages": providers.Anthropic, "responses": providers.Responses, "chat": providers.Chat} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(scripted.New("the token"))
			defer server.Close()
			cfg := providers.Config{HTTP: server.Client(), BaseURL: server.URL, Token: "the token"}
			if name != "messages" {
				cfg.BaseURL += "/v1"
			}
			once := provider(cfg)
			p := providers.Retrying(once, providers.Policy{First: time.Millisecond})
			req := providers.Request{Model: "model-1", Tools: []providers.Tool{{Name: "read"}, {Name: "list"}}, Messages: []providers.Message{said(providers.User, text(script))}}

			got := ask(t, p, req)
			if got.err != nil || len(got.retries) != 1 || got.retries[0] != providers.ErrRateLimited || got.stop != providers.StopToolCalls || got.deltas < 6 || len(got.parts) != 4 ||
				got.usage != (providers.Usage{Input: 70, Output: 33, CacheRead: 20}) {
				t.Fatalf("first answer %+v", got)
			}
			if p := got.parts; p[0].Text != "Hm." || len(p[0].Raw) == 0 || !strings.HasSuffix(p[1].Text, "a while to say.") || string(p[2].Args) != `{"path":"a"}` || p[3].RawArgs != `{"a"` {
				t.Fatalf("parts %+v", p)
			}
			result := providers.Part{Kind: providers.ToolResult, CallID: got.parts[2].CallID, Content: []providers.Part{text("A")}}
			req.Messages = append(req.Messages, said(providers.Assistant, got.parts...), said(providers.User, result)) // the other call's result is lost
			for _, want := range []struct {
				text  string
				stop  providers.Stop
				retry providers.ErrorKind
			}{{"Seen.", providers.StopEndTurn, providers.ErrUnavailable}, {"More of it.", providers.StopMaxOutput, providers.ErrCut}} {
				got = ask(t, p, req)
				if got.err != nil || len(got.retries) != 1 || got.retries[0] != want.retry || got.stop != want.stop || len(got.parts) != 1 || got.parts[0].Text != want.text {
					t.Fatalf("answer %+v, want %+v", got, want)
				}
				req.Messages = append(req.Messages, said(providers.Assistant, got.parts...), said(providers.User, text("Go on.")))
			}
			got = ask(t, p, req)
			if e, ok := errors.AsType[*providers.Error](got.err); !ok || e.Kind != providers.ErrInvalidRequest || len(got.retries) != 0 {
				t.Errorf("last answer %+v", got)
			}
			cfg.Token = "another"
			got = ask(t, provider(cfg), req)
			if e, ok := errors.AsType[*providers.Error](got.err); !ok || e.Kind != providers.ErrUnauthorized {
				t.Errorf("with another token %+v", got)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/billed", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer the token")
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var billed map[string]int
			if err := json.NewDecoder(resp.Body).Decode(&billed); err != nil || billed["answers"] != 3 || billed["begun"] != 5 || billed["input"] != 80 || billed["output"] != 37 || billed["cache_read"] != 20 {
				t.Errorf("billed %v, %v", billed, err)
			}
		})
	}
}

// Calls without results and results without calls are refused, as the real APIs refuse them.
func TestUnpairedCallsAreRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(scripted.New(""))
	defer server.Close()
	for _, test := range []struct{ path, body string }{
		{"/v1/messages", `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]}]}`},
		{"/v1/messages", `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]},{"role":"user","content":"Go"}]}`},
		{"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`},
		{"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}`},
		{"/v1/responses", `{"input":[{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}]}`},
		{"/v1/responses", `{"input":[{"type":"function_call_output","call_id":"a","output":""}]}`},
		{"/v1/chat/completions", `{"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]},{"role":"user","content":"Go"}]}`},
		{"/v1/chat/completions", `{"messages":[{"role":"tool","tool_call_id":"a","content":""}]}`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s answered %d to %s", test.path, resp.StatusCode, test.body)
		}
	}
}
