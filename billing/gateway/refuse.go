package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/fault"
)

// refusal is an answer of the gateway itself, in the words of the API that was asked. Status codes are those that stop the agents'
// programs cleanly (measured with Claude Code 2.1.197 and Codex 0.169.0): 400 stops both at once; 402 stops Claude Code at once, while
// Codex tries it five times; 401, 429 and 5xx are tried again by Claude Code for minutes.
type refusal struct {
	status int
	code   string // stable: docs/gateway.md
	words  string
	after  int    // seconds until it is worth trying again; 0 = it is not said
	again  bool   // it is worth trying again at all
	outer  string // the error stored for it, an Err of tokens; "" = nothing is stored
}

// refuse turns an error into the answer for an agent. An error that is not a fault is internal, and its text is not sent.
func refuse(err error) refusal {
	r := refusal{status: http.StatusInternalServerError, code: "internal", words: "Something went wrong in Parawork's model gateway. The server's log says more.", again: true}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return r
	}
	r.code, r.words, r.again = f.Code, f.Message, false
	switch f.Kind {
	case fault.Unauthorized:
		r.status = http.StatusUnauthorized
	case fault.Forbidden, fault.Invalid:
		r.status = http.StatusBadRequest
	case fault.NotFound:
		r.status = http.StatusNotFound
	case fault.TooLarge:
		r.status = http.StatusRequestEntityTooLarge
	case fault.Quota:
		r.status, r.outer = http.StatusPaymentRequired, tokens.ErrBudget
	case fault.RateLimited:
		r.status, r.again, r.outer = http.StatusTooManyRequests, true, tokens.ErrRate
		if ms, ok := f.Details["retry_after_ms"].(int64); ok {
			r.after = int((ms + 999) / 1000)
		}
	case fault.Timeout:
		r.status, r.again = http.StatusGatewayTimeout, true
	case fault.Unavailable:
		r.status, r.again = http.StatusServiceUnavailable, true
	default:
		r.status, r.again = http.StatusInternalServerError, true
	}
	return r
}

// typeOf is what an API calls a class of errors.
func (r refusal) typeOf(d dialect) string {
	switch {
	case r.status == http.StatusUnauthorized:
		return "authentication_error"
	case r.status == http.StatusNotFound:
		return "not_found_error"
	case r.status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case r.status == http.StatusPaymentRequired && d == anthropicDialect:
		return "billing_error"
	case r.status == http.StatusPaymentRequired:
		return "insufficient_quota"
	case r.status == http.StatusRequestEntityTooLarge && d == anthropicDialect:
		return "request_too_large"
	case r.status >= 500 && d == anthropicDialect:
		return "api_error"
	case r.status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// write answers with the refusal.
func (r refusal) write(w http.ResponseWriter, d dialect, a api) {
	if r.status == http.StatusPaymentRequired && a == responses {
		r.status = http.StatusBadRequest // Codex tries a 402 again and stops at a 400
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Parawork-Error", r.code)
	if r.after > 0 {
		h.Set("Retry-After", strconv.Itoa(r.after))
	}
	if !r.again {
		h.Set("X-Should-Retry", "false") // what the providers' own clients go by
	}
	var body any
	if d == anthropicDialect {
		body = map[string]any{"type": "error", "error": map[string]any{"type": r.typeOf(d), "message": r.words}}
	} else {
		body = map[string]any{"error": map[string]any{"type": r.typeOf(d), "code": r.code, "message": r.words, "param": nil}}
	}
	text, err := json.Marshal(body)
	if err != nil {
		text = []byte(`{}`)
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(append(text, '\n'))
}
