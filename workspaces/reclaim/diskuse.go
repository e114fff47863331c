package reclaim

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/projects"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// WorkspaceUse is the disk use of one workspace, in bytes of blocks.
type WorkspaceUse struct {
	ID       string
	Worktree int64 // its files, ignored ones included
	Home     int64 // of its agents, and the git dir of its sandbox
	Kept     int64 // snapshots and other objects that only its hidden refs reach in the repository
	History  int64 // of its sessions
}

// Bytes is all of it.
func (u WorkspaceUse) Bytes() int64 { return u.Worktree + u.Home + u.Kept + u.History }

// UseOfWorkspace counts the disk use of a workspace; for one in the trash that is what purging it would free. It does not follow links, and
// counts files with several names once.
func (s *Service) UseOfWorkspace(ctx context.Context, workspaceID, gitDir string) (WorkspaceUse, error) {
	u := WorkspaceUse{ID: workspaceID}
	var err error
	if u.Worktree, err = treeBytes(ctx, s.repo.WorkspaceDir(workspaceID)); err != nil {
		return u, err
	}
	for _, dir := range [...]string{s.sandboxes.SandboxDir(workspaceID), filepath.Join(s.cfg.DataDir, "sync", workspaceID), filepath.Join(s.cfg.DataDir, "kept", workspaceID)} {
		n, err := treeBytes(ctx, dir)
		if err != nil {
			return u, err
		}
		u.Home += n
	}
	if git.FolderExists(gitDir) {
		if u.Kept, err = s.keptBytes(ctx, gitDir, workspaceID); err != nil {
			return u, err
		}
	}
	if _, sessions, err := s.records.Connected(); err == nil {
		if f, ok := sessions.(Forgetter); ok {
			if u.History, err = f.HistoryBytes(ctx, workspaceID); err != nil {
				return u, err
			}
		}
	}
	return u, nil
}

// keptBytes is the size of the objects that only the hidden refs of one workspace reach.
func (s *Service) keptBytes(ctx context.Context, gitDir, workspaceID string) (int64, error) {
	refs, err := s.repo.HiddenRefs(ctx, gitDir, workspaceID)
	if err != nil || len(refs) == 0 {
		return 0, err
	}
	all, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"for-each-ref", "--format=%(objectname) %(refname)"}})
	if err != nil {
		return 0, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Listing the hidden refs")
	}
	var in strings.Builder
	for _, id := range refs {
		in.WriteString(id + "\n")
	}
	for l := range strings.SplitSeq(all, "\n") {
		if id, name, ok := strings.Cut(l, " "); ok && refs[name] == "" {
			in.WriteString("^" + id + "\n")
		}
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Stdin: strings.NewReader(in.String()), Args: []string{"rev-list", "--objects", "--disk-usage", "--ignore-missing", "--stdin"}})
	if err != nil {
		return 0, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Counting the objects of hidden refs")
	}
	n, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	return n, err
}

// RepositoryUse is the disk use of a repository, in bytes of blocks.
type RepositoryUse struct {
	Bytes int64
	Loose int64 // of that, loose objects, which packing makes smaller
	Ours  bool  // it is in the server's data folder; else in somebody's own folder, which is not packed
}

// UseOfRepository counts the disk use of a project's repository, including the parts shared with its sandboxes, without its linked
// worktrees.
func (s *Service) UseOfRepository(ctx context.Context, p workspaces.Project) (RepositoryUse, error) {
	u := RepositoryUse{Ours: p.SourceKind != workspaces.SourcePath}
	dir := p.GitDir
	if u.Ours {
		dir = s.transfer.ProjectDir(p.ID)
	}
	var err error
	if u.Bytes, err = treeBytes(ctx, dir, string(s.sandboxes.SharedStore(p.ID))); err != nil || !git.FolderExists(p.GitDir) {
		return u, err
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"count-objects", "-v"}})
	if err != nil {
		return u, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Counting the repository's objects")
	}
	for l := range strings.SplitSeq(out, "\n") {
		if kib, ok := strings.CutPrefix(l, "size: "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(kib), 10, 64)
			if err != nil {
				return u, err
			}
			u.Loose = n << 10
		}
	}
	return u, nil
}

// Leftovers are folders that nothing needs any more: remains of deletions that a crash interrupted. bytes is their disk use.
func (s *Service) Leftovers(ctx context.Context) (dirs []string, bytes int64, err error) {
	for _, pattern := range lifecycle.Leftovers[:2] { // the others may be in use
		found, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), pattern))
		dirs = append(dirs, found...)
	}
	slices.Sort(dirs)
	for _, d := range dirs {
		n, err := treeBytes(ctx, d)
		if err != nil {
			return dirs, bytes, err
		}
		bytes += n
	}
	return dirs, bytes, nil
}

// RemoveLeftovers removes them and returns how many bytes that freed.
func (s *Service) RemoveLeftovers(ctx context.Context) (freed int64, err error) {
	dirs, bytes, err := s.Leftovers(ctx)
	if err != nil {
		return 0, err
	}
	for _, d := range dirs {
		if err := git.RemoveTree(d); err != nil {
			return 0, git.DiskFault(err, "Removing what a deletion left")
		}
	}
	return bytes, nil
}

// treeBytes is the disk use of folders: blocks, each file once, nothing behind links, nothing unreadable. A missing folder counts 0.
func treeBytes(ctx context.Context, dirs ...string) (n int64, err error) {
	seen := make(projects.Inodes)
	for _, dir := range dirs {
		more, err := treeBytesBeside(ctx, dir, seen)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// treeBytesBeside is treeBytes of one folder, without the files already seen.
func treeBytesBeside(ctx context.Context, dir string, seen projects.Inodes) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return nil // removed meanwhile, or not readable: then it is not the server's
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			n += info.Size()
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			k := sandboxgit.Inode{Dev: uint64(st.Dev), Ino: st.Ino} //nolint:unconvert // its type differs by system
			if seen[k] {
				return nil
			}
			seen[k] = true
		}
		n += st.Blocks * 512
		return nil
	})
	if os.IsNotExist(err) {
		err = nil
	}
	return n, err
}
