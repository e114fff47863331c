package providers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/agent/providers"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	const page = "<!DOCTYPE html><html><body>Bad gateway</body></html>"
	for _, test := range []struct {
		status int
		body   string
		header string
		kind   providers.ErrorKind
		code   string
		after  time.Duration
		again  bool
	}{
		// Anthropic
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: text content blocks must be non-empty"}}`, "", providers.ErrInvalidRequest, "invalid_request_error", 0, false},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, "", providers.ErrContextTooLong, "invalid_request_error", 0, false},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 190000 + 20000 > 200000"}}`, "", providers.ErrContextTooLong, "invalid_request_error", 0, false},
		{401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, "", providers.ErrUnauthorized, "authentication_error", 0, false},
		{403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`, "", providers.ErrUnauthorized, "permission_error", 0, false},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-0"}}`, "", providers.ErrInvalidRequest, "not_found_error", 0, false},
		{413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, "", providers.ErrContextTooLong, "request_too_large", 0, false},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute"}}`, "Retry-After: 17", providers.ErrRateLimited, "rate_limit_error", 17 * time.Second, true},
		{500, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, "", providers.ErrUnavailable, "api_error", 0, true},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "", providers.ErrOverloaded, "overloaded_error", 0, true},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "X-Should-Retry: false", providers.ErrOverloaded, "overloaded_error", 0, false},
		// OpenAI
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, "", providers.ErrContextTooLong, "context_length_exceeded", 0, false},
		{400, `{"error":{"message":"Unknown parameter","type":"invalid_request_error","param":"x","code":null}}`, "", providers.ErrInvalidRequest, "invalid_request_error", 0, false},
		{400, `{"error":{"message":"flagged","type":"invalid_request_error","code":"invalid_prompt"}}`, "", providers.ErrRefused, "invalid_prompt", 0, false},
		{401, `{"error":{"message":"Incorrect API key provided: ` + token + `.","type":"invalid_request_error","code":"invalid_api_key"}}`, "", providers.ErrUnauthorized, "invalid_api_key", 0, false},
		{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, "Retry-After: 5", providers.ErrBudget, "insufficient_quota", 5 * time.Second, false},
		{429, `{"error":{"message":"Rate limit reached for m on tokens per min. Please try again in 1.5s.","type":"tokens","code":"rate_limit_exceeded"}}`, "", providers.ErrRateLimited, "rate_limit_exceeded", 1500 * time.Millisecond, true},
		{429, `{"error":{"message":"Rate limit reached. Please try again in 320ms.","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After-Ms: 400", providers.ErrRateLimited, "rate_limit_exceeded", 400 * time.Millisecond, true},
		{429, `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 41000.","type":"tokens","code":"rate_limit_exceeded"}}`, "", providers.ErrContextTooLong, "rate_limit_exceeded", 0, false},
		{503, `{"error":{"message":"The server is overloaded","type":"server_error","code":"server_is_overloaded"}}`, "", providers.ErrOverloaded, "server_is_overloaded", 0, true},
		// The gateway
		{402, `{"type":"error","error":{"type":"billing_error","message":"The team's budget is spent."}}`, "X-Parawork-Error: budget_exceeded", providers.ErrBudget, "budget_exceeded", 0, false},
		{400, `{"error":{"type":"insufficient_quota","code":"budget_exceeded","message":"The team's budget is spent."}}`, "X-Parawork-Error: budget_exceeded", providers.ErrBudget, "budget_exceeded", 0, false},
		{400, `{"error":{"type":"invalid_request_error","code":"gateway_no_account","message":"The account of this session was deleted."}}`, "X-Parawork-Error: gateway_no_account", providers.ErrUnauthorized, "gateway_no_account", 0, false},
		{429, `{"error":{"type":"rate_limit_error","code":"budget_reserved","message":"Wait."}}`, "X-Parawork-Error: budget_reserved", providers.ErrRateLimited, "budget_reserved", 0, true},
		{400, `{"error":{"type":"invalid_request_error","code":"model_not_allowed","message":"No."}}`, "X-Parawork-Error: model_not_allowed", providers.ErrInvalidRequest, "model_not_allowed", 0, false},
		{504, `{"error":{"type":"server_error","code":"upstream_timeout","message":"It did not begin."}}`, "X-Parawork-Error: upstream_timeout", providers.ErrUnavailable, "upstream_timeout", 0, true},
		// Others
		{404, `{"error":"model 'x' not found"}`, "", providers.ErrInvalidRequest, "", 0, false},
		{400, `{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","param":null,"code":400}`, "", providers.ErrContextTooLong, "BadRequestError", 0, false},
		{400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens)","type":"exceed_context_size_error"}}`, "", providers.ErrContextTooLong, "exceed_context_size_error", 0, false},
		{422, `{"detail":[{"loc":["body","tools"],"msg":"field required"}]}`, "", providers.ErrInvalidRequest, "", 0, false},
		{402, `{"error":{"code":402,"message":"Insufficient credits"}}`, "", providers.ErrBudget, "", 0, false},
		{400, `[{"error":{"code":400,"message":"Invalid value","status":"INVALID_ARGUMENT"}}]`, "", providers.ErrInvalidRequest, "", 0, false},
		{502, page, "", providers.ErrUnavailable, "", 0, true},
		{503, "", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", providers.ErrUnavailable, "", 0, true},
		{429, "slow down", "Retry-After: 1e300", providers.ErrRateLimited, "", 0, true},
		{200, page, "", providers.ErrInvalidRequest, "not_a_stream", 0, false},
		{301, "", "Location: ", providers.ErrInvalidRequest, "not_a_stream", 0, false},
		{200, ` {"error":{"message":"The model is loading","type":"server_error"}}`, "", providers.ErrUnavailable, "server_error", 0, true},
		{200, `{"error":{"code":429,"message":"Rate limited"}}`, "", providers.ErrRateLimited, "", 0, true},
		{200, "", "", providers.ErrCut, "cut", 0, true},
	} {
		for _, a := range apis {
			p := a.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if name, value, ok := strings.Cut(test.header, ": "); ok && value != "" {
					w.Header().Set(name, value)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			e := failed(t, ask(t.Context(), t, p, hello()).Err)
			if e.Kind != test.kind || e.Code != test.code || e.RetryAfter != test.after || e.Retryable() != test.again || e.Message == "" || strings.Contains(e.Message, token) {
				t.Errorf("%s: %d %s %s: %+v, retryable %t", a.name, test.status, test.header, test.body, e, e.Retryable())
			}
			if e.Kind != providers.ErrCut && test.status >= 300 && e.Status != test.status {
				t.Errorf("status %d of %+v", e.Status, e)
			}
		}
	}
}

// Errors that come when the answer has begun.
func TestErrorsInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		api   int
		event string
		kind  providers.ErrorKind
		after time.Duration
	}{
		{0, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, providers.ErrOverloaded, 0},
		{0, `{"type":"error","error":{"type":"api_error","message":"Internal"}}`, providers.ErrUnavailable, 0},
		{0, `{"type":"error","error":{"type":"invalid_request_error","message":"No"}}`, providers.ErrInvalidRequest, 0},
		{0, `{"type":"error"}`, providers.ErrUnavailable, 0},
		{1, `{"type":"error","code":"server_error","message":"Sorry","param":null,"sequence_number":3}`, providers.ErrUnavailable, 0},
		{1, `{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}`, providers.ErrContextTooLong, 0},
		{1, `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 11.054s."}}}`, providers.ErrRateLimited, 11054 * time.Millisecond},
		{1, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_is_overloaded","message":"Busy"}}}`, providers.ErrOverloaded, 0},
		{1, `{"type":"response.failed","response":{"status":"failed","error":null}}`, providers.ErrUnavailable, 0},
		{1, `{"error":{"message":"No such thing","code":404}}`, providers.ErrInvalidRequest, 0},
		{2, `{"error":{"message":"Provider returned error","code":502}}`, providers.ErrUnavailable, 0},
		{2, `{"error":{"message":"Provider returned error","code":429},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, providers.ErrRateLimited, 0},
		{2, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, providers.ErrUnavailable, 0},
		{2, `{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","code":400}`, providers.ErrContextTooLong, 0},
	} {
		stream := whole[apis[test.api].name]
		events := strings.SplitAfter(stream, "\n\n")
		got := ask(t.Context(), t, apis[test.api].answers(strings.Join(events[:6], "")+sse(test.event)+strings.Join(events[6:], ""), 0), hello())
		if e := failed(t, got.Err); e.Kind != test.kind || e.RetryAfter != test.after {
			t.Errorf("%s: %+v", test.event, e)
		}
	}
}

func TestConnectionsThatFail(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: errors.New("no way")}
	for _, a := range apis {
		p := a.make(providers.Config{HTTP: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) { return nil, refused })}, BaseURL: "http://model.test"})
		if e := failed(t, ask(t.Context(), t, p, hello()).Err); e.Kind != providers.ErrUnavailable || !e.Retryable() {
			t.Errorf("%s: %+v", a.name, e)
		}
		p = a.serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, whole[a.name][:700])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		if e := failed(t, ask(t.Context(), t, p, hello()).Err); e.Kind != providers.ErrCut || !e.Retryable() {
			t.Errorf("%s: %+v", a.name, e)
		}
	}
}

// A provider that sends nothing is given up: before the answer and in it. What comes, be it a ping, shows that it is there.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		for _, begun := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := a.make(providers.Config{BaseURL: "http://model.test", FirstByte: time.Hour, Silence: time.Minute, HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
					out, in := io.Pipe()
					go func() {
						defer in.Close()
						if begun {
							for _, e := range strings.SplitAfter(whole[a.name], "\n\n")[:5] {
								_, _ = io.WriteString(in, e)
								time.Sleep(50 * time.Second)
								_, _ = io.WriteString(in, ": ping\n\n")
								time.Sleep(50 * time.Second)
							}
						}
						<-r.Context().Done()
						_ = in.CloseWithError(r.Context().Err())
					}()
					return &http.Response{StatusCode: http.StatusOK, Body: out}, nil
				})}})
				start, want := time.Now(), time.Hour
				if begun {
					want = 510 * time.Second
				}
				e := failed(t, ask(t.Context(), t, p, hello()).Err)
				if e.Kind != providers.ErrStalled || !e.Retryable() || time.Since(start) != want {
					t.Errorf("%s: %+v after %s", a.name, e, time.Since(start))
				}
			})
		}
	}
}

// Who leaves ends the request: by the context, or by reading no more events.
func TestLeaving(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		for _, how := range []string{"context", "break"} {
			ended := make(chan struct{})
			p := a.serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, strings.Join(strings.SplitAfter(whole[a.name], "\n\n")[:10], ""))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(ended)
			})
			ctx, cancel := context.WithCancel(t.Context())
			for _, err := range p.Stream(ctx, hello()) {
				if how == "break" {
					break
				}
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			<-ended
			cancel()
		}
	}
}
