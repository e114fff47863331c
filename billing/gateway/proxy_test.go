package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
)

func TestAnAnswerIsPassedOnAndCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Request-Id", "req_1")
		w.Header().Set("X-Echo", "was "+realKey)
		w.Header().Set("Anthropic-Ratelimit-Requests-Remaining", "9")
		w.Header().Set("Anthropic-Organization-Id", "org_1")
		w.Header().Set("X-Upstream-Host", "10.0.0.7")
		sse(w, opus...)
	})
	req := h.request(t.Context(), http.MethodPost, "/anthropic/v1/messages?beta=true&key=secret", ask)
	req.Header.Set("Cookie", "session=1")
	req.Header.Set("X-Forwarded-For", "10.1.2.3")
	req.Header.Set("Connection", "X-Mine")
	req.Header.Set("X-Mine", "1")
	req.Header.Set("X-Copy", "t="+h.token)
	req.Header.Set("Anthropic-Beta", "x-1")
	req.Header.Set("X-Stainless-Lang", "js")
	elsewhere := append(slices.Clone(elsewhere), "X-Of-Nobody", "Openai-Organization", "X-Amz-Security-Token", "True-Client-Ip")
	for _, name := range elsewhere {
		req.Header.Set(name, "https://mine.example")
	}
	resp, text := h.do(req)
	if resp.StatusCode != 200 || !strings.Contains(text, `"message_stop"`) || strings.Count(text, "data:") != len(opus) {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	if resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Request-Id") != "req_1" || resp.Header.Get("X-Echo") != "" ||
		resp.Header.Get("Anthropic-Ratelimit-Requests-Remaining") != "9" || resp.Header.Get("Anthropic-Organization-Id") != "" || resp.Header.Get("X-Upstream-Host") != "" {
		t.Errorf("headers of the answer: %v", resp.Header)
	}
	seen, bodies := h.asked()
	if len(seen) != 1 || seen[0].URL.String() != "/v1/messages?beta=true" || bodies[0] != ask {
		t.Fatalf("the provider was asked %v %v", seen, bodies)
	}
	head := seen[0].Header
	if head.Get("X-Api-Key") != realKey || head.Get("Anthropic-Beta") != "x-1" || head.Get("X-Stainless-Lang") != "js" {
		t.Errorf("headers that must go on: %v", head)
	}
	for _, name := range append(elsewhere, "Authorization", "Cookie", "X-Forwarded-For", "X-Mine", "X-Copy") {
		if head.Get(name) != "" {
			t.Errorf("%s went on: %q", name, head.Get(name))
		}
	}
	r := h.row()
	wants(t, r, fmt.Sprintf(`200 "" in 100 out 7 read 20 write 8 hour 4 reasoning ? cost %d`, opusCost))
	if r.TeamID != h.team || r.WorkspaceID != "ws_1" || r.ProjectID != "prj_1" || r.SessionID != "ses_1" || r.UserID != h.user || r.Agent != "claude-code" ||
		r.AccountID != "acc_1" || r.API != "messages" || r.Model != "claude-opus-4-8" || r.Attempts != 1 || r.Source != tokens.FromGateway {
		t.Errorf("kept %+v", r)
	}
}

// elsewhere are headers that lead gateways of providers to another host or operation, with the key they were shown.
var elsewhere = []string{"X-Portkey-Custom-Host", "Helicone-Target-Url", "Cf-Aig-Authorization", "X-Http-Method-Override", "X-Original-Url", "X-Rewrite-Url", "X-Litellm-Api-Base"}

func TestEachPieceGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	next := make(chan struct{})
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		for _, e := range opus {
			sse(w, e)
			select {
			case <-next: // the agent has it
			case <-r.Context().Done():
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := h.door.Client().Do(h.request(ctx, http.MethodPost, "/anthropic/v1/messages", ask))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for range opus {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == "\n" {
				break
			}
		}
		next <- struct{}{}
	}
	if _, err := io.ReadAll(lines); err != nil {
		t.Fatal(err)
	}
	wants(t, h.row(), fmt.Sprintf(`200 "" in 100 out 7 read 20 write 8 hour 4 reasoning ? cost %d`, opusCost))
}

// A summary on the way, and what another model is asked on the way, are billed beside the counts of the answer: its iterations tell them.
func TestWhatIsAskedOnTheWayIsCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ iterations, want string }{
		"a summary": {`[{"type":"compaction","input_tokens":180000,"output_tokens":3500,"cache_read_input_tokens":10},{"type":"message","input_tokens":100,"output_tokens":7}]`,
			`in 180100 out 3507 read 10 write 0 hour 0 reasoning ? cost 988180000`},
		"an advisor": {`[{"type":"message","input_tokens":100,"output_tokens":7},{"type":"advisor_message","model":"claude-fable-5","input_tokens":1000,"output_tokens":100}]`,
			`in 1100 out 107 read 0 write 0 hour 0 reasoning ? cost 15675000`},
		"nobody's": {`[{"type":"message","input_tokens":100,"output_tokens":7},{"type":"advisor_message","model":"nobody-knows","input_tokens":1000,"output_tokens":100}]`,
			`in 1100 out 107 read 0 write 0 hour 0 reasoning ? cost ?`},
		"of a new kind": {`[{"type":"message","input_tokens":100,"output_tokens":7},{"type":"new","input_tokens":1000,"output_tokens":100}]`,
			`in 100 out 7 read 0 write 0 hour 0 reasoning ? cost ?`},
		"nothing": {`[{"type":"message","input_tokens":100,"output_tokens":7}]`, `in 100 out 7 read 0 write 0 hour 0 reasoning ? cost 675000`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.answers(func(w http.ResponseWriter, r *http.Request) {
				sse(w, `{"type":"message_start","message":{"id":"msg_1","model":"claude-opus-4-8","usage":{"input_tokens":100,"output_tokens":1,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}}}`,
					`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7,"iterations":`+c.iterations+`}}`, `{"type":"message_stop"}`)
			})
			h.post("/anthropic/v1/messages", ask)
			r := h.row()
			wants(t, r, `200 "" `+c.want)
			if r.CostNano == nil && (r.EstimateNano == nil || *r.EstimateNano != 675_000) {
				t.Errorf("estimated %v", r.EstimateNano)
			}
		})
	}
}

func TestWhatIsNoStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","model":"claude-opus-4-8","content":[{"type":"text","text":"{\"usage\":1}"}],"usage":{"input_tokens":100,"output_tokens":7,"cache_read_input_tokens":0}}`)
	})
	if resp, _ := h.post("/anthropic/v1/messages", `{"model":"claude-opus-4-8"}`); resp.StatusCode != 200 || resp.ContentLength <= 0 {
		t.Errorf("%d, length %d", resp.StatusCode, resp.ContentLength)
	}
	wants(t, h.row(), `200 "" in 100 out 7 read 0 write ? hour ? reasoning ? cost 675000`)
}

// The usage comes last: who leaves right before it is counted all the same.
func TestWhoAsksLeavesRightBeforeTheUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, body string
		first, end []string
		want       string
	}{
		"messages": {"/anthropic/v1/messages", ask, opus[:3], opus[3:], fmt.Sprintf(`200 "" in 100 out 7 read 20 write 8 hour 4 reasoning ? cost %d`, opusCost)},
		"chat": {"/openai/v1/chat/completions", `{"model":"gpt-5.5","stream":true}`, chatStream[:1], chatStream[1:],
			`200 "" in 60 out 10 read 40 write 0 hour 0 reasoning 3 cost 620000`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(c *gateway.Config) { c.Linger = patience })
			left := make(chan struct{})
			h.answers(func(w http.ResponseWriter, r *http.Request) {
				sse(w, c.first...)
				select {
				case <-left:
				case <-r.Context().Done():
				}
				sse(w, c.end...)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := h.door.Client().Do(h.request(ctx, http.MethodPost, c.path, c.body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			cancel()
			close(left)
			wants(t, h.row(), c.want)
		})
	}
}

func TestWhoAsksLeavesInTheMiddle(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *gateway.Config) { c.Linger = 20 * time.Millisecond })
	gone := make(chan struct{})
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		sse(w, opus[:3]...)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := h.door.Client().Do(h.request(ctx, http.MethodPost, "/anthropic/v1/messages", ask))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the provider goes on for nobody")
	}
	// What went in is known; what came out is not, and so neither is the cost.
	r := h.row()
	wants(t, r, `200 "client_gone" in 100 out ? read 20 write 8 hour 4 reasoning ? cost ?`)
	// A budget counts an estimate: what went in, and at least what was seen.
	if r.EstimateNano == nil || *r.EstimateNano < opusCost {
		t.Errorf("estimated %v", r.EstimateNano)
	}
	nano, unknown, estimate, err := h.meter.Spent(h.ctx, h.team, 0, r.At+1)
	if err != nil || nano != 0 || unknown != 1 || estimate != *r.EstimateNano {
		t.Errorf("spent %d, %d unknown, about %d, %v", nano, unknown, estimate, err)
	}
}

func TestWhoAsksLeavesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	asked := make(chan struct{})
	h.answers(func(w http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	// 6,000 bytes of text, and a picture of 9,000.
	body := `{"model":"gpt-5.5","input":"` + strings.Repeat("words. ", 6000/7) + strings.Repeat("QUJD", 9000/4) + `"}`
	if _, err := h.door.Client().Do(h.request(ctx, http.MethodPost, "/openai/v1/responses", body)); err == nil {
		t.Fatal("answered")
	}
	r := h.row()
	wants(t, r, `0 "client_gone" in ? out ? read ? write ? hour ? reasoning ? cost ?`)
	if r.EstimateNano == nil || *r.EstimateNano < 3500*5000 || *r.EstimateNano > 10_000*5000 {
		t.Errorf("estimated %v", r.EstimateNano)
	}
}

// A model that reports no usage, as many do that are run on one's own, costs what it may have cost: the budget counts an estimate, once, and
// people are shown that nobody knows.
func TestAnAnswerWithoutUsage(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("words. ", 3000/7) // 1,000 tokens, rather too many
	for name, answer := range map[string]func(w http.ResponseWriter){
		"stream": func(w http.ResponseWriter) {
			sse(w, `{"id":"c","model":"gpt-5.5","choices":[{"index":0,"delta":{"role":"assistant","content":"`+words+`"}}]}`,
				`{"id":"c","model":"gpt-5.5","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "data: [DONE]\n\n")
		},
		"no stream": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c","model":"gpt-5.5","choices":[{"index":0,"message":{"role":"assistant","content":"`+words+`"},"finish_reason":"stop"}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.answers(func(w http.ResponseWriter, _ *http.Request) { answer(w) })
			h.post("/openai/v1/chat/completions", `{"model":"gpt-5.5","stream":`+fmt.Sprint(name == "stream")+`,"messages":[{"role":"user","content":"`+words+`"}]}`)
			r := h.row()
			wants(t, r, `200 "" in ? out ? read ? write ? hour ? reasoning ? cost ?`)
			const least = 1000*5000 + 900*30_000
			if r.EstimateNano == nil || *r.EstimateNano < least || *r.EstimateNano > 2*least {
				t.Fatalf("estimated %v", r.EstimateNano)
			}
			nano, unknown, estimate, err := h.meter.Spent(h.ctx, h.team, 0, r.At+1)
			if err != nil || nano != 0 || unknown != 1 || estimate != *r.EstimateNano {
				t.Errorf("spent %d, %d unknown, about %d, %v", nano, unknown, estimate, err)
			}
		})
	}
}

func TestAnAnswerThatIsCutIsNoWholeOne(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		sse(w, opus[:3]...)
		panic(http.ErrAbortHandler)
	})
	if _, text := h.post("/anthropic/v1/messages", ask); !strings.HasSuffix(text, "<cut>") {
		t.Errorf("the agent saw a whole answer: %s", text)
	}
	wants(t, h.row(), `200 "cut" in 100 out ? read 20 write 8 hour 4 reasoning ? cost ?`)
	if seen, _ := h.asked(); len(seen) != 1 {
		t.Errorf("asked %d times, after an answer had begun", len(seen))
	}
}

func TestAProviderThatFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		sse(w, opus[0], `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	})
	if _, text := h.post("/anthropic/v1/messages", ask); !strings.Contains(text, "overloaded_error") {
		t.Errorf("the agent received %s", text)
	}
	wants(t, h.row(), `200 "upstream_error" in 100 out ? read 20 write 8 hour 4 reasoning ? cost ?`)
}

func TestErrorsOfTheProviderGoOnButItsKeyDoesNot(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"key `+realKey+` is slow"}}`)
	})
	resp, text := h.post("/anthropic/v1/messages", ask)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "7" || !strings.Contains(text, "key [key] is slow") {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
	}
	wants(t, h.row(), `429 "upstream_error" in 0 out 0 read 0 write 0 hour 0 reasoning 0 cost 0`)
}

func TestBusyProvidersAreAskedAgainBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	for _, status := range []int{502, 503, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			h := newHarness(t)
			n := 0
			h.answers(func(w http.ResponseWriter, r *http.Request) {
				if n++; n < 3 {
					w.WriteHeader(status)
					return
				}
				sse(w, opus...)
			})
			if resp, _ := h.post("/anthropic/v1/messages", ask); resp.StatusCode != 200 {
				t.Errorf("answered %d", resp.StatusCode)
			}
			if r := h.row(); r.Attempts != 3 || *r.CostNano != opusCost {
				t.Errorf("kept %+v", r)
			}
			if c := h.service.Counts(); c.Retries != 2 || c.Outcomes[gateway.Outcome{API: "messages", Result: "ok"}] != 1 || c.Tokens["output"] != 7 || c.FirstByte.Count != 1 {
				t.Errorf("counted %+v", c)
			}
			_, bodies := h.asked()
			for _, b := range bodies {
				if b != ask {
					t.Errorf("a further try had the body %q", b)
				}
			}
		})
	}
	for name, answer := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, // it may have done something
		"429": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(429) },
		"says no": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Should-Retry", "false")
			w.WriteHeader(503)
		},
		"says later":     func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Retry-After", "60"); w.WriteHeader(503) },
		"ends the line":  func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"never tires of": nil,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			want := 1
			if answer == nil {
				answer, want = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, 3
			}
			h.answers(answer)
			resp, _ := h.post("/anthropic/v1/messages", ask)
			if seen, _ := h.asked(); len(seen) != want || resp.StatusCode < 400 {
				t.Errorf("asked %d times, answered %d", len(seen), resp.StatusCode)
			}
			if r := h.row(); r.Attempts != want || name == "ends the line" && (r.Error != tokens.ErrCut || r.CostNano != nil) {
				t.Errorf("kept %+v", r)
			}
		})
	}
}

func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.use(func(a *gateway.Account) { a.BaseURL = "http://127.0.0.1:1" })
	resp, text := h.post("/anthropic/v1/messages", ask)
	if resp.StatusCode != 503 || resp.Header.Get("X-Parawork-Error") != "upstream_unreachable" || !strings.Contains(text, `"api_error"`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	r := h.row()
	wants(t, r, `503 "upstream_unreachable" in 0 out 0 read 0 write 0 hour 0 reasoning 0 cost 0`)
	if r.Attempts != 3 {
		t.Errorf("tried %d times", r.Attempts)
	}
}

func TestAnAnswerThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *gateway.Config) { c.FirstByte = 50 * time.Millisecond })
	h.answers(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	resp, text := h.post("/openai/v1/responses", `{"model":"gpt-5.5","stream":true}`)
	if resp.StatusCode != 504 || !strings.Contains(text, "upstream_timeout") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	wants(t, h.row(), `504 "upstream_timeout" in ? out ? read ? write ? hour ? reasoning ? cost ?`)
}
