package workspaces_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/store"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Executors of a whole server: one on this machine, one with its own disk, and one that can also suspend.
const (
	hereKind  executors.Kind = "here"
	cloudKind executors.Kind = "cloud"
)

var wholeKinds = []executors.Kind{hereKind, wstest.RemoteKind, cloudKind}

// whole is a server with the real services that a file in a sandbox goes through: executors with real guests, filesync,
// and workspaces. The sandboxes' world outlives it.
type whole struct {
	t     testing.TB
	h     *wstest.Env
	life  *mortal
	world *fake.World
	file  string // of the database
	log   *slog.Logger

	m     *executortest.Managed
	files *filesync.Service

	mu     sync.Mutex
	inside map[string]string // by workspace id: the worktree in the sandbox it came to last
}

// newWhole makes the world; the Env's own service is never started.
func newWhole(t testing.TB, h *wstest.Env, db *store.DB, life *mortal) *whole {
	t.Helper()
	x := &whole{t: t, h: h, life: life, world: fake.NewWorld(t.TempDir(), nil), inside: make(map[string]string), log: slog.New(slog.DiscardHandler)}
	t.Cleanup(x.world.Close)
	wstest.Must(t, db.QueryRow(t.Context(), "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&x.file))
	return x
}

// born starts a server, as main does.
func (x *whole) born(ctx context.Context) {
	x.t.Helper()
	db, err := store.Open(ctx, store.Config{URL: "sqlite:" + x.file, AllTeams: true})
	wstest.Must(x.t, err)
	h, life := x.h, x.life
	here, far, cloud := fake.New(x.world), fake.New(x.world), fake.NewCloud(x.world)
	knobs := func(dead error) {
		k := fake.Knobs{CreateErr: dead, DialErr: dead, RecoverErr: dead, DestroyErr: dead, ListErr: dead, PauseErr: dead, ResumeErr: dead, ExtendErr: dead, AsleepErr: dead, Wrap: life.pipe}
		k.Kind = hereKind
		here.Set(k)
		k.Kind, k.OwnDisk = wstest.RemoteKind, true
		far.Set(k)
		k.Kind = cloudKind
		cloud.Set(k)
	}
	knobs(nil)
	life.atEnd(func() {
		knobs(errDied)
		go db.Close() // waits for what it is asked just now
	})
	h.Cfg.Store, h.Cfg.Trash, h.Cfg.DefaultExecutor, h.Cfg.Log = mortalStore{store.NewWorkspaces(db), life}, store.NewTrash(db), string(hereKind), x.log
	s := h.Build()
	m := executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{mortalPlace{here, life}, mortalPlace{far, life}, mortalCloud{cloud, life}}, Default: hereKind,
		Store: mortalRows{store.NewExecutors(db), life}, Workspaces: s.Records, Log: x.log})
	files := filesync.New(filesync.Config{Store: store.NewChanges(db), Places: m, Workspaces: s.Repo, Events: h.Bus, Moved: s.Ingest.HeadMoved, Polled: s.Snapshots.Polled, Trees: hostTrees{s.Repo, s.Records},
		DataDir: h.Data, Log: x.log})
	m.Attach(executors.Participant{Making: func(ctx context.Context, c executors.Capabilities, spec *executors.Spec) error {
		switch {
		case manager.Trying(ctx):
			return nil
		case c.OwnDisk:
			return s.Ingest.PrepareRemote(ctx, spec.WorkspaceID)
		}
		return s.Ingest.ReleaseSandbox(ctx, spec.WorkspaceID)
	}})
	m.Attach(executors.Participant{Arriving: s.Transfer.Arrive})
	m.Attach(executors.Participant{Live: func(p *executors.Place) { s.Ingest.Awoke(p.WorkspaceID) }})
	leave := func(ctx context.Context, p *executors.Place) { _ = s.Ingest.FetchBeforeEnd(ctx, p.WorkspaceID, p.Run) }
	m.Attach(executors.Participant{Pausing: leave})
	m.Attach(executors.Participant{Ending: leave})
	m.Attach(executors.Participant{Ended: func(r executors.Record) { s.Ingest.SandboxEnded(r.WorkspaceID, r.Handle.ID) }})
	s.Stage.ConnectFiles(files)
	m.Attach(executors.Participant{Arriving: files.Arrive})
	home := func(ctx context.Context, p *executors.Place) { _ = files.SyncToServer(ctx, p) }
	m.Attach(executors.Participant{Pausing: home})
	m.Attach(executors.Participant{Ending: home})
	w := wholeWatcher{files}
	s.Snapshots.Watch(w)
	s.Snapshots.ConnectSandboxed(w)
	keep := func(ctx context.Context, p *executors.Place) { s.Snapshots.TakeBefore(ctx, p.WorkspaceID, "stop") }
	m.Attach(executors.Participant{Pausing: keep})
	m.Attach(executors.Participant{Ending: keep})
	last := func(context.Context, *executors.Place) { life.reach("before a sandbox is suspended or ends") }
	m.Attach(executors.Participant{Pausing: last})
	m.Attach(executors.Participant{Ending: last})
	s.Records.Connect(wholeRooms{m}, h.Ses)
	m.Attach(executors.Participant{Live: files.Follow})
	m.Attach(executors.Participant{Arriving: s.Transfer.ArriveIgnored})
	m.Attach(executors.Participant{Arriving: s.Transfer.ArriveSetup})
	m.Attach(executors.Participant{Arriving: func(_ context.Context, a executors.Arrival) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.inside[a.Place.WorkspaceID] = a.Place.Hello.Root
		return nil
	}})
	wstest.Must(x.t, m.Recover(ctx))
	wstest.Must(x.t, s.Recover(ctx))
	run, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, fn := range []func(context.Context) error{s.Run, files.Run, m.Run} {
		wg.Go(func() { _ = fn(run) })
	}
	x.m, x.files, h.S = m, files, s
	h.Stop = func() { cancel(); wg.Wait(); db.Close() }
}

// root is the folder of the files that people and agents work with.
func (x *whole) root(w workspaces.Workspace) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if dir := x.inside[w.ID]; dir != "" && folderThere(dir) {
		return dir
	}
	return w.Path
}

// sandbox is the id of the sandbox whose files are the workspace's, "" = they are on this server.
func (x *whole) sandbox(id string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if dir := x.inside[id]; dir != "" && folderThere(dir) {
		return filepath.Base(filepath.Dir(dir))
	}
	return ""
}

// still reports whether nobody can work in the workspace's sandbox.
func (x *whole) still(id string) bool { return x.world.Still(x.sandbox(id)) }

type wholeRooms struct{ *executortest.Managed }

func (r wholeRooms) Ensure(ctx context.Context, id string) error {
	_, err := r.Manager.Ensure(ctx, id)
	return err
}

func (r wholeRooms) Live(id string) bool {
	_, ok := r.Manager.Live(id)
	return ok
}

// wholeWatcher tells workspaces what differs in their files.
type wholeWatcher struct{ files *filesync.Service }

func (w wholeWatcher) Look(ctx context.Context, id string) (snapshot.Seen, bool, error) {
	a, ok, err := w.files.LookAround(ctx, id)
	return snapshot.Seen{Base: a.Base, Paths: a.Paths, Kept: a.Kept}, ok, err
}

func (w wholeWatcher) FilesInSandbox(ctx context.Context, id string) (bool, error) {
	return w.files.FilesInSandbox(ctx, id)
}

func (w wholeWatcher) Put(ctx context.Context, id, path string, r io.Reader, ifMatch string, mode uint32) error {
	_, err := w.files.Put(ctx, id, guest.EncodePath(path), r, ifMatch, mode)
	return err
}

func (w wholeWatcher) Remove(ctx context.Context, id, path, ifMatch string) error {
	return w.files.RemoveIf(ctx, id, guest.EncodePath(path), ifMatch)
}

// hostTrees gives filesync access to the repositories and worktrees.
type hostTrees struct {
	*git.Repo
	records *workspaces.Records
}

func (t hostTrees) Team(ctx context.Context, id string) (string, error) {
	w, err := t.records.Workspace(ctx, id)
	return w.TeamID, err
}

func (t hostTrees) BaseFiles(ctx context.Context, id, commit string, paths []string) ([]filesync.BaseFile, error) {
	files, err := t.Repo.BaseFiles(ctx, id, commit, paths)
	var out []filesync.BaseFile
	for _, f := range files {
		out = append(out, filesync.BaseFile{Path: f.Path, Mode: fmt.Sprintf("%06o", f.Mode), Size: f.Size, OID: f.OID})
	}
	return out, err
}

func (t hostTrees) BaseBlobs(ctx context.Context, id string, files []filesync.BaseFile, fn func(filesync.BaseFile, io.Reader) error) error {
	var ask []hostgit.TreeFile
	for _, f := range files {
		mode, err := strconv.ParseUint(f.Mode, 8, 32)
		if err != nil {
			return err
		}
		ask = append(ask, hostgit.TreeFile{Path: f.Path, Mode: uint32(mode), Size: f.Size, OID: f.OID})
	}
	i := 0
	return t.Repo.BaseBlobs(ctx, id, ask, func(_ hostgit.TreeFile, r io.Reader) error {
		i++
		return fn(files[i-1], r)
	})
}

func (t hostTrees) HostDiff(ctx context.Context, id string, d filesync.HostDiff, w io.Writer) error {
	return t.Repo.HereDiff(ctx, id, git.HereDiff(d), w)
}

// mortalPlace is an executor as a mortal server uses it.
type mortalPlace struct {
	*fake.Executor
	m *mortal
}

func (e mortalPlace) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	e.m.reach("before making a sandbox")
	sb, err := e.Executor.Create(ctx, s)
	e.m.reach("after making a sandbox")
	return sb, err
}

// mortalCloud is the same with sandboxes that can be suspended.
type mortalCloud struct {
	*fake.Cloud
	m *mortal
}

func (e mortalCloud) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	e.m.reach("before making a sandbox")
	sb, err := e.Cloud.Create(ctx, s)
	e.m.reach("after making a sandbox")
	return sb, err
}

// mortalRows are the rows of sandboxes as a mortal server stores them: between two of them it makes, stops, wakes and ends one.
type mortalRows struct {
	manager.Store
	m *mortal
}

func (s mortalRows) UpdateSandbox(ctx context.Context, r executors.Record) error {
	s.m.reach("before storing a sandbox")
	err := s.Store.UpdateSandbox(ctx, r)
	s.m.reach("after storing a sandbox")
	return err
}

// mortalPipe is a pipe to a guest, which breaks when the server ends.
type mortalPipe struct {
	io.ReadWriteCloser
	m *mortal
}

func (m *mortal) pipe(c io.ReadWriteCloser) io.ReadWriteCloser {
	p := mortalPipe{c, m}
	m.atEnd(func() { _ = c.Close() })
	return p
}

// Write counts as a call. A goroutine of the pipe's own ends with an error, not where it is: others wait for it.
func (p mortalPipe) Write(b []byte) (int, error) {
	if p.m.left.Load() > 0 && p.m.left.Add(-1) == 0 {
		p.m.die("asking a guest")
	}
	if _, dead := p.m.over(); dead {
		return 0, errors.Join(errDied, io.ErrClosedPipe)
	}
	return p.ReadWriteCloser.Write(b)
}
