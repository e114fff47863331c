package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/internal/fault"
)

var errForeign = fault.New(fault.Unavailable, "kubernetes_other_cluster",
	"The sandbox is in another cluster or namespace than this server uses now. Set that one again in Settings, Places, or destroy the sandbox to get a new one.")

// clusterOf is the cluster a sandbox is in; errForeign when it is not the one that is used now.
func (e *Executor) clusterOf(ctx context.Context, r record) (*cluster, error) {
	c, err := e.cluster(ctx)
	if err == nil && r.Cluster != "" && r.Cluster != c.address() {
		return nil, errForeign
	}
	return c, err
}

// Recover finds a sandbox again, and wakes it where its pod has ended and its volume is there. ErrGone when nothing is left of it, or when its
// guest was asked to end. Any other error means that the state is unknown now.
func (e *Executor) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if h.Kind != Kind {
		return nil, fmt.Errorf("handle of kind %q given to the kubernetes executor", h.Kind)
	}
	if h.Version > handleVersion {
		return nil, fmt.Errorf("handle version %d of sandbox %s is newer than this server", h.Version, h.ID)
	}
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return nil, err
	}
	turn, err := e.turns.LockContext(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	defer turn()
	return e.find(ctx, h)
}

// about puts together what is known of a sandbox: its folder, else its handle. fs.ErrNotExist when there never was one.
func (e *Executor) about(h executors.Handle) (record, error) {
	rec, err := e.files.Read(h.ID)
	if err == nil {
		return rec, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return rec, fmt.Errorf("reading the record of sandbox %s: %w", h.ID, err)
	}
	var kept record
	if len(h.State) > 0 {
		if err := json.Unmarshal(h.State, &kept); err != nil {
			return rec, fmt.Errorf("reading the handle of sandbox %s: %w", h.ID, err)
		}
	}
	if kept.Pod == "" && kept.Box == "" || kept.Warm { // the folder of a warm one becomes that of the sandbox it serves
		return rec, fs.ErrNotExist
	}
	for _, name := range []string{kept.Pod, kept.Claim, kept.Box, kept.Sandbox} {
		if name != "" && !dnsName.MatchString(name) {
			return rec, fmt.Errorf("the handle of sandbox %s names what cannot be", h.ID)
		}
	}
	return kept, nil
}

// find looks for a sandbox and its guest. The caller holds the sandbox's turn.
func (e *Executor) find(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(e.removeFolder(h.ID), executors.ErrGone)
	}
	if err != nil {
		return nil, err
	}
	c, err := e.clusterOf(ctx, rec)
	if errors.Is(err, errForeign) {
		return &foreign{e: e, id: h.ID, rec: rec}, nil
	}
	if err != nil {
		return nil, err
	}
	token, err := e.files.Token(h.ID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the token of sandbox %s: %w", h.ID, err)
	}
	if !rec.Warm && (!rec.Ready || err != nil) { // its maker died, or nobody knows its guest's secret
		if err := e.destroy(ctx, h.ID, rec); err != nil {
			return nil, err
		}
		return nil, executors.GoneBecause("The server stopped while it was being made.")
	}
	s := e.known(h.ID)
	if s == nil {
		s = e.adopt(h.ID, rec, token)
	}
	state, p, err := c.state(ctx, rec)
	if err != nil {
		return nil, inWords(err)
	}
	if rec.Warm {
		if state == "" || state == "ended" {
			return nil, errors.Join(e.destroy(ctx, h.ID, rec), executors.GoneBecause(e.endOf(rec, p)))
		}
		return s, nil
	}
	switch state {
	case "running":
		if rec.Paused {
			if err := s.keep(func(r *record) { r.Paused = false }); err != nil {
				return nil, err
			}
		}
		if rec.Up != p.Metadata.UID { // who made the pod died before the guest was in it, or the pod was replaced
			if err := s.begin(ctx, c, p.Metadata.UID); err != nil {
				return nil, inWords(err)
			}
			return s, nil
		}
		if err := s.reach(ctx, c); err != nil {
			return nil, inWords(err)
		}
		s.carry()
		return s, nil
	case "starting":
		if _, err := c.running(ctx, p); err != nil {
			return nil, inWords(err)
		}
		if err := s.begin(ctx, c, p.Metadata.UID); err != nil {
			return nil, inWords(err)
		}
		return s, nil
	}
	if ended, err := e.gone(ctx, c, h.ID, rec, p); ended || err != nil {
		return nil, err
	}
	if !rec.Paused {
		e.cfg.Log.WarnContext(ctx, "the pod of a sandbox has ended; another goes on with its files", "sandbox_id", h.ID, "pod", rec.Pod, "reason", e.endOf(rec, p))
	}
	if err := s.wake(ctx, c); err != nil {
		return nil, err
	}
	return s, nil
}

// gone reports, with an ErrGone, that nothing is left of a sandbox whose pod has ended: it forgets it then.
func (e *Executor) gone(ctx context.Context, c *cluster, id string, rec record, p pod) (bool, error) {
	words := e.endOf(rec, p)
	if rec.Box != "" && rec.BoxDisk {
		there, err := c.claimed(ctx, rec)
		if err != nil || there {
			return false, err
		}
		words = "Its SandboxClaim was removed from the cluster."
	}
	if rec.Claim != "" {
		var have claim
		err := c.do(ctx, ask{method: http.MethodGet, path: c.claims(rec.Claim), out: &have})
		if err == nil && have.Metadata.DeletionTimestamp == nil {
			return false, nil
		}
		if err != nil && !isStatus(err, http.StatusNotFound) {
			return false, inWords(err)
		}
		words = "Its volume was removed from the cluster."
	}
	return true, errors.Join(e.destroy(ctx, id, rec), executors.GoneBecause(words))
}

// endOf says why a pod ended.
func (e *Executor) endOf(rec record, p pod) string {
	if w := endWords(p); w != "" {
		return w
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.ends[rec.Pod]; w != "" {
		return w
	}
	if p.Metadata.UID == "" {
		return "Its pod was deleted from the cluster."
	}
	return "Its pod ended."
}

// foreign is a sandbox of another cluster: it can neither be reached nor ended, only forgotten.
type foreign struct {
	e   *Executor
	id  string
	rec record
}

// Handle is as it was.
func (f *foreign) Handle() executors.Handle { return handleOf(f.id, f.rec) }

// Token is not known here.
func (f *foreign) Token() string { return "" }

// Dial says why it cannot be reached.
func (f *foreign) Dial(context.Context) (io.ReadWriteCloser, error) { return nil, errForeign }

// Destroy forgets it.
func (f *foreign) Destroy(ctx context.Context) error {
	defer f.e.turns.Lock(f.id)()
	return f.e.destroy(ctx, f.id, f.rec)
}

// Remove destroys a sandbox without waking it.
func (e *Executor) Remove(ctx context.Context, h executors.Handle) error {
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return err
	}
	defer e.turns.Lock(h.ID)()
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return e.removeFolder(h.ID)
	}
	if err != nil {
		return err
	}
	return e.destroy(ctx, h.ID, rec)
}

// Asleep reports whether the sandbox has no pod that runs, and its volume is there.
func (e *Executor) Asleep(ctx context.Context, h executors.Handle) (bool, error) {
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return false, err
	}
	turn, err := e.turns.LockContext(ctx, h.ID) // a making may last
	if err != nil {
		return false, err
	}
	defer turn()
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return false, executors.ErrGone
	}
	if err != nil {
		return false, err
	}
	c, err := e.clusterOf(ctx, rec)
	if err != nil {
		return false, err
	}
	state, p, err := c.state(ctx, rec)
	if err != nil {
		return false, inWords(err)
	}
	if state == "running" || state == "starting" || !rec.Ready {
		return false, nil
	}
	if ended, err := e.gone(ctx, c, h.ID, rec, p); ended || err != nil {
		return false, err
	}
	if !rec.Paused { // nobody here did that
		rec.Paused, rec.Ended, rec.Why = true, c.endedAt(p), e.endOf(rec, p)
		if s := e.known(h.ID); s != nil {
			s.cut(errAsleep)
			err = s.keep(func(r *record) { r.Paused, r.Ended, r.Why = true, rec.Ended, rec.Why })
		} else {
			err = e.files.Write(h.ID, rec)
		}
		if err != nil {
			return false, err
		}
		e.cfg.Log.WarnContext(ctx, "the pod of a sandbox has ended", "sandbox_id", h.ID, "pod", rec.Pod, "reason", rec.Why)
	}
	return true, nil
}

// AsleepBecause says why a sandbox's pod ended although nobody paused it.
func (e *Executor) AsleepBecause(sandboxID string) string {
	if sandboxdir.CheckID(sandboxID) != nil {
		return ""
	}
	rec, err := e.files.Read(sandboxID)
	if err != nil {
		return ""
	}
	return rec.Why
}

// List returns every sandbox of this instance that the cluster has, and every one that has a folder.
func (e *Executor) List(ctx context.Context) ([]executors.Handle, error) {
	ids, err := e.files.IDs()
	if err != nil {
		return nil, err
	}
	var out []executors.Handle
	here := make(map[string]bool)
	names := make(map[string]bool)
	for _, id := range ids {
		rec, err := e.files.Read(id)
		if err != nil {
			rec = record{}
		}
		here[id], names[rec.Pod], names[rec.Claim], names[rec.Box] = true, true, true, true
		out = append(out, handleOf(id, rec))
	}
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if !set.on() {
		return out, nil
	}
	c, err := e.cluster(ctx)
	if err != nil {
		return nil, err
	}
	instance, err := e.ourInstance()
	if err != nil {
		return nil, err
	}
	pods, err := all[pod](ctx, c, c.pods(""), ours(instance))
	if err != nil {
		return nil, inWords(err)
	}
	claims, err := all[claim](ctx, c, c.claims(""), ours(instance))
	if err != nil {
		return nil, inWords(err)
	}
	var boxes []sandboxClaim
	if c.set.WarmPool != "" {
		if boxes, err = all[sandboxClaim](ctx, c, c.boxes(""), ours(instance)); err != nil {
			return nil, inWords(err)
		}
	}
	// Those without a folder nobody here knows. They are not ready, so whoever looks for one ends it.
	strays := make(map[string]record)
	note := func(m meta, put func(*record)) {
		id := m.Annotations[noteID]
		if names[m.Name] || here[id] || sandboxdir.CheckID(id) != nil || m.DeletionTimestamp != nil {
			return
		}
		r := strays[id]
		r.Cluster, r.Namespace = c.address(), c.set.Namespace
		put(&r)
		strays[id] = r
	}
	for _, p := range pods {
		note(p.Metadata, func(r *record) { r.Pod = p.Metadata.Name })
	}
	for _, v := range claims {
		note(v.Metadata, func(r *record) {
			r.Claim = v.Metadata.Name
			if r.Pod == "" {
				r.Pod = v.Metadata.Name // they have one name
			}
		})
	}
	for _, b := range boxes {
		note(b.Metadata, func(r *record) { r.Box = b.Metadata.Name; r.Sandbox = b.Status.Sandbox.Name })
	}
	for id, r := range strays {
		out = append(out, handleOf(id, r))
	}
	return out, nil
}

// Sweep forgets a sandbox that is gone.
func (e *Executor) Sweep(_ context.Context, sandboxID string) error {
	if err := sandboxdir.CheckID(sandboxID); err != nil {
		return err
	}
	defer e.turns.Lock(sandboxID)()
	if rec, err := e.files.Read(sandboxID); err == nil && rec.Ready {
		return nil // it lives, for all that is known here
	}
	return e.removeFolder(sandboxID)
}

// endedAt is when a pod ended, ms UTC; 0 = it does not say.
func (c *cluster) endedAt(p pod) int64 {
	if s := p.container(); s != nil && s.State.Terminated != nil && s.State.Terminated.FinishedAt != nil {
		return c.clock.Ours(s.State.Terminated.FinishedAt.UnixMilli())
	}
	if p.Metadata.DeletionTimestamp != nil {
		return c.clock.Ours(p.Metadata.DeletionTimestamp.UnixMilli())
	}
	return 0
}

// Ran returns the sandbox's latest run as the cluster records it, or as it was kept before its pod was removed.
func (e *Executor) Ran(ctx context.Context, h executors.Handle) (executors.Ran, error) {
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return executors.Ran{}, err
	}
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return executors.Ran{}, executors.ErrGone
	}
	if err != nil {
		return executors.Ran{}, err
	}
	out := executors.Ran{BeganAt: rec.Runs, EndedAt: rec.Ended}
	c, err := e.clusterOf(ctx, rec)
	if err != nil {
		return executors.Ran{}, err
	}
	p, err := c.pod(ctx, rec.Pod)
	if isStatus(err, http.StatusNotFound) {
		return out, nil
	}
	if err != nil {
		return executors.Ran{}, inWords(err)
	}
	if s := p.container(); s != nil {
		if r := s.State.Running; r != nil && r.StartedAt != nil {
			out.BeganAt = c.clock.Ours(r.StartedAt.UnixMilli())
		}
		if t := s.State.Terminated; t != nil && t.StartedAt != nil {
			out.BeganAt = c.clock.Ours(t.StartedAt.UnixMilli())
		}
	}
	if at := c.endedAt(p); at != 0 {
		out.EndedAt = at
	}
	return out, nil
}
