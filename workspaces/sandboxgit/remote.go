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

// A remote workspace is one whose agents work in a sandbox with its own disk. It received its repository as a bundle: what the work needs,
// not the whole history. Its commits come back like those of an isolated workspace. This machine has nothing of it to look at, so the
// server asks a sandbox that is awake; for a suspended one, only what was synced is known. Once the sandbox has ended, the linked worktree
// is moved to its position, and the next sandbox starts from there.

// RemoteState marks a workspace as remote. It is stored next to SyncState.
type RemoteState struct {
	Sandbox string `json:"sandbox"` // the sandbox it works in
	Bundle  string `json:"bundle"`  // what was sent to it
	Left    bool   `json:"left"`    // everything was synced since it was last awake
	Lived   bool   `json:"lived"`   // somebody may have worked in it
}

func (s *Store) remoteFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "far")
}

// ReadRemote returns the mark of a remote workspace, false for others.
func (s *Store) ReadRemote(workspaceID string) (RemoteState, bool) {
	var f RemoteState
	b, err := os.ReadFile(s.remoteFile(workspaceID))
	if err != nil || json.Unmarshal(b, &f) != nil || f.Sandbox == "" {
		return RemoteState{}, false
	}
	return f, true
}

// WriteRemote marks a workspace as one whose sandbox has its own disk.
func (s *Store) WriteRemote(workspaceID string, f RemoteState) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return WriteOnce(s.remoteFile(workspaceID), string(b))
}

// Remote reports whether the workspace works, or last worked, in a sandbox with its own disk.
func (s *Store) Remote(workspaceID string) bool {
	_, ok := s.ReadRemote(workspaceID)
	return ok
}

// Separate reports whether the workspace's commits are made in another git dir than the linked worktree's.
func (s *Store) Separate(workspaceID string) bool {
	return s.OwnGitDir(workspaceID) || s.Remote(workspaceID)
}

// Asleep reports whether the workspace's sandbox has its own disk and cannot be asked now: then the server neither starts nor wakes one,
// which costs money, for what it can do itself.
func (s *Store) Asleep(ctx context.Context, w workspaces.Workspace) bool {
	if !s.Remote(w.ID) {
		if c := s.records.Chooser(); c == nil || !workspaces.OnRemoteDisk(ctx, c, w.Executor) {
			return false
		}
	}
	a := s.records.RemoteSandboxes()
	return a == nil || !a.Awake(w.ID)
}

// Unsynced reports whether a remote workspace's sandbox is suspended with work that may not be synced.
func (s *Store) Unsynced(ctx context.Context, workspaceID string) bool {
	f, ok := s.ReadRemote(workspaceID)
	a := s.records.RemoteSandboxes()
	if !ok || f.Left || a == nil || a.Awake(workspaceID) {
		return false
	}
	stands, err := a.Stands(ctx, workspaceID, f.Sandbox)
	return err == nil && stands
}

// UnsyncedWords is the warning that a suspended sandbox may have more commits.
const UnsyncedWords = "The workspace's sandbox is suspended and was not asked: commits made there since it was last awake may be missing. Wake it to include them."

// DropOperation removes the state of a merge, a rebase or the like from a git dir: the operation was finished in the sandbox, or is lost
// with it. If it stayed, the next commit would become part of it.
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

// ForgetRemote makes a remote workspace an ordinary one.
func (s *Store) ForgetRemote(workspaceID string) error {
	for _, f := range [...]string{s.remoteFile(workspaceID), s.syncFile(workspaceID), s.advertisedFile(workspaceID), s.SentFile(workspaceID)} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return git.DiskFault(err, "Removing the record of the workspace's sandbox")
		}
	}
	return nil
}

// Stirred notes that a remote workspace's sandbox works again.
func (s *Store) Stirred(workspaceID string) {
	if f, ok := s.ReadRemote(workspaceID); ok && (f.Left || !f.Lived) {
		f.Left, f.Lived = false, true
		if err := s.WriteRemote(workspaceID, f); err != nil {
			s.cfg.Log.Warn("that a sandbox works again could not be noted", "workspace_id", workspaceID, "error", err)
		}
	}
}

// LocalChanges lists the differences of the host's copy of a worktree from its commit, untracked files included.
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

// SentFile lists the ignored files that were sent to a remote workspace's sandbox: git's object ids, by path in wire form.
func (s *Store) SentFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "ignored-sent")
}

// RemoteAdvertised are the refs advertised to a remote sandbox: the branch its work is based on, under all its names.
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
