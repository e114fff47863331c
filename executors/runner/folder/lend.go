package folder

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
)

// A workspace that shares objects names the folder's object folders in its own git dir (objects/info/alternates): mounted read-only where
// its executor isolates, without any other part of the owner's repository. The repository gets refs of ours, which are removed with the
// workspace, so that the owner's git retains the shared objects, even when the owner deletes or rewrites the branches.

// lentRefs are the refs that retain shared objects in the owner's repository.
func lentRefs(workspaceID string) string { return "refs/parawork/borrowed/" + workspaceID + "/" }

// deliveredRefs are the refs that record what was delivered of a workspace.
func deliveredRefs(workspaceID string) string { return "refs/parawork/delivered/" + workspaceID + "/" }

// checkID rejects ids that could lead a ref elsewhere.
func checkID(id string) error {
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return fault.New(fault.Invalid, "workspace_id_invalid", "This is not the id of a workspace.")
	}
	return nil
}

// Objects returns the object folders that a sandbox which shares a folder's objects mounts, read-only and under the names git knows them by:
// the repository's own first, then its alternates. None where nothing can be shared.
func (f *Folders) Objects(ctx context.Context, path string) ([]executors.Mount, error) {
	r, err := f.open(ctx, path)
	if err != nil || r.whole() != nil {
		return nil, err
	}
	return r.objects, nil
}

// Lend returns which commits the folder has, when ask names none; otherwise it retains for the workspace, from then on, those of the named
// commits that the folder has. It may be called again.
func (f *Folders) Lend(ctx context.Context, ask wire.LendRequest) (wire.Lent, error) {
	if err := checkID(ask.WorkspaceID); err != nil {
		return wire.Lent{}, err
	}
	r, err := f.open(ctx, ask.Path)
	if err != nil {
		return wire.Lent{}, err
	}
	if why := r.whole(); why != nil {
		return wire.Lent{Reason: why.Error()}, nil
	}
	if len(ask.Commits) == 0 {
		tips, err := f.tips(ctx, r, maxTips)
		return wire.Lent{Tips: tips, Objects: r.names()}, err
	}
	if len(ask.Commits) > maxTips {
		return wire.Lent{}, fault.New(fault.TooLarge, "too_many_commits", "A workspace cannot share more than %d commits at once.", maxTips)
	}
	defer f.lock(r.gitDir)()
	has, err := f.there(ctx, r, ask.Commits)
	if err != nil {
		return wire.Lent{}, err
	}
	b := wire.Lent{Objects: r.names()}
	var set strings.Builder
	for _, id := range ask.Commits {
		if has[id] && !slices.Contains(b.Commits, id) {
			b.Commits = append(b.Commits, id)
			fmt.Fprintf(&set, "update %s%s %s\n", lentRefs(ask.WorkspaceID), id, id)
		}
	}
	if len(b.Commits) == 0 {
		return b, nil
	}
	if err := f.updateRefs(ctx, r, "borrowed by "+ask.WorkspaceID, set.String()); err != nil {
		return wire.Lent{}, err
	}
	return b, nil
}

// names returns the paths under which a sandbox mounts the objects.
func (r repo) names() []string {
	var out []string
	for _, o := range r.objects {
		out = append(out, o.Target)
	}
	return out
}

// updateRefs moves refs in one transaction, in the form update-ref --stdin reads.
func (f *Folders) updateRefs(ctx context.Context, r repo, why, set string) error {
	_, err := r.git.Run(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Stdin: strings.NewReader(set), Args: []string{"update-ref", "-m", "parawork: " + why, "--stdin"}})
	return gitFault(err, "Writing to the folder's repository")
}

// Release removes the refs that retain objects for a workspace. Delivered branches stay, and while nobody changes them they are known as the
// workspace's, whose next sandbox may deliver again. Idempotent.
func (f *Folders) Release(ctx context.Context, path, workspaceID string) error {
	if err := checkID(workspaceID); err != nil {
		return err
	}
	r, err := f.open(ctx, path)
	if err != nil {
		return err
	}
	defer f.lock(r.gitDir)()
	out, err := r.git.Text(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Args: []string{"for-each-ref", "--format=delete %(refname)",
		strings.TrimSuffix(lentRefs(workspaceID), "/")}})
	if err != nil {
		return gitFault(err, "Reading the folder's repository")
	}
	stale, err := f.staleMarks(ctx, r)
	if err != nil || out == "" && stale == "" {
		return err
	}
	return f.updateRefs(ctx, r, "given back by "+workspaceID, strings.TrimSpace(out+"\n"+stale)+"\n")
}

// staleMarks returns, as lines that delete them, the refs that record deliveries of any workspace whose branches have moved or are gone:
// they have no more use, and would retain what the owner has deleted.
func (f *Folders) staleMarks(ctx context.Context, r repo) (string, error) {
	out, err := r.git.Text(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Max: maxWalk, Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/parawork/delivered", "refs/heads"}})
	if err != nil {
		return "", gitFault(err, "Reading the folder's repository")
	}
	at := make(map[string]string)
	for l := range strings.Lines(out) {
		if id, name, ok := strings.Cut(strings.TrimSpace(l), " "); ok {
			at[name] = id
		}
	}
	var stale []string
	for name, id := range at {
		rest, is := strings.CutPrefix(name, "refs/parawork/delivered/")
		_, branch, ok := strings.Cut(rest, "/")
		if is && (!ok || at["refs/heads/"+branch] != id) {
			stale = append(stale, "delete "+name+" "+id)
		}
	}
	slices.Sort(stale)
	return strings.Join(stale, "\n"), nil
}

// Copy copies the ignored files that patterns match from the folder into a workspace's worktree, and returns their names. The files never
// leave the machine. It follows no link on either side, and overwrites nothing.
func (f *Folders) Copy(ctx context.Context, path, tree string, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	if len(patterns) > ignored.MaxPatterns || slices.ContainsFunc(patterns, func(p string) bool { return !ignored.Valid(p) }) {
		return nil, fault.New(fault.Invalid, "pattern_invalid", "A pattern for files to copy is invalid: use names such as .env, *.local or certs/.")
	}
	r, err := f.open(ctx, path)
	if err != nil {
		return nil, err
	}
	if r.bare {
		return nil, nil
	}
	from, err := os.OpenRoot(r.path)
	if err != nil {
		return nil, fault.Wrap(err, fault.NotFound, "folder_missing", "The folder no longer exists.")
	}
	defer from.Close()
	to, err := os.OpenRoot(tree)
	if err != nil {
		return nil, fmt.Errorf("opening the worktree: %w", err)
	}
	defer to.Close()
	fi, err := to.Stat(".")
	if err != nil {
		return nil, fmt.Errorf("opening the worktree: %w", err)
	}
	out, err := r.git.Run(ctx, hostgit.Call{GitDir: r.headDir, WorkTree: r.path, Max: maxWalk, Timeout: quickTime,
		Args: []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"}})
	if err != nil {
		return nil, gitFault(err, "Looking for ignored files")
	}
	c := ignored.Copier{From: from, To: to, Patterns: patterns, Owner: otherOwner(fi)}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if err := c.Take(ctx, name); err != nil {
			return c.Copied(), copyFault(err)
		}
	}
	return c.Copied(), nil
}

// otherOwner returns the owner of a worktree, 0 when that is this process's own user, or this process cannot change owners.
func otherOwner(fi fs.FileInfo) int {
	if uid := ownerOf(fi); os.Geteuid() == 0 && uid > 0 {
		return uid
	}
	return 0
}
