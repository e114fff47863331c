package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Reason says why the cluster cannot serve. Stable: it is in the API, as the detail "reason" of place_cannot_serve.
type Reason string

// Reasons.
const (
	NoKey            Reason = "no_key"            // no cluster is set
	BadKey           Reason = "bad_key"           // the cluster does not take this server's login
	Rights           Reason = "rights"            // the login may not do what is needed
	NamespaceMissing Reason = "namespace_missing" //
	Quota            Reason = "quota"             // a ResourceQuota or LimitRange of the namespace forbids it
	Admission        Reason = "admission"         // a rule of the cluster refuses the pod
	Capacity         Reason = "capacity"          // no node has room for the pod
	ImageMissing     Reason = "image"             // a node cannot get the image
	Storage          Reason = "storage"           // the volume cannot be made or mounted
	Outage           Reason = "outage"            // the API server does not answer, or only with errors
	RateLimited      Reason = "rate_limited"      //
	Timeout          Reason = "timeout"           // it took too long
	GuestFailed      Reason = "guest_failed"      // the pod is there, and our program does not run in it
	Refused          Reason = "refused"           // it answered, and does not take what was asked
)

// ways are what a person can do about a reason, the best first: words of the API.
func ways(r Reason) []string {
	switch r {
	case NoKey, BadKey, Rights, NamespaceMissing, Admission:
		return []string{"settings", executors.FreePlace}
	case Outage, Capacity, RateLimited, Timeout, Quota:
		return []string{"retry", executors.FreePlace}
	}
	return []string{"retry", "settings", executors.FreePlace}
}

// words are a reason and a cure for people.
var words = map[Reason][2]string{
	NoKey:            {"no Kubernetes cluster is set", "An operator enters a kubeconfig in Settings, Places, or sets sandboxing.kubernetes in config.json."},
	BadKey:           {"the Kubernetes cluster does not take this server's login", "An operator enters a kubeconfig with a valid login in Settings, Places."},
	Rights:           {"this server's login lacks rights in the Kubernetes cluster", "Apply the Role of docs/kubernetes.md to the namespace."},
	NamespaceMissing: {"the Kubernetes cluster has no such namespace", "Make it with the manifest of docs/kubernetes.md, or name another in Settings, Places."},
	Quota:            {"the Kubernetes namespace's limits allow no more", "Pause or destroy a workspace that nobody uses, or raise the ResourceQuota or LimitRange."},
	Admission:        {"a rule of the Kubernetes cluster refuses the pod", "Look at the cluster's PodSecurity level and admission policies, and at sandboxing.kubernetes."},
	Capacity:         {"no node of the Kubernetes cluster has room for the pod", "Try again in a moment, choose a smaller size, or add nodes."},
	ImageMissing:     {"a node of the Kubernetes cluster cannot get the image", "Look at sandboxing.kubernetes.image and imagePullSecret."},
	Storage:          {"the pod's volume cannot be used", "Look at sandboxing.kubernetes.storageClass and the cluster's storage."},
	Outage:           {"the Kubernetes API server does not answer", "Try again in a moment."},
	RateLimited:      {"the Kubernetes API server asks for fewer requests", "Try again in a moment."},
	Timeout:          {"the Kubernetes cluster took too long", "Try again in a moment."},
	GuestFailed:      {"Parawork's guest does not run in its pod", "Try again. If it stays so, try another image: it needs sh, tar and gzip."},
	Refused:          {"the Kubernetes cluster refuses this", "Look at sandboxing.kubernetes and at the server's log, then try again."},
}

// problem is something that was understood where it was seen.
type problem struct {
	reason Reason
	said   string // by the cluster
	cause  error
}

func (p *problem) Error() string {
	return string(p.reason) + ": " + p.said
}
func (p *problem) Unwrap() error { return p.cause }

// why tells what an error means. "" = nothing that has a word.
func why(err error) Reason {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == "place_cannot_serve" {
		if r, ok := f.Details["reason"].(string); ok {
			return Reason(r)
		}
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return p.reason
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	if _, ok := errors.AsType[*lostError](err); ok {
		return Outage
	}
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return ""
	}
	text := strings.ToLower(e.Message)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case e.Status == http.StatusUnauthorized:
		return BadKey
	case e.Status == http.StatusTooManyRequests:
		return RateLimited
	case e.Status >= 500:
		return Outage
	case e.Status == http.StatusForbidden && has("exceeded quota", "must specify limits", "must specify requests", "usage per container", "usage per pod", "usage per persistentvolumeclaim"):
		return Quota
	case e.Status == http.StatusForbidden && has("cannot ") && has("user ", "serviceaccount"):
		return Rights
	case e.Status == http.StatusForbidden && has("is being terminated"):
		return NamespaceMissing
	case e.Status == http.StatusForbidden, has("admission webhook", "validatingadmissionpolicy"):
		return Admission
	case e.Status == http.StatusNotFound && has("namespace"):
		return NamespaceMissing
	}
	return Refused
}

// wordsOf are a reason and a cure for people, with what the cluster says.
func wordsOf(r Reason, err error) (reason, cure string) {
	reason, cure = words[r][0], words[r][1]
	said := ""
	if p, ok := errors.AsType[*problem](err); ok {
		said = p.said
	} else if e, ok := errors.AsType[*apiError](err); ok {
		said = e.Message
		if r == Outage || r == Refused {
			said = fmt.Sprintf("HTTP %d: %s", e.Status, e.Message)
		}
		if r == Outage {
			reason = "the Kubernetes API server answers with an error"
		}
	} else if l, ok := errors.AsType[*lostError](err); ok {
		said = l.cause.Error()
	}
	if said = line(strings.TrimSuffix(said, "."), 500); said != "" {
		reason += " (" + said + ")"
	}
	return reason, cure
}

// cannot is the error of a place that cannot serve, with what a person can do.
func cannot(cause error, r Reason) error {
	reason, cure := wordsOf(r, cause)
	return cannotServe(cause, r, strings.ToUpper(reason[:1])+reason[1:], cure)
}

func cannotServe(cause error, r Reason, reason, cure string) error {
	return fault.Wrap(cause, fault.Unavailable, "place_cannot_serve", "%s. %s", strings.TrimSuffix(reason, "."), cure).
		With("reason", string(r)).With("hint", cure).With("ways", ways(r))
}

// cannotUse is the error of settings that cannot be used.
func cannotUse(cause error) error {
	return cannotServe(cause, BadKey, "The settings of Kubernetes cannot be used: "+cause.Error(), "Fix them in Settings, Places, or in config.json.")
}

// inWords makes an error of the cluster's one for people. What has no words stays as it is.
func inWords(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == "place_cannot_serve" {
		return err
	}
	if r := why(err); r != "" {
		return cannot(err, r)
	}
	return err
}
