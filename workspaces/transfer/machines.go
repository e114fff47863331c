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

// Machines talks to members' own machines. Whether a user may use one is checked before; what of it they may use, by its owner, on the
// machine. The error of an offline machine has the code runner_offline.
type Machines interface {
	// Bundle requests a git bundle of what a folder has and the server lacks. The caller closes it.
	Bundle(ctx context.Context, machineID string, ask wire.BundleAsk) (io.ReadCloser, error)
	// Lend asks which objects of a folder a workspace on the machine can share.
	Lend(ctx context.Context, machineID string, ask wire.LendRequest) (wire.Lent, error)
	// CopyIgnored copies ignored files of its folder into a sandbox.
	CopyIgnored(ctx context.Context, machineID string, ask wire.CopyAsk) (wire.Copied, error)
	// Deliver pushes the branch of a sandbox's workspace to the repository of its folder.
	Deliver(ctx context.Context, machineID string, ask wire.DeliverAsk) (wire.Delivered, error)
}

// Machines returns the Machines, or an error if there are none.
func (s *Service) Machines() (Machines, error) {
	if s.cfg.Machines == nil {
		return nil, fault.New(fault.Unsupported, "runners_disabled", "Members' own machines cannot be connected to this server.")
	}
	return s.cfg.Machines, nil
}

// asked sets the user and the purpose of requests to a machine in ctx; its owner sees the purpose.
func asked(ctx context.Context, purpose string) context.Context {
	o := wire.OrderOf(ctx)
	if o.UserID == "" {
		_, o.UserID = executors.AskerOf(ctx)
	}
	o.Purpose = purpose
	return wire.WithOrder(ctx, o)
}

// machineOf is the machine of an executor, "" for others.
func machineOf(kind string) string {
	if k := executors.Kind(kind); k.Base() == executors.Runner {
		return k.Member()
	}
	return ""
}

// CheckFolder checks the path of a folder on a machine, as far as the server can.
func CheckFolder(folder string) error {
	if !path.IsAbs(folder) || path.Clean(folder) != folder || len(folder) > 4096 || strings.ContainsAny(folder, "\x00\n\r") {
		return fault.New(fault.Invalid, "folder_invalid", "Name a folder by its full path.")
	}
	return nil
}

// FolderFor returns the folder whose objects a workspace of p shares in an executor: the requested one, else the project's own if it is on
// that machine.
func FolderFor(p workspaces.Project, kind, asked string) (string, error) {
	machine := machineOf(kind)
	switch {
	case asked == "" && machine != "" && p.SourceKind == workspaces.SourceRunner && p.RunnerID == machine:
		return p.Source, nil
	case asked == "":
		return "", nil
	case machine == "":
		return "", fault.New(fault.Invalid, "folder_needs_runner", "A folder can only be shared on a member's own machine. Choose one, or leave the folder out.")
	}
	return asked, CheckFolder(asked)
}
