package transfer

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// Delivery is the branch of the folder's repository that the work was delivered to.
type Delivery struct {
	Branch string // it has another name if the owner has worked on the branch of this name, or has it checked out
	Commit string
}

// Deliver pushes the branch of a workspace on a member's machine to the repository of the folder whose objects it shares, next to the
// owner's own branches. It touches none of the owner's files. It may be repeated: the branch follows.
func (s *Service) Deliver(ctx context.Context, actor accounts.Actor, workspaceID string) (Delivery, error) {
	w, _, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return Delivery{}, err
	}
	defer release()
	machine := machineOf(w.Executor)
	if machine == "" || w.Folder == "" {
		return Delivery{}, fault.New(fault.Conflict, "no_runner_folder", "%s shares no folder of a machine, so there is no repository to deliver to. Merge or push its branch instead.", w.Key())
	}
	m, err := s.Machines()
	if err != nil {
		return Delivery{}, err
	}
	places, _, err := s.records.Connected()
	if err != nil {
		return Delivery{}, err
	}
	ctx = executors.As(ctx, "", actor.User.ID)
	if err := places.Ensure(ctx, w.ID); err != nil {
		return Delivery{}, err
	}
	a := s.records.RemoteSandboxes()
	if a == nil {
		return Delivery{}, fault.New(fault.Unavailable, "sandbox_not_live", "The workspace has no live sandbox now.")
	}
	place, ok := a.At(w.ID)
	if !ok {
		return Delivery{}, fault.New(fault.Unavailable, "sandbox_not_live", "The workspace has no live sandbox now.")
	}
	got, err := m.Deliver(asked(ctx, "deliver the branch of "+w.Key()), machine, wire.DeliverAsk{SandboxID: place.SandboxID, Branch: w.Branch})
	if err != nil {
		return Delivery{}, err
	}
	if !sandboxgit.PlainRef(git.HeadsPrefix+got.Branch) || !git.IsCommitID(got.Commit) {
		return Delivery{}, fault.New(fault.Unavailable, "runner_answer_wrong", "The machine answered with an invalid branch. Look into the folder's repository there.")
	}
	text := fmt.Sprintf("Delivered to %s on the machine: branch %s at %s", hostgit.Clean(w.Folder), got.Branch, got.Commit[:12])
	if got.Branch != w.Branch {
		text += fmt.Sprintf(". %s there has other work, or is checked out, and was not changed", w.Branch)
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "branch.delivered", Text: text,
		Data: map[string]any{"branch": got.Branch, "commit": got.Commit}})
	return Delivery{got.Branch, got.Commit}, nil
}
