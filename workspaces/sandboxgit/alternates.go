package sandboxgit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// No sandbox with walls is shown a project's repository: that holds snapshots, stashes, what is in the trash, private branches, and in a
// folder of a person's whatever else was ever in it. Sandboxes are shown two folders of packs instead, read-only, which this server
// writes: the project's shared one, of everything the team may read, and the workspace's own, of what only its sandbox may read beside
// that. The workspace's own lies where the repository's objects would, and names the shared one as its alternate.
//
// Neither ever loses an object while a sandbox's git may stand on it: what a team could read it can read on.

// objectStore is the folder around such a folder of objects.
type objectStore string

// Objects is the folder of the store's objects.
func (o objectStore) Objects() string { return filepath.Join(string(o), "objects") }

func (o objectStore) tipsFile() string { return filepath.Join(string(o), "tips") }

// SharedStore is what all sandboxes of a project are shown.
func (s *Store) SharedStore(projectID string) objectStore {
	return objectStore(filepath.Join(s.cfg.DataDir, "shared", projectID))
}

// OwnStore is what only the workspace's sandbox is shown. It lies beside what that may write.
func (s *Store) OwnStore(workspaceID string) objectStore {
	return objectStore(filepath.Join(s.SandboxDir(workspaceID), "lent"))
}

// make makes the folders, with what they borrow from.
func (o objectStore) make(alternate string) error {
	if err := git.MakeFolders(string(o)); err != nil {
		return err
	}
	for _, dir := range [...]string{o.Objects(), filepath.Join(o.Objects(), "pack"), filepath.Join(o.Objects(), "info")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o755); err != nil { // whatever the server's own mask is
			return err
		}
	}
	if alternate == "" {
		return nil
	}
	name := filepath.Join(o.Objects(), "info", "alternates")
	if err := WriteOnce(name, alternate+"\n"); err != nil {
		return err
	}
	return os.Chmod(name, 0o444)
}

// tips are the objects of which the store is known to have everything they reach.
func (o objectStore) tips() map[string]bool {
	tips := make(map[string]bool)
	b, err := os.ReadFile(o.tipsFile())
	if err != nil {
		return tips
	}
	for id := range strings.FieldsSeq(string(b)) {
		tips[id] = true
	}
	return tips
}

// maxTips bounds what is remembered of a store. What is forgotten is packed again when it is asked for.
const maxTips = 3 * maxAdvertised

// note remembers tips, which must be on disk with all they reach.
func (o objectStore) note(was map[string]bool, ids []string) error {
	if len(was)+len(ids) > maxTips {
		was = nil
	}
	all := slices.AppendSeq(slices.Clone(ids), maps.Keys(was))
	return WriteOnce(o.tipsFile(), strings.Join(git.Unique(all), "\n")+"\n")
}

// ShareObjects makes sure that the workspace's sandbox may read ids, objects of the repository, and all they reach: who calls has decided that it
// may. What the team may read goes into the shared store, the rest into the workspace's own. Objects that are not there are passed over.
func (s *Store) ShareObjects(ctx context.Context, p workspaces.Project, w workspaces.Workspace, ids ...string) error {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	own, shared := s.OwnStore(w.ID), s.SharedStore(p.ID)
	begins := !git.FileExists(own.tipsFile()) || !git.FolderExists(shared.Objects())
	if begins {
		if err := errors.Join(shared.make(""), own.make(shared.Objects())); err != nil {
			return git.DiskFault(err, "Preparing the objects of the workspace's sandbox")
		}
		before, err := s.borrowedBefore(ctx, p, w)
		if err != nil {
			return err
		}
		ids = append(slices.Clone(ids), before...)
	}
	has := own.tips()
	lacks := func() []string {
		all := shared.tips()
		return slices.DeleteFunc(git.Unique(ids), func(id string) bool { return has[id] || all[id] })
	}
	left := lacks()
	if len(left) > 0 || begins {
		if _, err := s.shareRefs(ctx, p); err != nil {
			return err
		}
		left = lacks()
	}
	if len(left) == 0 && !begins {
		return nil
	}
	return s.packInto(ctx, p, own, left, shared)
}

// Share brings the project's shared store up to what its team may read now, and returns the tips of that.
func (s *Store) Share(ctx context.Context, p workspaces.Project) ([]string, error) {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.shareRefs(ctx, p)
}

// shareRefs is share, with the project's lock.
func (s *Store) shareRefs(ctx context.Context, p workspaces.Project) (tips []string, err error) {
	refs, err := s.repoRefs(ctx, p)
	if err != nil {
		return nil, err
	}
	hidden, err := s.HiddenBranches(ctx, p)
	if err != nil {
		return nil, err
	}
	shared := s.SharedStore(p.ID)
	has := shared.tips()
	var fresh []string
	for _, r := range refs {
		if hidden.Hide(r.name) {
			continue
		}
		if tips = append(tips, r.id); !has[r.id] {
			fresh = append(fresh, r.id)
		}
	}
	if err := shared.make(""); err != nil {
		return nil, git.DiskFault(err, "Preparing the objects of the project's sandboxes")
	}
	if len(fresh) == 0 {
		return tips, nil
	}
	return tips, s.packInto(ctx, p, shared, fresh)
}

// packInto packs everything ids reach that neither the store nor those beside it have, and notes that. Cut anywhere it is done again.
func (s *Store) packInto(ctx context.Context, p workspaces.Project, o objectStore, ids []string, beside ...objectStore) error {
	ids = git.Unique(ids)
	has := o.tips()
	not := slices.Collect(maps.Keys(has))
	for _, b := range beside {
		not = slices.AppendSeq(not, maps.Keys(b.tips()))
	}
	there, err := s.repo.Typed(ctx, p, slices.Concat(ids, not))
	if err != nil {
		return err
	}
	gone := func(id string) bool { return there[id] == "" }
	ids, not = slices.DeleteFunc(ids, gone), slices.DeleteFunc(git.Unique(not), gone)
	if len(ids) == 0 {
		return o.note(has, nil)
	}
	if err := git.MakeFolders(s.records.TmpDir()); err != nil {
		return git.DiskFault(err, "Packing the objects of the workspace's sandbox")
	}
	dir, err := os.MkdirTemp(s.records.TmpDir(), "lend-")
	if err != nil {
		return git.DiskFault(err, "Packing the objects of the workspace's sandbox")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ask := strings.Join(ids, "\n") + "\n"
	if len(not) > 0 {
		ask += "--not\n" + strings.Join(not, "\n") + "\n"
	}
	// What a folder of somebody's lacks, a partial clone's files for one, a sandbox lacks as well.
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(ask), Timeout: s.cfg.CloneTimeout, Passing: true,
		Config: []string{"pack.packSizeLimit=0", "pack.island=", "core.compression=1"},
		Args:   []string{"pack-objects", "--revs", "--delta-base-offset", "--no-use-bitmap-index", "--non-empty", "--missing=allow-any", "-q", filepath.Join(dir, "pack")}})
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Packing what the workspace's sandbox may read")
	}
	if err := hostgit.KeepPacks(dir, o.Objects()); err != nil {
		return git.DiskFault(err, "Packing the objects of the workspace's sandbox")
	}
	failpoint.Reach(failpoint.ObjectsLent)
	if err := o.note(has, ids); err != nil {
		return git.DiskFault(err, "Packing the objects of the workspace's sandbox")
	}
	s.packTogether(ctx, p, o)
	return nil
}

// noteLent remembers that a pack that came from the workspace's sandbox, and was put into its store, has all these reach.
func (s *Store) noteLent(ctx context.Context, p workspaces.Project, w workspaces.Workspace, ids []string) error {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	own := s.OwnStore(w.ID)
	if err := own.note(own.tips(), ids); err != nil {
		return git.DiskFault(err, "Taking the workspace's commits home")
	}
	s.packTogether(ctx, p, own)
	return nil
}

// looseMost is how many packs a store has before they are put together.
const looseMost = 50

// packTogether makes one pack of a store that has many, whoever reads there: git looks again for what it finds no more. Failing costs
// only time.
func (s *Store) packTogether(ctx context.Context, p workspaces.Project, o objectStore) {
	packs, err := filepath.Glob(filepath.Join(hostgit.GlobEscape(o.Objects()), "pack", "pack-*.pack"))
	if err != nil || len(packs) <= looseMost {
		return
	}
	scratch, err := s.git.ScratchOver(ctx, s.records.TmpDir(), p.GitDir, o.Objects())
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "packs of sandboxes could not be put together", "project_id", p.ID, "error", err)
		return
	}
	defer func() { _ = scratch.Close() }()
	for _, args := range [][]string{{"multi-pack-index", "write"}, {"multi-pack-index", "repack", "--batch-size=0"}, {"multi-pack-index", "expire"}} {
		if _, err := scratch.Run(ctx, hostgit.Call{Args: args, Timeout: s.cfg.CloneTimeout, Passing: true}); err != nil {
			s.cfg.Log.WarnContext(ctx, "packs of sandboxes could not be put together", "project_id", p.ID, "error", err)
			break
		}
	}
	made, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(o.Objects()), "pack", "*"))
	for _, name := range made { // whatever the server's own mask is
		_ = os.Chmod(name, 0o444)
	}
}

// borrowedBefore are the objects that a git dir which is older than the workspace's store may stand on: that of a sandbox of an earlier
// version, which was shown the whole repository. They are the workspace's own, snapshots included, and what its sandbox was told.
func (s *Store) borrowedBefore(ctx context.Context, p workspaces.Project, w workspaces.Workspace) ([]string, error) {
	if !s.Separate(w.ID) {
		return nil, nil
	}
	own, err := s.repo.HiddenRefs(ctx, p.GitDir, w.ID)
	if err != nil {
		return nil, err
	}
	home := s.ReadSyncState(w.ID)
	ids := []string{home.Head, home.Tip, home.Index, w.BaseCommit}
	ids = slices.AppendSeq(ids, maps.Values(own))
	ids = slices.AppendSeq(ids, maps.Values(s.ReadAdvertised(w.ID)))
	tip, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
	return git.Unique(append(ids, tip)), err
}

// madeFrom are the objects a new private git dir is made of, beside what it is told: the refs of the workspace's own, and what git's folder
// of the linked worktree names: HEAD, what is under way, what is staged, where HEAD was.
func (s *Store) madeFrom(ctx context.Context, p workspaces.Project, refs SandboxRefNames, admin string) ([]string, error) {
	ids := slices.Collect(maps.Values(refs.Local))
	ids = append(ids, refs.Stash...)
	head, err := s.repo.CommitOf(ctx, admin, "HEAD")
	if err != nil {
		return nil, err
	}
	under, err := s.repo.OperationTips(ctx, p, admin)
	if err != nil {
		return nil, fmt.Errorf("reading what is under way: %w", err)
	}
	ids = append(append(ids, head), under...)
	if head != "" {
		_, staged, _, err := s.repo.StagedIn(ctx, admin, head)
		if err != nil {
			return nil, err
		}
		ids = append(ids, staged...)
	}
	return git.Unique(append(ids, loggedHeads(admin)...)), nil
}

// loggedMost is how many of the last places of HEAD stay readable in a new private git dir.
const loggedMost = 1_000

// loggedHeads are where HEAD of a linked worktree was.
func loggedHeads(admin string) []string {
	root, err := os.OpenRoot(admin)
	if err != nil {
		return nil
	}
	defer root.Close()
	fi, err := root.Lstat("logs/HEAD")
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > git.MaxOperationFile {
		return nil
	}
	b, err := root.ReadFile("logs/HEAD")
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	var ids []string
	for _, l := range lines[max(len(lines)-loggedMost, 0):] {
		if f := strings.SplitN(l, " ", 3); len(f) == 3 && git.IsCommitID(f[1]) {
			ids = append(ids, f[1])
		}
	}
	return ids
}

// ShareClone makes the shared store of a repository that was just cloned of the very packs that came: they hold what the team may read and
// nothing else, and cost no room twice. Where that cannot be, the first sandbox makes it.
func (s *Store) ShareClone(ctx context.Context, p workspaces.Project) error {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	loose, err := filepath.Glob(filepath.Join(hostgit.GlobEscape(p.GitDir), "objects", "[0-9a-f][0-9a-f]"))
	if err != nil || len(loose) > 0 {
		return err
	}
	refs, err := s.repoRefs(ctx, p)
	if err != nil || len(refs) == 0 {
		return err
	}
	shared := s.SharedStore(p.ID)
	if err := shared.make(""); err != nil {
		return err
	}
	if err := hostgit.LinkPacks(filepath.Join(p.GitDir, "objects"), shared.Objects()); err != nil {
		return err
	}
	var ids []string
	for _, r := range refs {
		ids = append(ids, r.id)
	}
	return shared.note(nil, ids)
}

// DropShared removes a project's shared store that no sandbox's git stands on: the next one makes it anew, without what no branch names any
// more.
func (s *Store) DropShared(ctx context.Context, p workspaces.Project) error {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	shared := s.SharedStore(p.ID)
	names, err := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), "boxes", "*", "lent", "objects", "info", "alternates"))
	if err != nil {
		return err
	}
	for _, name := range names { // those of workspaces in the trash, too: they may come back
		if b, err := os.ReadFile(name); err != nil && !errors.Is(err, fs.ErrNotExist) || string(b) == shared.Objects()+"\n" {
			return err
		}
	}
	return s.drop(shared)
}

// drop removes a store. That it has anything is forgotten first.
func (s *Store) drop(o objectStore) error {
	if err := os.Remove(o.tipsFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.repo.RemoveFolder(string(o))
}

// DropStore removes the workspace's own store: its sandbox's git dir is gone.
func (s *Store) DropStore(workspaceID string) error {
	return s.drop(s.OwnStore(workspaceID))
}
