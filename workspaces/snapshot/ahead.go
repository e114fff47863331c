package snapshot

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// A snapshot asks git several independent questions: how the newest snapshot differs from the base while the sandbox looks at its files,
// where branch and ref are while the files are listed. Each starts a program, so they run concurrently.

// ahead is a comparison that was started before it is known to be needed. Trees never change, so it is valid whenever it is about the two
// in question.
type ahead struct {
	done     chan struct{}
	from, to string // trees
	raws     []git.RawChange
	err      error
}

// compareAhead starts to compare the base with the newest snapshot. The caller must call wait.
func (s *Service) compareAhead(ctx context.Context, p workspaces.Project, w workspaces.Workspace) *ahead {
	a := &ahead{done: make(chan struct{})}
	go func() { // ends with the call of git, whose context is the caller's
		defer close(a.done)
		a.err = s.compareBase(ctx, p, w, a)
	}()
	return a
}

func (s *Service) compareBase(ctx context.Context, p workspaces.Project, w workspaces.Workspace, a *ahead) error {
	prev, err := s.newestSnap(ctx, w.ID)
	if err != nil {
		return err
	}
	base, err := s.repo.BaseCommit(ctx, w.ID)
	if err != nil {
		return err
	}
	scratch, err := s.repo.ScratchOf(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()
	if a.from, err = s.rootOf(ctx, p, scratch, base); err != nil {
		return err
	}
	a.to = prev.Tree
	a.raws, err = compareRaw(ctx, scratch, a.from, a.to)
	return err
}

// wait waits for the end of the comparison.
func (a *ahead) wait() {
	if a != nil {
		<-a.done
	}
}

// compare returns the differences between two trees.
func (t *Job) compare(ctx context.Context, from, to string) ([]git.RawChange, error) {
	if a := t.f.ahead; a != nil {
		a.wait()
		if a.err == nil && a.from == from && a.to == to {
			return a.raws, nil
		}
	}
	return compareRaw(ctx, t.Scratch, from, to)
}

func compareRaw(ctx context.Context, scratch *hostgit.Scratch, from, to string) ([]git.RawChange, error) {
	if from == to {
		return nil, nil
	}
	out, err := scratch.Run(ctx, hostgit.Call{Max: 256 << 20, Args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", from, to}})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the snapshot before")
	}
	return git.ParseRaw(string(out)), nil
}

// rootOf is the tree of a commit.
func (s *Service) rootOf(ctx context.Context, p workspaces.Project, scratch *hostgit.Scratch, commit string) (string, error) {
	k := git.CommitKey{GitDir: p.GitDir, Commit: commit}
	if git.IsCommitID(commit) {
		if known, ok := s.captureState.roots.Get(k); ok {
			return known.Tree, nil
		}
	}
	tree, err := scratch.Text(ctx, "rev-parse", "--verify", "--quiet", commit+"^{tree}")
	if err != nil || !git.IsCommitID(tree) {
		return "", git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading "+commit)
	}
	if git.IsCommitID(commit) {
		s.captureState.roots.Put(k, git.CommitTree{Tree: tree})
	}
	return tree, nil
}

// refTips are the positions of the worktree and of a snapshot's ref.
type refTips struct {
	done   chan struct{}
	head   string
	ref    string // the ref that was read
	before string // "" = it does not exist
	err    error
}

// readTips starts to read them. The caller must wait for done.
func (t *Job) readTips(ctx context.Context, ref string) *refTips {
	r := &refTips{done: make(chan struct{}), ref: ref}
	go func() { // ends with its calls of git, whose context is the caller's
		defer close(r.done)
		if r.head, r.err = t.s.sandboxes.LocalHead(ctx, t.p, t.w); r.err == nil && r.head == "" {
			r.err = ErrNoHead
		}
		if r.err == nil {
			r.before, r.err = t.s.repo.CommitOf(ctx, t.p.GitDir, ref)
		}
	}()
	return r
}

// waitTips waits until they are read, and stores the head.
func (t *Job) waitTips() error {
	<-t.tips.done
	t.Head = t.tips.head
	return t.tips.err
}

// beforeOn is the snapshot the ref has now, "" when none.
func (t *Job) beforeOn(ctx context.Context, ref string) (string, error) {
	if ref == t.tips.ref {
		return t.tips.before, nil
	}
	return t.s.repo.CommitOf(ctx, t.p.GitDir, ref) // midnight has passed meanwhile
}
