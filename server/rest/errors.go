package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
)

// StatusOf is where kinds of errors become HTTP status codes, and the only place.
var StatusOf = map[fault.Kind]int{
	fault.Invalid:      http.StatusBadRequest,
	fault.Unauthorized: http.StatusUnauthorized,
	fault.Forbidden:    http.StatusForbidden,
	fault.NotFound:     http.StatusNotFound,
	fault.Conflict:     http.StatusConflict,
	fault.Precondition: http.StatusPreconditionFailed,
	fault.TooLarge:     http.StatusRequestEntityTooLarge,
	fault.RateLimited:  http.StatusTooManyRequests,
	fault.Quota:        http.StatusPaymentRequired,
	fault.Unavailable:  http.StatusServiceUnavailable,
	fault.Gone:         http.StatusGone,
	fault.Unsupported:  http.StatusNotImplemented,
	fault.Timeout:      http.StatusGatewayTimeout,
	fault.DiskFull:     http.StatusInsufficientStorage,
	fault.Internal:     http.StatusInternalServerError,
}

// Problem is an answer that is not a success.
type Problem struct {
	Status int
	Body   api.Problem
	Cause  error // for the log, nil when the answer says everything
}

// Translate turns any error into a response for the caller. The text of an error that is not a fault never leaves the server.
func Translate(err error) Problem {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return ofFault(f, err)
	}
	if h, ok := errors.AsType[*echo.HTTPError](err); ok {
		return ofEcho(h)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return ofFault(ErrTooLarge(err), err)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return ofFault(fault.Wrap(err, fault.Timeout, "timeout", "The operation timed out. Try again."), err)
	case errors.Is(err, context.Canceled):
		return ofFault(fault.Wrap(err, fault.Unavailable, "interrupted", "The request was interrupted. Try again."), err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT): // wherever it was met first
		return ofFault(fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full. Free some space, then try again."), err)
	case errors.Is(err, errors.ErrUnsupported):
		return ofFault(fault.Wrap(err, fault.Unsupported, "unsupported", "This place cannot do that."), err)
	}
	return ofFault(fault.Wrap(err, fault.Internal, "internal", "Something went wrong on the server. Its log has the details under this request's id."), err)
}

func ofFault(f *fault.Error, err error) Problem {
	p := Problem{Status: StatusOf[f.Kind], Body: api.Problem{Code: f.Code, Message: f.Message}}
	p.Status = cmp.Or(p.Status, http.StatusInternalServerError)
	if p.Body.Code == "" {
		p.Body.Code = string(f.Kind)
	}
	if len(f.Details) > 0 {
		p.Body.Details = &f.Details
	}
	if p.Status >= 500 || f.Err != nil {
		p.Cause = err
	}
	return p
}

// ofEcho translates what Echo and the generated code refuse by themselves.
func ofEcho(h *echo.HTTPError) Problem {
	p := Problem{Status: h.Code, Cause: h.Internal}
	switch h.Code {
	case http.StatusNotFound:
		p.Body = api.Problem{Code: "route_not_found", Message: "The API has no such address. GET /api/v1/openapi.yaml lists them."}
	case http.StatusMethodNotAllowed:
		p.Body = api.Problem{Code: "method_not_allowed", Message: "This address does not take that method. The Allow header says which it takes."}
	case http.StatusRequestEntityTooLarge:
		f := ErrTooLarge(h)
		p.Body = api.Problem{Code: f.Code, Message: f.Message}
	case http.StatusBadRequest:
		p.Body = api.Problem{Code: "invalid_parameter", Message: sentence(h.Message)}
	default:
		p.Body = api.Problem{Code: "refused", Message: sentence(h.Message)}
		if h.Code >= 500 {
			p.Body = api.Problem{Code: "internal", Message: "Something went wrong on the server. Its log has the details under this request's id."}
			p.Cause = h
		}
	}
	return p
}

// sentence is the text Echo gives with a refusal; it speaks of the request only.
func sentence(message any) string {
	s := strings.ToValidUTF8(fmt.Sprint(message), "?")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300])
	}
	if s == "" {
		return "The request cannot be read."
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// ErrTooLarge refuses a body that is larger than it may be.
func ErrTooLarge(cause error) *fault.Error {
	return fault.Wrap(cause, fault.TooLarge, "body_too_large", "The request body is too large for this call.")
}

// Challenge asks for a token.
const Challenge = `Bearer realm="parawork"`

// Write answers with the problem.
func (p Problem) Write(w http.ResponseWriter, requestID string, head bool) {
	p.Body.RequestId = requestID
	body, err := json.Marshal(p.Body)
	if err != nil { // details that cannot be encoded: tell the rest
		p.Body.Details = nil
		body, _ = json.Marshal(p.Body)
	}
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Disposition", "Content-Encoding", "ETag", "Last-Modified", "Set-Cookie"} {
		h.Del(name) // of an answer that was being prepared
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	switch p.Status {
	case http.StatusUnauthorized:
		if h.Get("WWW-Authenticate") == "" {
			h.Set("WWW-Authenticate", Challenge)
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.FormatInt(p.retryAfter(), 10))
	}
	w.WriteHeader(p.Status)
	if !head {
		_, _ = w.Write(append(body, '\n'))
	}
}

// retryAfter is after how many seconds to try again.
func (p Problem) retryAfter() int64 {
	if p.Body.Details != nil {
		if ms, ok := (*p.Body.Details)["retry_after_ms"].(int64); ok && ms > 0 {
			return (ms + 999) / 1000
		}
	}
	return 1
}
