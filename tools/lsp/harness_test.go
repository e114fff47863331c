package lsp_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/lsp"
	"github.com/parawork/parawork/workspaces"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("SCRIPTED_LANGUAGE_SERVER"); mode != "" {
		scripted(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// bench is a workspace in a sandbox with a guest, and the language servers of it.
type bench struct {
	t      *testing.T
	root   string
	ws     string
	team   string
	s      *lsp.Service
	m      *executortest.Managed
	caller tools.Caller
	stop   func() // of the service
	db     *store.DB
}

type specs struct{ team, root string }

func (s specs) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: s.team, WorkspaceID: workspaceID, Root: s.root}, "", nil
}

type places struct{ *executortest.Managed }

func (places) Permit(context.Context, string) error { return nil }

func (p places) LiveAwake(workspaceID string) (*executors.Place, bool) { return p.Live(workspaceID) }

type rows struct{ team string }

func (r rows) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	return workspaces.Workspace{ID: id, TeamID: r.team}, nil
}

// files are those of a folder, compared with nothing: all of them count as changed.
type files struct{ root string }

func (f files) Changed(context.Context, string) ([]guest.Change, error) {
	var out []guest.Change
	err := filepath.WalkDir(f.root, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" || d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(f.root, p)
		sum := sha256.Sum256(b)
		out = append(out, guest.Change{Path: rel, Status: "untracked", Hash: hex.EncodeToString(sum[:])})
		return err
	})
	return out, err
}

func (f files) Write(_ context.Context, _, path string, r io.Reader, ifMatch string) (guest.FileInfo, error) {
	p := filepath.Join(f.root, path)
	before, err := os.ReadFile(p)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if sum := sha256.Sum256(before); hex.EncodeToString(sum[:]) != ifMatch {
		return guest.FileInfo{}, fault.New(fault.Precondition, "file_changed", "It changed.")
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return guest.FileInfo{}, err
	}
	return guest.FileInfo{Path: path}, os.WriteFile(p, b, 0o644)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newBench makes a workspace with files. path is put before the sandbox's PATH.
func newBench(t *testing.T, path string, contents map[string]string, change func(*lsp.Config)) *bench {
	t.Helper()
	ctx := t.Context()
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	b := &bench{t: t, db: db, ws: id.New("ws"), team: team.ID, root: executortest.GitRoot(t)}
	world := fake.NewWorld(t.TempDir(), nil)
	t.Cleanup(world.Close)
	project := id.New("prj")
	_, err := db.Exec(ctx, `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
		VALUES (?, ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`, project, team.ID, user.ID)
	must(t, err)
	_, err = db.Exec(ctx, `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by,
		created_at, updated_at) VALUES (?, ?, ?, 1, 'w', 'b', 'main', 'fake', 'ready', ?, 1, 1)`, b.ws, team.ID, project, user.ID)
	must(t, err)
	for name, text := range contents {
		b.write(name, text)
	}
	if path != "" {
		t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	}
	b.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{fake.New(world)}, Store: store.NewExecutors(db),
		Workspaces: specs{b.team, b.root}, DialTimeout: 5 * time.Second})
	b.caller = tools.Caller{TeamID: b.team, WorkspaceID: b.ws, UserID: user.ID, SessionID: "ses_1", Limits: tools.Limits{ResultBytes: tools.DefaultResultBytes}}
	b.start(change)
	return b
}

// start makes the service, as a server does when it starts.
func (b *bench) start(change func(*lsp.Config)) {
	cfg := lsp.Config{Places: places{b.m}, Files: files{b.root}, Workspaces: rows{b.team}, Records: toolstore.NewLanguages(b.db)}
	if change != nil {
		change(&cfg)
	}
	b.s = lsp.New(cfg)
	s := b.s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cancel()
			must(b.t, <-done)
		}
	}
	b.stop = stop
	b.t.Cleanup(stop)
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	p := filepath.Join(b.root, name)
	must(b.t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(b.t, os.WriteFile(p, []byte(text), 0o644))
}

func (b *bench) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, name))
	must(b.t, err)
	return string(text)
}

// report asks as an agent does.
func (b *bench) report(paths ...string) string {
	b.t.Helper()
	r, err := b.s.Report(b.t.Context(), b.team, b.ws, "ses_1", paths)
	must(b.t, err)
	return r.Words(len(paths) > 0)
}

// processes are those of language servers that run in the sandbox.
func (b *bench) processes() []string {
	b.t.Helper()
	p, err := b.m.Ensure(b.t.Context(), b.ws)
	must(b.t, err)
	all, err := p.Guest.Processes(b.t.Context())
	must(b.t, err)
	var out []string
	for _, proc := range all {
		if strings.HasPrefix(proc.ID, "lsp-") && proc.State == guest.Running {
			out = append(out, proc.ID)
		}
	}
	return out
}

// installed returns the folder of a real language server's program; without it the test is skipped, loudly.
func installed(t *testing.T, program string) string {
	t.Helper()
	for _, dir := range []string{os.Getenv("PARAWORK_TEST_LANGUAGE_SERVERS"), "../../.cache/language-servers/node_modules/.bin", "../../.cache/language-servers/bin"} {
		for _, d := range filepath.SplitList(dir) {
			p, err := filepath.Abs(filepath.Join(d, program))
			if err == nil && d != "" {
				if _, err := os.Stat(p); err == nil {
					return filepath.Dir(p)
				}
			}
		}
	}
	if p, err := exec.LookPath(program); err == nil {
		return filepath.Dir(p)
	}
	t.Skipf("NOT TESTED: %s is not installed: run testing/scripts/test-setup.sh, or name its folder in PARAWORK_TEST_LANGUAGE_SERVERS", program)
	return ""
}

var errNever = errors.New("it never happened")

// until waits for what only polling shows.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal(errNever)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
