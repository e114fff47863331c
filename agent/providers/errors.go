package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/safetext"
)

// ErrorKind says what kind of failure ended a request.
type ErrorKind string

// Kinds of errors.
const (
	ErrRateLimited    ErrorKind = "rate_limited"
	ErrOverloaded     ErrorKind = "overloaded"
	ErrUnavailable    ErrorKind = "unavailable" // the provider cannot be reached or failed
	ErrCut            ErrorKind = "cut"         // the answer ended before its end
	ErrStalled        ErrorKind = "stalled"     // nothing came for too long
	ErrInvalidRequest ErrorKind = "invalid_request"
	ErrContextTooLong ErrorKind = "context_too_long"
	ErrUnauthorized   ErrorKind = "unauthorized"
	ErrBudget         ErrorKind = "budget"  // no money left, at the gateway or at the provider
	ErrRefused        ErrorKind = "refused" // the provider's rules forbid the request
)

// Error is why a request failed.
type Error struct {
	Kind       ErrorKind
	Status     int           // of HTTP, 0 when there was none
	Code       string        // the gateway's stable code, else the provider's code or type
	Message    string        // for people
	RetryAfter time.Duration // how long the provider asks to wait, 0 when it does not say

	final     bool // trying again is no use, although its kind suggests it
	reasoning bool // the provider cannot read, or does not take, reasoning that it was sent
	images    bool // it may not take images
}

func (e *Error) Error() string { return e.Message }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	return !e.final && slices.Contains([]ErrorKind{ErrRateLimited, ErrOverloaded, ErrUnavailable, ErrCut, ErrStalled}, e.Kind)
}

// Sizes of errors.
const (
	mostErrorBody = 256 << 10
	mostMessage   = 1000 // characters
)

// failure is what providers say of an error: in the body of an answer, or in an event of a stream.
type failure struct {
	Type    string `json:"type"`
	Code    word   `json:"code"`
	Message string `json:"message"`
}

// word is a JSON string or number: providers use both for codes.
type word string

func (w *word) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*w = word(s)
	} else if s = string(b); s != "null" && !strings.ContainsAny(s, "{[") {
		*w = word(s)
	}
	return nil
}

// failureIn finds what a JSON text says of an error; false when it says nothing of one.
func failureIn(text []byte) (f failure, ok bool) {
	text = bytes.TrimSpace(text)
	var list []json.RawMessage // Google wraps an error into a list
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		text = list[0]
	}
	var outer struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"` // of servers made with FastAPI
		Object string          `json:"object"`
		failure
	}
	if json.Unmarshal(text, &outer) != nil {
		return failure{}, false
	}
	var plain string
	switch inner := cmp.Or(string(outer.Error), "null"); {
	case inner != "null" && json.Unmarshal(outer.Error, &plain) == nil:
		return failure{Type: outer.Type, Code: outer.Code, Message: plain}, true
	case inner != "null":
		err := json.Unmarshal(outer.Error, &f)
		return f, err == nil
	case len(outer.Detail) > 0 && string(outer.Detail) != "null":
		if json.Unmarshal(outer.Detail, &plain) != nil {
			plain = string(outer.Detail)
		}
		return failure{Message: plain}, true
	}
	return outer.failure, outer.Object == "error" || outer.Type == "error" || outer.Message != "" && (outer.Code != "" || outer.Type != "")
}

// tooLong are texts of errors that say that a prompt does not fit into the context of the model.
var tooLong = []string{"prompt is too long", "context window", "context length", "context limit", "context size", "context_length", "exceed_context",
	"input is too long", "reduce the length", "maximum prompt length", "input token count"}

// unreadable are texts of errors that say that reasoning of an earlier answer is not taken: another account or model made it, or what
// must follow it is missing.
var unreadable = regexp.MustCompile(`thinking.{0,40}(?:signature|block|cannot be modified)|signature.{0,40}thinking|redacted_thinking|encrypted.content|of type 'reasoning'|reasoning item`)

// imageless are texts of errors of models, or servers of them, that take no images, or not those they were sent.
var imageless = regexp.MustCompile(`image|multi-?modal|mmproj|vision`)

// failed makes the error of what a provider said. Status is 0 when it came in a stream that had begun well.
func (f failure) failed(status int) *Error {
	if n, err := strconv.Atoi(string(f.Code)); err == nil && n >= 400 && n < 600 {
		if f.Code = ""; status < 400 {
			status = n
		}
	}
	if f.Type == "error" { // of an event; it says nothing
		f.Type = ""
	}
	e := &Error{Status: status, Code: cmp.Or(string(f.Code), f.Type), Message: safetext.Cut(safetext.Lines(f.Message), mostMessage)}
	message := strings.ToLower(f.Message)
	named := func(names ...string) bool {
		return slices.Contains(names, string(f.Code)) || slices.Contains(names, f.Type)
	}
	long := slices.ContainsFunc(tooLong, func(s string) bool { return strings.Contains(message, s) })
	if status == http.StatusTooManyRequests { // a request that is larger than a minute's bound
		long = strings.Contains(message, "request too large")
	}
	e.images = imageless.MatchString(message)
	e.reasoning = named("invalid_encrypted_content", "thinking_signature_invalid") || status < 500 && unreadable.MatchString(message)
	switch {
	case named("context_length_exceeded", "exceed_context_size_error", "request_too_large") || status == http.StatusRequestEntityTooLarge || long && status < 500:
		e.Kind = ErrContextTooLong
	case named("insufficient_quota", "billing_error", "billing_hard_limit_reached", "usage_limit_reached") || status == http.StatusPaymentRequired:
		e.Kind = ErrBudget
	case named("invalid_prompt", "content_filter", "content_policy_violation", "cyber_policy"):
		e.Kind = ErrRefused
	case named("overloaded_error", "server_is_overloaded", "slow_down", "engine_overloaded") || status == 529:
		e.Kind = ErrOverloaded
	case named("rate_limit_error", "rate_limit_exceeded") || status == http.StatusTooManyRequests:
		e.Kind = ErrRateLimited
	case named("authentication_error", "permission_error", "invalid_api_key") || status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind = ErrUnauthorized
	case named("api_error", "server_error", "timeout_error", "internal_server_error") || status >= 500,
		slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly}, status):
		e.Kind = ErrUnavailable
	case status >= 400 || named("invalid_encrypted_content", "invalid_request_error", "not_found_error", "BadRequestError", "invalid_image"):
		e.Kind = ErrInvalidRequest
	default:
		e.Kind = ErrUnavailable
	}
	if e.Kind == ErrRateLimited {
		e.RetryAfter = waitIn(message)
	}
	return e
}

var again = regexp.MustCompile(`(?:try|retry) again in (\d+(?:\.\d+)?) ?(ms|s)`)

// waitIn finds how long to wait in the text of an error: in a stream there is no header to say so.
func waitIn(message string) time.Duration {
	if m := again.FindStringSubmatch(message); m != nil {
		d, _ := time.ParseDuration(m[1] + m[2])
		return d
	}
	return 0
}

// refusedBy makes the error of an answer that has no stream: its status, headers and body.
func refusedBy(resp *http.Response, body []byte) *Error {
	f, said := failureIn(body)
	status := resp.StatusCode
	if !said && status < 400 { // the page of a website, or where to find it
		return &Error{Kind: ErrInvalidRequest, Status: status, Code: "not_a_stream", Message: fmt.Sprintf("The provider answered with %s instead of a stream of events. Check the address of its API.",
			cmp.Or(safetext.Line(resp.Header.Get("Content-Type")), "no content type"))}
	}
	e := f.failed(status)
	if e.Message == "" { // a page of a proxy, or nothing
		e.Message = strings.TrimSpace(fmt.Sprintf("The provider answered with HTTP status %d %s.", status, http.StatusText(status)))
	}
	h := resp.Header
	if code := h.Get("X-Parawork-Error"); code != "" {
		e.Code = safetext.Line(code)
		switch e.Code {
		case "budget_exceeded": // with a status that depends on the API
			e.Kind = ErrBudget
		case "gateway_no_account":
			e.Kind = ErrUnauthorized
		}
	}
	e.final = strings.EqualFold(h.Get("X-Should-Retry"), "false")
	e.RetryAfter = cmp.Or(retryAfter(h), e.RetryAfter)
	return e
}

// retryAfter reads how long an answer asks to wait.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	s := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 && n < 1e6 {
		return time.Duration(n * float64(time.Second))
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
