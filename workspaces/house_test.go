package workspaces_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/overlap"
)

// house is the room with a real store and real git; sandboxes and sessions run commands straight in the worktree.
type house struct {
	db    *store.DB
	t     testing.TB
	s     parts
	store *store.Workspaces
	actor accounts.Actor
	team  string
	roots string // the allowed root
	data  string
	box   *boxes
	walls *walls // instead of box, where workspaces are boxed
	away  *away  // instead of box, where workspaces are far
	ses   *setups
	bus   *bus
	cfg   workspaces.Config
	stop  func()
}

func eachHouse(t *testing.T, fn func(t *testing.T, h *house)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) { fn(t, newHouse(t, db)) })
}

func sqliteHouse(t testing.TB, change ...func(*workspaces.Config)) *house {
	t.Helper()
	return newHouse(t, storetest.SQLite(t), change...)
}

func newHouse(t testing.TB, db *store.DB, change ...func(*workspaces.Config)) *house {
	t.Helper()
	user, team := storetest.Seed(t, db)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	h := &house{db: db, t: t, store: store.NewWorkspaces(db), actor: accounts.Actor{User: user}, team: team.ID,
		roots: filepath.Join(dir, "roots"), data: filepath.Join(dir, "data"), bus: &bus{}}
	must(t, os.MkdirAll(h.roots, 0o755))
	must(t, os.MkdirAll(h.data, 0o755))
	h.box = &boxes{paths: h.path}
	h.ses = &setups{running: map[string]*script{}}
	h.cfg = workspaces.Config{Store: h.store, Trash: store.NewTrash(db), TrashKeep: 30 * 24 * time.Hour, Events: h.bus, DataDir: h.data, AllowedRoots: []string{h.roots}, BranchPrefix: "parawork/",
		CopyIgnored: []string{".env"}, Protocols: []string{"https", "ssh", "git", "file"}, DefaultExecutor: "local", Env: os.Getenv}
	for _, c := range change {
		c(&h.cfg)
	}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// The services under their own names: embedded, their methods are those of parts.
type (
	core  = workspaces.Service
	moves = move.Service
	from  = origin.Service
	trees = overlap.Trees
)

// parts are the services that work on workspaces, as one.
type parts struct {
	*core
	*moves
	*from
	*trees
}

// build makes the services.
func (h *house) build() parts {
	cfg := h.cfg
	cfg.Locks, cfg.Jobs = workspaces.NewLocks(), workspaces.NewJobs()
	s := workspaces.New(cfg)
	o := origin.New(origin.Config{Store: cfg.Store, Workspaces: s, Locks: cfg.Locks, Credentials: cfg.Credentials, Protocols: cfg.Protocols,
		PushTimeout: cfg.CloneTimeout, Now: cfg.Now, Log: cfg.Log})
	return parts{s, move.New(move.Config{Store: cfg.Store.(move.Store), Workspaces: s, Locks: cfg.Locks, Jobs: cfg.Jobs, FallBackAllowed: cfg.FallBackAllowed,
		Chown: cfg.Chown, Now: cfg.Now, Log: cfg.Log}), o, overlap.NewTrees(s, cfg.Store)}
}

// Recover takes up what a server died over, in the order of a start.
func (p parts) Recover(ctx context.Context) error {
	if err := p.core.Recover(ctx); err != nil {
		return err
	}
	return p.moves.Recover(ctx)
}

// start makes and runs the service; stop ends it.
func (h *house) start() {
	h.s = h.build()
	h.s.Connect(h.box, h.ses)
	if h.walls != nil {
		h.s.Connect(h.walls, h.ses)
	}
	if h.away != nil {
		h.s.Connect(h.away, h.ses)
		h.away.hook(h.s)
	}
	must(h.t, h.s.Recover(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s := h.s
	go func() { defer close(done); _ = s.Run(ctx) }()
	h.stop = func() { cancel(); <-done }
}

func (h *house) path(id string) (string, error) {
	w, err := h.store.Workspace(context.Background(), id)
	return w.Path, err
}

// boxes are sandboxes without walls.
type boxes struct {
	paths     func(string) (string, error)
	broken    atomic.Pointer[error] // Ensure and RunInBox answer it
	calls     atomic.Int64
	destroy   atomic.Int64
	onEnsure  func(ctx context.Context) error
	onDestroy func()
	onRun     func(argv []string)
}

func (b *boxes) fail(err error) {
	if err == nil {
		b.broken.Store(nil)
		return
	}
	b.broken.Store(&err)
}

func (b *boxes) Ensure(ctx context.Context, id string) error {
	if e := b.broken.Load(); e != nil {
		return *e
	}
	if b.onEnsure != nil {
		return b.onEnsure(ctx)
	}
	return nil
}

func (b *boxes) Destroy(context.Context, string) error {
	b.destroy.Add(1)
	if b.onDestroy != nil {
		b.onDestroy()
	}
	return nil
}

func (b *boxes) Live(string) bool { return true }

func (b *boxes) RunInBox(ctx context.Context, id string, c executors.BoxCommand) (executors.BoxResult, error) {
	if e := b.broken.Load(); e != nil {
		return executors.BoxResult{}, *e
	}
	b.calls.Add(1)
	if b.onRun != nil {
		b.onRun(c.Argv)
	}
	dir, err := b.paths(id)
	if err != nil {
		return executors.BoxResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMs)*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = filepath.Join(dir, c.Cwd)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stdin = bytes.NewReader(c.Stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	err = cmd.Run()
	r := executors.BoxResult{Stdout: out.Bytes(), Stderr: errs.Bytes()}
	if cmd.ProcessState == nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, fault.New(fault.Timeout, "command_timeout", "It took too long.")
	}
	r.ExitCode = cmd.ProcessState.ExitCode()
	return r, nil
}

// setups are sessions that run setup scripts.
type setups struct {
	mu      sync.Mutex
	passed  []string           // from which workspace to which secrets were made known
	running map[string]*script // by workspace id
	open    int
	stopped int
}

type script struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (s *setups) StartSetup(_ context.Context, w workspaces.Workspace, text string, env map[string]string) (string, error) {
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Dir = w.Path
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	sc := &script{cmd: cmd, done: make(chan struct{})}
	go func() { defer close(sc.done); _ = cmd.Wait() }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[w.ID] = sc
	return w.ID, nil
}

func (s *setups) WaitEnd(ctx context.Context, id string) (int, string, error) {
	s.mu.Lock()
	sc := s.running[id]
	s.mu.Unlock()
	select {
	case <-sc.done:
		return sc.cmd.ProcessState.ExitCode(), "", nil
	case <-ctx.Done():
		return 0, "", context.Cause(ctx)
	}
}

func (s *setups) StopAll(_ context.Context, id string) error {
	s.mu.Lock()
	s.stopped++
	sc := s.running[id]
	s.mu.Unlock()
	if sc != nil {
		_ = sc.cmd.Process.Kill()
		<-sc.done
	}
	return nil
}

func (s *setups) SecretFiles(context.Context, string) (workspaces.SecretFiles, error) {
	return workspaces.SecretFiles{}, nil
}

func (s *setups) SecretsPass(_ context.Context, from, to workspaces.Workspace) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed = append(s.passed, from.ID+" "+to.ID)
	return nil
}

func (s *setups) Running(context.Context, string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, nil
}

// bus remembers what was published.
type bus struct {
	mu sync.Mutex
	ev []events.Event
}

func (b *bus) Publish(_ context.Context, e events.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ev = append(b.ev, e)
}

func (b *bus) count(kind string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.ev {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode checks the stable code of an error.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if got := fault.CodeOf(err); got != code {
		t.Fatalf("code %q, want %q (%v)", got, code, err)
	}
}

// git runs git as a person would, in dir.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
	}
	return strings.TrimRight(out, "\n")
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Agent", "GIT_AUTHOR_EMAIL=agent@example.com",
		"GIT_COMMITTER_NAME=Agent", "GIT_COMMITTER_EMAIL=agent@example.com", "LC_ALL=C", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(text), 0o644))
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return string(b)
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// repo makes a repository with one commit below the allowed root.
func (h *house) repo(name string) string {
	h.t.Helper()
	dir := filepath.Join(h.roots, name)
	must(h.t, os.MkdirAll(dir, 0o755))
	git(h.t, dir, "init", "-q", "-b", "main")
	write(h.t, dir, "a.txt", "one\ntwo\nthree\n")
	write(h.t, dir, "dir/b.txt", "b\n")
	write(h.t, dir, ".gitignore", ".env\nignored/\n")
	git(h.t, dir, "add", "-A")
	git(h.t, dir, "commit", "-q", "-m", "first")
	return dir
}

func commitAll(t testing.TB, dir, msg string) string {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", msg)
	return git(t, dir, "rev-parse", "HEAD")
}

func (h *house) pathProject(dir string) workspaces.Project {
	h.t.Helper()
	p, err := h.s.CreateProject(context.Background(), h.actor, h.team, workspaces.NewProject{Kind: "path", Path: dir})
	must(h.t, err)
	return p
}

func (h *house) urlProject(dir string) workspaces.Project {
	h.t.Helper()
	p, err := h.s.CreateProject(context.Background(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "file://" + dir})
	must(h.t, err)
	p = h.cloned(p.ID)
	if p.State != workspaces.ProjectReady {
		h.t.Fatalf("clone: %s %s", p.State, p.StateReason)
	}
	return p
}

// cloned waits until a clone has ended.
func (h *house) cloned(id string) workspaces.Project {
	h.t.Helper()
	var p workspaces.Project
	waitFor(h.t, "clone", func() bool {
		var err error
		p, err = h.s.Project(context.Background(), id)
		must(h.t, err)
		return p.State != workspaces.Cloning
	})
	return p
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(5 * time.Millisecond) // the interval of looking, not of waiting
	}
}

func (h *house) create(n workspaces.NewWorkspace) workspaces.Workspace {
	h.t.Helper()
	if n.Name == "" {
		n.Name = "Fix it"
	}
	w, err := h.s.Create(context.Background(), h.actor, h.team, n)
	must(h.t, err)
	return w
}

// settled waits until a creation has ended.
func (h *house) settled(id string) workspaces.Workspace {
	h.t.Helper()
	var w workspaces.Workspace
	waitFor(h.t, "creation", func() bool {
		var err error
		w, err = h.s.Workspace(context.Background(), id)
		must(h.t, err)
		return w.State != workspaces.Creating && w.State != workspaces.SettingUp
	})
	return w
}

// ready makes a workspace and waits until it is ready.
func (h *house) ready(n workspaces.NewWorkspace) workspaces.Workspace {
	h.t.Helper()
	w := h.settled(h.create(n).ID)
	if w.State != workspaces.Ready {
		h.t.Fatalf("workspace is %s: %s %+v", w.State, w.StateReason, w.Steps)
	}
	return w
}

func stepOf(t testing.TB, w workspaces.Workspace, name string) workspaces.Step {
	t.Helper()
	for _, s := range w.Steps {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no step %q in %+v", name, w.Steps)
	return workspaces.Step{}
}

// nothingLeft checks that no worktree, branch or mark of the workspace exists.
func (h *house) nothingLeft(p workspaces.Project, w workspaces.Workspace) {
	h.t.Helper()
	if exists(h.data, "worktrees/"+w.ID) {
		h.t.Errorf("the worktree is still there")
	}
	for _, pattern := range []string{"refs/heads/" + w.Branch, "refs/parawork/creating", "refs/parawork/base"} {
		if out := git(h.t, p.GitDir, "for-each-ref", pattern); out != "" {
			h.t.Errorf("left behind: %s", out)
		}
	}
	if n := strings.Count(git(h.t, p.GitDir, "worktree", "list", "--porcelain"), "worktree "); n != 1 {
		h.t.Errorf("%d worktrees are known, want 1", n)
	}
	left, _ := filepath.Glob(filepath.Join(h.data, "*", ".doomed-*"))
	if len(left) > 0 {
		h.t.Errorf("left behind: %v", left)
	}
}

func (h *house) commit(w workspaces.Workspace, msg string, paths ...string) workspaces.Commit {
	h.t.Helper()
	c, err := h.s.Commit(context.Background(), h.actor, w.ID, workspaces.CommitRequest{Message: msg, Paths: paths})
	must(h.t, err)
	return c
}

func (h *house) merge(w workspaces.Workspace, strategy string) workspaces.MergeResult {
	h.t.Helper()
	r, err := h.s.Merge(context.Background(), h.actor, w.ID, workspaces.MergeRequest{Strategy: strategy})
	must(h.t, err)
	return r
}
