package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
)

// Class tells what a warm sandbox must be like to serve s: where it is, what it is made from, its size, and the guest that is in it.
func (e *Executor) Class(s executors.Spec) string {
	c, err := e.cluster(context.Background())
	if err != nil || c.set.WarmPool != "" {
		return "" // Warm says why; a pool of the cluster's own needs none of ours
	}
	class, err := e.class(c, s.Size)
	if err != nil {
		return ""
	}
	return class
}

func (e *Executor) class(c *cluster, size executors.Size) (string, error) {
	prog, err := e.program()
	if err != nil {
		return "", err
	}
	if size.CPUs == 0 {
		size.CPUs, size.MemoryMB = c.set.CPUs, c.set.MemoryMB
	}
	set := c.set
	like := fmt.Sprint(set.Image, set.RuntimeClass, set.NodeSelector, set.Tolerations, set.ServiceAccount, set.PriorityClass, set.UserID, set.UserNamespace,
		set.KeepDisk, set.StorageClass, set.DiskGB, set.NetworkPolicy, set.RequestCPU, set.RequestMemory, prog.hash)
	return fmt.Sprintf("%dx%d-%s-%s", size.CPUs, size.MemoryMB, address(like, ""), c.address()), nil
}

// Warm makes a sandbox of nobody yet: a pod that runs, with the guest's program in it and tried. Nothing that makes it somebody's is in the pod's
// specification, so that nothing has to be made again when it is.
func (e *Executor) Warm(ctx context.Context, id, class string) (executors.Handle, error) {
	none := executors.Handle{}
	if err := sandboxdir.CheckID(id); err != nil {
		return none, err
	}
	defer e.turns.Lock(id)()
	c, err := e.cluster(ctx)
	if err != nil {
		return none, err
	}
	var size executors.Size
	for _, s := range c.set.Sizes() {
		if is, err := e.class(c, s); err == nil && is == class {
			size = s
		}
	}
	if size.CPUs == 0 {
		return none, fmt.Errorf("Kubernetes has no size of class %q any more", class)
	}
	instance, err := e.ourInstance()
	if err != nil {
		return none, err
	}
	attempt, err := e.files.Random(8)
	if err != nil {
		return none, err
	}
	if err := e.removeFolder(id); err != nil {
		return none, err
	}
	name := objectName(instance, id)
	rec := record{Cluster: c.address(), Namespace: c.set.Namespace, Pod: name, Attempt: attempt, Image: c.set.Image, CPUs: size.CPUs, MemoryMB: size.MemoryMB, Warm: true, Class: class}
	if c.set.KeepDisk {
		rec.Claim = name
	}
	if err := e.files.Make(id); err != nil {
		return none, err
	}
	if err := e.files.Write(id, rec); err != nil {
		return none, err
	}
	s := e.adopt(id, rec, "")
	if _, err = e.start(ctx, c, id, rec); err == nil {
		err = s.boot(ctx, c)
	}
	if err == nil {
		return s.Handle(), nil
	}
	if serr := e.settle(ctx, func(ctx context.Context) error { return e.destroy(ctx, id, rec) }); serr != nil {
		e.cfg.Log.Error("half-made warm sandbox could not be ended", "sandbox_id", id, "error", serr)
	}
	return none, fmt.Errorf("making the warm sandbox %s in Kubernetes: %w", id, inWords(err))
}

// takeWarm makes the warm sandbox that s names the sandbox s.ID, whose folder and record are then there. false = there is none to be taken.
func (e *Executor) takeWarm(ctx context.Context, c *cluster, instance string, s executors.Spec) (bool, error) {
	if s.Warm == nil || s.Warm.Kind != Kind || sandboxdir.CheckID(s.Warm.ID) != nil || s.Warm.ID == s.ID {
		return false, nil
	}
	defer e.turns.Lock(s.Warm.ID)()
	rec, err := e.files.Read(s.Warm.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // one is made instead
	}
	if err != nil {
		return false, err
	}
	class, err := e.class(c, s.Size)
	if err != nil {
		return false, err
	}
	if !rec.Warm || rec.Class != class || rec.Cluster != c.address() {
		return false, nil
	}
	// What is not ready, ends, or is another's is left alone: its pool finds it gone.
	if state, p, err := c.state(ctx, rec); err != nil || state != "running" || p.Metadata.Labels[labelInstance] != instance {
		e.cfg.Log.Warn("warm sandbox cannot be taken", "sandbox_id", s.Warm.ID, "state", state, "error", err)
		return false, nil
	}
	rec.Team, rec.Workspace, rec.Root, rec.Gate, rec.Warm = s.TeamID, s.WorkspaceID, s.Inside, s.Gate, false
	e.mu.Lock()
	delete(e.live, s.Warm.ID)
	e.mu.Unlock()
	// One step: at every instant exactly one folder names it.
	if err := e.files.Rename(s.Warm.ID, s.ID); err != nil {
		return false, fmt.Errorf("taking the warm sandbox %s: %w", s.Warm.ID, err)
	}
	if err := e.files.Write(s.ID, rec); err != nil {
		return false, err
	}
	return true, c.relabel(ctx, instance, s.ID, rec)
}

// relabel writes whose a pod and its volume are now.
func (c *cluster) relabel(ctx context.Context, instance, id string, r record) error {
	change := struct {
		Metadata meta `json:"metadata"`
	}{meta{Labels: r.labels(instance, id), Annotations: map[string]string{noteID: id}}}
	if err := c.do(ctx, ask{method: http.MethodPatch, path: c.pods(r.Pod), in: change, patch: true}); err != nil {
		return fmt.Errorf("naming the pod's owner: %w", err)
	}
	if r.Claim == "" {
		return nil
	}
	if err := c.do(ctx, ask{method: http.MethodPatch, path: c.claims(r.Claim), in: change, patch: true}); err != nil {
		return fmt.Errorf("naming the volume's owner: %w", err)
	}
	return nil
}
