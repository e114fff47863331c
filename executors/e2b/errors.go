package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Reason says why E2B cannot serve. Stable: it is in the API, as the detail "reason" of place_cannot_serve.
type Reason string

// Reasons.
const (
	NoKey           Reason = "no_key"
	BadKey          Reason = "bad_key"
	Quota           Reason = "quota"    // the plan's number of sandboxes runs already
	Capacity        Reason = "capacity" // the service has no machine free now
	Outage          Reason = "outage"   // it does not answer, or only with errors
	RateLimited     Reason = "rate_limited"
	TemplateMissing Reason = "template_missing"
	Budget          Reason = "budget"
	Timeout         Reason = "timeout"
	GuestFailed     Reason = "guest_failed" // the sandbox is there, and our program does not run in it
	Refused         Reason = "refused"      // it answered, and does not take what was asked
)

// ways are what a person can do about a reason, the best first: words of the API.
var ways = map[Reason][]string{
	NoKey: {"settings", executors.FreePlace}, BadKey: {"settings", executors.FreePlace}, Quota: {"retry", "upgrade", executors.FreePlace}, Capacity: {"retry", executors.FreePlace}, Outage: {"retry", executors.FreePlace},
	RateLimited: {"retry", executors.FreePlace}, TemplateMissing: {"settings", executors.FreePlace}, Budget: {"settings", executors.FreePlace}, Timeout: {"retry", executors.FreePlace},
	GuestFailed: {"retry", "settings", executors.FreePlace}, Refused: {"retry", "settings", executors.FreePlace},
}

// words are a reason and a cure for people.
var words = map[Reason][2]string{
	NoKey:       {"E2B has no API key here", "An operator enters it in Settings, Places, or sets E2B_API_KEY on the server."},
	BadKey:      {"E2B does not take this server's API key", "An operator enters a valid one in Settings, Places; keys are made at e2b.dev/dashboard."},
	Quota:       {"E2B's plan allows no more sandboxes at once", "Pause a workspace that nobody uses, wait for one to be paused, or upgrade the plan at e2b.dev."},
	Capacity:    {"E2B has no machine free now", "Try again in a moment."},
	Outage:      {"E2B does not answer", "Try again in a moment, and look at status.e2b.dev; behind a proxy set sandboxing.e2b.proxy."}, // see outage
	RateLimited: {"E2B asks for fewer requests", "Try again in a moment."},
	Timeout:     {"E2B took too long", "Try again in a moment."},
	GuestFailed: {"Parawork's guest does not run in its sandbox at E2B", "Try again. If it stays so, build the template again (`parawork e2b template build`)."},
	Refused:     {"E2B refuses this", "Look at sandboxing.e2b in config.json and at the server's log, then try again."},
}

// wordsOf are a reason and a cure for people, with what was seen of it: that nothing answers is said only where nothing did.
func wordsOf(r Reason, err error) (reason, cure string) {
	reason, cure = words[r][0], words[r][1]
	answered := ""
	if e, ok := errors.AsType[*apiError](err); ok {
		answered = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Status, e.Code)) + ": " + e.Message
	} else if e, ok := errors.AsType[*envdError](err); ok {
		answered = "the sandbox's daemon: " + e.said()
	}
	switch r {
	case Outage:
		if answered != "" {
			return "E2B answers with an error (" + answered + ")", "Try again in a moment, and look at status.e2b.dev."
		}
		if lost, ok := errors.AsType[*lostError](err); ok {
			reason += " (" + line(lost.cause.Error(), 200) + ")"
		}
	case Refused:
		reason += " (" + answered + ")"
	case GuestFailed:
		cause := err
		if g, ok := errors.AsType[*guestError](err); ok {
			cause = g.cause
		} else if e, ok := errors.AsType[*exitError](err); ok {
			cause = e
		}
		reason += ": " + line(cause.Error(), 500)
	}
	return reason, cure
}

// lostError is a question that was not answered: no connection was made, or it was cut.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// lost is the error of an HTTP client as a *lostError, or why ctx ended.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return causeOf(ctx, plain(err))
	}
	return &lostError{plain(err)}
}

// CannotServe is the error of a place that cannot serve, with what a person can do.
func CannotServe(cause error, r Reason, reason, cure string) error {
	return fault.Wrap(cause, fault.Unavailable, "place_cannot_serve", "%s. %s", strings.TrimSuffix(reason, "."), cure).
		With("reason", string(r)).With("hint", cure).With("ways", ways[r])
}

func cannot(cause error, r Reason) error {
	reason, cure := wordsOf(r, cause)
	return CannotServe(cause, r, reason, cure)
}

// templateMissing says which template is missing and how it is made.
func templateMissing(cause error, set Settings, cpus int, memoryMB int64) error {
	reason, cure := templateWords(set, cpus, memoryMB)
	return CannotServe(cause, TemplateMissing, reason, cure)
}

func templateWords(set Settings, cpus int, memoryMB int64) (reason, cure string) {
	return "E2B has no template " + set.TemplateOf(cpus, memoryMB) + " for this size", "Build it on the server: `" + BuildCommand(set, cpus, memoryMB) + "`."
}

// why tells what an error of the control plane, or of a sandbox's envd, means. "" = nothing that has a word.
func why(err error) Reason {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == "place_cannot_serve" {
		if r, ok := f.Details["reason"].(string); ok {
			return Reason(r)
		}
	}
	if errors.Is(err, errSlow) || errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return whyInside(err)
	}
	switch {
	case e.Status == http.StatusUnauthorized:
		return BadKey
	case e.Status == http.StatusForbidden && strings.Contains(e.Message, "template"):
		return TemplateMissing
	case e.Status == http.StatusForbidden:
		return BadKey
	case e.Status == http.StatusTooManyRequests && e.RetryAfter >= 0:
		return RateLimited
	case e.Status == http.StatusTooManyRequests:
		return Quota
	case e.Code == "sandbox_capacity_unavailable", e.Code == "sandbox_no_compatible_node":
		return Capacity
	case e.Code == "sandbox_placement_timeout":
		return Timeout
	case (e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest) && strings.Contains(e.Message, "template"):
		return TemplateMissing
	case e.Status >= 500:
		return Outage
	}
	return Refused
}

// whyInside tells what an error means that is none of the control plane's.
func whyInside(err error) Reason {
	if _, ok := errors.AsType[*exitError](err); ok {
		return GuestFailed
	}
	if e, ok := errors.AsType[*envdError](err); ok {
		if e.Status >= 500 || e.Status == 0 && (e.Code == "internal" || e.Code == "unavailable" || e.Code == "unknown") {
			return Outage
		}
		return Refused
	}
	if _, ok := errors.AsType[*lostError](err); ok || errors.Is(err, errCut) {
		return Outage
	}
	if _, ok := errors.AsType[*guestError](err); ok {
		return GuestFailed
	}
	return "" // of this server itself
}

// inWords makes an error of E2B's one for people. What has no words stays as it is.
func inWords(err error, set Settings, cpus int, memoryMB int64) error {
	switch r := why(err); r {
	case "":
		return err
	case TemplateMissing:
		return templateMissing(err, set, cpus, memoryMB)
	default:
		return cannot(err, r)
	}
}
