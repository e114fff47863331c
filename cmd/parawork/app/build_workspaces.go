package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/store"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
)

// worktrees are projects and workspaces: their repositories, their files, and where they are.
type worktrees struct {
	rows       *store.Workspaces
	locks      *workspaces.Locks // one for all: two would not exclude each other
	jobs       *jobs.Jobs        // likewise
	workspaces *workspaces.Service
	origin     *origin.Service
	moves      *move.Service
}

func newWorktrees(b *base, p *people) (*worktrees, error) {
	cfg := b.cfg
	connector, err := linkConnector(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	w := &worktrees{rows: store.NewWorkspaces(b.db), locks: workspaces.NewLocks(), jobs: workspaces.NewJobs()}
	root, log, protocols := os.Geteuid() == 0, b.room("workspaces"), protocolsOf(cfg.Projects)
	w.workspaces = workspaces.New(workspaces.Config{Store: w.rows, Locks: w.locks, Jobs: w.jobs, Trash: store.NewTrash(b.db), TrashKeep: days(cfg.Trash.KeepDays),
		Retention: snapshotsKept(cfg.Snapshots), Machines: p.machines, Credentials: p.secrets, Events: b.events, DataDir: cfg.DataDir,
		AllowedRoots: cfg.Projects.AllowedRoots, BranchPrefix: cfg.Projects.BranchPrefix, CopyIgnored: cfg.Projects.CopyIgnored, Protocols: protocols,
		Outgoing: &egress.Guard{Allow: exceptions(cfg.Outgoing)}, Connector: connector, MaxLimits: LimitsOn(cfg.Sandboxing.Limits.Maximum),
		FallBackAllowed: b.fallback, Chown: root, Env: b.env, Log: log})
	w.origin = origin.New(origin.Config{Store: w.rows, Workspaces: w.workspaces, Locks: w.locks, Credentials: p.secrets, Protocols: protocols, Log: log})
	w.moves = move.New(move.Config{Store: w.rows, Workspaces: w.workspaces, Locks: w.locks, Jobs: w.jobs, FallBackAllowed: b.fallback, Chown: root, Log: log})
	return w, nil
}

// recover takes up creations, then moves.
func (w *worktrees) recover(ctx context.Context) error {
	if err := w.workspaces.Recover(ctx); err != nil {
		return err
	}
	return w.moves.Recover(ctx)
}

// protocolsOf are those by which projects are cloned.
func protocolsOf(c config.Projects) []string {
	out := []string{"https", "ssh"}
	if c.AllowGitURLs {
		out = append(out, "git")
	}
	if c.AllowFileURLs {
		out = append(out, "file")
	}
	return out
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// snapshotsKept says how long snapshots are kept.
func snapshotsKept(c config.Snapshots) func() workspaces.Retention {
	return func() workspaces.Retention {
		return workspaces.Retention{Polls: days(c.PollDays), Others: days(c.KeepDays)}
	}
}

// trees shows filesync the repositories and worktrees in the shape it needs.
type trees struct{ s *workspaces.Service }

func (t trees) Worktree(ctx context.Context, workspaceID string) (string, error) {
	return t.s.Worktree(ctx, workspaceID)
}

func (t trees) Team(ctx context.Context, workspaceID string) (string, error) {
	w, err := t.s.Workspace(ctx, workspaceID)
	return w.TeamID, err
}

func (t trees) BaseFiles(ctx context.Context, workspaceID, commit string, paths []string) ([]filesync.BaseFile, error) {
	files, err := t.s.BaseFiles(ctx, workspaceID, commit, paths)
	out := make([]filesync.BaseFile, 0, len(files))
	for _, f := range files {
		out = append(out, filesync.BaseFile{Path: f.Path, Mode: fmt.Sprintf("%06o", f.Mode), Size: f.Size, OID: f.OID})
	}
	return out, err
}

func (t trees) BaseDiff(ctx context.Context, workspaceID, from, to string) ([]string, error) {
	return t.s.BaseDiff(ctx, workspaceID, from, to)
}

func (t trees) BaseBlobs(ctx context.Context, workspaceID string, files []filesync.BaseFile, fn func(filesync.BaseFile, io.Reader) error) error {
	ask := make([]hostgit.TreeFile, 0, len(files))
	for _, f := range files {
		mode, err := strconv.ParseUint(f.Mode, 8, 32)
		if err != nil {
			return fmt.Errorf("%q is no mode: %w", f.Mode, err)
		}
		ask = append(ask, hostgit.TreeFile{Path: f.Path, Mode: uint32(mode), Size: f.Size, OID: f.OID})
	}
	i := 0
	return t.s.BaseBlobs(ctx, workspaceID, ask, func(_ hostgit.TreeFile, r io.Reader) error {
		i++
		return fn(files[i-1], r)
	})
}

func (t trees) HostDiff(ctx context.Context, workspaceID string, d filesync.HostDiff, w io.Writer) error {
	return t.s.HereDiff(ctx, workspaceID, workspaces.HereDiff(d), w)
}

// watcher shows workspaces what differs in their files.
type watcher struct{ files *filesync.Service }

// Look looks at a workspace's files where its sandbox runs.
func (w watcher) Look(ctx context.Context, workspaceID string) (workspaces.Seen, bool, error) {
	a, ok, err := w.files.LookAround(ctx, workspaceID)
	return workspaces.Seen{Base: a.Base, Paths: a.Paths, Kept: a.Kept}, ok, err
}

// Elsewhere reports whether the files people work with lie in a sandbox that runs.
func (w watcher) Elsewhere(ctx context.Context, workspaceID string) (bool, error) {
	return w.files.Elsewhere(ctx, workspaceID)
}

// Put writes a file in a sandbox.
func (w watcher) Put(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string, mode uint32) error {
	_, err := w.files.Put(ctx, workspaceID, guest.EncodePath(path), r, ifMatch, mode)
	return err
}

// Remove removes a file in a sandbox.
func (w watcher) Remove(ctx context.Context, workspaceID, path, ifMatch string) error {
	return w.files.RemoveIf(ctx, workspaceID, guest.EncodePath(path), ifMatch)
}

// workspaceSandboxes shows workspaces the sandboxes in the shape they need.
type workspaceSandboxes struct{ *manager.Manager }

// Ensure makes the workspace's sandbox or finds the live one.
func (s workspaceSandboxes) Ensure(ctx context.Context, workspaceID string) error {
	_, err := s.Manager.Ensure(ctx, workspaceID)
	return err
}

// Live reports whether the workspace has a sandbox now.
func (s workspaceSandboxes) Live(workspaceID string) bool {
	_, ok := s.Manager.Live(workspaceID)
	return ok
}

// movable is what sessions ask of workspaces: also whether one is on its way to another place.
type movable struct {
	*workspaces.Service
	moves *move.Service
}

// Moving says why nothing may start in a workspace that is on its way to another place.
func (m movable) Moving(ctx context.Context, workspaceID string) error {
	return m.moves.Moving(ctx, workspaceID)
}
