package wstest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/runner/folder"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

const (
	Laptop                    = "rnr_laptop"
	laptopKind executors.Kind = executors.Runner + ":" + Laptop
)

// owners is a member's own machine: its operations on its owner's repositories are real, the connection to it is not.
type owners struct {
	*folder.Folders
	t    testing.TB
	Dir  string // the folder its owner allows
	away *away

	mu      sync.Mutex
	Offline bool
	Answer  func(ask wire.BundleAsk) (io.ReadCloser, error) // replaces its own bundles
	Asked   []wire.LendRequest
	Sent    int // bytes of bundles
}

func (o *owners) here() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Offline {
		return fault.New(fault.Unavailable, wire.CodeOffline, "Laptop is offline.")
	}
	return nil
}

func (o *owners) Set(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn()
}

func (o *owners) Bundle(ctx context.Context, id string, ask wire.BundleAsk) (io.ReadCloser, error) {
	if err := o.here(); err != nil {
		return nil, err
	}
	o.mu.Lock()
	answer := o.Answer
	o.mu.Unlock()
	if answer != nil {
		return answer(ask)
	}
	var b bytes.Buffer
	if err := o.Folders.Bundle(ctx, ask, &b); err != nil {
		return nil, err
	}
	o.Set(func() { o.Sent = b.Len() })
	return io.NopCloser(&b), nil
}

func (o *owners) Lend(ctx context.Context, id string, ask wire.LendRequest) (wire.Lent, error) {
	if err := o.here(); err != nil {
		return wire.Lent{}, err
	}
	o.Set(func() { o.Asked = append(o.Asked, ask) })
	return o.Folders.Lend(ctx, ask)
}

// place is the sandbox of an id.
func (o *owners) place(sandboxID string) (*executors.Place, workspaces.Workspace) {
	for _, p := range o.away.OfKind(laptopKind) {
		if p.SandboxID == sandboxID {
			w, err := o.away.h.Store.Workspace(context.Background(), p.WorkspaceID)
			Must(o.t, err)
			return p, w
		}
	}
	return nil, workspaces.Workspace{}
}

func (o *owners) CopyIgnored(ctx context.Context, id string, ask wire.CopyAsk) (wire.Copied, error) {
	p := o.away.arriving(ask.SandboxID)
	files, err := o.Copy(ctx, p.folder, p.root, ask.Patterns)
	return wire.Copied{Files: files}, err
}

func (o *owners) Deliver(ctx context.Context, id string, ask wire.DeliverAsk) (wire.Delivered, error) {
	if err := o.here(); err != nil {
		return wire.Delivered{}, err
	}
	p, w := o.place(ask.SandboxID)
	return o.Folders.Deliver(ctx, folder.Delivery{Path: w.Folder, WorkspaceID: w.ID, Branch: ask.Branch, Run: p.Run})
}

// arrival is the state of a sandbox while a workspace is transferred there.
type arrival struct{ folder, root string }

func (a *away) arriving(sandboxID string) arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.arrivals[sandboxID]
}

// RunnerEnv is an Env with a member's machine, on which its workspaces run.
func RunnerEnv(t testing.TB, change ...func(*assembly.Config)) (*Env, *away, *owners) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	Must(t, err)
	o := &owners{t: t, Dir: dir}
	o.Folders, err = folder.New(folder.Config{Dir: t.TempDir(), Allowed: func(path string) error {
		if path != dir && !strings.HasPrefix(path, dir+"/") {
			return fault.New(fault.Forbidden, wire.CodeOutside, "The folder is outside those its owner allows.")
		}
		return nil
	}})
	Must(t, err)
	h, a := RemoteEnvWith(t, func(c *assembly.Config) {
		c.Machines, c.DefaultExecutor = o, string(laptopKind)
		for _, fn := range change {
			fn(c)
		}
	}, fake.Knobs{OwnDisk: true, Kind: laptopKind})
	o.away = a
	return h, a, o
}

// FolderRepo is a repository in a folder of the machine's owner.
func (o *owners) FolderRepo(h *Env, name string) string {
	o.t.Helper()
	from := h.LongRepo(name)
	to := filepath.Join(o.Dir, name)
	Must(o.t, os.Rename(from, to))
	return to
}

func (h *Env) MachineProject(dir string) workspaces.Project {
	h.T.Helper()
	p, err := h.S.Projects.CreateProject(context.Background(), h.Actor, h.Team, workspaces.NewProject{Kind: workspaces.SourceRunner, RunnerID: Laptop, Path: dir})
	Must(h.T, err)
	return h.Cloned(p.ID)
}
