package transfer

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// BundleDir is the folder of the bundle for a sandbox, until it has been transferred.
func (s *Service) BundleDir(sandboxID string) string {
	return filepath.Join(s.cfg.DataDir, "bundles", filepath.Base(sandboxID))
}

// bundleNote describes a bundle's content. It is written when the bundle is complete.
type bundleNote struct {
	ID        string               `json:"id"`
	Workspace string               `json:"workspace"`
	Size      int64                `json:"size"`
	Hash      string               `json:"hash"` // sha256, in hex
	Home      sandboxgit.SyncState `json:"home"` // the worktree's position
	Reported  map[string]string    `json:"told"` // refs of the repository's in it
	Sent      map[string]string    `json:"sent"` // selected ignored files in it: git's object ids
}

func (s *Service) readNote(sandboxID string) (bundleNote, bool) {
	var n bundleNote
	b, err := os.ReadFile(filepath.Join(s.BundleDir(sandboxID), "note"))
	if err != nil || json.Unmarshal(b, &n) != nil {
		return n, false
	}
	fi, err := os.Lstat(filepath.Join(s.BundleDir(sandboxID), "bundle"))
	return n, err == nil && fi.Size() == n.Size
}

// spooled finds the bundle of a sandbox, or makes it. say receives the progress.
func (s *Service) spooled(ctx context.Context, p workspaces.Project, w workspaces.Workspace, sandboxID string, say func(done, all int64)) (bundleNote, error) {
	if n, ok := s.readNote(sandboxID); ok && n.Workspace == w.ID {
		return n, nil
	}
	dir := s.BundleDir(sandboxID)
	if err := s.repo.RemoveFolder(dir); err != nil {
		return bundleNote{}, git.DiskFault(err, "Preparing the repository to be sent")
	}
	if err := git.MakeFolders(dir); err != nil {
		return bundleNote{}, git.DiskFault(err, "Preparing the repository to be sent")
	}
	n, err := s.makeBundle(ctx, p, w, sandboxID, dir, say)
	if err == nil {
		var b []byte
		if b, err = json.Marshal(n); err == nil {
			err = sandboxgit.WriteOnce(filepath.Join(dir, "note"), string(b))
		}
	}
	if err != nil {
		_ = s.repo.RemoveFolder(dir)
		if errors.Is(err, syscall.ENOSPC) || git.NearlyFull(s.cfg.DataDir) {
			return n, git.DiskFault(errors.Join(syscall.ENOSPC, err), "Preparing the repository to be sent")
		}
		if _, reported := errors.AsType[*fault.Error](err); !reported && ctx.Err() == nil {
			err = fault.Wrap(err, fault.Unavailable, "bundle_failed", "The repository could not be prepared to be sent to the sandbox: %s", git.Reason(err))
		}
		return n, err
	}
	return n, nil
}

// makeBundle writes the bundle of a worktree into dir.
func (s *Service) makeBundle(ctx context.Context, p workspaces.Project, w workspaces.Workspace, sandboxID, dir string, say func(done, all int64)) (bundleNote, error) {
	n := bundleNote{Workspace: w.ID}
	admin := git.LinkedDir(p, w)
	if admin == "" {
		return n, fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Archive the workspace and restore it.")
	}
	gitDir := filepath.Join(dir, "git")
	staged, err := s.bundleGit(ctx, p, w, admin, gitDir, &n, say)
	if err != nil {
		return n, err
	}
	st, err := s.repo.WorktreeState(ctx, p, w, n.Home.Head)
	if err != nil {
		return n, err
	}
	if n.Sent, err = s.sendIgnored(ctx, p, w, n.Home.Head, &st); err != nil {
		return n, err
	}
	n.Size, n.Hash, err = s.writeBundle(ctx, w, filepath.Join(dir, "bundle"), gitDir, staged, st)
	if err != nil {
		return n, err
	}
	n.ID = sandboxID + "-" + n.Hash[:16]
	return n, s.repo.RemoveFolder(gitDir)
}

// bundleGit makes the git folder of a bundle, and returns what is staged.
func (s *Service) bundleGit(ctx context.Context, p workspaces.Project, w workspaces.Workspace, admin, dir string, n *bundleNote, say func(done, all int64)) (staged string, err error) {
	head, err := s.repo.CommitOf(ctx, admin, "HEAD")
	if err != nil {
		return "", err
	}
	if head == "" {
		return "", fault.New(fault.Conflict, "worktree_unreadable", "The workspace's worktree has no commit. Archive the workspace and restore it.")
	}
	if n.Reported, err = s.sandboxes.RemoteAdvertised(ctx, p, w); err != nil {
		return "", err
	}
	refs, err := s.sandboxes.SandboxRefs(ctx, p, w, admin, n.Reported)
	if err != nil {
		return "", err
	}
	n.Home = sandboxgit.SyncState{Head: head, Tip: refs.Local[git.HeadsPrefix+w.Branch], Bytes: s.sandboxes.ReadSyncState(w.ID).Bytes}
	if at, err := s.git.Text(ctx, hostgit.Call{GitDir: admin, Args: []string{"symbolic-ref", "--quiet", "HEAD"}}); err == nil {
		n.Home.Branch = strings.TrimPrefix(at, git.HeadsPrefix)
	}
	config, err := s.sandboxes.SandboxConfig(ctx, p, admin, "")
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := s.sandboxes.FillPrivateGit(ctx, p, dir, admin, config, refs, false); err != nil {
		return "", err
	}
	// An index has stat data of this machine; FETCH_HEAD and the log of HEAD name what only this machine has.
	for _, name := range [...]string{"index", "FETCH_HEAD", "logs/HEAD", "shallow"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	staged, blobs, err := s.bundleIndex(ctx, p, w, admin, n)
	if err != nil {
		return "", err
	}
	tips, err := s.bundleTips(ctx, p, w, refs, dir, head)
	if err != nil {
		return "", err
	}
	shared, err := s.shareFrom(ctx, p, w, tips.all)
	if err != nil {
		return "", err
	}
	if shared != nil {
		return staged, s.packMissing(ctx, p, dir, append(tips.all, blobs...), shared, say)
	}
	h, err := s.repo.CutHistory(ctx, p, tips.main, tips.others)
	if err != nil {
		return "", err
	}
	h.Tips = append(git.Unique(append(h.Tips, tips.all...)), blobs...) // tags themselves, too
	if err := os.WriteFile(filepath.Join(dir, "shallow"), []byte(strings.Join(h.Shallow, "\n")+"\n"), 0o644); err != nil {
		return "", err
	}
	return staged, s.repo.PackHistory(ctx, p, filepath.Join(dir, "objects", "pack"), h, nil, say)
}

// bundleIndex returns what is staged, and saves it on the server as a commit, if possible, so that it is not lost with the sandbox.
func (s *Service) bundleIndex(ctx context.Context, p workspaces.Project, w workspaces.Workspace, admin string, n *bundleNote) (staged string, blobs []string, err error) {
	staged, blobs, conflicts, err := s.repo.StagedIn(ctx, admin, n.Home.Head)
	if err != nil || staged == "" {
		return "", nil, err
	}
	types, err := s.repo.Typed(ctx, p, blobs)
	if err != nil {
		return "", nil, err
	}
	if len(types) < len(git.Unique(blobs)) {
		s.cfg.Log.InfoContext(ctx, "what is staged names missing objects, so it is not sent", "workspace_id", w.ID)
		return "", nil, nil
	}
	if conflicts {
		return staged, git.Unique(blobs), nil
	}
	tree, err := s.git.Text(ctx, hostgit.Call{GitDir: admin, Args: []string{"write-tree"}})
	if err != nil {
		return staged, git.Unique(blobs), nil // it is sent all the same
	}
	commit, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader("parawork: what was staged\n"), Args: []string{"commit-tree", "-p", n.Home.Head, tree}})
	if err != nil || !git.IsCommitID(commit) {
		return "", nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Saving what is staged")
	}
	if err := s.repo.UpdateRefs(ctx, p.GitDir, "staged in "+w.Key(), git.RefSet(sandboxgit.IndexRef(w.ID), commit)); err != nil {
		return "", nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Saving what is staged")
	}
	n.Home.Index = commit
	return staged, git.Unique(blobs), nil
}

// tips are the tips of a bundle's repository.
type tips struct {
	main   []string // commits whose history must be there as far as they differ
	others []string // further commits
	all    []string // all of them, and tags of other objects
}

// bundleTips determines what the work needs of the repository.
func (s *Service) bundleTips(ctx context.Context, p workspaces.Project, w workspaces.Workspace, refs sandboxgit.SandboxRefNames, dir, head string) (tips, error) {
	base, err := s.repo.NewestBase(ctx, p, w)
	if err != nil {
		return tips{}, err
	}
	main := []string{head, base, refs.Local[git.HeadsPrefix+w.Branch]}
	all := []string{}
	for _, id := range refs.Reported {
		all = append(all, id)
	}
	reported, err := s.repo.Peeled(ctx, p, git.Unique(all))
	if err != nil {
		return tips{}, err
	}
	own := slices.Clone(refs.Stash)
	for _, id := range refs.Local {
		own = append(own, id)
	}
	others, err := s.repo.Peeled(ctx, p, git.Unique(own))
	if err != nil {
		return tips{}, err
	}
	under, err := s.repo.OperationTips(ctx, p, dir)
	if err != nil {
		return tips{}, err
	}
	main, others = append(main, reported...), append(others, under...)
	return tips{main, others, git.Unique(slices.Concat(main, others, all, own))}, nil
}

// writeBundle writes the archive.
func (s *Service) writeBundle(ctx context.Context, w workspaces.Workspace, file, gitDir, staged string, st git.WorktreeState) (size int64, hash string, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	a := git.Archive{Ctx: ctx, Tw: tar.NewWriter(buf), Owner: s.sandboxes.Owner(w.ID)}
	if err = s.fillBundle(&a, w, gitDir, staged, st); err == nil {
		err = errors.Join(a.Tw.Close(), buf.Flush())
	}
	if err != nil {
		return 0, "", err
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	return fi.Size(), hex.EncodeToString(sum.Sum(nil)), f.Close()
}

func (s *Service) fillBundle(a *git.Archive, w workspaces.Workspace, gitDir, staged string, st git.WorktreeState) error {
	root, err := os.OpenRoot(gitDir)
	if err != nil {
		return err
	}
	defer root.Close()
	tree, err := os.OpenRoot(w.Path)
	if err != nil {
		return err
	}
	defer tree.Close()
	files := slices.Concat(st.Changed, st.Others, st.Ignored)
	slices.Sort(files)
	files = slices.Compact(files)
	plan, err := json.Marshal(guest.BundlePlan{Kind: guest.BundleWorktree, Files: int64(len(files) + len(st.Nested)), Bytes: git.FolderBytes(root)})
	if err != nil {
		return err
	}
	if err := a.Text(guest.BundlePlanEntry, string(plan)); err != nil {
		return err
	}
	if err := a.Folder(root, ".", guest.BundleGit); err != nil {
		return err
	}
	gone := ""
	if len(st.Gone) > 0 {
		gone = strings.Join(st.Gone, "\x00") + "\x00"
	}
	for _, l := range [...]struct{ name, text string }{{guest.BundleGone, gone}, {guest.BundleStaged, staged}} {
		if l.text == "" {
			continue
		}
		if err := a.Text(l.name, l.text); err != nil {
			return err
		}
	}
	for _, name := range files {
		if err := a.File(tree, name, guest.BundleTree); err != nil {
			return err
		}
	}
	for _, name := range st.Nested {
		if !ignored.PlainParents(tree, name+"/x") {
			continue
		}
		if err := a.Folder(tree, name, guest.BundleTree); err != nil {
			return err
		}
	}
	return nil
}
