package transfer

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// Machines is what the room needs of members' own machines. Who may use one is decided before this room is asked; what of it may be used,
// by its owner, on the machine. An error of a machine that is offline has the code runner_offline.
type Machines interface {
	// Bundle asks for a git bundle of what a folder has and the server has not. The caller closes it.
	Bundle(ctx context.Context, machineID string, ask wire.BundleAsk) (io.ReadCloser, error)
	// Lend asks what of a folder a workspace on the machine can use.
	Lend(ctx context.Context, machineID string, ask wire.LendRequest) (wire.Lent, error)
	// CopyIgnored copies ignored files of its folder into a sandbox.
	CopyIgnored(ctx context.Context, machineID string, ask wire.CopyAsk) (wire.Copied, error)
	// Deliver puts the branch of a sandbox's workspace into the repository of its folder.
	Deliver(ctx context.Context, machineID string, ask wire.DeliverAsk) (wire.Delivered, error)
}

// Machines returns the Machines, or that there are none.
func (s *Service) Machines() (Machines, error) {
	if s.cfg.Machines == nil {
		return nil, fault.New(fault.Unsupported, "runners_disabled", "Members' own machines cannot be connected to this server.")
	}
	return s.cfg.Machines, nil
}

// asked has what is asked of a machine under ctx be asked for whoever wants it, with a purpose in words for the machine's owner.
func asked(ctx context.Context, purpose string) context.Context {
	o := wire.OrderOf(ctx)
	if o.UserID == "" {
		_, o.UserID = executors.AskerOf(ctx)
	}
	o.Purpose = purpose
	return wire.WithOrder(ctx, o)
}

// machineOf is the machine that a kind of place is, "" when it is none.
func machineOf(kind string) string {
	if k := executors.Kind(kind); k.Base() == executors.Runner {
		return k.Member()
	}
	return ""
}

// CheckFolder checks the path of a folder on a machine, as far as that can be seen from here.
func CheckFolder(folder string) error {
	if !path.IsAbs(folder) || path.Clean(folder) != folder || len(folder) > 4096 || strings.ContainsAny(folder, "\x00\n\r") {
		return fault.New(fault.Invalid, "folder_invalid", "Name a folder by its full path.")
	}
	return nil
}

// FolderFor says which folder a workspace of p borrows from that lives in a place of this kind: the one that is asked for, else the
// project's own where it is on that machine.
func FolderFor(p workspaces.Project, kind, asked string) (string, error) {
	machine := machineOf(kind)
	switch {
	case asked == "" && machine != "" && p.SourceKind == workspaces.SourceRunner && p.RunnerID == machine:
		return p.Source, nil
	case asked == "":
		return "", nil
	case machine == "":
		return "", fault.New(fault.Invalid, "folder_needs_runner", "A folder is borrowed on a member's own machine only. Choose one, or leave the folder out.")
	}
	return asked, CheckFolder(asked)
}
