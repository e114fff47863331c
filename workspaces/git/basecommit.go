package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// basis is the base of a workspace's changes, with the state of the repository when it was computed.
type basis struct{ stamp, commit string }

// bases caches the results of BaseCommit, by workspace id.
type bases struct {
	mu sync.Mutex
	of map[string]basis
}

func newBases() *bases { return &bases{of: make(map[string]basis)} }

func (b *bases) get(workspaceID string) basis {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[workspaceID]
}

func (b *bases) put(workspaceID string, v basis) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[workspaceID] = v
}

// ForgetBase drops the cached base of a workspace that was archived or deleted.
func (s *Repo) ForgetBase(workspaceID string) {
	s.bases.mu.Lock()
	defer s.bases.mu.Unlock()
	delete(s.bases.of, workspaceID)
}

// BaseCommit returns the commit against which a workspace's changes are shown: where it started, what of it was merged last, or what of its
// base was merged into it since, whichever is the newest. "" before the first is known. Callers ask every few seconds, so it calls git only
// when a ref it depends on has changed on disk.
func (s *Repo) BaseCommit(ctx context.Context, workspaceID string) (string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil || !baseMoves(w) {
		return w.BaseCommit, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return w.BaseCommit, err
	}
	return BaseOf(ctx, s, p, w)
}

// baseMoves reports whether a workspace's base may differ from the stored one.
func baseMoves(w workspaces.Workspace) bool {
	return w.BaseCommit != "" && (w.State == workspaces.Ready || w.State == workspaces.Paused)
}

// BaseOf is BaseCommit for a workspace that was already read, with its project.
func BaseOf(ctx context.Context, s *Repo, p workspaces.Project, w workspaces.Workspace) (string, error) {
	if !baseMoves(w) {
		return w.BaseCommit, nil
	}
	stamp := w.BaseCommit + refStamp(p.GitDir, w)
	if known := s.bases.get(w.ID); known.stamp == stamp {
		return known.commit, nil
	}
	commit, err := s.NewestBase(ctx, p, w)
	if err != nil {
		return w.BaseCommit, err
	}
	s.bases.put(w.ID, basis{stamp, commit})
	return commit, nil
}

// NewestBase is the last commit of the base branch, local or remote, that the workspace's branch contains, or the stored base if that is
// newer.
func (s *Repo) NewestBase(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (string, error) {
	best := w.BaseCommit
	head, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+w.Branch)
	if err != nil || head == "" {
		return best, err
	}
	target, err := s.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return best, err
	}
	for _, ref := range [...]string{HeadsPrefix + target, "refs/remotes/origin/" + target} {
		tip, err := s.CommitOf(ctx, p.GitDir, ref)
		if err != nil {
			return best, err
		}
		if tip == "" {
			continue
		}
		shared, err := s.mergeBase(ctx, p.GitDir, tip, head)
		if err != nil {
			return best, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the base")
		}
		if shared == "" {
			continue
		}
		if newer, err := s.Contains(ctx, p.GitDir, shared, best); err == nil && newer {
			best = shared
		}
	}
	return best, nil
}

// refStamp changes when a ref BaseCommit depends on may have changed. It only reads files' times and sizes.
func refStamp(gitDir string, w workspaces.Workspace) string {
	base := strings.TrimPrefix(strings.TrimPrefix(w.Base, HeadsPrefix), "refs/remotes/")
	var b strings.Builder
	for _, name := range [...]string{"packed-refs", "reftable/tables.list", HeadsPrefix + w.Branch, HeadsPrefix + base,
		HeadsPrefix + strings.TrimPrefix(base, "origin/"), "refs/remotes/" + base, "refs/remotes/origin/" + base} {
		if fi, err := os.Stat(filepath.Join(gitDir, name)); err == nil {
			fmt.Fprintf(&b, " %d.%d", fi.ModTime().UnixNano(), fi.Size())
		} else {
			b.WriteString(" -")
		}
	}
	return b.String()
}
