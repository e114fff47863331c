package workspaces

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
)

// homeState is what came home last of a boxed workspace, checked by the host. It lies beside what the sandbox may write.
type homeState struct {
	Stamp  string `json:"stamp"`  // of the private git dir before it was asked
	Branch string `json:"branch"` // HEAD's branch, "" = detached
	Head   string `json:"head"`   // HEAD's commit
	Tip    string `json:"tip"`    // of the workspace's own branch, "" = it has none
	Bytes  int64  `json:"bytes"`  // taken in all
	Index  string `json:"index"`  // a commit on Head whose tree is the index, "" = not known
}

func (s *Service) homeFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "home-state")
}

func (s *Service) readHome(workspaceID string) homeState {
	var h homeState
	b, err := os.ReadFile(s.homeFile(workspaceID))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return homeState{}
	}
	return h
}

func (s *Service) writeHome(workspaceID string, h homeState) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return writeOnce(s.homeFile(workspaceID), string(b))
}

// maxStamped bounds how many names of a private git dir a stamp looks at.
const maxStamped = 20_000

// boxStamp changes when a ref of the private git dir may have changed. It only looks at names, times and sizes: nothing that is read
// there is believed. "" when it cannot be told.
func (s *Service) boxStamp(workspaceID string) string {
	root, err := os.OpenRoot(s.privateGit(workspaceID))
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

// Unbox makes a workspace that was boxed an ordinary one again, for a place that does not isolate: git's own folder of the linked
// worktree learns where HEAD and index are, the files become the server's, and the private git dir goes. Commits that are not home
// yet keep it from happening.
func (s *Service) Unbox(ctx context.Context, workspaceID string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	if err := s.ReturnHome(ctx, w, ""); err != nil {
		return err
	}
	if !s.OwnGitDir(w.ID) {
		return s.forgetBox(ctx, w)
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	home := s.readHome(w.ID)
	if stamp := s.boxStamp(w.ID); home.Stamp == "" || stamp != home.Stamp {
		return fault.New(fault.Conflict, "box_not_home",
			"Commits of %s are still in the sandbox it worked in and have not come home. Start it there once more, then change its place.", w.Key())
	}
	admin := linkedDir(p, w)
	if admin == "" {
		return fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Put the workspace away and restore it.")
	}
	if err := s.leadHome(ctx, p, w, admin, home); err != nil {
		return err
	}
	// A merge that was under way when the sandbox was made was ended there.
	if err := dropOperation(admin); err != nil {
		return DiskFault(err, "Bringing the worktree up to date")
	}
	if err := s.RemoveFolder(s.privateGit(w.ID)); err != nil {
		return DiskFault(err, "Putting the sandbox's git folder away")
	}
	return s.forgetBox(ctx, w)
}

// forgetBox gives the files of a workspace without a private git dir back, and forgets what was known of that.
func (s *Service) forgetBox(ctx context.Context, w Workspace) error {
	if err := s.giveBack(ctx, w); err != nil {
		return DiskFault(err, "Taking the workspace's files back from its sandbox")
	}
	if err := s.dropStore(w.ID); err != nil {
		return DiskFault(err, "Putting the sandbox's git folder away")
	}
	for _, f := range [...]string{s.homeFile(w.ID), s.toldFile(w.ID)} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskFault(err, "Putting the sandbox's git folder away")
		}
	}
	return nil
}

// leadHome makes git's own folder of the linked worktree say what the sandbox's said. Only commits that the host has checked are
// read; the index is made anew from one.
func (s *Service) leadHome(ctx context.Context, p Project, w Workspace, admin string, home homeState) error {
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	failed := func(err error) error {
		return GitFault(err, fault.Unavailable, "unbox_failed", "Bringing the worktree up to date")
	}
	at := home.Head // detached there
	if home.Branch != "" {
		ref := HeadsPrefix + home.Branch
		tip, err := s.CommitOf(ctx, p.GitDir, ref)
		if err != nil {
			return err
		}
		if tip == "" && s.CheckBranch(ctx, home.Branch) == nil {
			if err := s.UpdateRefs(ctx, p.GitDir, "leave the sandbox of "+w.Key(), refCreate(ref, home.Head)); err == nil {
				tip = home.Head
			}
		}
		if tip != "" && tip != home.Head && home.Branch == w.Branch && home.Tip == home.Head && s.Remote(w.ID) {
			// The move of the branch was cut. What else moved it is left where it is.
			if behind, err := s.contains(ctx, p.GitDir, home.Head, tip); err == nil && behind {
				if err := s.UpdateRefs(ctx, p.GitDir, "from the sandbox of "+w.Key(), refUpdate(ref, home.Head, tip)); err == nil {
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
