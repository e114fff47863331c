package merge

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// apply puts the planned branch into the worktree, where the agent works. Files come first, then the index, the branch last: if
// interrupted, everything exists as uncommitted changes, and the next update finds that they match.
func (u *updater) apply(ctx context.Context) error {
	b, err := u.s.sandboxes.Open(ctx, u.Workspace)
	if err != nil {
		return err
	}
	defer b.Close(ctx)
	maps.Copy(b.Env, sandboxgit.Identity("COMMITTER", u.actor.User))
	head, branch, err := b.Head(ctx)
	switch {
	case err != nil:
		return err
	case branch != u.Workspace.Branch:
		return stage.WrongBranch(u.Workspace, branch)
	case head != u.res.Head:
		return headMovedOn(u.Workspace)
	}
	if err := b.Idle(ctx); err != nil {
		return err
	}
	over, onto, err := u.carry(ctx, b)
	if err != nil || len(u.res.Dirty) > 0 {
		return err
	}
	kept, err := u.s.snapshots.Take(ctx, u.Workspace.ID, snapshot.Request{Kind: "kept", Reason: "update", Title: u.title(), ActorID: u.actor.User.ID})
	if err != nil {
		return err
	}
	u.res.SnapshotID = kept.ID
	if err := u.s.sandboxes.Supply(ctx, u.p, u.Workspace, b, git.Unique([]string{u.res.Commit, onto})); err != nil {
		return err
	}
	// From here on the caller may leave: an update must not stop halfway.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.s.cfg.StepTimeout)
	defer cancel()
	undo, err := u.move(ctx, b, over, onto)
	if err != nil || len(u.res.Dirty) > 0 {
		return err
	}
	failpoint.Reach(failpoint.UpdateApplied)
	what := "update (parawork): " + u.req.Strategy + " " + u.Target
	if _, err := b.Git(ctx, nil, "update-ref", "--create-reflog", "-m", what, git.HeadsPrefix+branch, u.res.Commit, head); err != nil {
		if done, derr := u.committed(ctx, b); derr == nil && done {
			return headMovedOn(u.Workspace) // the agent's commit includes the update: leave files and index to it
		}
		if uerr := undo(); uerr != nil {
			return fault.Wrap(errors.Join(err, uerr), fault.Conflict, "update_partly_undone",
				"The branch moved on while the update was put into the files, and not every file could be put back. Nothing is lost: the files as they were are in the timeline.").With("snapshot_id", kept.ID)
		}
		return headMovedOn(u.Workspace)
	}
	failpoint.Reach(failpoint.UpdateMoved)
	u.res.Updated = true
	return u.s.sandboxes.FetchCommits(ctx, u.p, u.Workspace, b)
}

// move changes the files and the agent's index from one tree to another, and returns how to undo that. git changes nothing if a file is not
// as expected.
func (u *updater) move(ctx context.Context, b *sandboxgit.Sandbox, over, onto string) (undo func() error, err error) {
	if over == "" {
		_, _ = b.Git(ctx, nil, "update-index", "-q", "--refresh") // exits with 1 where files differ
		if err := u.readTree(ctx, b.Git, u.res.Head, u.res.Commit); err != nil || len(u.res.Dirty) > 0 {
			return nil, err
		}
		return func() error { return u.readTree(ctx, b.Git, u.res.Commit, u.res.Head) }, nil
	}
	// The temporary index has the stat data of every file: one that changed since makes this fail.
	if err := u.readTree(ctx, b.IndexGit, over, onto); err != nil || len(u.res.Dirty) > 0 {
		return nil, err
	}
	touched := slices.Sorted(maps.Keys(u.touched))
	undo = func() error {
		return errors.Join(u.readTree(ctx, b.IndexGit, onto, over), stage.Refresh(ctx, b, u.res.Head, touched, stage.IndexTries))
	}
	if err := stage.Refresh(ctx, b, u.res.Commit, touched, stage.IndexTries); err != nil {
		return nil, errors.Join(git.SandboxFault(err, "index_locked", "Telling git of the new files"), undo())
	}
	return undo, nil
}

// committed reports whether the branch has the update's files as planned.
func (u *updater) committed(ctx context.Context, b *sandboxgit.Sandbox) (bool, error) {
	out, err := b.Git(ctx, nil, "diff-tree", "-r", "-z", "--name-only", "--no-renames", u.res.Commit, "HEAD")
	if err != nil {
		return false, git.SandboxFault(err, "worktree_unreadable", "Reading the branch")
	}
	for p := range strings.SplitSeq(out, "\x00") {
		if u.touched[p] {
			return false, nil
		}
	}
	return true, nil
}

// unseenFiles returns files that the update would overwrite and that git does not look at, because they are ignored or in a nested
// repository: no snapshot has them. known are those handled elsewhere.
func (u *updater) unseenFiles(ctx context.Context, b *sandboxgit.Sandbox, known []string) ([]string, error) {
	if len(u.added) == 0 {
		return nil, nil
	}
	out, err := b.Git(ctx, nil, "ls-files", "-z", "--others", "--directory")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the worktree")
	}
	others := make(map[string]bool) // files, and folders with a slash in which nothing is tracked
	for p := range strings.SplitSeq(out, "\x00") {
		others[p] = true
	}
	for _, p := range known {
		delete(others, p)
	}
	var way, perhaps []string
	for _, p := range u.added {
		hit := others[p]
		inside := false
		for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
			hit = hit || others[p[:i]]
			inside = inside || others[p[:i+1]]
		}
		switch {
		case hit:
			way = append(way, p)
		case (inside || others[p+"/"]) && !slices.Contains(known, p):
			perhaps = append(perhaps, p)
		}
	}
	if len(perhaps) == 0 {
		return way, nil
	}
	// An index with all of them shows which exist.
	if err := u.s.sandboxes.Supply(ctx, u.p, u.Workspace, b, []string{u.res.Commit}); err != nil {
		return nil, err
	}
	if err := b.Fresh(ctx); err != nil {
		return nil, err
	}
	if _, err := b.IndexGit(ctx, nil, "read-tree", u.res.Commit); err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the base")
	}
	if out, err = b.IndexGit(ctx, nil, "ls-files", "-z", "--deleted"); err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the worktree")
	}
	b.Close(ctx)
	b.Index = ""
	gone := make(map[string]bool)
	for p := range strings.SplitSeq(out, "\x00") {
		gone[p] = true
	}
	return append(way, slices.DeleteFunc(perhaps, func(p string) bool { return gone[p] })...), nil
}

// inTheWayWords matches git's message about a file that is not as expected.
var inTheWayWords = regexp.MustCompile(`(?m)^error: (?:Entry '(.+)' (?:not uptodate|would be overwritten)|Untracked working tree file '(.+)' would be|Updating '(.+)' would lose)`)

// readTree moves files and index from one tree to another. What is in the way is in res.Dirty; then nothing moved.
func (u *updater) readTree(ctx context.Context, run func(context.Context, []byte, ...string) (string, error), from, to string) error {
	var err error
	for try := range stage.IndexTries {
		if try > 0 {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		_, err = run(ctx, nil, "read-tree", "-m", "-u", from, to)
		if e, ok := errors.AsType[*git.CommandError](err); !ok || !strings.Contains(e.Words(), "index.lock") {
			break
		}
	}
	if err == nil {
		return nil
	}
	if git.NearlyFull(u.Workspace.Path) { // git does not say why it could not write a file
		return fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full: not every file of the update could be written. Free some space and update again, which continues from here. The files as they were are in the timeline.")
	}
	if e, ok := errors.AsType[*git.CommandError](err); ok {
		for _, m := range inTheWayWords.FindAllStringSubmatch(string(e.Result.Stderr), 1000) {
			u.res.Dirty = append(u.res.Dirty, m[1]+m[2]+m[3])
		}
		if len(u.res.Dirty) > 0 {
			u.res.Carried = nil
			return nil
		}
	}
	return git.SandboxFault(err, "update_failed", "Putting the update into the files")
}
