package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/billing/gateway"
)

func TestResponsesAreCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		sse(w, `{"type":"response.created","response":{"id":"resp_1","model":"gpt-5.5-2026-04-23","service_tier":"auto","usage":null}}`,
			`{"type":"response.output_item.done","item":{"type":"web_search_call","usage":{"input_tokens":5}}}`,
			`{"type":"response.completed","response":{"id":"resp_1","model":"gpt-5.5-2026-04-23","service_tier":"default","output":[{"content":[{"text":"`+strings.Repeat("x", 200_000)+`"}]}],`+
				`"usage":{"input_tokens":1370,"input_tokens_details":{"cached_tokens":1100,"cache_write_tokens":70},"output_tokens":511,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":1881}}}`)
	})
	if resp, text := h.post("/openai/v1/responses", `{"model":"gpt-5.5","stream":true,"input":[]}`); resp.StatusCode != 200 || len(text) < 200_000 {
		t.Fatalf("%d, %d bytes", resp.StatusCode, len(text))
	}
	r := h.row()
	// (200 + 70) x 5 + 511 x 30 + 1100 x 0.5 for a million, and a search for a cent.
	wants(t, r, `200 "" in 200 out 511 read 1100 write 70 hour 0 reasoning 64 cost 27230000`)
	if r.Model != "gpt-5.5-2026-04-23" || r.API != "responses" {
		t.Errorf("kept %+v", r)
	}
	if seen, _ := h.asked(); seen[0].URL.Path != "/responses" || seen[0].Header.Get("Authorization") != "Bearer "+realKey {
		t.Errorf("the provider was asked %s %v", seen[0].URL, seen[0].Header)
	}
}

// What is paid for beside the tokens counts where the answer is no stream, too.
func TestSearchesOfAWholeAnswerAreCounted(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]string{
		`{"type": "web_search_call","status":"completed"},{"type":"web_search_call"}`: `cost 20080000`,
		`{"type":"code_interpreter_call"}`:                                            `cost ?`,
		`{"type":"message","content":[{"text":"\"type\":\"web_search_call\""}]}`:      `cost 80000`,
	} {
		h := newHarness(t)
		h.answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for _, c := range `{"object":"response","model":"gpt-5.5","output":[` + item + `],"usage":{"input_tokens":10,"output_tokens":1}}` {
				_, _ = io.WriteString(w, string(c)) // in pieces
				_ = http.NewResponseController(w).Flush()
			}
		})
		h.post("/openai/v1/responses", `{"model":"gpt-5.5"}`)
		wants(t, h.row(), `200 "" in 10 out 1 read 0 write 0 hour 0 reasoning ? `+want)
	}
}

func TestHowItWasServedSaysThePrice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ model, event, want string }{
		"flex":      {"gpt-6.1-sol", `{"type":"response.completed","response":{"model":"gpt-6.1-sol","service_tier":"flex","usage":{"input_tokens":1000000,"output_tokens":0}}}`, `in 1000000 out 0 read 0 write 0 hour 0 reasoning ? cost 2000000000`},
		"no price":  {"gpt-5.5", `{"type":"response.completed","response":{"model":"gpt-5.5","service_tier":"priority","usage":{"input_tokens":10,"output_tokens":1}}}`, `in 10 out 1 read 0 write 0 hour 0 reasoning ? cost ?`},
		"images":    {"gpt-5.5", `{"type":"response.output_item.done","item":{"type":"image_generation_call"}}` + "\x00" + `{"type":"response.completed","response":{"usage":{"input_tokens":10,"output_tokens":1}}}`, `in 10 out 1 read 0 write 0 hour 0 reasoning ? cost ?`},
		"not whole": {"gpt-5.5", `{"type":"response.incomplete","response":{"usage":{"input_tokens":10,"output_tokens":1}}}`, `in 10 out 1 read 0 write 0 hour 0 reasoning ? cost 80000`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.answers(func(w http.ResponseWriter, r *http.Request) { sse(w, strings.Split(c.event, "\x00")...) })
			h.post("/openai/v1/responses", `{"model":"`+c.model+`","stream":true}`)
			wants(t, h.row(), `200 "" `+c.want)
		})
	}
	t.Run("failed", func(t *testing.T) {
		h := newHarness(t)
		h.answers(func(w http.ResponseWriter, r *http.Request) {
			sse(w, `{"type":"response.failed","response":{"usage":null,"error":{"code":"server_error"}}}`)
		})
		h.post("/openai/v1/responses", `{"model":"gpt-5.5","stream":true}`)
		wants(t, h.row(), `200 "upstream_error" in ? out ? read ? write ? hour ? reasoning ? cost ?`)
	})
	t.Run("a login of Claude", func(t *testing.T) {
		h := newHarness(t)
		h.use(func(a *gateway.Account) { a.Key = "sk-ant-oat01-login" })
		h.answers(func(w http.ResponseWriter, r *http.Request) { sse(w, opus...) })
		h.post("/anthropic/v1/messages", ask)
		seen, _ := h.asked()
		if head := seen[0].Header; head.Get("Authorization") != "Bearer sk-ant-oat01-login" || head.Get("X-Api-Key") != "" || head.Get("Anthropic-Beta") != "oauth-2025-04-20" {
			t.Errorf("asked with %v", head)
		}
		if r := h.row(); r.CostNano != nil || r.PriceID != "included" || *r.Output != 7 {
			t.Errorf("kept %+v", r)
		}
	})
}

// chatStream is a stream of chat completions as a provider sends it that was asked for the usage.
var chatStream = []string{
	`{"id":"c_1","model":"gpt-5.5","choices":[{"delta":{"content":"Hi"}}],"usage":null}`,
	`{"id":"c_1","model":"gpt-5.5","choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}`,
	`{"id":"c_1","model":"gpt-5.5","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":3}}}`,
	"data: [DONE]\n\n",
}

func TestChatCompletionsTellTheirUsageToUsAlone(t *testing.T) {
	t.Parallel()
	for body, c := range map[string]struct {
		on    string // the body as it goes on
		usage bool   // the agent sees it
	}{
		`{"model":"gpt-5.5","stream":true}`:                                                {`{"stream_options":{"include_usage":true},"model":"gpt-5.5","stream":true}`, false},
		`{"model":"gpt-5.5","stream":true,"stream_options":{"include_usage":true}}`:        {`{"model":"gpt-5.5","stream":true,"stream_options":{"include_usage":true}}`, true},
		`{"stream_options":{"x":1,"include_usage":false},"model":"gpt-5.5","stream":true}`: {`{"stream_options":{"include_usage":true,"x":1},"model":"gpt-5.5","stream":true}`, false},
		`{"model":"gpt-5.5","stream":true,"stream_options":{"Include_Usage":true}}`:        {`{"model":"gpt-5.5","stream":true,"stream_options":{"Include_Usage":true,"include_usage":true}}`, false},
		`{"model":"gpt-5.5","stream":true,"stream_options":null}`:                          {`{"model":"gpt-5.5","stream":true,"stream_options":{"include_usage":true}}`, false},
	} {
		h := newHarness(t)
		h.answers(func(w http.ResponseWriter, r *http.Request) { sse(w, chatStream...) })
		_, text := h.post("/openai/v1/chat/completions", body)
		if _, bodies := h.asked(); bodies[0] != c.on {
			t.Errorf("%s\n\twent on as %s", body, bodies[0])
		}
		if strings.Contains(text, "prompt_tokens") != c.usage || !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Count(text, "data:") < 3 {
			t.Errorf("%s: the agent saw %s", body, text)
		}
		wants(t, h.row(), `200 "" in 60 out 10 read 40 write 0 hour 0 reasoning 3 cost 620000`)
	}
	t.Run("a provider that does not tell", func(t *testing.T) {
		h := newHarness(t)
		h.answers(func(w http.ResponseWriter, r *http.Request) { sse(w, chatStream[0], chatStream[3]) })
		h.post("/openai/v1/chat/completions", `{"model":"gpt-5.5","stream":true}`)
		wants(t, h.row(), `200 "" in ? out ? read ? write ? hour ? reasoning ? cost ?`)
	})
	t.Run("no stream", func(t *testing.T) {
		h := newHarness(t)
		h.answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c_1","model":"gpt-5.5","choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`)
		})
		h.post("/openai/v1/chat/completions", `{"model":"gpt-5.5"}`)
		if _, bodies := h.asked(); bodies[0] != `{"model":"gpt-5.5"}` {
			t.Errorf("went on as %s", bodies[0])
		}
		wants(t, h.row(), `200 "" in 100 out 10 read 0 write 0 hour 0 reasoning ? cost 800000`)
	})
}

func TestWhatCostsNothingIsNotKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.admit = budget
	h.answers(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"input_tokens":3}`) })
	for _, c := range [][2]string{{"POST", "/anthropic/v1/messages/count_tokens"}, {"GET", "/anthropic/v1/models?limit=5&x=1"}, {"GET", "/openai/v1/models/gpt-5.5"}} {
		body := ""
		if c[0] == "POST" {
			body = ask
		}
		if resp, text := h.do(h.request(t.Context(), c[0], c[1], body)); resp.StatusCode != 200 || text != `{"input_tokens":3}` {
			t.Errorf("%v: %d %s", c, resp.StatusCode, text)
		}
	}
	h.rows(0)
	if seen, _ := h.asked(); len(seen) != 3 || seen[1].URL.String() != "/v1/models?limit=5" {
		t.Errorf("asked %v", seen)
	}
	// Claude Code asks so whether anybody is there.
	if resp, _ := h.do(h.request(t.Context(), http.MethodHead, "/anthropic", "")); resp.StatusCode != 200 {
		t.Errorf("HEAD: %d", resp.StatusCode)
	}
}
