package wstest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/ingest"
)

// away are sandboxes with their own disk: real guests, a real Manager, folders that start empty.
type away struct {
	*executortest.Managed
	t     testing.TB
	h     *Env
	World *fake.World
	Exec  *fake.Executor
	home  *fake.Executor // an executor on this machine, to move to

	mu       sync.Mutex
	Say      []string
	Reported func(step string, done, all int64)
	arrivals map[string]arrival // by sandbox id
}

func (a *away) Ensure(ctx context.Context, id string) error {
	_, err := a.Manager.Ensure(ctx, id)
	return err
}

func (a *away) Live(id string) bool {
	_, ok := a.Manager.Live(id)
	return ok
}

const RemoteKind executors.Kind = "far"

// RemoteEnv is an Env whose workspaces are remote. wrap may wrap their executor.
func RemoteEnv(t testing.TB, wrap ...func(executors.Executor) executors.Executor) (*Env, *away) {
	t.Helper()
	return RemoteEnvWith(t, func(c *assembly.Config) { c.DefaultExecutor = string(RemoteKind) }, fake.Knobs{OwnDisk: true, Kind: RemoteKind}, wrap...)
}

// RemoteEnvWith is a RemoteEnv with another executor.
func RemoteEnvWith(t testing.TB, change func(*assembly.Config), knobs fake.Knobs, wrap ...func(executors.Executor) executors.Executor) (*Env, *away) {
	t.Helper()
	db := storetest.SQLite(t)
	h := New(t, db, change)
	h.Stop()
	dir := t.TempDir()
	a := &away{t: t, h: h, World: fake.NewWorld(dir, nil), arrivals: make(map[string]arrival)}
	t.Cleanup(a.World.Close)
	a.Exec, a.home = fake.New(a.World), fake.New(a.World)
	a.Exec.Set(knobs)
	a.home.Set(fake.Knobs{Kind: "here"})
	var e executors.Executor = a.Exec
	for _, w := range wrap {
		e = w(e)
	}
	a.Managed = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{e, a.home}, Default: knobs.Kind, Store: store.NewExecutors(db),
		Workspaces: specs{h}, Log: slog.New(slog.DiscardHandler)})
	h.Away = a
	a.Attach(executors.Participant{Making: func(ctx context.Context, c executors.Capabilities, s *executors.Spec) error {
		if manager.Trying(ctx) {
			return nil
		}
		if c.OwnDisk {
			return h.S.Ingest.PrepareRemote(ctx, s.WorkspaceID)
		}
		return h.S.Ingest.ReleaseSandbox(ctx, s.WorkspaceID)
	}})
	a.Attach(executors.Participant{Arriving: func(ctx context.Context, r executors.Arrival) error {
		a.mu.Lock()
		a.arrivals[r.Place.SandboxID] = arrival{r.Spec.Folder, r.Place.Hello.Root}
		a.mu.Unlock()
		r.Say = func(step, _ string, done, all int64) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.Reported != nil {
				a.Reported(step, done, all)
			}
			if n := len(a.Say); n == 0 || a.Say[n-1] != step {
				a.Say = append(a.Say, step)
			}
		}
		return h.S.Transfer.Arrive(ctx, r)
	}})
	a.Attach(executors.Participant{Arriving: func(ctx context.Context, r executors.Arrival) error { return h.S.Transfer.ArriveIgnored(ctx, r) }})
	a.Attach(executors.Participant{Arriving: func(ctx context.Context, r executors.Arrival) error { return h.S.Transfer.ArriveSetup(ctx, r) }})
	a.Attach(executors.Participant{Live: func(p *executors.Place) { h.S.Ingest.Awoke(p.WorkspaceID) }})
	leave := func(ctx context.Context, p *executors.Place) error {
		err := h.S.Ingest.FetchBeforeEnd(ctx, p.WorkspaceID, p.Run)
		if err != nil && !ingest.Refused(err) {
			t.Errorf("leaving the sandbox: %v", err)
		}
		if p.OwnDisk {
			a.mirror(ctx, p)
		}
		return err
	}
	a.Attach(executors.Participant{Home: leave})
	a.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) { _ = leave(ctx, p) }})
	a.Attach(executors.Participant{Ended: func(r executors.Record) { h.S.Ingest.SandboxEnded(r.WorkspaceID, r.Handle.ID) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	h.Start()
	return h, a
}

// hook serves restarted services: the Manager's hooks look up the current service of the Env.
func (a *away) hook(parts) {}

// specs asks the current service of the Env.
type specs struct{ h *Env }

func (s specs) Spec(ctx context.Context, id string) (executors.Spec, executors.Kind, error) {
	return s.h.S.Records.Spec(ctx, id)
}

// mirror syncs the files to the server like filesync: everything that git lists, and nothing else.
func (a *away) mirror(ctx context.Context, p *executors.Place) {
	w, err := a.h.Store.Workspace(ctx, p.WorkspaceID)
	Must(a.t, err)
	r, err := p.Run(ctx, executors.SandboxCommand{Argv: []string{"git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"}})
	Must(a.t, err)
	keep := map[string]bool{".git": true, ".env": true}
	for name := range strings.SplitSeq(string(r.Stdout), "\x00") {
		from := filepath.Join(p.Hello.Root, name)
		fi, err := os.Lstat(from)
		if name == "" || err != nil || fi.IsDir() {
			continue
		}
		keep[name] = true
		to := filepath.Join(w.Path, name)
		Must(a.t, os.MkdirAll(filepath.Dir(to), 0o755))
		_ = os.Remove(to)
		if fi.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(from)
			Must(a.t, err)
			Must(a.t, os.Symlink(target, to))
			continue
		}
		b, err := os.ReadFile(from)
		Must(a.t, err)
		Must(a.t, os.WriteFile(to, b, fi.Mode().Perm()))
	}
	Must(a.t, filepath.WalkDir(w.Path, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(w.Path, path)
		if !d.IsDir() && !keep[name] && !strings.HasPrefix(name, ".git") && !strings.HasPrefix(name, "ignored/") {
			return os.Remove(path)
		}
		return nil
	}))
}

// Root is the folder of a live sandbox's worktree.
func (a *away) Root(w workspaces.Workspace) string {
	a.t.Helper()
	p, ok := a.Manager.Live(w.ID)
	if !ok {
		a.t.Fatal("there is no sandbox")
	}
	return p.Hello.Root
}

// Sh runs a script where the agent works.
func (a *away) Sh(w workspaces.Workspace, script string) string {
	a.t.Helper()
	out, err := a.trySh(w, script)
	if err != nil {
		a.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(out)
}

func (a *away) trySh(w workspaces.Workspace, script string) (string, error) {
	p, err := a.Manager.Ensure(context.Background(), w.ID)
	Must(a.t, err)
	env := map[string]string{"HOME": p.Hello.Home, "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@localhost", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@localhost"}
	r, err := p.Run(context.Background(), executors.SandboxCommand{Argv: []string{"/bin/sh", "-ec", "exec 2>&1; " + script}, Env: env})
	Must(a.t, err)
	if r.ExitCode != 0 {
		return string(r.Stdout), os.ErrInvalid
	}
	return string(r.Stdout), nil
}

func (a *away) Creates() int { return a.Exec.Creates() }

// End ends the sandbox and waits until the worktree is at its position.
func (a *away) End(w workspaces.Workspace) {
	a.t.Helper()
	Must(a.t, a.Destroy(context.Background(), w.ID))
	a.Led(w)
}

func (a *away) Led(w workspaces.Workspace) {
	a.t.Helper()
	WaitFor(a.t, "the worktree to be at the sandbox's position", func() bool { return !Exists(a.h.Data, "boxes/"+w.ID+"/far") })
}

// LongRepo is a repository with more history than the work needs.
func (h *Env) LongRepo(name string) string {
	dir := h.Repo(name)
	var in strings.Builder
	for i := range 20 {
		text := "old " + string(rune('a'+i))
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A <a@localhost> %d +0000\ndata %d\n%s\n", 1_700_000_000+i, len(text), text)
		if i == 0 {
			in.WriteString("from refs/heads/main^0\n")
		}
		fmt.Fprintf(&in, "M 100644 inline old/file\ndata %d\n%s\n\n", i+1, strings.Repeat("x", i+1))
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		h.T.Fatalf("fast-import: %v\n%s", err, out)
	}
	Git(h.T, dir, "reset", "-q", "--hard")
	return dir
}
