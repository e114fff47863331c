//go:build linux || darwin

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// helloIn is how long the guest of a running container may take to call and say hello.
const helloIn = 5 * time.Second

// Recover finds a container again. ErrGone when it has ended or was removed: its folder stays for those who want to know how its processes
// ended. Any other error means that the state is unknown now.
func (e *Executor) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if h.Kind != e.cfg.Kind {
		return nil, fmt.Errorf("handle of kind %q given to the docker executor", h.Kind)
	}
	if h.Version > HandleVersion {
		return nil, fmt.Errorf("handle version %d of sandbox %s is newer than this server", h.Version, h.ID)
	}
	if err := hostproc.CheckID(h.ID); err != nil {
		return nil, err
	}
	defer e.turns.Lock(h.ID)()
	s, err := e.find(ctx, h)
	if errors.Is(err, executors.ErrGone) {
		e.shut(h.ID)
		e.keepEnd(ctx, h.ID)
		if rerr := e.remove(ctx, h.ID); rerr != nil {
			e.cfg.Log.Warn("container that has ended could not be removed", "sandbox_id", h.ID, "error", rerr)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// find looks for the container of a sandbox and its guest. The caller holds the sandbox's turn.
func (e *Executor) find(ctx context.Context, h executors.Handle) (*sandbox, error) {
	var rec record
	if err := hostproc.ReadRecord(e.dir(h.ID), &rec); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the record of sandbox %s: %w", h.ID, err)
	}
	if len(h.State) > 0 {
		if err := json.Unmarshal(h.State, &rec); err != nil {
			return nil, fmt.Errorf("reading the handle of sandbox %s: %w", h.ID, err)
		}
	}
	c, err := e.inspect(ctx, h.ID)
	switch {
	case errors.Is(err, executors.ErrGone) && rec.Remote && c.ContainerJSONBase != nil && c.State.Status != container.StateCreated:
		return e.revive(ctx, h.ID, rec) // its disk is there
	case errors.Is(err, executors.ErrGone):
		return nil, e.reallyGone(ctx, h.ID, rec, err)
	case err != nil && !rec.Remote && unreachable(errors.Unwrap(err)) && rec.Container != "":
		// Containers may outlive their engine, and a guest needs no engine to call its host.
		if s, oerr := e.adopt(ctx, h.ID, rec, time.Second); oerr == nil {
			return s, nil
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	rec.Container = c.ID
	if c.State.Paused {
		return e.open(ctx, h.ID, rec) // it cannot answer, and need not
	}
	if rec.Remote {
		return e.adopt(ctx, h.ID, rec, remoteHelloIn)
	}
	return e.adopt(ctx, h.ID, rec, helloIn)
}

// reallyGone distinguishes a container that was removed from one that another engine has.
func (e *Executor) reallyGone(ctx context.Context, id string, rec record, gone error) error {
	if rec.Engine == "" {
		return gone
	}
	info, err := e.About(ctx)
	if err != nil {
		return inWords(err)
	}
	if info.ID != rec.Engine {
		return fault.New(fault.Unavailable, "docker_other_engine",
			"The sandbox %s was made by another Docker engine than the one this server uses now. Set sandboxing.docker.host back, or destroy the sandbox.", id)
	}
	return gone
}

// inspect returns the sandbox's container, which runs and is ours. ErrGone when there is none.
func (e *Executor) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	c, err := e.api.ContainerInspect(ctx, containerName(id))
	if errdefs.IsNotFound(err) {
		return c, fmt.Errorf("sandbox %s has no container: %w", id, executors.ErrGone)
	}
	if err != nil {
		return c, inWords(err)
	}
	instance, err := e.ourInstance()
	if err != nil {
		return c, err
	}
	if c.ContainerJSONBase == nil || c.State == nil || c.Config == nil || c.Config.Labels[labelInstance] != instance || c.Config.Labels[labelSandbox] != id {
		return container.InspectResponse{}, fmt.Errorf("the container %s is not of this instance: %w", containerName(id), executors.ErrGone)
	}
	if !c.State.Running {
		return c, goneBecause(c.State)
	}
	return c, nil
}

// goneBecause says why a container no longer runs.
func goneBecause(st *container.State) error {
	words := fmt.Sprintf("Its container has ended (exit code %d).", st.ExitCode)
	switch {
	case st.Status == "created":
		words = "Its container was never started."
	case st.OOMKilled:
		words = "Its container was ended: out of memory."
	case st.ExitCode == 137:
		words = "Its container was killed: by somebody, for want of memory, or because Docker was restarted."
	case st.ExitCode == 0:
		words = "Its container was stopped, or Docker was restarted."
	}
	return executors.GoneBecause(words)
}

// open returns the sandbox with its listener open.
func (e *Executor) open(ctx context.Context, id string, rec record) (*sandbox, error) {
	if rec.Remote {
		return e.openRemote(id, rec)
	}
	if s := e.known(id); s != nil && !s.listener.Closed() {
		return s, nil
	}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	token, err := hostproc.ReadToken(e.dir(id))
	if hostproc.Unreadable(err) {
		return nil, fmt.Errorf("reading the token of sandbox %s: %w", id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no token (%w): %w", id, err, executors.ErrGone)
	}
	listener, err := listen(ctx, e.callDir(id), token)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("sandbox %s has no folder (%w): %w", id, err, executors.ErrGone)
	}
	if err != nil {
		return nil, err
	}
	s := &sandbox{e: e, id: id, token: token, listener: listener, rec: rec}
	e.opened(s)
	return s, nil
}

// adopt opens the listener and waits for the guest's hello.
func (e *Executor) adopt(ctx context.Context, id string, rec record, within time.Duration) (*sandbox, error) {
	s, err := e.open(ctx, id, rec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errors.New("the guest in the container does not call"))
	defer cancel()
	c := client.New(client.Config{Dial: s.await, Token: s.token, SandboxID: id, Now: e.cfg.Now})
	defer c.Close()
	h, err := c.Hello(ctx)
	if err != nil {
		return nil, fmt.Errorf("saying hello to sandbox %s: %w", id, err)
	}
	if err := executors.CheckHello(h, id); err != nil {
		return nil, err
	}
	if rec.Remote {
		s.startCarrying()
		return s, nil
	}
	return s, e.hideToken(id)
}

// destroy ends and removes everything of a sandbox. Idempotent. The caller holds the sandbox's turn.
func (e *Executor) destroy(ctx context.Context, id string) error {
	e.shut(id)
	if err := e.remove(ctx, id); err != nil {
		return err
	}
	if err := os.RemoveAll(e.dir(id)); err != nil {
		return fmt.Errorf("removing the folder of sandbox %s: %w", id, err)
	}
	return nil
}

// remove stops and removes the sandbox's container, if there is one of ours.
func (e *Executor) remove(ctx context.Context, id string) error {
	c, err := e.inspect(ctx, id)
	if err != nil && !errors.Is(err, executors.ErrGone) {
		return err
	}
	if c.ContainerJSONBase == nil {
		return nil
	}
	if err := e.stop(ctx, id, c); err != nil {
		return err
	}
	err = e.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) { // somebody else is removing it
		err = e.removed(ctx, c.ID)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return inWords(fmt.Errorf("removing the container of sandbox %s: %w", id, err))
	}
	return nil
}

// stop ends what runs in a container.
func (e *Executor) stop(ctx context.Context, id string, c container.InspectResponse) error {
	if c.State.Paused { // a paused container receives no signals
		if err := e.api.ContainerUnpause(ctx, c.ID); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			return inWords(err)
		}
	}
	if c.State.Running {
		grace := int((2*e.cfg.Grace + time.Second) / time.Second)
		if err := e.api.ContainerStop(ctx, c.ID, container.StopOptions{Timeout: &grace}); err != nil && !errdefs.IsNotFound(err) {
			e.cfg.Log.Debug("container did not stop", "sandbox_id", id, "error", err) // the caller removes it by force
			return e.killed(ctx, c.ID)
		}
	}
	return nil
}

// killed kills a container that did not stop.
func (e *Executor) killed(ctx context.Context, containerID string) error {
	err := e.api.ContainerKill(ctx, containerID, "KILL")
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) { // it has ended meanwhile
		return nil
	}
	return inWords(err)
}

// removed waits until a container that is being removed no longer exists.
func (e *Executor) removed(ctx context.Context, containerID string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	gone, failed := e.api.ContainerWait(ctx, containerID, container.WaitConditionRemoved)
	select {
	case <-gone:
		return nil
	case err := <-failed:
		return err
	}
}
