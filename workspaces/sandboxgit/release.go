package sandboxgit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// SyncState is what was last fetched from an isolated workspace and checked by the host. It is outside of what the sandbox may write.
type SyncState struct {
	Stamp  string `json:"stamp"`  // of the private git dir before the fetch
	Branch string `json:"branch"` // HEAD's branch, "" = detached
	Head   string `json:"head"`   // HEAD's commit
	Tip    string `json:"tip"`    // of the workspace's own branch, "" = none
	Bytes  int64  `json:"bytes"`  // total bytes fetched
	Index  string `json:"index"`  // a commit on Head whose tree is the index, "" = unknown
}

func (s *Store) syncFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "home-state")
}

// ReadSyncState returns what was fetched last, the zero value when nothing was.
func (s *Store) ReadSyncState(workspaceID string) SyncState {
	var h SyncState
	b, err := os.ReadFile(s.syncFile(workspaceID))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return SyncState{}
	}
	return h
}

// WriteSyncState stores what was fetched last.
func (s *Store) WriteSyncState(workspaceID string, h SyncState) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return WriteOnce(s.syncFile(workspaceID), string(b))
}

// maxStamped bounds how many names of a private git dir a stamp covers.
const maxStamped = 20_000

// Stamp changes when a ref of the private git dir may have changed. It only reads names, times and sizes, whose content is not trusted. ""
// when it is unknown.
func (s *Store) Stamp(workspaceID string) string {
	root, err := os.OpenRoot(s.PrivateGit(workspaceID))
	if err != nil {
		return ""
	}
	defer root.Close()
	h := fnv.New128a()
	n := 0
	note := func(name string, fi fs.FileInfo) {
		n++
		fmt.Fprintf(h, "%q %d %d %d\n", name, fi.ModTime().UnixNano(), fi.Size(), fi.Mode())
	}
	for _, name := range [...]string{"HEAD", "packed-refs", "refs/stash"} {
		if fi, err := root.Lstat(name); err == nil {
			note(name, fi)
		}
	}
	for _, dir := range [...]string{"refs/heads", "refs/tags", "reftable"} {
		if fi, err := root.Lstat(dir); err != nil || !fi.IsDir() {
			continue
		}
		err := fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if n > maxStamped {
				return errors.New("too many")
			}
			fi, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				note(name, fi)
			}
			return err
		})
		if err != nil {
			return ""
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// ReleaseSandbox gives the files of a workspace without a private git dir back to the server, and removes its sync state.
func (s *Store) ReleaseSandbox(ctx context.Context, w workspaces.Workspace) error {
	if err := s.giveBack(ctx, w); err != nil {
		return git.DiskFault(err, "Taking the workspace's files back from its sandbox")
	}
	if err := s.DropStore(w.ID); err != nil {
		return git.DiskFault(err, "Removing the sandbox's git folder")
	}
	for _, f := range [...]string{s.syncFile(w.ID), s.advertisedFile(w.ID)} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return git.DiskFault(err, "Removing the sandbox's git folder")
		}
	}
	return nil
}

// RestoreWorktree updates git's own folder of the linked worktree to the sandbox's last state. It uses only commits that the host has
// checked, and makes the index from one.
func (s *Store) RestoreWorktree(ctx context.Context, p workspaces.Project, w workspaces.Workspace, admin string, home SyncState) error {
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	failed := func(err error) error {
		return git.GitFault(err, fault.Unavailable, "worktree_update_failed", "Bringing the worktree up to date")
	}
	at := home.Head // detached there
	if home.Branch != "" {
		ref := git.HeadsPrefix + home.Branch
		tip, err := s.repo.CommitOf(ctx, p.GitDir, ref)
		if err != nil {
			return err
		}
		if tip == "" && s.repo.CheckBranch(ctx, home.Branch) == nil {
			if err := s.repo.UpdateRefs(ctx, p.GitDir, "leave the sandbox of "+w.Key(), git.RefCreate(ref, home.Head)); err == nil {
				tip = home.Head
			}
		}
		if tip != "" && tip != home.Head && home.Branch == w.Branch && home.Tip == home.Head && s.Remote(w.ID) {
			// An earlier move of the branch was interrupted. If something else moved it, it stays there.
			if behind, err := s.repo.Contains(ctx, p.GitDir, home.Head, tip); err == nil && behind {
				if err := s.repo.UpdateRefs(ctx, p.GitDir, "from the sandbox of "+w.Key(), git.RefUpdate(ref, home.Head, tip)); err == nil {
					tip = home.Head
				}
			}
		}
		if tip == home.Head {
			at = ref
		}
	}
	if strings.HasPrefix(at, "refs/") {
		_, err = s.git.Run(ctx, hostgit.Call{GitDir: admin, Args: []string{"symbolic-ref", "HEAD", at}})
	} else {
		_, err = s.git.Run(ctx, hostgit.Call{GitDir: admin, Args: []string{"update-ref", "--no-deref", "HEAD", at}})
	}
	if err != nil {
		return failed(err)
	}
	tree := "HEAD"
	if home.Index != "" {
		tree = home.Index
	}
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: admin, Args: []string{"read-tree", "--reset", tree}})
	return failed(err)
}
