package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Where kubernetes-sigs/agent-sandbox is installed, sandboxes can be claimed from a SandboxWarmPool of its own instead of being made here. A claim
// says nothing that would have it make another pod: no environment and no volumes. What makes a pod somebody's is brought over an exec. Read
// against v0.5.6 and its main branch of August 2026 (v1beta1).

const (
	sandboxAPI   = "/apis/agents.x-k8s.io/v1beta1/namespaces/"
	extensionAPI = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/"
	// notePodName is the annotation of a Sandbox whose pod has another name.
	notePodName = "agents.x-k8s.io/pod-name"
)

type sandboxClaim struct {
	APIVersion string           `json:"apiVersion,omitempty"`
	Kind       string           `json:"kind,omitempty"`
	Metadata   meta             `json:"metadata"`
	Spec       sandboxClaimSpec `json:"spec"`
	Status     struct {
		Conditions []condition `json:"conditions,omitempty"`
		Sandbox    named       `json:"sandbox,omitzero"`
	} `json:"status,omitzero"`
}

type sandboxClaimSpec struct {
	Pool      named `json:"warmPoolRef"`
	Lifecycle struct {
		ShutdownPolicy string `json:"shutdownPolicy,omitempty"`
	} `json:"lifecycle,omitzero"`
}

type agentSandbox struct {
	Metadata meta `json:"metadata"`
	Status   struct {
		Conditions []condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

func (c *cluster) extension(kind, name string) string {
	return c.named(extensionAPI+url.PathEscape(c.set.Namespace)+"/"+kind, name)
}

// boxes is the path of SandboxClaims.
func (c *cluster) boxes(name string) string { return c.extension("sandboxclaims", name) }

func (c *cluster) agentSandboxes(name string) string {
	return c.named(sandboxAPI+url.PathEscape(c.set.Namespace)+"/sandboxes", name)
}

// claim has the sandbox's SandboxClaim get a pod, and returns it once it runs. The claim is made where it is not there.
func (s *sandbox) claim(ctx context.Context, c *cluster) (pod, error) {
	instance, err := s.e.ourInstance()
	if err != nil {
		return pod{}, err
	}
	if err := c.secure(ctx, instance, s.e.cfg.Now); err != nil {
		return pod{}, err
	}
	late := &problem{reason: Timeout, said: fmt.Sprintf("the SandboxClaim had no pod that runs %s after it was made", c.set.StartWithin)}
	ctx, cancel := context.WithTimeoutCause(ctx, c.set.StartWithin, late)
	defer cancel()
	if s.record().Sandbox != "" {
		if err := c.mode(ctx, s.record().Sandbox, "Running"); err != nil {
			return pod{}, err
		}
	}
	judge := &judge{c: c}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		p, err := s.claimStep(ctx, c, instance, judge)
		if err == nil && p.phase() == "running" {
			return p, s.keep(func(r *record) { r.Pod = p.Metadata.Name })
		}
		if _, lost := errors.AsType[*lostError](err); err != nil && !lost {
			return pod{}, err
		}
		if sleep(ctx, wait) != nil {
			return pod{}, judge.late(ctx, p)
		}
	}
}

// claimStep looks how far a claim is. Without an error, and without a pod that runs, it is looked at again.
func (s *sandbox) claimStep(ctx context.Context, c *cluster, instance string, j *judge) (pod, error) {
	none := pod{}
	r := s.record()
	var got sandboxClaim
	err := c.do(ctx, ask{method: http.MethodGet, path: c.boxes(r.Box), out: &got})
	if isStatus(err, http.StatusNotFound) {
		in := sandboxClaim{APIVersion: "extensions.agents.x-k8s.io/v1beta1", Kind: "SandboxClaim", Metadata: meta{Name: r.Box, Namespace: c.set.Namespace,
			Labels: r.labels(instance, s.id), Annotations: map[string]string{noteID: s.id}}}
		in.Spec.Pool.Name, in.Spec.Lifecycle.ShutdownPolicy = c.set.WarmPool, "Delete"
		err = c.do(ctx, ask{method: http.MethodPost, path: c.boxes(""), in: in, out: &got})
		if isStatus(err, http.StatusConflict) { // its answer had been lost
			return none, nil
		}
	}
	if err != nil {
		return none, err
	}
	if got.Metadata.Labels[labelInstance] != instance || got.Metadata.Annotations[noteID] != s.id {
		return none, &problem{reason: Refused, said: "the SandboxClaim " + r.Box + " belongs to another sandbox"}
	}
	j.conditions(ctx, got.Status.Conditions)
	name := got.Status.Sandbox.Name
	if name == "" {
		return none, nil
	}
	if name != r.Sandbox {
		if err := s.keep(func(r *record) { r.Sandbox = name }); err != nil {
			return none, err
		}
	}
	p, err := c.podOfSandbox(ctx, name)
	if isStatus(err, http.StatusNotFound) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	// One that ends, or was not ready when it was claimed, is not used: its Sandbox gets another.
	if p.Metadata.DeletionTimestamp != nil || p.phase() == "ended" {
		return none, nil
	}
	if c.set.NetworkPolicy && p.Metadata.Labels[labelManaged] != managedBy { // what forbids pods everything would not hold for it
		return none, &problem{reason: Refused, said: "the pool's pods lack the label " + labelManaged + "=" + managedBy + ": apply the template that `parawork kubernetes pool` prints"}
	}
	_, err = j.look(ctx, p)
	return p, err
}

// claimReasons are why the controller gives a claim no Sandbox until somebody changes what was set.
var claimReasons = map[string]Reason{"WarmPoolNotFound": Refused, "TemplateNotFound": Refused, "InvalidMetadata": Refused,
	"EnvVarsInjectionRejected": Refused, "VolumeClaimTemplatesError": Refused}

// conditions keeps why a claim or Sandbox is not ready.
func (j *judge) conditions(ctx context.Context, all []condition) {
	for _, c := range all {
		if c.Type == "Ready" && c.Status == "False" && c.Message != "" {
			j.note(ctx, cmp.Or(claimReasons[c.Reason], Capacity), c.Reason+": "+c.Message)
		}
	}
}

// podOfSandbox is the pod of a Sandbox, which may have another name.
func (c *cluster) podOfSandbox(ctx context.Context, name string) (pod, error) {
	var box agentSandbox
	if err := c.do(ctx, ask{method: http.MethodGet, path: c.agentSandboxes(name), out: &box}); err != nil {
		return pod{}, err
	}
	if other := box.Metadata.Annotations[notePodName]; other != "" {
		name = other
	}
	return c.pod(ctx, name)
}

// mode has a Sandbox run, or be suspended: its pod ends then, and its volumes stay.
func (c *cluster) mode(ctx context.Context, sandbox, mode string) error {
	in := map[string]any{"spec": map[string]any{"operatingMode": mode}}
	if err := c.do(ctx, ask{method: http.MethodPatch, path: c.agentSandboxes(sandbox), in: in, patch: true}); err != nil {
		return fmt.Errorf("having the Sandbox be %s: %w", mode, err)
	}
	return nil
}

// retire ends a sandbox's pod, and keeps the rest of it.
func (c *cluster) retire(ctx context.Context, instance string, r record) error {
	if r.Box == "" {
		return c.remove(ctx, instance, r.Pod)
	}
	if r.Sandbox == "" {
		return nil
	}
	if err := c.mode(ctx, r.Sandbox, "Suspended"); isStatus(err, http.StatusNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return c.podless(ctx, r)
}

// podless waits until the pod of a Sandbox is no more.
func (c *cluster) podless(ctx context.Context, r record) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneWithin, &problem{reason: Timeout, said: "the pod " + r.Pod + " of Sandbox " + r.Sandbox + " does not end"})
	defer cancel()
	for wait := 100 * time.Millisecond; r.Pod != ""; wait = min(2*wait, 2*time.Second) {
		_, err := c.pod(ctx, r.Pod)
		if isStatus(err, http.StatusNotFound) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// claimed reports whether the SandboxClaim of a sandbox is there.
func (c *cluster) claimed(ctx context.Context, r record) (bool, error) {
	var got sandboxClaim
	err := c.do(ctx, ask{method: http.MethodGet, path: c.boxes(r.Box), out: &got})
	if isStatus(err, http.StatusNotFound) {
		return false, nil
	}
	if err != nil {
		return false, inWords(err)
	}
	return got.Metadata.DeletionTimestamp == nil, nil
}

// release removes a SandboxClaim of ours, with its Sandbox, and waits until its pod is no more.
func (c *cluster) release(ctx context.Context, instance string, r record) error {
	var got sandboxClaim
	err := c.do(ctx, ask{method: http.MethodGet, path: c.boxes(r.Box), out: &got})
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if got.Metadata.Labels[labelInstance] != instance {
		return &problem{reason: Refused, said: "the SandboxClaim " + r.Box + " belongs to another Parawork"}
	}
	if err := c.delete(ctx, c.boxes(r.Box), got.Metadata.UID, 0); err != nil {
		return err
	}
	return c.podless(ctx, r)
}
