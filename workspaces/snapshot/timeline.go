package snapshot

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Names of trees that are not ids.
const (
	RevBase   = "base"   // what the workspace's changes are compared with
	RevHead   = "head"   // the head of its branch
	RevNow    = "now"    // its current files
	RevReview = "review" // what the reader's last review saw
	RevMerged = "merged" // the result of its last merge; with ^ after it, the base until then
)

// Retention is how long snapshots that are not pinned are retained; 0 = as long as the workspace.
type Retention struct{ Polls, Others time.Duration }

// Defaults of Retention.
const (
	PollsKept  = 7 * 24 * time.Hour
	OthersKept = 30 * 24 * time.Hour
)

// Retention returns how long snapshots are retained.
func (s *Service) Retention() Retention {
	r := Retention{PollsKept, OthersKept}
	if s.cfg.Retention != nil {
		r = s.cfg.Retention()
	}
	return r
}

// snapEnd is when a snapshot expires: at the end of its day, because days are deleted as a whole.
func (s *Service) snapEnd(sn Snap) int64 {
	if sn.Pinned {
		return 0
	}
	keep := s.Retention().Others
	if sn.Kind == SnapPoll {
		keep = s.Retention().Polls
	}
	if keep == 0 {
		return 0
	}
	return time.UnixMilli(sn.At).UTC().Truncate(24 * time.Hour).Add(24*time.Hour + keep).UnixMilli()
}

// ConnectReviews sets the function that returns what a reader's last review of a workspace saw: a snapshot's id or a commit, "" when there
// is none.
func (s *Service) ConnectReviews(seen func(ctx context.Context, workspaceID, userID string) (rev string, err error)) {
	s.captureState.mu.Lock()
	defer s.captureState.mu.Unlock()
	s.captureState.reviewed = seen
}

// Snapshots returns a page of a workspace's snapshots, the newest first; of these kinds only, all when none is named.
func (s *Service) Snapshots(ctx context.Context, workspaceID string, kinds []string, pg page.Page) ([]Snap, string, error) {
	return s.store.Snapshots(ctx, workspaceID, kinds, pg)
}

// Now returns the newest snapshot of a workspace; it takes one if there is none yet.
func (s *Service) Now(ctx context.Context, workspaceID string) (Snap, error) {
	sn, err := s.newestSnap(ctx, workspaceID)
	if !fault.Is(err, fault.NotFound) {
		return sn, err
	}
	if sn, err = s.Take(ctx, workspaceID, Request{Kind: SnapPoll}); err == nil && sn.ID == "" {
		err = fault.New(fault.Conflict, "no_snapshot", "The workspace has no files now, and there is no snapshot of it.")
	}
	return sn, err
}

// Resolve finds the tree that a name refers to: base, head, now, review, merged, a snapshot's id, or a commit of the workspace's history;
// with ^ after an id, the one before it.
func (s *Service) Resolve(ctx context.Context, w workspaces.Workspace, rev, userID string) (git.Tree, error) {
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return git.Tree{}, err
	}
	if !git.FolderExists(p.GitDir) {
		return git.Tree{}, fault.New(fault.Unavailable, "repository_unreadable", "The project's repository is not there.")
	}
	t := git.Tree{Rev: rev}
	switch rev {
	case RevBase:
		if t.Commit, err = s.repo.BaseCommit(ctx, w.ID); err == nil && t.Commit == "" {
			err = fault.New(fault.Conflict, "workspace_not_ready", "%s is not ready yet: it has no base to compare with. Wait until it is created.", w.Key())
		}
		t.Label = "base (" + w.Base + ")"
	case RevHead:
		if s.HasFiles(w) {
			t.Commit, err = s.sandboxes.LocalHead(ctx, p, w)
		} else {
			t.Commit, err = s.repo.BranchTip(ctx, p, w)
		}
		if err == nil && t.Commit == "" {
			err = fault.New(fault.Conflict, "branch_missing", "The branch %s no longer exists.", w.Branch)
		}
		t.Label = "branch (" + w.Branch + ")"
	case RevNow:
		sn, err := s.Now(ctx, w.ID)
		if err != nil {
			return git.Tree{}, err
		}
		return sn.AsTree(rev, "now"), nil
	case RevReview:
		return s.resolveReview(ctx, w, userID)
	case RevMerged, RevMerged + "^":
		return s.resolveMerged(ctx, p, w, rev, rev != RevMerged)
	default:
		return s.resolveID(ctx, p, w, rev)
	}
	if err != nil {
		return git.Tree{}, err
	}
	return t, s.FillTree(ctx, p, &t)
}

// AsTree is the snapshot as one side of a comparison.
func (sn Snap) AsTree(rev, label string) git.Tree {
	return git.Tree{Rev: rev, Commit: sn.Commit, Tree: sn.Tree, SnapshotID: sn.ID, Owner: sn.WorkspaceID, At: sn.At, Label: label}
}

// FillTree reads a commit's tree and time.
func (s *Service) FillTree(ctx context.Context, p workspaces.Project, t *git.Tree) error {
	k := git.CommitKey{GitDir: p.GitDir, Commit: t.Commit}
	if known, ok := s.captureState.trees.Get(k); ok {
		t.Tree, t.At = known.Tree, known.At
		return nil
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"log", "--no-walk", "--no-notes", "--no-color", "--no-decorate", "--format=%T %ct", t.Commit, "--"}})
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading "+t.Commit)
	}
	tree, at, _ := strings.Cut(out, " ")
	if !git.IsCommitID(tree) {
		return fault.New(fault.NotFound, "revision_not_found", "The commit %s is no longer in the repository.", t.Commit)
	}
	t.Tree = tree
	if d, err := time.ParseDuration(at + "s"); err == nil {
		t.At = d.Milliseconds()
	}
	s.captureState.trees.Put(k, git.CommitTree{Tree: t.Tree, At: t.At})
	return nil
}

func (s *Service) resolveReview(ctx context.Context, w workspaces.Workspace, userID string) (git.Tree, error) {
	s.captureState.mu.Lock()
	seen := s.captureState.reviewed
	s.captureState.mu.Unlock()
	rev := ""
	if seen != nil {
		var err error
		if rev, err = seen(ctx, w.ID, userID); err != nil {
			return git.Tree{}, err
		}
	}
	if rev == "" || rev == RevReview {
		return git.Tree{}, fault.New(fault.NotFound, "no_review", "You have not sent a review of %s yet.", w.Key())
	}
	t, err := s.Resolve(ctx, w, rev, userID)
	t.Rev, t.Label = RevReview, "your last review"
	return t, err
}

func unknownRev(rev string) error {
	return fault.New(fault.NotFound, "revision_not_found",
		"%.80q is unknown: name base, head, now, review, merged, a snapshot of this workspace or a commit of its branch, in full.", rev)
}

// resolveID finds a snapshot's or a commit's tree.
func (s *Service) resolveID(ctx context.Context, p workspaces.Project, w workspaces.Workspace, rev string) (git.Tree, error) {
	name, before := strings.CutSuffix(rev, "^")
	if strings.HasPrefix(name, "snp_") {
		sn, err := s.store.Snapshot(ctx, name)
		if fault.Is(err, fault.NotFound) || err == nil && sn.WorkspaceID != w.ID {
			return git.Tree{}, unknownRev(rev)
		}
		if err != nil {
			return git.Tree{}, err
		}
		if !before {
			return sn.AsTree(rev, SnapLabel(sn)), nil
		}
		prev, err := s.snapBefore(ctx, sn)
		if fault.Is(err, fault.NotFound) {
			t := git.Tree{Rev: rev, Commit: sn.BaseCommit, Label: "before the first snapshot"}
			return t, s.FillTree(ctx, p, &t)
		}
		return prev.AsTree(rev, SnapLabel(prev)), err
	}
	if !git.IsCommitID(name) {
		return git.Tree{}, unknownRev(rev)
	}
	sn, err := s.store.SnapshotAt(ctx, w.ID, name)
	switch {
	case err == nil && sn.Commit == name:
		return s.resolveID(ctx, p, w, strings.Replace(rev, name, sn.ID, 1))
	case err != nil && !fault.Is(err, fault.NotFound):
		return git.Tree{}, err
	case err != nil: // not a snapshot's head: check the branch's history
		if base, berr := s.repo.BaseCommit(ctx, w.ID); berr == nil && base == name {
			break // the most common case
		}
		tips, terr := s.historyTips(ctx, p, w)
		if terr != nil {
			return git.Tree{}, terr
		}
		if c, cerr := s.repo.CommitOf(ctx, p.GitDir, name); cerr != nil || c != name {
			return git.Tree{}, unknownRev(rev)
		}
		found := false
		for _, tip := range tips {
			if found, terr = s.repo.Contains(ctx, p.GitDir, tip, name); terr != nil {
				return git.Tree{}, git.GitFault(terr, fault.Unavailable, "repository_unreadable", "Reading the branch's history")
			} else if found {
				break
			}
		}
		if !found {
			return git.Tree{}, unknownRev(rev)
		}
	}
	t := git.Tree{Rev: rev, Commit: name, Label: "commit " + name[:8]}
	if before {
		parent, err := s.repo.CommitOf(ctx, p.GitDir, name+"^1")
		if err != nil {
			return git.Tree{}, err
		}
		if parent == "" { // before the very first commit: nothing
			return s.emptyTree(ctx, p, t)
		}
		t.Commit, t.Label = parent, "before "+name[:8]
	}
	return t, s.FillTree(ctx, p, &t)
}

// historyTips are the last commits of a workspace's history.
func (s *Service) historyTips(ctx context.Context, p workspaces.Project, w workspaces.Workspace) ([]string, error) {
	var tips []string
	head, err := s.repo.BranchTip(ctx, p, w)
	if err != nil {
		return nil, err
	}
	for _, c := range [...]string{head, w.MergedCommit, w.BaseCommit} {
		if c != "" {
			tips = append(tips, c)
		}
	}
	if s.HasFiles(w) {
		if c, err := s.sandboxes.LocalHead(ctx, p, w); err == nil && c != "" && c != head {
			tips = append(tips, c)
		}
	}
	return tips, nil
}

// emptyTree is a tree without files.
func (s *Service) emptyTree(ctx context.Context, p workspaces.Project, t git.Tree) (git.Tree, error) {
	scratch, err := s.repo.ScratchOf(ctx, p)
	if err != nil {
		return git.Tree{}, err
	}
	defer func() { _ = scratch.Close() }()
	out, err := scratch.Run(ctx, hostgit.Call{Args: []string{"mktree"}, Stdin: strings.NewReader("")})
	if err != nil {
		return git.Tree{}, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Making an empty tree")
	}
	t.Tree, t.Commit, t.Label = strings.TrimSpace(string(out)), "", "before the first commit"
	return t, nil
}

// SnapLabel describes a snapshot in a few words.
func SnapLabel(sn Snap) string {
	if sn.Title != "" {
		return sn.Title
	}
	switch sn.Kind {
	case SnapTurn:
		return "an agent's turn"
	case SnapCommit:
		return "a commit"
	case SnapKept:
		return "before: " + strings.ReplaceAll(sn.Reason, "_", " ")
	case SnapManual:
		return "a snapshot"
	}
	return "files changed"
}
