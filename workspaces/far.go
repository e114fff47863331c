package workspaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// A far workspace is one whose agents work in a place with a disk of its own. Its repository there was sent as a parcel: what the work
// needs, not the whole history. Commits come home as those of a boxed workspace do; there is nothing on this machine that could be
// looked at, so a sandbox that is awake is asked, and of one that is not, what came home is all there is. Once the sandbox has ended,
// the linked worktree is led to where it was, and the next place begins from there.

// farState marks a workspace as far. It lies beside what came home, see homeState.
type farState struct {
	Sandbox string `json:"sandbox"` // the sandbox it works in
	Parcel  string `json:"parcel"`  // what was sent there
	Left    bool   `json:"left"`    // everything was brought home since it was last awake
	Lived   bool   `json:"lived"`   // somebody may have worked in it
}

func (s *Service) farFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "far")
}

// readFar returns the mark of a far workspace, false when it is none.
func (s *Service) readFar(workspaceID string) (farState, bool) {
	var f farState
	b, err := os.ReadFile(s.farFile(workspaceID))
	if err != nil || json.Unmarshal(b, &f) != nil || f.Sandbox == "" {
		return farState{}, false
	}
	return f, true
}

func (s *Service) writeFar(workspaceID string, f farState) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return writeOnce(s.farFile(workspaceID), string(b))
}

// Remote reports whether the workspace works, or worked last, in a place with a disk of its own.
func (s *Service) Remote(workspaceID string) bool {
	_, ok := s.readFar(workspaceID)
	return ok
}

// Apart reports whether the workspace's commits are made in a git dir other than the linked worktree's.
func (s *Service) Apart(workspaceID string) bool {
	return s.OwnGitDir(workspaceID) || s.Remote(workspaceID)
}

// Sandboxes is an optional ability of Places that have places with a disk of their own.
type Sandboxes interface {
	// Awake reports whether the workspace's sandbox lives and can answer.
	Awake(workspaceID string) bool
	// Stands reports whether this sandbox of the workspace has not ended, whether it can be reached or not.
	Stands(ctx context.Context, workspaceID, sandboxID string) (bool, error)
	// At returns the place of a live sandbox.
	At(workspaceID string) (*executors.Place, bool)
}

func (s *Service) Sandboxes() Sandboxes {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, _ := s.places.(Sandboxes)
	return a
}

// asleep reports whether the workspace lives in a place with a disk of its own and has no sandbox there that can be asked now: then
// nobody starts or wakes one, which costs money, for what this server can do itself.
func (s *Service) asleep(ctx context.Context, w Workspace) bool {
	if !s.Remote(w.ID) {
		if c := s.Chooser(); c == nil || !OnRemoteDisk(ctx, c, w.Executor) {
			return false
		}
	}
	a := s.Sandboxes()
	return a == nil || !a.Awake(w.ID)
}

// Unseen reports whether a far workspace's sandbox stands still with work that may not have come home.
func (s *Service) Unseen(ctx context.Context, workspaceID string) bool {
	f, ok := s.readFar(workspaceID)
	a := s.Sandboxes()
	if !ok || f.Left || a == nil || a.Awake(workspaceID) {
		return false
	}
	stands, err := a.Stands(ctx, workspaceID, f.Sandbox)
	return err == nil && stands
}

// unseenWords are told where that matters.
const unseenWords = "The workspace's sandbox stands still and was not asked: commits made there since it was last awake may be missing. Wake it to bring them along."

// Afar prepares for a place with a disk of its own: the linked worktree says where the work stands. Called before each making of one.
func (s *Service) Afar(ctx context.Context, workspaceID string) error {
	return s.Unbox(ctx, workspaceID)
}

// ReturnHome leads the linked worktree of a far workspace, whose sandbox has ended, to where that was. sandboxID is the sandbox it is
// about, "" = whichever it was. Killed in between it is done again.
func (s *Service) ReturnHome(ctx context.Context, w Workspace, sandboxID string) error {
	if !s.Remote(w.ID) {
		return nil
	}
	unlock, err := s.locks.Homing.LockContext(ctx, w.ID)
	if err != nil {
		return err
	}
	defer unlock()
	f, ok := s.readFar(w.ID)
	if !ok || sandboxID != "" && f.Sandbox != sandboxID {
		return nil
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	admin := linkedDir(p, w)
	if admin == "" {
		return fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Put the workspace away and restore it.")
	}
	if home := s.readHome(w.ID); f.Lived && home.Head != "" {
		if err := s.leadHome(ctx, p, w, admin, home); err != nil {
			return err
		}
		if err := dropOperation(admin); err != nil {
			return DiskFault(err, "Bringing the worktree up to date")
		}
	}
	if err := s.ignoredHome(ctx, p, w); err != nil {
		return err
	}
	if err := s.forgetIgnored(ctx, p, w.ID); err != nil {
		return err
	}
	if err := s.forgetFar(w.ID); err != nil {
		return err
	}
	s.PublishWorkspace(ctx, w)
	return nil
}

// dropOperation removes the marks of a merge, a rebase or the like from a git dir: what was under way when the work went elsewhere was
// ended there, or is lost with the sandbox. Left here it would turn the next commit into one of it.
func dropOperation(gitDir string) error {
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

// forgetFar makes a far workspace an ordinary one.
func (s *Service) forgetFar(workspaceID string) error {
	for _, f := range [...]string{s.farFile(workspaceID), s.homeFile(workspaceID), s.toldFile(workspaceID), s.sentFile(workspaceID)} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskFault(err, "Forgetting the workspace's sandbox")
		}
	}
	return nil
}

// Awoke says that a workspace's sandbox became live: it may hold what is not home.
func (s *Service) Awoke(workspaceID string) {
	s.stirred(workspaceID)
	s.HeadMoved(workspaceID)
}

// stirred notes that a far workspace's sandbox works again.
func (s *Service) stirred(workspaceID string) {
	if f, ok := s.readFar(workspaceID); ok && (f.Left || !f.Lived) {
		f.Left, f.Lived = false, true
		if err := s.writeFar(workspaceID, f); err != nil {
			s.cfg.Log.Warn("that a sandbox works again could not be noted", "workspace_id", workspaceID, "error", err)
		}
	}
}

// SandboxEnded says that a sandbox of the workspace has ended, however that was. What it had is led home under Run.
func (s *Service) SandboxEnded(workspaceID, sandboxID string) {
	s.unpack(sandboxID)
	if dir := s.parcelDir(sandboxID); folderExists(dir) {
		if err := s.RemoveFolder(dir); err != nil {
			s.cfg.Log.Warn("parcel could not be removed", "sandbox_id", sandboxID, "error", err)
		}
	}
	if s.Remote(workspaceID) {
		s.moved.add(workspaceID)
	}
}

// farAgain has what ended while the server was away, or half-way through being led home, be looked at.
func (s *Service) farAgain() {
	marks, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), "boxes", "*", "far"))
	for _, m := range marks {
		s.moved.add(filepath.Base(filepath.Dir(m)))
	}
}

// endFar leads a far workspace home whose sandbox has ended; done says that there is nothing more to do for it now.
func (s *Service) endFar(ctx context.Context, w Workspace) (done bool, err error) {
	f, ok := s.readFar(w.ID)
	a := s.Sandboxes()
	if !ok || a == nil {
		return false, nil
	}
	stands, err := a.Stands(ctx, w.ID, f.Sandbox)
	switch {
	case err != nil:
		return true, err
	case stands:
		return !a.Awake(w.ID), nil
	case !folderExists(w.Path):
		return true, nil // it is put away
	}
	return true, s.ReturnHome(ctx, w, f.Sandbox)
}

// LocalChanges lists what differs from the commit a worktree is at, untracked files included, as the host's copy of it has them.
func (s *Service) LocalChanges(ctx context.Context, p Project, w Workspace) ([]string, error) {
	head, err := s.LocalHead(ctx, p, w)
	if err != nil {
		return nil, err
	}
	st, err := s.worktreeState(ctx, p, w, head)
	if err != nil {
		return nil, fmt.Errorf("reading the worktree: %w", err)
	}
	out := append(append([]string{}, st.changed...), st.gone...)
	out = append(out, st.others...)
	return append(out, st.nested...), nil
}
