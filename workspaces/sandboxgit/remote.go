package sandboxgit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// A far workspace is one whose agents work in a place with a disk of its own. Its repository there was sent as a bundle: what the work
// needs, not the whole history. Commits come home as those of a boxed workspace do; there is nothing on this machine that could be
// looked at, so a sandbox that is awake is asked, and of one that is not, what came home is all there is. Once the sandbox has ended,
// the linked worktree is led to where it was, and the next place begins from there.

// RemoteState marks a workspace as far. It lies beside what came home, see SyncState.
type RemoteState struct {
	Sandbox string `json:"sandbox"` // the sandbox it works in
	Bundle  string `json:"bundle"`  // what was sent there
	Left    bool   `json:"left"`    // everything was brought home since it was last awake
	Lived   bool   `json:"lived"`   // somebody may have worked in it
}

func (s *Store) remoteFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "far")
}

// ReadRemote returns the mark of a far workspace, false when it is none.
func (s *Store) ReadRemote(workspaceID string) (RemoteState, bool) {
	var f RemoteState
	b, err := os.ReadFile(s.remoteFile(workspaceID))
	if err != nil || json.Unmarshal(b, &f) != nil || f.Sandbox == "" {
		return RemoteState{}, false
	}
	return f, true
}

// WriteRemote marks a workspace as one whose sandbox has a disk of its own.
func (s *Store) WriteRemote(workspaceID string, f RemoteState) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return WriteOnce(s.remoteFile(workspaceID), string(b))
}

// Remote reports whether the workspace works, or worked last, in a place with a disk of its own.
func (s *Store) Remote(workspaceID string) bool {
	_, ok := s.ReadRemote(workspaceID)
	return ok
}

// Separate reports whether the workspace's commits are made in a git dir other than the linked worktree's.
func (s *Store) Separate(workspaceID string) bool {
	return s.OwnGitDir(workspaceID) || s.Remote(workspaceID)
}

// Asleep reports whether the workspace lives in a place with a disk of its own and has no sandbox there that can be asked now: then
// nobody starts or wakes one, which costs money, for what this server can do itself.
func (s *Store) Asleep(ctx context.Context, w workspaces.Workspace) bool {
	if !s.Remote(w.ID) {
		if c := s.records.Chooser(); c == nil || !workspaces.OnRemoteDisk(ctx, c, w.Executor) {
			return false
		}
	}
	a := s.records.RemoteSandboxes()
	return a == nil || !a.Awake(w.ID)
}

// Unsynced reports whether a far workspace's sandbox stands still with work that may not have come home.
func (s *Store) Unsynced(ctx context.Context, workspaceID string) bool {
	f, ok := s.ReadRemote(workspaceID)
	a := s.records.RemoteSandboxes()
	if !ok || f.Left || a == nil || a.Awake(workspaceID) {
		return false
	}
	stands, err := a.Stands(ctx, workspaceID, f.Sandbox)
	return err == nil && stands
}

// UnsyncedWords are told where that matters.
const UnsyncedWords = "The workspace's sandbox stands still and was not asked: commits made there since it was last awake may be missing. Wake it to bring them along."

// DropOperation removes the marks of a merge, a rebase or the like from a git dir: what was under way when the work went elsewhere was
// ended there, or is lost with the sandbox. Left here it would turn the next commit into one of it.
func DropOperation(gitDir string) error {
	root, err := os.OpenRoot(gitDir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range [...]string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD",
		"rebase-merge", "rebase-apply", "sequencer"} {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// ForgetRemote makes a far workspace an ordinary one.
func (s *Store) ForgetRemote(workspaceID string) error {
	for _, f := range [...]string{s.remoteFile(workspaceID), s.syncFile(workspaceID), s.advertisedFile(workspaceID), s.SentFile(workspaceID)} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return git.DiskFault(err, "Forgetting the workspace's sandbox")
		}
	}
	return nil
}

// Stirred notes that a far workspace's sandbox works again.
func (s *Store) Stirred(workspaceID string) {
	if f, ok := s.ReadRemote(workspaceID); ok && (f.Left || !f.Lived) {
		f.Left, f.Lived = false, true
		if err := s.WriteRemote(workspaceID, f); err != nil {
			s.cfg.Log.Warn("that a sandbox works again could not be noted", "workspace_id", workspaceID, "error", err)
		}
	}
}

// LocalChanges lists what differs from the commit a worktree is at, untracked files included, as the host's copy of it has them.
func (s *Store) LocalChanges(ctx context.Context, p workspaces.Project, w workspaces.Workspace) ([]string, error) {
	head, err := s.LocalHead(ctx, p, w)
	if err != nil {
		return nil, err
	}
	st, err := s.repo.WorktreeState(ctx, p, w, head)
	if err != nil {
		return nil, fmt.Errorf("reading the worktree: %w", err)
	}
	out := append(append([]string{}, st.Changed...), st.Gone...)
	out = append(out, st.Others...)
	return append(out, st.Nested...), nil
}

// SentFile says what of the ignored files was sent to a far workspace's sandbox: git's names of them, by path in wire form.
func (s *Store) SentFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "ignored-sent")
}

// RemoteAdvertised is what a far sandbox is told of the repository's refs: the branch its work is based on, under all its names.
func (s *Store) RemoteAdvertised(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (map[string]string, error) {
	all, err := s.advertised(ctx, p, w)
	if err != nil {
		return nil, err
	}
	target, err := s.repo.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return nil, err
	}
	advertised := make(map[string]string)
	for name, id := range all {
		if name == git.HeadsPrefix+target || strings.HasPrefix(name, "refs/remotes/") && strings.HasSuffix(name, "/"+target) && strings.Count(name, "/") == strings.Count(target, "/")+3 ||
			name == "refs/tags/"+strings.TrimPrefix(w.Base, "refs/tags/") {
			advertised[name] = id
		}
	}
	return advertised, nil
}
