package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// snapshot keeps everything of a workspace in hidden refs of its repository: where its worktree is (head), all its files,
// untracked ones included and ignored ones not (tree, a commit on head), and repositories inside it (nested). It is taken in
// the sandbox; where that cannot be, the host takes it without running anything of the worktree's. It never half succeeds:
// on an error nothing may be removed. behind says that the host took it although a sandbox elsewhere has the files: what had not come
// from there is not in it.
func (s *Service) snapshot(ctx context.Context, p Project, w Workspace) (_ *Snapshot, behind bool, _ error) {
	if fi, err := os.Lstat(w.Path); errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		snap, err := s.snapshotOfNothing(ctx, p, w)
		return snap, false, err
	} else if err != nil {
		return nil, false, DiskFault(err, "Reading the workspace's folder")
	}
	made, err := taken{}, errAsleep
	if !s.asleep(ctx, w) || s.Unseen(ctx, w.ID) {
		made, err = s.snapshotInBox(ctx, p, w)
	}
	if err == nil {
		err = s.checkSnapshot(ctx, p, made)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if fault.Is(err, fault.Timeout) { // the host would wait for the same
			return nil, false, err
		}
		if !errors.Is(err, errAsleep) {
			s.cfg.Log.WarnContext(ctx, "snapshot in the sandbox failed, the host takes it", "workspace_id", w.ID, "error", err)
			behind = s.Remote(w.ID)
		}
		if made, err = s.snapshotOnHost(ctx, p, w); err != nil {
			return nil, false, notKept(err, "The workspace's files")
		}
	}
	nested, err := s.snapshotNested(ctx, p, w, made)
	if err != nil {
		return nil, false, notKept(err, "Repositories inside the workspace")
	}
	snap, err := s.keepSnapshot(ctx, p, w, made, nested)
	return snap, behind, err
}

// notKept says why a workspace cannot be put away: what of it could not be kept.
func notKept(err error, what string) error {
	if diskIsFull(err) {
		return fault.Wrap(err, fault.DiskFull, "disk_full", "%s could not be kept, so nothing was removed: the server's disk is full. Make room, then try again.", what)
	}
	return fault.Wrap(err, fault.Unavailable, "snapshot_failed", "%s could not be kept, so nothing was removed: %s", what, Reason(err))
}

// errAsleep says that nobody starts or wakes a sandbox for what the host can do.
var errAsleep = errors.New("the sandbox is asleep")

// taken is a snapshot's commit and the commit it stands on.
type taken struct {
	head, commit string
	nested       []string // folders with repositories of their own, when the taker met them
	missing      []Missing
}

// snapshotInBox builds the tree where the agent works.
func (s *Service) snapshotInBox(ctx context.Context, p Project, w Workspace) (taken, error) {
	b, err := s.openBox(ctx, w)
	if err != nil {
		return taken{}, err
	}
	defer b.close(ctx)
	t, err := b.everything(ctx, "parawork: snapshot of "+w.Key())
	if err == nil {
		err = s.bringHome(ctx, p, w, b, t.head, t.commit)
	}
	return t, err
}

// everything makes a commit of all files of the worktree as they are, on the commit it is at. Who opened the box closes it.
func (b *Sandbox) everything(ctx context.Context, message string) (taken, error) {
	for _, role := range [...]string{"AUTHOR", "COMMITTER"} {
		b.env["GIT_"+role+"_NAME"], b.env["GIT_"+role+"_EMAIL"] = "Parawork", "parawork@localhost"
	}
	head, _, err := b.head(ctx)
	if err != nil {
		return taken{}, err
	}
	if err := b.fresh(ctx); err != nil {
		return taken{}, err
	}
	if err := b.keepForced(ctx); err != nil {
		return taken{}, err
	}
	if err := b.unhide(ctx); err != nil {
		return taken{}, err
	}
	if _, err := b.indexGit(ctx, nil, "add", "--all"); err != nil {
		return taken{}, SandboxFault(err, "snapshot_failed", "Collecting the files")
	}
	tree, err := b.indexGit(ctx, nil, "write-tree")
	if err != nil {
		return taken{}, SandboxFault(err, "snapshot_failed", "Writing the tree")
	}
	if tree = strings.TrimSpace(tree); !IsCommitID(tree) {
		return taken{}, fmt.Errorf("box: write-tree answered %q", tree)
	}
	commit, err := b.commitTree(ctx, tree, head, message)
	return taken{head: head, commit: commit}, err
}

// unhide clears the marks that make git look away from changed files.
func (b *Sandbox) unhide(ctx context.Context) error {
	out, err := b.indexGit(ctx, nil, "ls-files", "-v", "-z")
	if err != nil {
		return SandboxFault(err, "snapshot_failed", "Reading the index")
	}
	sparse, err := b.Git(ctx, nil, "config", "--type=bool", "--get", "core.sparseCheckout")
	if err != nil && boxCode(err) != 1 {
		return SandboxFault(err, "snapshot_failed", "Reading the config")
	}
	var assumed, skipped strings.Builder
	for _, e := range strings.Split(out, "\x00") {
		if len(e) < 3 {
			continue
		}
		if e[0] >= 'a' && e[0] <= 'z' {
			assumed.WriteString(e[2:] + "\x00")
		}
		if (e[0] == 'S' || e[0] == 's') && strings.TrimSpace(sparse) != "true" {
			skipped.WriteString(e[2:] + "\x00")
		}
	}
	for flag, names := range map[string]string{"--no-assume-unchanged": assumed.String(), "--no-skip-worktree": skipped.String()} {
		if names == "" {
			continue
		}
		if _, err := b.indexGit(ctx, []byte(names), "update-index", flag, "-z", "--stdin"); err != nil {
			return SandboxFault(err, "snapshot_failed", "Reading the index")
		}
	}
	return nil
}

// checkSnapshot makes sure on the host that the commit a box named is there, whole, and stands on the head it named.
func (s *Service) checkSnapshot(ctx context.Context, p Project, t taken) error {
	c, err := s.CommitOf(ctx, p.GitDir, t.commit)
	if err != nil {
		return err
	}
	parent, err := s.CommitOf(ctx, p.GitDir, t.commit+"^1")
	if err != nil {
		return err
	}
	if c != t.commit || parent != t.head {
		return errors.New("the sandbox named a snapshot that is not one")
	}
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-list", "--objects", "--quiet", "--no-walk", t.commit}})
	if err != nil {
		return fmt.Errorf("the snapshot is not whole: %w", err)
	}
	return nil
}

// snapshotOfNothing is the snapshot of a workspace whose folder was removed by hand: what its branch holds, or what an
// earlier, cut deletion kept.
func (s *Service) snapshotOfNothing(ctx context.Context, p Project, w Workspace) (*Snapshot, error) {
	if w.Snapshot != nil {
		if c, err := s.CommitOf(ctx, p.GitDir, w.Snapshot.HeadRef); err != nil || c == w.Snapshot.Head {
			return w.Snapshot, err
		}
	}
	for _, name := range [...]string{HeadsPrefix + w.Branch, BaseRef(w.ID), w.BaseCommit} {
		if name == "" {
			continue
		}
		c, err := s.CommitOf(ctx, p.GitDir, name)
		if err != nil {
			return nil, err
		}
		if c != "" {
			return s.keepSnapshot(ctx, p, w, taken{head: c, commit: c}, "")
		}
	}
	return nil, nil // there is nothing any more that could be lost
}

// keepSnapshot makes the hidden refs and says what they hold.
func (s *Service) keepSnapshot(ctx context.Context, p Project, w Workspace, t taken, nested string) (*Snapshot, error) {
	edits := []RefEdit{RefSet(trashHead(w.ID), t.head), RefSet(trashTree(w.ID), t.commit)}
	if nested != "" {
		edits = append(edits, RefSet(trashNested(w.ID), nested))
	} else {
		edits = append(edits, refDrop(trashNested(w.ID)))
	}
	if err := s.UpdateRefs(ctx, p.GitDir, "snapshot of "+w.Key(), edits...); err != nil {
		return nil, GitFault(err, fault.Unavailable, "snapshot_failed", "Keeping the snapshot")
	}
	snap := &Snapshot{Ref: trashTree(w.ID), Commit: t.commit, HeadRef: trashHead(w.ID), Head: t.head, TakenAt: s.Millis(), Missing: t.missing}
	paths, err := s.snapshotPaths(ctx, p, *snap)
	if err != nil {
		return nil, err
	}
	snap.Uncommitted = len(paths)
	snap.Unmerged, err = s.countUnmerged(ctx, p, w, t.head)
	return snap, err
}

// snapshotPaths lists what differs between the snapshot's files and its head.
func (s *Service) snapshotPaths(ctx context.Context, p Project, snap Snapshot) ([]string, error) {
	if snap.Commit == snap.Head {
		return nil, nil
	}
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", snap.Head, snap.Commit}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the snapshot")
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

func (s *Service) countUnmerged(ctx context.Context, p Project, w Workspace, head string) (int, error) {
	args, err := s.unmergedArgs(ctx, p, w, head)
	if err != nil {
		return 0, err
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: append([]string{"rev-list", "--count"}, args...)})
	if err != nil {
		return 0, GitFault(err, fault.Unavailable, "repository_unreadable", "Counting commits")
	}
	return strconv.Atoi(out)
}

// linkedDir is git's own folder of the workspace's worktree, "" when it is gone.
func linkedDir(p Project, w Workspace) string {
	dir, err := adminDir(p.GitDir, w.Path)
	if err != nil {
		return ""
	}
	return dir
}
