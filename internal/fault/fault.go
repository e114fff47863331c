// Package fault gives errors that cross package boundaries a kind, a stable code and a sentence for the person who meets them.
//
// A package returns a *Error (usually through New or Wrap) when the caller can act on the difference; server/rest is the
// only place that turns kinds into HTTP status codes. Everything else travels as an ordinary wrapped error and reaches the
// person as "internal", with its text only in the log.
package fault

import (
	"errors"
	"fmt"
	"maps"
)

// Kind is the class of an error, one per way a caller can react.
type Kind string

// The kinds. Forbidden and NotFound look the same to people outside the team.
const (
	Invalid      Kind = "invalid"      // the request itself is wrong: fix it and try again
	Unauthorized Kind = "unauthorized" // nobody is signed in
	Forbidden    Kind = "forbidden"    // signed in, but without the right
	NotFound     Kind = "not_found"    // no such thing, or not yours to see
	Conflict     Kind = "conflict"     // the thing has changed, or is in a state that does not allow this
	Precondition Kind = "precondition" // If-Match did not match
	TooLarge     Kind = "too_large"    // over a size cap
	RateLimited  Kind = "rate_limited" // too often: wait
	Quota        Kind = "quota"        // a quota or budget forbids it
	Unavailable  Kind = "unavailable"  // a part that is needed cannot answer now
	Gone         Kind = "gone"         // it existed and no longer exists
	Unsupported  Kind = "unsupported"  // this executor or build cannot do it
	Timeout      Kind = "timeout"      // it took longer than allowed
	DiskFull     Kind = "disk_full"    // no space left where it must be written
	Internal     Kind = "internal"     // an internal error
)

// Error is an error with a kind, a stable code (snake_case, documented in docs/errors.md) and a message that says what is wrong and what to
// do. Details are safe to show to the caller.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Details map[string]any
	Err     error // the cause, for the log; never shown
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// New makes an Error of kind k with a stable code and a message for the person.
func New(k Kind, code, format string, args ...any) *Error {
	return &Error{Kind: k, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error that retains cause for the log.
func Wrap(cause error, k Kind, code, format string, args ...any) *Error {
	return &Error{Kind: k, Code: code, Message: fmt.Sprintf(format, args...), Err: cause}
}

// With returns a copy of e with one more detail.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Details = make(map[string]any, len(e.Details)+1)
	maps.Copy(c.Details, e.Details)
	c.Details[key] = value
	return &c
}

// KindOf returns the kind of the first Error in err's chain, Internal when there is none, and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// CodeOf returns the stable code of the first Error in err's chain, "" when there is none.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Is reports whether err carries kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// Words returns a text for an error that is safe to show: a fault's message, otherwise for any other error.
func Words(err error, otherwise string) string {
	if f, ok := errors.AsType[*Error](err); ok {
		return f.Message
	}
	return otherwise
}
