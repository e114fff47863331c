package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
)

const (
	// askedFor is how long it holds that the cluster can be used.
	askedFor = 20 * time.Second
	// usualStart is how long a sandbox takes where none was made yet, ms.
	usualStart = 3000
)

// Capabilities asks the cluster whether it can be used.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: Kind, Name: "Kubernetes", Isolated: true, Boundary: executors.ContainerBoundary, Limits: true,
		Ports: true, OwnDisk: true, StartMs: usualStart,
		Isolation: "Container: a pod of the Kubernetes cluster, with its own processes, file system and network; the code is sent there"}
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the settings of Kubernetes: %w", err)
	}
	refuse := func(reason, cure string) (executors.Capabilities, error) {
		c.Available, c.Reason, c.Cure = false, reason, cure
		for i := range c.Sizes {
			c.Sizes[i].Available, c.Sizes[i].Reason, c.Sizes[i].Cure = false, reason, cure
		}
		return c, nil
	}
	if set, err = set.Normal(); err != nil {
		return refuse("its settings cannot be used: "+err.Error(), "Fix them in Settings, Places, or in config.json.")
	}
	c.Network, c.Gated, c.Pause, c.PauseFree = set.NetworkPolicy, set.NetworkPolicy, set.KeepDisk, set.KeepDisk
	c.Sizes, c.PriceNano = set.Sizes(), set.PriceNano(set.CPUs, set.MemoryMB)
	c.MakeMs = (set.StartWithin + 2*time.Minute).Milliseconds()
	if !set.on() {
		c.NotSetUp = true
		return refuse(words[NoKey][0], words[NoKey][1])
	}
	if info, err := os.Stat(e.cfg.GuestPath); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return refuse("the guest program is missing", "Run make build, or point the server at its guest binary.")
	}
	cl, err := e.cluster(ctx)
	if err == nil {
		err = cl.usable(ctx, e.cfg.Now)
	}
	if err != nil {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		r := why(err)
		if _, known := words[r]; !known {
			r = Outage
		}
		return refuse(wordsOf(r, err))
	}
	cl.mu.Lock()
	c.Boundary, c.Isolation = boundaryOf(set.RuntimeClass, cl.runtime, c.Isolation)
	leaks, uncalled := cl.leaks, cl.uncalled
	cl.mu.Unlock()
	c.Available = true
	for i := range c.Sizes {
		c.Sizes[i].Available = true
	}
	switch {
	case leaks != "":
		c.Network = false
		c.Warning = "The cluster's network plugin does not enforce NetworkPolicy: a pod reached " + leaks + ". What workspaces may reach is not enforced."
	case !set.NetworkPolicy:
		c.Warning = "Pods reach whatever the cluster's network lets them: sandboxing.kubernetes.networkPolicy is off."
	}
	if uncalled != "" && set.CallAddress != "" {
		c.Warning = strings.TrimSpace(c.Warning + " " + uncalled + ". They are reached through the cluster's API server, by exec.")
	}
	return c, nil
}

// boundaryOf is how strongly a runtime class isolates.
func boundaryOf(class, handler, otherwise string) (executors.Boundary, string) {
	name := strings.ToLower(class + " " + handler)
	switch {
	case class == "":
	case strings.Contains(name, "gvisor"), strings.Contains(name, "runsc"):
		return executors.KernelBoundary, "gVisor: a pod of the Kubernetes cluster with a kernel of its own in user space; the code is sent there"
	case strings.Contains(name, "kata"), strings.Contains(name, "firecracker"), strings.Contains(name, "cloud-hypervisor"):
		return executors.MachineBoundary, "MicroVM: a pod of the Kubernetes cluster in a virtual machine of its own; the code is sent there"
	}
	return executors.ContainerBoundary, otherwise
}

// usable asks whether the cluster takes the login and has what the settings name; a fresh answer is not asked for again.
func (c *cluster) usable(ctx context.Context, now func() time.Time) error {
	c.mu.Lock()
	at, refused := c.at, c.refused
	c.mu.Unlock()
	if !at.IsZero() && now().Sub(at) < askedFor {
		return refused
	}
	err := c.check(ctx, now)
	if ctx.Err() == nil {
		c.mu.Lock()
		c.at, c.refused = now(), err
		c.mu.Unlock()
	}
	return err
}

// rights are what the login must be allowed to do in the namespace.
var rights = []struct{ verb, group, resource, sub string }{
	{"create", "", "pods", ""}, {"get", "", "pods", ""}, {"list", "", "pods", ""}, {"watch", "", "pods", ""}, {"delete", "", "pods", ""}, {"create", "", "pods", "exec"},
	{"get", "", "persistentvolumeclaims", ""},
}

// check asks for what making a sandbox needs, without making one.
func (c *cluster) check(ctx context.Context, now func() time.Time) error {
	err := c.do(ctx, ask{method: http.MethodGet, path: c.named("/api/v1/namespaces", c.set.Namespace)})
	if err != nil && !isStatus(err, http.StatusForbidden) { // then lists tell
		return err
	}
	var l list[pod]
	if err := c.do(ctx, ask{method: http.MethodGet, path: c.pods(""), query: map[string][]string{"limit": {"1"}}, out: &l}); err != nil {
		return err
	}
	var missing []string
	need := rights
	if c.set.KeepDisk {
		need = append(need[:len(need):len(need)], struct{ verb, group, resource, sub string }{"create", "", "persistentvolumeclaims", ""},
			struct{ verb, group, resource, sub string }{"delete", "", "persistentvolumeclaims", ""})
	}
	if c.set.CallAddress != "" && c.set.NetworkPolicy {
		need = append(need[:len(need):len(need)], struct{ verb, group, resource, sub string }{"create", "networking.k8s.io", "networkpolicies", ""},
			struct{ verb, group, resource, sub string }{"delete", "networking.k8s.io", "networkpolicies", ""})
	}
	for _, r := range need {
		may, err := c.may(ctx, r.verb, r.group, r.resource, r.sub)
		if err != nil {
			return err
		}
		if !may {
			what := r.resource
			if r.sub != "" {
				what += "/" + r.sub
			}
			missing = append(missing, r.verb+" "+what)
		}
	}
	if len(missing) > 0 {
		return &problem{reason: Rights, said: "in namespace " + c.set.Namespace + " it may not " + strings.Join(missing, ", ")}
	}
	if c.set.RuntimeClass != "" {
		var rc struct {
			Handler string `json:"handler"`
		}
		err := c.do(ctx, ask{method: http.MethodGet, path: c.named("/apis/node.k8s.io/v1/runtimeclasses", c.set.RuntimeClass), out: &rc})
		switch {
		case isStatus(err, http.StatusNotFound):
			return &problem{reason: Refused, said: "it has no RuntimeClass " + c.set.RuntimeClass, cause: err}
		case err == nil:
			c.mu.Lock()
			c.runtime = rc.Handler
			c.mu.Unlock()
		case !isStatus(err, http.StatusForbidden): // its name says what it is, then
			return err
		}
	}
	if c.set.WarmPool != "" {
		if err := c.do(ctx, ask{method: http.MethodGet, path: c.extension("sandboxwarmpools", c.set.WarmPool)}); isStatus(err, http.StatusNotFound) {
			return &problem{reason: Refused, said: "it has no SandboxWarmPool " + c.set.WarmPool + " of agent-sandbox in namespace " + c.set.Namespace, cause: err}
		} else if err != nil {
			return err
		}
	}
	return c.secure(ctx, "", now)
}

// may asks whether the login may do something in the namespace.
func (c *cluster) may(ctx context.Context, verb, group, resource, sub string) (bool, error) {
	type attributes struct {
		Namespace   string `json:"namespace"`
		Verb        string `json:"verb"`
		Group       string `json:"group,omitempty"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource,omitempty"`
	}
	type review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Attributes attributes `json:"resourceAttributes"`
		} `json:"spec"`
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status,omitzero"`
	}
	in := review{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	in.Spec.Attributes = attributes{c.set.Namespace, verb, group, resource, sub}
	var out review
	if err := c.do(ctx, ask{method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", in: in, out: &out}); err != nil {
		if isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusForbidden) {
			return true, nil // it does not say; the first pod shows it
		}
		return false, err
	}
	return out.Status.Allowed, nil
}
