package e2b

import (
	"context"
	"errors"
	"net/http"
	"strings"

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
)

// ways are what a person can do about a reason, the best first: words of the API.
var ways = map[Reason][]string{
	NoKey: {"settings", "local"}, BadKey: {"settings", "local"}, Quota: {"retry", "upgrade", "local"}, Capacity: {"retry", "local"}, Outage: {"retry", "local"},
	RateLimited: {"retry", "local"}, TemplateMissing: {"settings", "local"}, Budget: {"settings", "local"}, Timeout: {"retry", "local"},
}

// words are a reason and a cure for people.
var words = map[Reason][2]string{
	NoKey:       {"E2B has no API key here", "An operator enters it in Settings, Places, or sets E2B_API_KEY on the server."},
	BadKey:      {"E2B does not take this server's API key", "An operator enters a valid one in Settings, Places; keys are made at e2b.dev/dashboard."},
	Quota:       {"E2B's plan allows no more sandboxes at once", "Pause a workspace that nobody uses, wait for one to be paused, or upgrade the plan at e2b.dev."},
	Capacity:    {"E2B has no machine free now", "Try again in a moment."},
	Outage:      {"E2B does not answer", "Try again in a moment, and look at status.e2b.dev; behind a proxy set sandboxing.e2b.proxy."},
	RateLimited: {"E2B asks for fewer requests", "Try again in a moment."},
	Timeout:     {"E2B took too long", "Try again in a moment."},
}

// CannotServe is the error of a place that cannot serve, with what a person can do.
func CannotServe(cause error, r Reason, reason, cure string) error {
	return fault.Wrap(cause, fault.Unavailable, "place_cannot_serve", "%s. %s", strings.TrimSuffix(reason, "."), cure).
		With("reason", string(r)).With("cure", cure).With("ways", ways[r])
}

func cannot(cause error, r Reason) error { return CannotServe(cause, r, words[r][0], words[r][1]) }

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
		if d, is := errors.AsType[*envdError](err); is && d.Status == 0 {
			return "" // a refusal of what was asked
		}
		return Outage
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
	return ""
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
