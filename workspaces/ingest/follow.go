package ingest

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// moved are isolated or remote workspaces whose commits have to be fetched soon.
type moved struct {
	mu      *sync.Mutex
	due     map[string]bool
	busy    map[string]bool
	refused map[string]string // by workspace id: why its commits were last rejected, so that it is reported once
	wake    chan struct{}
}

func newMoved() moved {
	return moved{mu: new(sync.Mutex), due: make(map[string]bool), busy: make(map[string]bool), refused: make(map[string]string), wake: make(chan struct{}, 1)}
}

func (m *moved) add(id string) {
	m.mu.Lock()
	m.due[id] = true
	m.mu.Unlock()
	tasks.Wake(m.wake)
}

// take returns those that are due and not in progress; call end for each.
func (m *moved) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(m.due)) {
		if !m.busy[id] {
			delete(m.due, id)
			m.busy[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// end marks one as done. If it became due meanwhile, it is next.
func (m *moved) end(id string) {
	m.mu.Lock()
	delete(m.busy, id)
	again := m.due[id]
	m.mu.Unlock()
	if again {
		m.add(id)
	}
}

// first reports whether this rejection is new; "" clears it.
func (m *moved) first(id, why string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why == "" {
		delete(m.refused, id)
		return false
	}
	news := m.refused[id] != why
	m.refused[id] = why
	return news
}

// HeadMoved notes that a workspace's sandbox has another HEAD or became live: if the workspace is isolated or remote, Run fetches its
// commits.
func (s *Service) HeadMoved(workspaceID string) {
	if s.sandboxes.Separate(workspaceID) {
		s.moved.add(workspaceID)
		return
	}
	s.snapshots.Committed(workspaceID)
}

// ProjectMoved has the project's branches advertised to its sandboxes.
func (s *Service) ProjectMoved(ctx context.Context, p workspaces.Project) {
	list, err := s.store.WorkspacesOf(ctx, p.ID)
	if err != nil {
		return
	}
	for _, w := range list {
		if w.State == workspaces.Ready || w.State == workspaces.Paused {
			s.HeadMoved(w.ID)
		}
	}
}

// Bounds of background fetches: a sandbox that is slow, or constantly reports new commits, does not hold up others.
const (
	followAtOnce = 4
	followPause  = time.Second // between two fetches of one workspace
	followTime   = 2 * time.Minute
)

// Run fetches the commits of the workspaces that HeadMoved named, until ctx is done.
func (s *Service) Run(ctx context.Context) {
	s.resumeRemote()
	var wg sync.WaitGroup
	defer wg.Wait()
	turns := make(chan struct{}, followAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.moved.wake:
		}
		for _, id := range s.moved.take() {
			wg.Go(func() {
				defer s.moved.end(id)
				select {
				case turns <- struct{}{}:
				case <-ctx.Done():
					return
				}
				once, cancel := context.WithTimeout(ctx, followTime)
				err := s.followOne(once, id)
				cancel()
				<-turns
				if err != nil && ctx.Err() == nil {
					s.cfg.Log.WarnContext(ctx, "commits could not be fetched from the sandbox", "workspace_id", id, "error", err)
				}
				select {
				case <-s.cfg.After(followPause):
				case <-ctx.Done():
				}
			})
		}
	}
}

// LiveRunner is an optional ability of Places: it runs commands in live sandboxes, without creating one.
type LiveRunner interface {
	RunLive(ctx context.Context, workspaceID string, c executors.SandboxCommand) (executors.SandboxResult, error)
}

// followOne fetches one workspace's commits if its sandbox is live. It creates none.
func (s *Service) followOne(ctx context.Context, workspaceID string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil || w.DeletedAt != 0 || w.State == workspaces.Archived || w.State == workspaces.Failed || s.records.IsLeaving(workspaceID) {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	if done, err := s.endRemote(ctx, w); done || err != nil {
		return err
	}
	places, _, err := s.records.Connected()
	if err != nil || !places.Live(workspaceID) || !s.sandboxes.Separate(workspaceID) {
		return err
	}
	s.sandboxes.Stirred(workspaceID)
	run := places.RunInSandbox
	if live, is := places.(LiveRunner); is {
		run = live.RunLive // must not wait for a sandbox whose end waits for this
	}
	b, err := s.sandboxes.OpenWith(ctx, w, func(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) {
		return run(ctx, w.ID, c)
	})
	if fault.CodeOf(err) == "sandbox_not_live" {
		return nil // it has ended: its commits were fetched before that
	}
	if err != nil {
		return err
	}
	was := s.sandboxes.ReadSyncState(w.ID)
	err = s.sandboxes.FetchCommits(ctx, p, w, b)
	if Refused(err) {
		s.noteRefused(ctx, w, err)
		return err
	}
	if fault.CodeOf(err) == "sandbox_not_live" {
		return nil
	}
	if err != nil {
		return err
	}
	s.moved.first(w.ID, "")
	if now := s.sandboxes.ReadSyncState(w.ID); now.Tip != was.Tip || now.Head != was.Head {
		s.records.PublishWorkspace(ctx, w)
		s.snapshots.Committed(w.ID)
	}
	return nil
}

// Refused reports whether an error means that the sandbox's commits are intact but were rejected.
func Refused(err error) bool {
	code := fault.CodeOf(err)
	return code == "commits_refused" || code == "commits_hold_secret" || code == "secrets_unknown"
}

// noteRefused records once in the workspace's activity why its commits were rejected.
func (s *Service) noteRefused(ctx context.Context, w workspaces.Workspace, err error) {
	if fault.CodeOf(err) != "secrets_unknown" && s.moved.first(w.ID, err.Error()) {
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "commits.refused", Text: git.Reason(err)})
	}
}

// FetchCommits fetches the commits of an isolated or remote workspace, and creates its sandbox if needed. If nothing moved, it asks no
// sandbox.
func (s *Service) FetchCommits(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	if s.sandboxes.Synced(ctx, w) || w.State != workspaces.Ready && w.State != workspaces.Paused || w.DeletedAt != 0 {
		return nil
	}
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return err
	}
	return s.sandboxes.FetchCommits(ctx, p, w, b)
}

// FetchBeforeEnd fetches the commits and the staged changes of a sandbox that is about to be ended on purpose. run runs commands in it.
func (s *Service) FetchBeforeEnd(ctx context.Context, workspaceID string, run func(context.Context, executors.SandboxCommand) (executors.SandboxResult, error)) error {
	if !s.sandboxes.Separate(workspaceID) {
		return nil
	}
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	b, err := s.sandboxes.OpenWith(ctx, w, run)
	if err != nil {
		return err
	}
	b.Leave = s.sandboxes.Remote(workspaceID)
	staged, unkept := staged(ctx, b)
	if unkept != nil {
		s.cfg.Log.InfoContext(ctx, "staged changes could not be saved", "workspace_id", w.ID, "error", unkept)
		staged = ""
	}
	var extra []string
	if staged != "" {
		extra = []string{staged}
	}
	err = s.sandboxes.FetchCommits(ctx, p, w, b, extra...)
	if staged != "" && fault.CodeOf(err) == "commits_hold_secret" { // perhaps only staged content was rejected: fetch the commits anyway
		staged = ""
		err = s.sandboxes.FetchCommits(ctx, p, w, b)
	}
	if err != nil {
		if Refused(err) {
			s.noteRefused(ctx, w, err)
		}
		return err
	}
	if git.DiskIsFull(unkept) { // it could be saved once there is space: tell the caller, who may wait
		return fault.Wrap(unkept, fault.DiskFull, "disk_full", "The staged changes could not be saved: the disk of the workspace's sandbox is full. Free some space there, then try again.")
	}
	if err := s.saveStaged(ctx, p, w, staged); err != nil {
		return err
	}
	if f, ok := s.sandboxes.ReadRemote(w.ID); ok && !f.Left {
		f.Left = true
		return s.sandboxes.WriteRemote(w.ID, f)
	}
	return nil
}

// saveStaged saves the staged changes of a sandbox that is being left, "" = none.
func (s *Service) saveStaged(ctx context.Context, p workspaces.Project, w workspaces.Workspace, staged string) error {
	home := s.sandboxes.ReadSyncState(w.ID)
	if staged == "" { // what was staged the time before no longer is
		home.Index = ""
		return s.sandboxes.WriteSyncState(w.ID, home)
	}
	parent, err := s.repo.CommitOf(ctx, p.GitDir, staged+"^1")
	if err != nil || parent != home.Head {
		return err
	}
	if err := s.repo.UpdateRefs(ctx, p.GitDir, "staged in "+w.Key(), git.RefSet(sandboxgit.IndexRef(w.ID), staged)); err != nil {
		return err
	}
	home.Index = staged
	return s.sandboxes.WriteSyncState(w.ID, home)
}

// staged makes a commit of the staged changes, "" when there are none or the index cannot be committed.
func staged(ctx context.Context, b *sandboxgit.Sandbox) (string, error) {
	head, _, err := b.Head(ctx)
	if err != nil {
		return "", err
	}
	tree, err := b.Git(ctx, nil, "write-tree")
	switch {
	case git.DiskIsFull(err):
		return "", err
	case err != nil: // unresolved conflicts
		return "", nil
	}
	was, err := b.Git(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{tree}")
	if tree = strings.TrimSpace(tree); err != nil || tree == strings.TrimSpace(was) {
		return "", err
	}
	for _, role := range [...]string{"AUTHOR", "COMMITTER"} {
		b.Env["GIT_"+role+"_NAME"], b.Env["GIT_"+role+"_EMAIL"] = "Parawork", "parawork@localhost"
	}
	return b.CommitTree(ctx, tree, head, "parawork: what was staged")
}

// ClearSandbox removes the private git dir of an archived or deleted workspace. If it has commits that could not be fetched, it stays, and
// the workspace uses it again when it is restored.
func (s *Service) ClearSandbox(w workspaces.Workspace) error {
	if !git.FolderExists(s.sandboxes.SandboxDir(w.ID)) {
		return nil
	}
	if s.sandboxes.Remote(w.ID) { // the snapshot has what was fetched
		if err := s.sandboxes.ForgetRemote(w.ID); err != nil {
			return err
		}
	}
	if s.sandboxes.OwnGitDir(w.ID) && s.sandboxes.Stamp(w.ID) == s.sandboxes.ReadSyncState(w.ID).Stamp && s.sandboxes.ReadSyncState(w.ID).Stamp != "" {
		if err := s.repo.RemoveFolder(s.sandboxes.PrivateGit(w.ID)); err != nil {
			return git.DiskFault(err, "Removing the sandbox's git folder")
		}
	}
	if !s.sandboxes.OwnGitDir(w.ID) {
		if err := s.sandboxes.DropStore(w.ID); err != nil {
			return git.DiskFault(err, "Removing the objects of the workspace's sandbox")
		}
	}
	failpoint.Reach(failpoint.BoxCleared)
	for _, f := range [...]string{s.sandboxes.OwnerMark(w.ID), filepath.Join(s.sandboxes.SandboxDir(w.ID), "gitfile")} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return git.DiskFault(err, "Removing the sandbox's git folder")
		}
	}
	return nil
}
