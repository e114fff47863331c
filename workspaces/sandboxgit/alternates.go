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

// An isolated sandbox does not see a project's repository, because that has snapshots, stashes, the trash, private branches, and in
// somebody's own folder whatever else was ever in it. It sees two read-only folders of packs instead, which this server writes: the
// project's shared store, of everything the team may read, and the workspace's own store, of what only its sandbox may read in addition.
// The workspace's own store is mounted in place of the repository's objects, and names the shared one as its alternate.
//
// Neither ever loses an object while a sandbox's git may depend on it: what a team could read stays readable.

// objectStore is a folder with a store's objects.
type objectStore string

// Objects is the folder of the store's objects.
func (o objectStore) Objects() string { return filepath.Join(string(o), "objects") }

func (o objectStore) tipsFile() string { return filepath.Join(string(o), "tips") }

// SharedStore is the store visible to all sandboxes of a project.
func (s *Store) SharedStore(projectID string) objectStore {
	return objectStore(filepath.Join(s.cfg.DataDir, "shared", projectID))
}

// OwnStore is the store visible to the workspace's sandbox only. It is outside of what that may write.
func (s *Store) OwnStore(workspaceID string) objectStore {
	return objectStore(filepath.Join(s.SandboxDir(workspaceID), "store"))
}

// make creates the folders, with the store's alternates.
func (o objectStore) make(alternate string) error {
	if err := git.MakeFolders(string(o)); err != nil {
		return err
	}
	for _, dir := range [...]string{o.Objects(), filepath.Join(o.Objects(), "pack"), filepath.Join(o.Objects(), "info")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o755); err != nil { // regardless of the server's umask
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

// tips are objects that the store is known to contain, with everything reachable from them.
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

// maxTips bounds the recorded tips of a store. Dropped ones are packed again on request.
const maxTips = 3 * maxAdvertised

// note records tips, which must be on disk with everything reachable from them.
func (o objectStore) note(was map[string]bool, ids []string) error {
	if len(was)+len(ids) > maxTips {
		was = nil
	}
	all := slices.AppendSeq(slices.Clone(ids), maps.Keys(was))
	return WriteOnce(o.tipsFile(), strings.Join(git.Unique(all), "\n")+"\n")
}

// ShareObjects makes sure that the workspace's sandbox can read ids, objects of the repository, and everything reachable from them: the
// caller has decided that it may. What the team may read goes into the shared store, the rest into the workspace's own. Missing objects are
// skipped.
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
		before, err := s.legacyObjects(ctx, p, w)
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

// Share updates the project's shared store to what its team may read now, and returns the tips of that.
func (s *Store) Share(ctx context.Context, p workspaces.Project) ([]string, error) {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.shareRefs(ctx, p)
}

// shareRefs is Share; the caller holds the project's lock.
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

// packInto packs everything reachable from ids that neither the store nor its alternates have, and records that. If interrupted, it is
// repeated.
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
	dir, err := os.MkdirTemp(s.records.TmpDir(), "share-")
	if err != nil {
		return git.DiskFault(err, "Packing the objects of the workspace's sandbox")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ask := strings.Join(ids, "\n") + "\n"
	if len(not) > 0 {
		ask += "--not\n" + strings.Join(not, "\n") + "\n"
	}
	// Objects that somebody's own repository lacks, for example a partial clone's files, are also missing in a sandbox.
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

// noteReceived records that a pack from the workspace's sandbox, which was put into its store, has everything reachable from these ids.
func (s *Store) noteReceived(ctx context.Context, p workspaces.Project, w workspaces.Workspace, ids []string) error {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	own := s.OwnStore(w.ID)
	if err := own.note(own.tips(), ids); err != nil {
		return git.DiskFault(err, "Fetching the workspace's commits")
	}
	s.packTogether(ctx, p, own)
	return nil
}

// maxPacks is how many packs a store has before they are repacked into one.
const maxPacks = 50

// packTogether repacks the many packs of a store into one while sandboxes read it: git searches again for objects it no longer finds. A
// failure costs only time.
func (s *Store) packTogether(ctx context.Context, p workspaces.Project, o objectStore) {
	packs, err := filepath.Glob(filepath.Join(hostgit.GlobEscape(o.Objects()), "pack", "pack-*.pack"))
	if err != nil || len(packs) <= maxPacks {
		return
	}
	scratch, err := s.git.ScratchOver(ctx, s.records.TmpDir(), p.GitDir, o.Objects())
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "packs of sandboxes could not be repacked", "project_id", p.ID, "error", err)
		return
	}
	defer func() { _ = scratch.Close() }()
	for _, args := range [][]string{{"multi-pack-index", "write"}, {"multi-pack-index", "repack", "--batch-size=0"}, {"multi-pack-index", "expire"}} {
		if _, err := scratch.Run(ctx, hostgit.Call{Args: args, Timeout: s.cfg.CloneTimeout, Passing: true}); err != nil {
			s.cfg.Log.WarnContext(ctx, "packs of sandboxes could not be repacked", "project_id", p.ID, "error", err)
			break
		}
	}
	made, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(o.Objects()), "pack", "*"))
	for _, name := range made { // regardless of the server's umask
		_ = os.Chmod(name, 0o444)
	}
}

// legacyObjects are the objects that a git dir older than the workspace's store may depend on: one of an earlier version, whose sandbox
// saw the whole repository. They are the workspace's own, snapshots included, and those advertised to its sandbox.
func (s *Store) legacyObjects(ctx context.Context, p workspaces.Project, w workspaces.Workspace) ([]string, error) {
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

// madeFrom are the objects that a new private git dir needs besides the advertised ones: the workspace's own refs, and what git's folder of
// the linked worktree names: HEAD, an operation in progress, the index, the reflog.
func (s *Store) madeFrom(ctx context.Context, p workspaces.Project, refs SandboxRefNames, admin string) ([]string, error) {
	ids := slices.Collect(maps.Values(refs.Local))
	ids = append(ids, refs.Stash...)
	head, err := s.repo.CommitOf(ctx, admin, "HEAD")
	if err != nil {
		return nil, err
	}
	under, err := s.repo.OperationTips(ctx, p, admin)
	if err != nil {
		return nil, fmt.Errorf("reading the operation in progress: %w", err)
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

// loggedMost is how many of the last positions of HEAD stay readable in a new private git dir.
const loggedMost = 1_000

// loggedHeads are the former positions of HEAD in a linked worktree.
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

// ShareClone makes the shared store of a new clone of the received packs themselves: they have exactly what the team may read, and take no
// extra space. If that is impossible, the first sandbox makes the store.
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

// DropShared removes a project's shared store if no sandbox's git depends on it: the next sandbox makes it again, without what no branch
// reaches any more.
func (s *Store) DropShared(ctx context.Context, p workspaces.Project) error {
	unlock, err := s.locks.Lending.LockContext(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	shared := s.SharedStore(p.ID)
	names, err := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), "boxes", "*", "store", "objects", "info", "alternates"))
	if err != nil {
		return err
	}
	for _, name := range names { // including those of workspaces in the trash, which may be restored
		if b, err := os.ReadFile(name); err != nil && !errors.Is(err, fs.ErrNotExist) || string(b) == shared.Objects()+"\n" {
			return err
		}
	}
	return s.drop(shared)
}

// drop removes a store, after its records.
func (s *Store) drop(o objectStore) error {
	if err := os.Remove(o.tipsFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.repo.RemoveFolder(string(o))
}

// DropStore removes the workspace's own store, once its sandbox's git dir is gone.
func (s *Store) DropStore(workspaceID string) error {
	return s.drop(s.OwnStore(workspaceID))
}
