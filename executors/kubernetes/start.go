package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
)

const (
	// imagePatience is how long a node may fail to get an image that may be there.
	imagePatience = 45 * time.Second
	// eventsEvery is how often the cluster is asked what keeps a pod from starting.
	eventsEvery = 3 * time.Second
)

// start makes the pod of r, which is kept already, and waits until it runs.
func (e *Executor) start(ctx context.Context, c *cluster, id string, r record) (pod, error) {
	instance, err := e.ourInstance()
	if err != nil {
		return pod{}, err
	}
	if err := c.secure(ctx, instance, e.cfg.Now); err != nil {
		return pod{}, err
	}
	if r.Claim != "" {
		err := c.do(ctx, ask{method: http.MethodPost, path: c.claims(""), in: c.claimOf(instance, id, r)})
		if err != nil && !isStatus(err, http.StatusConflict) { // it has its name from us: it is the sandbox's own
			return pod{}, fmt.Errorf("making the volume: %w", err)
		}
	}
	e.forget(r.Pod)
	e.watchPods(c, instance)
	p, err := e.makePod(ctx, c, instance, id, r)
	if err != nil {
		return p, fmt.Errorf("making the pod: %w", err)
	}
	return c.running(ctx, p)
}

// makePod makes a pod, or finds the one that an answer was lost of.
func (e *Executor) makePod(ctx context.Context, c *cluster, instance, id string, r record) (pod, error) {
	want := c.podOf(instance, id, r)
	for range tries {
		var p pod
		err := c.do(ctx, ask{method: http.MethodPost, path: c.pods(""), in: want, out: &p})
		if err == nil {
			return p, nil
		}
		_, lost := errors.AsType[*lostError](err)
		server := isStatus(err, http.StatusInternalServerError) || isStatus(err, http.StatusGatewayTimeout) || isStatus(err, http.StatusServiceUnavailable)
		taken := isStatus(err, http.StatusConflict)
		if !lost && !server && !taken || ctx.Err() != nil {
			return p, err
		}
		there, gerr := c.pod(ctx, r.Pod)
		switch {
		case isStatus(gerr, http.StatusNotFound) && taken: // it has just gone
		case isStatus(gerr, http.StatusNotFound):
			if err := sleep(ctx, 250*time.Millisecond); err != nil {
				return p, err
			}
		case gerr != nil:
			return p, errors.Join(err, gerr)
		case there.Metadata.Labels[labelInstance] == instance && there.Metadata.Annotations[noteAttempt] == r.Attempt && there.Metadata.DeletionTimestamp == nil:
			return there, nil // it was made
		default: // an earlier one of ours, which ends
			if err := c.remove(ctx, instance, r.Pod); err != nil {
				return p, err
			}
		}
		if !taken && !lost && !server {
			return p, err
		}
	}
	return pod{}, &problem{reason: Timeout, said: "the API server did not say whether the pod was made"}
}

// running waits until a pod runs.
func (c *cluster) running(ctx context.Context, p pod) (pod, error) {
	name, uid := p.Metadata.Name, p.Metadata.UID
	late := &problem{reason: Timeout, said: fmt.Sprintf("the pod did not run %s after it was made", c.set.StartWithin)}
	ctx, cancel := context.WithTimeoutCause(ctx, c.set.StartWithin, late)
	defer cancel()
	judge := &judge{c: c}
	for {
		done, err := judge.look(ctx, p)
		if done || err != nil {
			return p, err
		}
		// The watch ends by itself now and then: each time the pod is read, and what happens to it is asked for.
		wctx, stop := context.WithTimeoutCause(ctx, eventsEvery, errLookAgain)
		err = c.watch(wctx, url.Values{"fieldSelector": {"metadata.name=" + name}}, p.Metadata.ResourceVersion, func(typ string, now pod) bool {
			if now.Metadata.UID != uid {
				return false
			}
			p = now
			if typ == "DELETED" {
				p.Metadata.DeletionTimestamp = ptr(time.Now())
			}
			return now.phase() != "waiting" || typ == "DELETED"
		})
		stop()
		if ctx.Err() != nil {
			return p, judge.late(ctx, p)
		}
		if now, gerr := c.pod(ctx, name); gerr == nil && now.Metadata.UID == uid {
			p = now
		} else if isStatus(gerr, http.StatusNotFound) || gerr == nil {
			return p, &problem{reason: Refused, said: cmp.Or(endWords(p), "the pod was deleted while it was started")}
		} else if err := sleep(ctx, time.Second); err != nil { // the API server is away: the pod may be fine
			return p, judge.late(ctx, p)
		}
		if err != nil && !errors.Is(err, errLookAgain) {
			if serr := sleep(ctx, 200*time.Millisecond); serr != nil {
				return p, judge.late(ctx, p)
			}
		}
	}
}

var errLookAgain = errors.New("it is looked at again")

// phase is running, ended or waiting.
func (p pod) phase() string {
	if p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded" {
		return "ended"
	}
	if s := p.container(); s != nil {
		switch {
		case s.State.Terminated != nil:
			return "ended"
		case s.State.Running != nil:
			return "running"
		}
	}
	return "waiting"
}

// container is the state of the container we start.
func (p pod) container() *containerStatus {
	i := slices.IndexFunc(p.Status.ContainerStatuses, func(s containerStatus) bool { return s.Name == containerName })
	if i < 0 && len(p.Status.ContainerStatuses) == 1 {
		i = 0
	}
	if i < 0 {
		return nil
	}
	return &p.Status.ContainerStatuses[i]
}

func (p pod) condition(typ string) (condition, bool) {
	i := slices.IndexFunc(p.Status.Conditions, func(c condition) bool { return c.Type == typ })
	if i < 0 {
		return condition{}, false
	}
	return p.Status.Conditions[i], true
}

// judge watches over a pod that is started.
type judge struct {
	c       *cluster
	imageAt time.Time // since when a node fails to get the image
	asked   time.Time
	said    problem // the newest of what keeps it from starting
}

// look says whether a pod runs, or why it never will.
func (j *judge) look(ctx context.Context, p pod) (done bool, err error) {
	switch p.phase() {
	case "running":
		return p.Metadata.DeletionTimestamp == nil, nil
	case "ended":
		return false, &problem{reason: GuestFailed, said: cmp.Or(endWords(p), "the pod ended at once")}
	}
	if p.Metadata.DeletionTimestamp != nil {
		return false, &problem{reason: Refused, said: cmp.Or(endWords(p), "the pod was deleted while it was started")}
	}
	if s := p.container(); s != nil && s.State.Waiting != nil {
		if err := j.waits(ctx, p, *s.State.Waiting); err != nil {
			return false, err
		}
	}
	if c, ok := p.condition("PodScheduled"); ok && c.Status == "False" {
		j.note(ctx, Capacity, c.Message)
		if j.said.reason == Storage { // its events say more
			j.events(ctx, p)
		}
		return false, nil
	}
	j.events(ctx, p)
	return false, nil
}

// waits judges why a container waits.
func (j *judge) waits(ctx context.Context, p pod, w waiting) error {
	said := line(w.Reason+": "+w.Message, 500)
	switch w.Reason {
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		return &problem{reason: ImageMissing, said: said}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return &problem{reason: Refused, said: said}
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable":
		if j.imageAt.IsZero() {
			j.imageAt = time.Now()
		}
		text := w.Message
		if w.Reason == "ImagePullBackOff" { // it does not say why
			for _, e := range j.c.events(ctx, p.Metadata.Name) {
				if e.Reason == "Failed" && strings.Contains(e.Message, "Failed to pull image") {
					text = e.Message
				}
			}
			said = line(text, 500)
		}
		j.note(ctx, ImageMissing, said)
		for _, final := range []string{"not found", "denied", "unauthorized", "manifest unknown", "no such host", "invalid reference"} {
			if strings.Contains(strings.ToLower(text), final) {
				return &problem{reason: ImageMissing, said: said}
			}
		}
		if time.Since(j.imageAt) > imagePatience {
			return &problem{reason: ImageMissing, said: said}
		}
	}
	return nil
}

// note keeps, and shows people, what keeps a pod from starting.
func (j *judge) note(ctx context.Context, r Reason, said string) {
	if strings.Contains(strings.ToLower(said), "persistentvolumeclaim") {
		r = Storage
	}
	if said = line(said, 300); j.said.said != said {
		j.said = problem{reason: r, said: said}
		executors.SayStep(ctx, executors.StepCreate, "", said)
	}
}

// eventReasons are what the cluster's warnings about a pod mean.
var eventReasons = map[string]Reason{"FailedMount": Storage, "FailedAttachVolume": Storage, "ProvisioningFailed": Storage,
	"FailedBinding": Storage, "VolumeResizeFailed": Storage, "FailedCreatePodSandBox": Refused, "NetworkNotReady": Capacity}

// events asks what the cluster says of a pod, and of its volume, now and then.
func (j *judge) events(ctx context.Context, p pod) {
	if time.Since(j.asked) < eventsEvery-200*time.Millisecond {
		return
	}
	first := j.asked.IsZero()
	if j.asked = time.Now(); first {
		return // most pods start at once
	}
	names := []string{p.Metadata.Name}
	for _, v := range p.Spec.Volumes {
		if v.Claim != nil {
			names = append(names, v.Claim.ClaimName)
		}
	}
	for _, name := range names {
		for _, e := range j.c.events(ctx, name) {
			if r := eventReasons[e.Reason]; r != "" && e.Type == "Warning" {
				j.note(ctx, r, e.Reason+": "+e.Message)
			} else if e.Reason == "Pulling" {
				executors.SayStep(ctx, executors.StepCreate, "", line(e.Message, 200))
			}
		}
	}
}

// late is why a pod does not run in time.
func (j *judge) late(ctx context.Context, p pod) error {
	cause := context.Cause(ctx)
	if _, ours := errors.AsType[*problem](cause); !ours && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	if j.said.said != "" {
		return &problem{reason: j.said.reason, said: j.said.said, cause: cause}
	}
	if c, ok := p.condition("PodScheduled"); ok && c.Message != "" {
		return &problem{reason: Capacity, said: c.Message, cause: cause}
	}
	return cause
}

// endWords says why a pod ended, or ends; "" = it does not say.
func endWords(p pod) string {
	node := ""
	if p.Spec.NodeName != "" {
		node = " on node " + p.Spec.NodeName
	}
	var t *terminated
	if s := p.container(); s != nil {
		t = s.State.Terminated
	}
	d, disrupted := p.condition("DisruptionTarget")
	disrupted = disrupted && d.Status == "True"
	switch {
	case t != nil && t.Reason == "OOMKilled":
		limit := ""
		if len(p.Spec.Containers) > 0 && p.Spec.Containers[0].Resources.Limits["memory"] != "" {
			limit = " of " + p.Spec.Containers[0].Resources.Limits["memory"] + "B"
		}
		return "It needed more memory than its limit" + limit + ", so the kernel ended it (OOMKilled)."
	case p.Status.Reason == "Evicted":
		return "Kubernetes evicted its pod" + node + ": " + said(p.Status.Message)
	case p.Status.Reason == "NodeLost" || disrupted && d.Reason == "DeletionByTaintManager":
		return "Its node was lost or no longer takes it" + node + ": " + said(cmp.Or(d.Message, p.Status.Message, d.Reason))
	case disrupted && d.Reason == "EvictionByEvictionAPI":
		return "Its node was drained: its pod was evicted" + node + ": " + said(d.Message)
	case disrupted && d.Reason == "PreemptionByScheduler":
		return "A pod of higher priority took its place" + node + ": " + said(d.Message)
	case disrupted:
		return "Kubernetes ended its pod" + node + ": " + said(cmp.Or(d.Message, d.Reason))
	case p.Status.Reason != "":
		return "Kubernetes ended its pod" + node + " (" + p.Status.Reason + "): " + said(p.Status.Message)
	case t != nil && t.Reason != "Completed":
		return fmt.Sprintf("Its container ended with exit code %d%s (%s): %s", t.ExitCode, node, t.Reason, said(t.Message))
	}
	return ""
}

// said is a foreign sentence.
func said(s string) string {
	if s = line(strings.TrimSuffix(strings.TrimSpace(s), "."), 400); s == "" {
		return "it does not say why."
	}
	return s + "."
}
