package wstest

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/stage"
)

// Env is all workspace services with a real store and real git; sandboxes and sessions run commands straight in the worktree.
type Env struct {
	Db        *store.DB
	T         testing.TB
	S         parts
	Store     *store.Workspaces
	Actor     accounts.Actor
	Team      string
	Roots     string // the allowed root
	Data      string
	Sandboxes *Sandboxes
	walls     *walls // replaces box in isolated environments
	Away      *away  // replaces box in remote environments
	Ses       *Setups
	Bus       *bus
	Cfg       assembly.Config
	Stop      func()
}

func EachEnv(t *testing.T, fn func(t *testing.T, h *Env)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) { fn(t, New(t, db)) })
}

func SQLiteEnv(t testing.TB, change ...func(*assembly.Config)) *Env {
	t.Helper()
	return New(t, storetest.SQLite(t), change...)
}

func New(t testing.TB, db *store.DB, change ...func(*assembly.Config)) *Env {
	t.Helper()
	user, team := storetest.Seed(t, db)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	Must(t, err)
	h := &Env{Db: db, T: t, Store: store.NewWorkspaces(db), Actor: accounts.Actor{User: user}, Team: team.ID,
		Roots: filepath.Join(dir, "roots"), Data: filepath.Join(dir, "data"), Bus: &bus{}}
	Must(t, os.MkdirAll(h.Roots, 0o755))
	Must(t, os.MkdirAll(h.Data, 0o755))
	h.Sandboxes = &Sandboxes{paths: h.Path, cache: filepath.Join(dir, "cache")}
	h.Ses = &Setups{running: map[string]*script{}}
	h.Cfg = assembly.Config{Store: h.Store, Trash: store.NewTrash(db), TrashKeep: 30 * 24 * time.Hour, Events: h.Bus, DataDir: h.Data, AllowedRoots: []string{h.Roots}, BranchPrefix: "parawork/",
		CopyIgnored: []string{".env"}, Protocols: []string{"https", "ssh", "git", "file"}, DefaultExecutor: "local", Env: os.Getenv}
	for _, c := range change {
		c(&h.Cfg)
	}
	h.Start()
	t.Cleanup(func() { h.Stop() })
	return h
}

// The services under their own names: the methods of parts come from embedding.
type (
	core  = assembly.Workspaces
	moves = move.Service
	From  = origin.Service
	trees = overlap.Trees
)

// parts combines the services that work on workspaces.
type parts struct {
	*core
	*moves
	*From
	*trees
}

// Build makes the services.
func (h *Env) Build() parts {
	w := assembly.New(h.Cfg)
	return parts{w, w.Moves, w.Origin, overlap.NewTrees(w.Records, w.Repo, h.Store)}
}

// Recover runs the recoveries in the order of a start.
func (p parts) Recover(ctx context.Context) error {
	return p.core.Recover(ctx)
}

// Start makes and runs the service; stop ends it.
func (h *Env) Start() {
	h.S = h.Build()
	h.S.Records.Connect(h.Sandboxes, h.Ses)
	if h.walls != nil {
		h.S.Records.Connect(h.walls, h.Ses)
	}
	if h.Away != nil {
		h.S.Records.Connect(h.Away, h.Ses)
		h.Away.hook(h.S)
	}
	Must(h.T, h.S.Recover(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s := h.S
	go func() { defer close(done); _ = s.Run(ctx) }()
	h.Stop = func() { cancel(); <-done }
}

func (h *Env) Path(id string) (string, error) {
	w, err := h.Store.Workspace(context.Background(), id)
	return w.Path, err
}

// Sandboxes are sandboxes without isolation.
type Sandboxes struct {
	cache     string // of the programs in them
	paths     func(string) (string, error)
	broken    atomic.Pointer[error] // error of Ensure and RunInSandbox
	calls     atomic.Int64
	Destroyed atomic.Int64
	OnEnsure  func(ctx context.Context) error
	OnDestroy func()
	OnRun     func(argv []string)
}

func (b *Sandboxes) Fail(err error) {
	if err == nil {
		b.broken.Store(nil)
		return
	}
	b.broken.Store(&err)
}

func (b *Sandboxes) Ensure(ctx context.Context, id string) error {
	if e := b.broken.Load(); e != nil {
		return *e
	}
	if b.OnEnsure != nil {
		return b.OnEnsure(ctx)
	}
	return nil
}

func (b *Sandboxes) Destroy(context.Context, string) error {
	b.Destroyed.Add(1)
	if b.OnDestroy != nil {
		b.OnDestroy()
	}
	return nil
}

func (b *Sandboxes) Live(string) bool { return true }

func (b *Sandboxes) RunInSandbox(ctx context.Context, id string, c executors.SandboxCommand) (executors.SandboxResult, error) {
	if e := b.broken.Load(); e != nil {
		return executors.SandboxResult{}, *e
	}
	b.calls.Add(1)
	if b.OnRun != nil {
		b.OnRun(c.Argv)
	}
	dir, err := b.paths(id)
	if err != nil {
		return executors.SandboxResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMs)*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = filepath.Join(dir, c.Cwd)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "XDG_CACHE_HOME=" + b.cache, "GIT_CONFIG_NOSYSTEM=1"}
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
	r := executors.SandboxResult{Stdout: out.Bytes(), Stderr: errs.Bytes()}
	if cmd.ProcessState == nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, fault.New(fault.Timeout, "command_timeout", "It took too long.")
	}
	r.ExitCode = cmd.ProcessState.ExitCode()
	return r, nil
}

// Setups are sessions that run setup scripts.
type Setups struct {
	Mu      sync.Mutex
	passed  []string           // the workspaces between which secrets were passed on
	running map[string]*script // by workspace id
	Open    int
	Stopped int
}

type script struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (s *Setups) StartSetup(_ context.Context, w workspaces.Workspace, text string, env map[string]string) (string, error) {
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
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.running[w.ID] = sc
	return w.ID, nil
}

func (s *Setups) WaitEnd(ctx context.Context, id string) (int, string, error) {
	s.Mu.Lock()
	sc := s.running[id]
	s.Mu.Unlock()
	select {
	case <-sc.done:
		return sc.cmd.ProcessState.ExitCode(), "", nil
	case <-ctx.Done():
		return 0, "", context.Cause(ctx)
	}
}

func (s *Setups) StopAll(_ context.Context, id string) error {
	s.Mu.Lock()
	s.Stopped++
	sc := s.running[id]
	s.Mu.Unlock()
	if sc != nil {
		_ = sc.cmd.Process.Kill()
		<-sc.done
	}
	return nil
}

func (s *Setups) SecretFiles(context.Context, string) (workspaces.SecretFiles, error) {
	return workspaces.SecretFiles{}, nil
}

func (s *Setups) SecretsPass(_ context.Context, from, to workspaces.Workspace) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.passed = append(s.passed, from.ID+" "+to.ID)
	return nil
}

// Passed returns the workspaces between which secrets were passed on: "from to".
func (s *Setups) Passed() []string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Clone(s.passed)
}

func (s *Setups) Running(context.Context, string) (int, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Open, nil
}

// bus records published events.
type bus struct {
	mu sync.Mutex
	ev []events.Event
}

func (b *bus) Publish(_ context.Context, e events.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ev = append(b.ev, e)
}

func (b *bus) Count(kind string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.ev {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantCode checks the stable code of an error.
func WantCode(t testing.TB, err error, code string) {
	t.Helper()
	if got := fault.CodeOf(err); got != code {
		t.Fatalf("code %q, want %q (%v)", got, code, err)
	}
}

// Git runs git in dir, like a user.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := TryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
	}
	return strings.TrimRight(out, "\n")
}

func TryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Agent", "GIT_AUTHOR_EMAIL=agent@example.com",
		"GIT_COMMITTER_NAME=Agent", "GIT_COMMITTER_EMAIL=agent@example.com", "LC_ALL=C", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func Write(t testing.TB, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	Must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	Must(t, os.WriteFile(p, []byte(text), 0o644))
}

func Read(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	Must(t, err)
	return string(b)
}

func Exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// Repo makes a repository with one commit below the allowed root.
func (h *Env) Repo(name string) string {
	h.T.Helper()
	dir := filepath.Join(h.Roots, name)
	Must(h.T, os.MkdirAll(dir, 0o755))
	Git(h.T, dir, "init", "-q", "-b", "main")
	Write(h.T, dir, "a.txt", "one\ntwo\nthree\n")
	Write(h.T, dir, "dir/b.txt", "b\n")
	Write(h.T, dir, ".gitignore", ".env\nignored/\n")
	Git(h.T, dir, "add", "-A")
	Git(h.T, dir, "commit", "-q", "-m", "first")
	return dir
}

func CommitAll(t testing.TB, dir, msg string) string {
	t.Helper()
	Git(t, dir, "add", "-A")
	Git(t, dir, "commit", "-q", "-m", msg)
	return Git(t, dir, "rev-parse", "HEAD")
}

func (h *Env) PathProject(dir string) workspaces.Project {
	h.T.Helper()
	p, err := h.S.Projects.CreateProject(context.Background(), h.Actor, h.Team, workspaces.NewProject{Kind: "path", Path: dir})
	Must(h.T, err)
	return p
}

func (h *Env) UrlProject(dir string) workspaces.Project {
	h.T.Helper()
	p, err := h.S.Projects.CreateProject(context.Background(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "file://" + dir})
	Must(h.T, err)
	p = h.Cloned(p.ID)
	if p.State != workspaces.ProjectReady {
		h.T.Fatalf("clone: %s %s", p.State, p.StateReason)
	}
	return p
}

// Cloned waits until a clone has ended.
func (h *Env) Cloned(id string) workspaces.Project {
	h.T.Helper()
	var p workspaces.Project
	WaitFor(h.T, "clone", func() bool {
		var err error
		p, err = h.S.Records.Project(context.Background(), id)
		Must(h.T, err)
		return p.State != workspaces.Cloning
	})
	return p
}

func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(5 * time.Millisecond) // the polling interval
	}
}

func (h *Env) Create(n workspaces.NewWorkspace) workspaces.Workspace {
	h.T.Helper()
	n.Name = cmp.Or(n.Name, "Fix it")
	w, err := h.S.Lifecycle.Create(context.Background(), h.Actor, h.Team, n)
	Must(h.T, err)
	return w
}

// Settled waits until a creation has ended.
func (h *Env) Settled(id string) workspaces.Workspace {
	h.T.Helper()
	var w workspaces.Workspace
	WaitFor(h.T, "creation", func() bool {
		var err error
		w, err = h.S.Records.Workspace(context.Background(), id)
		Must(h.T, err)
		return w.State != workspaces.Creating && w.State != workspaces.SettingUp
	})
	return w
}

// Ready makes a workspace and waits until it is ready.
func (h *Env) Ready(n workspaces.NewWorkspace) workspaces.Workspace {
	h.T.Helper()
	w := h.Settled(h.Create(n).ID)
	if w.State != workspaces.Ready {
		h.T.Fatalf("workspace is %s: %s %+v", w.State, w.StateReason, w.Steps)
	}
	return w
}

func StepOf(t testing.TB, w workspaces.Workspace, name string) workspaces.Step {
	t.Helper()
	for _, s := range w.Steps {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no step %q in %+v", name, w.Steps)
	return workspaces.Step{}
}

// NothingLeft checks that no worktree, branch or creation ref of the workspace exists.
func (h *Env) NothingLeft(p workspaces.Project, w workspaces.Workspace) {
	h.T.Helper()
	if Exists(h.Data, "worktrees/"+w.ID) {
		h.T.Errorf("the worktree is still there")
	}
	for _, pattern := range []string{"refs/heads/" + w.Branch, "refs/parawork/creating", "refs/parawork/base"} {
		if out := Git(h.T, p.GitDir, "for-each-ref", pattern); out != "" {
			h.T.Errorf("left behind: %s", out)
		}
	}
	if n := strings.Count(Git(h.T, p.GitDir, "worktree", "list", "--porcelain"), "worktree "); n != 1 {
		h.T.Errorf("%d worktrees are known, want 1", n)
	}
	left, _ := filepath.Glob(filepath.Join(h.Data, "*", ".doomed-*"))
	if len(left) > 0 {
		h.T.Errorf("left behind: %v", left)
	}
}

func (h *Env) Commit(w workspaces.Workspace, msg string, paths ...string) workspaces.Commit {
	h.T.Helper()
	c, err := h.S.Stage.Commit(context.Background(), h.Actor, w.ID, stage.CommitRequest{Message: msg, Paths: paths})
	Must(h.T, err)
	return c
}

func (h *Env) Merge(w workspaces.Workspace, strategy string) workspaces.MergeResult {
	h.T.Helper()
	r, err := h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: strategy})
	Must(h.T, err)
	return r
}
