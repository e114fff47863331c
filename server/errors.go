package server

import (
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

// statusOf is where kinds of errors become HTTP status codes, and the only place.
var statusOf = map[fault.Kind]int{
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

// problem is an answer that is not a success.
type problem struct {
	status int
	body   api.Problem
	cause  error // for the log, nil when the answer says everything
}

// translate turns any error into what the caller is told. Text of errors that are no faults never leaves the server.
func translate(err error) problem {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return ofFault(f, err)
	}
	if h, ok := errors.AsType[*echo.HTTPError](err); ok {
		return ofEcho(h)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return ofFault(errTooLarge(err), err)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return ofFault(fault.Wrap(err, fault.Timeout, "timeout", "This took longer than the server waits. Try again."), err)
	case errors.Is(err, context.Canceled):
		return ofFault(fault.Wrap(err, fault.Unavailable, "interrupted", "The request was interrupted. Try again."), err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT): // wherever it was met first
		return ofFault(fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full. Make room, then try again."), err)
	case errors.Is(err, errors.ErrUnsupported):
		return ofFault(fault.Wrap(err, fault.Unsupported, "unsupported", "This place cannot do that."), err)
	}
	return ofFault(fault.Wrap(err, fault.Internal, "internal", "Something went wrong in the server. Its log says more under this request's id."), err)
}

func ofFault(f *fault.Error, err error) problem {
	p := problem{status: statusOf[f.Kind], body: api.Problem{Code: f.Code, Message: f.Message}}
	if p.status == 0 {
		p.status = http.StatusInternalServerError
	}
	if p.body.Code == "" {
		p.body.Code = string(f.Kind)
	}
	if len(f.Details) > 0 {
		p.body.Details = &f.Details
	}
	if p.status >= 500 || f.Err != nil {
		p.cause = err
	}
	return p
}

// ofEcho translates what Echo and the generated code refuse by themselves.
func ofEcho(h *echo.HTTPError) problem {
	p := problem{status: h.Code, cause: h.Internal}
	switch h.Code {
	case http.StatusNotFound:
		p.body = api.Problem{Code: "route_not_found", Message: "The API has no such address. GET /api/v1/openapi.yaml lists them."}
	case http.StatusMethodNotAllowed:
		p.body = api.Problem{Code: "method_not_allowed", Message: "This address does not take that method. The Allow header says which it takes."}
	case http.StatusRequestEntityTooLarge:
		f := errTooLarge(h)
		p.body = api.Problem{Code: f.Code, Message: f.Message}
	case http.StatusBadRequest:
		p.body = api.Problem{Code: "invalid_parameter", Message: sentence(h.Message)}
	default:
		p.body = api.Problem{Code: "refused", Message: sentence(h.Message)}
		if h.Code >= 500 {
			p.body = api.Problem{Code: "internal", Message: "Something went wrong in the server. Its log says more under this request's id."}
			p.cause = h
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

func errTooLarge(cause error) *fault.Error {
	return fault.Wrap(cause, fault.TooLarge, "body_too_large", "The request is larger than this address takes.")
}

// write answers with the problem.
func (p problem) write(w http.ResponseWriter, requestID string, head bool) {
	p.body.RequestId = requestID
	body, err := json.Marshal(p.body)
	if err != nil { // details that cannot be encoded: tell the rest
		p.body.Details = nil
		body, _ = json.Marshal(p.body)
	}
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Disposition", "Content-Encoding", "ETag", "Last-Modified", "Set-Cookie"} {
		h.Del(name) // of an answer that was being prepared
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	switch p.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="parawork"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.FormatInt(p.retryAfter(), 10))
	}
	w.WriteHeader(p.status)
	if !head {
		_, _ = w.Write(append(body, '\n'))
	}
}

// retryAfter is after how many seconds to try again.
func (p problem) retryAfter() int64 {
	if p.body.Details != nil {
		if ms, ok := (*p.body.Details)["retry_after_ms"].(int64); ok && ms > 0 {
			return (ms + 999) / 1000
		}
	}
	return 1
}
