package hosted

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Reason says why a service cannot serve. Stable: it is in the API, as the detail "reason" of place_cannot_serve.
type Reason string

// Reasons.
const (
	NoKey        Reason = "no_key"
	BadKey       Reason = "bad_key"
	Quota        Reason = "quota"    // the account may have no more machines
	Capacity     Reason = "capacity" // the service has no machine free now
	Outage       Reason = "outage"   // it does not answer, or only with errors
	RateLimited  Reason = "rate_limited"
	ImageMissing Reason = "image_missing"
	Payment      Reason = "payment" // the account is not paid for
	Timeout      Reason = "timeout"
	GuestFailed  Reason = "guest_failed" // the machine is there, and our program does not run in it
	Refused      Reason = "refused"      // it answered, and does not take what was asked
)

// ways are what a person can do about a reason, the best first: words of the API.
func ways(r Reason) []string {
	switch r {
	case NoKey, BadKey, ImageMissing, Payment:
		return []string{"settings", executors.FreePlace}
	case Quota:
		return []string{"retry", "upgrade", executors.FreePlace}
	case GuestFailed, Refused:
		return []string{"retry", "settings", executors.FreePlace}
	default:
		return []string{"retry", executors.FreePlace}
	}
}

// APIError is a refusal of a service.
type APIError struct {
	Service    string
	Status     int
	Code       string // "" for most
	Message    string
	RetryAfter time.Duration // -1 = it does not say
}

// Error says what was answered.
func (e *APIError) Error() string {
	return fmt.Sprintf("%s answered %s", e.Service, e.said())
}

func (e *APIError) said() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Status, e.Code)) + ": " + e.Message
}

// IsStatus reports whether err is a refusal with one of the statuses.
func IsStatus(err error, statuses ...int) bool {
	e, ok := errors.AsType[*APIError](err)
	if !ok {
		return false
	}
	for _, s := range statuses {
		if e.Status == s {
			return true
		}
	}
	return false
}

// IsCode reports whether err is a refusal with the code.
func IsCode(err error, code string) bool {
	e, ok := errors.AsType[*APIError](err)
	return ok && e.Code == code
}

// lostError is a question that was not answered: no connection was made, or it was cut.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// Lost makes the error of a connection one that says so, or why ctx ended.
func Lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &lostError{bare(err)}
}

// guestError says that the guest does not run in a machine that answers.
type guestError struct{ cause error }

func (e *guestError) Error() string { return "the guest does not run: " + e.cause.Error() }
func (e *guestError) Unwrap() error { return e.cause }

// errSlow says that a question took longer than it may.
var errSlow = errors.New("the service did not answer in time")

// Troubles are the words of a service about why it cannot serve.
type Troubles struct {
	Service string // what people call it
	// Words are a reason and a cure for people, without a full stop behind the first. What is missing has words of its own.
	Words map[Reason][2]string
	// Why tells what a refusal means; "" = as for every service.
	Why func(*APIError) Reason
}

// Why tells what an error means; "" = nothing that has a word: it is of this server itself.
func (t Troubles) why(err error) Reason {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == "place_cannot_serve" {
		if r, ok := f.Details["reason"].(string); ok {
			return Reason(r)
		}
	}
	if _, ok := errors.AsType[*guestError](err); ok {
		return GuestFailed
	}
	if errors.Is(err, errSlow) || errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	e, ok := errors.AsType[*APIError](err)
	if !ok {
		if _, lost := errors.AsType[*lostError](err); lost {
			return Outage
		}
		return ""
	}
	if t.Why != nil {
		if r := t.Why(e); r != "" {
			return r
		}
	}
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return BadKey
	case e.Status == http.StatusPaymentRequired:
		return Payment
	case e.Status == http.StatusTooManyRequests:
		return RateLimited
	case e.Status >= 500:
		return Outage
	}
	return Refused
}

// words are a reason and a cure for people, with what was seen of it: that nothing answers is said only where nothing did.
func (t Troubles) words(r Reason, err error) (reason, cure string) {
	said, ok := t.Words[r]
	if !ok {
		said = map[Reason][2]string{
			Capacity:    {t.Service + " has no machine free now", "Try again in a moment."},
			Outage:      {t.Service + " does not answer", "Try again in a moment, and see whether this server reaches it."},
			RateLimited: {t.Service + " asks for fewer requests", "Try again in a moment."},
			Timeout:     {t.Service + " took too long", "Try again in a moment."},
			GuestFailed: {"Parawork's guest does not run in its sandbox at " + t.Service, "Try again, and see whether the image is one of Linux with a shell."},
			Refused:     {t.Service + " refuses this", "Look at its settings in Settings, Places and at the server's log, then try again."},
			Payment:     {t.Service + " asks for a payment first", "Look at the account's plan and payments."},
		}[r]
	}
	reason, cure = said[0], said[1]
	api, answered := errors.AsType[*APIError](err)
	switch r {
	case Outage:
		if answered {
			return t.Service + " answers with an error (" + api.said() + ")", "Try again in a moment."
		}
		if lost, ok := errors.AsType[*lostError](err); ok {
			reason += " (" + Line(lost.cause.Error(), 200) + ")"
		}
	case GuestFailed:
		if g, ok := errors.AsType[*guestError](err); ok {
			reason += ": " + Line(g.cause.Error(), 500)
		}
	case NoKey:
	default:
		if answered {
			reason += " (" + api.said() + ")"
		}
	}
	return reason, cure
}

// CannotServe is the error of a place that cannot serve, with what a person can do.
func (t Troubles) CannotServe(cause error, r Reason) error {
	reason, cure := t.words(r, cause)
	return fault.Wrap(cause, fault.Unavailable, "place_cannot_serve", "%s. %s", strings.TrimSuffix(reason, "."), cure).
		With("reason", string(r)).With("hint", cure).With("ways", ways(r))
}

// Only is CannotServe whose words are the reason alone, for the button that tries settings: the cure is a detail.
func (t Troubles) Only(cause error, r Reason) error {
	reason, cure := t.words(r, cause)
	return Say(cause, r, reason, cure)
}

// Say is such an error in words of its own.
func Say(cause error, r Reason, reason, cure string) error {
	return fault.Wrap(cause, fault.Unavailable, "place_cannot_serve", "%s.", strings.TrimSuffix(reason, ".")).
		With("reason", string(r)).With("hint", cure).With("ways", ways(r))
}

// InWords makes an error of the service one for people. What has no words stays as it is.
func (t Troubles) InWords(err error) error {
	if r := t.why(err); r != "" {
		return t.CannotServe(err, r)
	}
	return err
}

// Unwell is what it means that a plain question was not answered well, in words: no machine was asked for.
func (t Troubles) Unwell(err error) (r Reason, reason, cure string) {
	if r = t.why(err); r == "" || r == Capacity {
		r = Outage
	}
	reason, cure = t.words(r, err)
	return r, reason, cure
}

// Line makes foreign words one bounded line.
func Line(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
