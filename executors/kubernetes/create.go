package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/internal/fault"
)

// settleTimeout bounds what must happen although the caller has left.
const settleTimeout = time.Minute

// settle does what must happen although the caller has left.
func (e *Executor) settle(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return do(ctx)
}

// Create makes a sandbox with a guest for s, or finds the one that was made for s.ID before. On error nothing is left behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := sandboxdir.CheckID(s.ID); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	s.Inside = cmp.Or(s.Inside, defaultRoot)
	if path.Clean(s.Inside) != s.Inside || !strings.HasPrefix(s.Inside, insideWork+"/") {
		return nil, fault.New(fault.Invalid, "invalid_sandbox_path", "The worktree's place %q in the sandbox must be a folder below %s.", s.Inside, insideWork)
	}
	defer e.turns.Lock(s.ID)()
	c, err := e.cluster(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := e.files.Read(s.ID); err == nil {
		found, err := e.find(ctx, executors.Handle{Kind: Kind, ID: s.ID})
		if err == nil || !errors.Is(err, executors.ErrGone) {
			return found, err
		}
	}
	if err := e.removeFolder(s.ID); err != nil { // rests of an earlier try
		return nil, err
	}
	sb, err := e.make(ctx, c, s)
	if err == nil {
		return sb, nil
	}
	serr := e.settle(ctx, func(ctx context.Context) error {
		rec, err := e.files.Read(s.ID)
		if errors.Is(err, fs.ErrNotExist) {
			return e.removeFolder(s.ID)
		}
		if err != nil {
			return err
		}
		return e.destroy(ctx, s.ID, rec)
	})
	if serr != nil { // its folder names what is there: the reaper tries again
		e.cfg.Log.Error("half-made sandbox could not be ended", "sandbox_id", s.ID, "error", serr)
	}
	return nil, fmt.Errorf("making sandbox %s in Kubernetes: %w", s.ID, inWords(err))
}

// make does it. The caller cleans up after an error.
func (e *Executor) make(ctx context.Context, c *cluster, s executors.Spec) (*sandbox, error) {
	instance, err := e.ourInstance()
	if err != nil {
		return nil, err
	}
	size := s.Size
	if size.CPUs == 0 {
		size.CPUs, size.MemoryMB = c.set.CPUs, c.set.MemoryMB
	}
	if warm, err := e.takeWarm(ctx, c, instance, s); warm || err != nil {
		if err != nil {
			return nil, err
		}
		rec, err := e.files.Read(s.ID)
		if err != nil {
			return nil, err
		}
		sb, err := e.equip(s, rec)
		if err != nil {
			return nil, err
		}
		p, err := c.pod(ctx, rec.Pod)
		if err != nil {
			return nil, err
		}
		return sb, sb.begin(ctx, c, p.Metadata.UID)
	}
	attempt, err := e.files.Random(8)
	if err != nil {
		return nil, err
	}
	name := objectName(instance, s.ID)
	rec := record{Cluster: c.address(), Namespace: c.set.Namespace, Pod: name, Attempt: attempt, Team: s.TeamID, Workspace: s.WorkspaceID, Image: c.set.Image,
		Root: s.Inside, Gate: s.Gate, CPUs: size.CPUs, MemoryMB: size.MemoryMB}
	switch {
	case c.set.WarmPool != "":
		rec.Pod, rec.Box, rec.BoxDisk = "", name, c.set.KeepDisk
	case c.set.KeepDisk:
		rec.Claim = name
	}
	if err := e.files.Make(s.ID); err != nil {
		return nil, err
	}
	if err := e.files.Write(s.ID, rec); err != nil {
		return nil, err
	}
	executors.SayStep(ctx, executors.StepCreate, "", "")
	sb, err := e.equip(s, rec)
	if err != nil {
		return nil, err
	}
	return sb, sb.raise(ctx, c)
}

// equip keeps what a sandbox's guest is to know, and makes its value.
func (e *Executor) equip(s executors.Spec, rec record) (*sandbox, error) {
	token, err := e.files.MakeToken(s.ID)
	if err != nil {
		return nil, err
	}
	if err := e.files.WriteEnv(s.ID, executors.GuestEnv(s.Env)); err != nil {
		return nil, err
	}
	return e.adopt(s.ID, rec, token), nil
}

// adopt makes the value of a sandbox that is there.
func (e *Executor) adopt(id string, rec record, token string) *sandbox {
	s := &sandbox{e: e, id: id, token: token, rec: rec, open: make(map[pipe]bool)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[id] = s
	return s
}

// destroy ends everything of a sandbox and forgets it. Idempotent. The caller holds the sandbox's turn.
func (e *Executor) destroy(ctx context.Context, id string, rec record) error {
	c, err := e.clusterOf(ctx, rec)
	if errors.Is(err, errForeign) {
		e.cfg.Log.Warn("sandbox of another cluster or namespace is left there", "sandbox_id", id, "pod", rec.Pod, "namespace", rec.Namespace)
		return e.removeFolder(id)
	}
	if err != nil {
		return err
	}
	instance, err := e.ourInstance()
	if err != nil {
		return err
	}
	if s := e.known(id); s != nil {
		s.shut(errEnded)
	}
	if rec.Box != "" {
		if err := c.release(ctx, instance, rec); err != nil {
			return inWords(fmt.Errorf("ending the sandbox: %w", err))
		}
	} else if rec.Pod != "" {
		if err := c.remove(ctx, instance, rec.Pod); err != nil {
			return inWords(fmt.Errorf("ending the pod: %w", err))
		}
	}
	if rec.Claim != "" {
		if err := c.removeClaim(ctx, instance, rec.Claim); err != nil {
			return inWords(fmt.Errorf("removing the volume: %w", err))
		}
	}
	return e.removeFolder(id)
}
