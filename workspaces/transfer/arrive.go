package transfer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"golang.org/x/sync/errgroup"
)

// Titles of the steps in which a workspace is transferred into a sandbox with its own disk.
const (
	titleSend     = "Send the repository"
	titleCheckout = "Write the files"
	titleSetup    = "Run the setup script"
)

// Arrive transfers a workspace's repository and files to a sandbox that is still empty. It continues an earlier, interrupted transfer, also
// one of a killed server, and does nothing if everything is there.
func (s *Service) Arrive(ctx context.Context, a executors.Arrival) error {
	say := a.Say
	if say == nil {
		say = func(string, string, int64, int64) {}
	}
	w, err := s.store.Workspace(ctx, a.Place.WorkspaceID)
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	s.packed(ctx, a.Place.SandboxID)
	unlock, err := s.locks.Homing.LockContext(ctx, w.ID)
	if err != nil {
		return err
	}
	defer unlock()
	defer s.Unpack(a.Place.SandboxID)
	g := a.Place.Guest
	sandbox := a.Place.SandboxID
	if f, ok := s.sandboxes.ReadRemote(w.ID); ok && f.Sandbox == sandbox && f.Bundle != "" {
		was, err := g.Bundle(ctx, f.Bundle)
		if err != nil {
			return git.TransferFault(err)
		}
		if was.State == guest.BundleDone {
			return nil
		}
	}
	say(executors.StepSend, titleSend, 0, 0)
	n, err := s.spooled(ctx, p, w, sandbox, func(done, all int64) { say(executors.StepSend, titleSend, 0, 0) })
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(s.BundleDir(sandbox), "bundle"))
	if err != nil {
		return git.DiskFault(err, "Reading what is sent to the sandbox")
	}
	defer f.Close()
	say(executors.StepSend, titleSend, 0, n.Size)
	// Once it is unpacked the sandbox may have new work: record the starting position before that, while sending.
	both, bctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		if err := s.ForgetIgnored(bctx, p, w.ID); err != nil { // of one that was archived or deleted meanwhile
			return err
		}
		if err := s.beginRemote(w, n, sandbox); err != nil {
			return git.DiskFault(err, "Recording what is sent to the sandbox")
		}
		return nil
	})
	both.Go(func() error {
		err := g.SendBundle(bctx, n.ID, f, n.Size, func(done int64) { say(executors.StepSend, titleSend, done, n.Size) })
		if err != nil {
			return git.TransferFault(err)
		}
		return nil
	})
	if err := both.Wait(); err != nil {
		return err
	}
	say(executors.StepCheckout, titleCheckout, 0, 0)
	err = g.Unpack(ctx, n.ID, guest.UnpackRequest{Size: n.Size, Hash: n.Hash}, func(p guest.Bundle) {
		if p.Step != guest.UnpackGit {
			say(executors.StepCheckout, titleCheckout, p.Done, p.All)
		}
	})
	if err != nil {
		return git.TransferFault(err)
	}
	if err := s.repo.RemoveFolder(s.BundleDir(sandbox)); err != nil {
		s.cfg.Log.WarnContext(ctx, "bundle could not be removed", "sandbox_id", sandbox, "error", err)
	}
	return nil
}

// beginRemote marks the workspace as remote, with the starting position of its work there.
func (s *Service) beginRemote(w workspaces.Workspace, n bundleNote, sandboxID string) error {
	if err := git.MakeFolders(s.sandboxes.SandboxDir(w.ID)); err != nil {
		return err
	}
	if err := s.sandboxes.WriteSyncState(w.ID, n.Home); err != nil {
		return err
	}
	if err := s.sandboxes.NoteAdvertised(w.ID, n.Reported); err != nil {
		return err
	}
	if err := s.writeSent(w.ID, n.Sent); err != nil {
		return err
	}
	return s.sandboxes.WriteRemote(w.ID, sandboxgit.RemoteState{Sandbox: sandboxID, Bundle: n.ID})
}

// ArriveSetup runs the project's setup script, as a session people can watch, in a sandbox that is not the workspace's first, before
// anybody works there: what the script made in the last one, such as installed packages, stayed behind. A failing script is reported, and
// does not prevent using the workspace.
func (s *Service) ArriveSetup(ctx context.Context, a executors.Arrival) error {
	w, err := s.store.Workspace(ctx, a.Place.WorkspaceID)
	if err != nil || w.State != workspaces.Ready && w.State != workspaces.Paused {
		return err // a creation runs it itself
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil || strings.TrimSpace(p.SetupScript) == "" {
		return err
	}
	_, sessions, err := s.records.Connected()
	if err != nil {
		return err
	}
	if a.Say != nil {
		a.Say(executors.StepSetup, titleSetup, 0, 0)
	}
	why := ""
	sid, err := sessions.StartSetup(ctx, w, p.SetupScript, SetupEnv(p, w))
	if err == nil {
		var code int
		if code, why, err = sessions.WaitEnd(ctx, sid); err == nil && code == 0 {
			return nil
		}
		if why != "" {
			why = ": " + hostgit.Clean(why)
		}
		why = fmt.Sprintf("The setup script ended with exit code %d%s. Its terminal shows why.", code, why)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		why = "The setup script could not be run: " + git.Reason(err)
	}
	s.cfg.Log.InfoContext(ctx, "setup script failed in a new sandbox", "workspace_id", w.ID, "session_id", sid, "error", why)
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "setup.failed", Text: why, Data: map[string]any{"session_id": sid}})
	return nil
}

// SetupEnv is the environment of a setup script, which describes the workspace.
func SetupEnv(p workspaces.Project, w workspaces.Workspace) map[string]string {
	return map[string]string{"PARAWORK_WORKSPACE": w.Key(), "PARAWORK_WORKSPACE_ID": w.ID, "PARAWORK_BRANCH": w.Branch, "PARAWORK_BASE": w.Base, "PARAWORK_PROJECT": p.Name}
}
