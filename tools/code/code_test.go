//go:build linux

package code_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	_ "github.com/parawork/parawork/guest/kernel"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) {
	os.Exit(testguest.Run(m, &guestPath))
}

// world is a Service over one real guest on this machine, with everything around it in memory.
type world struct {
	*testing.T
	s      *code.Service
	place  *executors.Place
	root   string
	refuse error  // of the guard
	stop   func() // ends the present Service

	mu   sync.Mutex
	rows map[string]code.Run
	kept map[string][]byte
	full bool         // there is no room for artifacts
	log  bytes.Buffer // written by the Service alone
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: python3 is not installed")
	}
	one := testguest.Sandbox(t, executors.Local, guestPath, nil)
	w := &world{T: t, place: one.At, root: one.Root, rows: map[string]code.Run{}, kept: map[string][]byte{}}
	w.serve()
	return w
}

// serve makes a Service that knows nothing but the store, as a restarted server's.
func (w *world) serve() {
	w.s = code.New(code.Config{Store: w, Sandboxes: w, Workspaces: w, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Secrets: func(context.Context, command.Command) (command.Secrets, error) {
			return command.Secrets{Env: map[string]string{"TEAM_KEY": "hunter2-and-more"}, Masks: []string{"hunter2-and-more"}}, nil
		},
		Guard: func(context.Context, executors.Kind, executors.Spec, command.Request) error { return w.refuse },
		Keep: func(_ context.Context, r code.Run, mime string, content []byte) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.full {
				return "", errors.New("no room")
			}
			name := fmt.Sprintf("art_%d", len(w.kept))
			w.kept[name] = content
			return name, nil
		}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := w.s
	go func() { done <- s.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("Run: %v", err)
		}
	})
	w.Cleanup(w.stop)
	if err := s.Recover(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) CreateRun(ctx context.Context, r code.Run, _ int) error { return w.UpdateRun(ctx, r) }

func (w *world) UpdateRun(_ context.Context, r code.Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[r.ID] = r
	return nil
}

func (w *world) Run(_ context.Context, id string) (code.Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[id], nil
}

func (w *world) Runs(context.Context, string, page.Page) ([]code.Run, string, error) {
	return nil, "", errors.New("not used")
}

func (w *world) RunningRuns(context.Context) ([]code.Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []code.Run
	for _, r := range w.rows {
		if !r.Ended() {
			out = append(out, r)
		}
	}
	return out, nil
}

func (w *world) Spec(context.Context, string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{Root: w.root}, executors.Local, nil
}
func (w *world) Permit(context.Context, string) error                     { return nil }
func (w *world) Ensure(context.Context, string) (*executors.Place, error) { return w.place, nil }
func (w *world) Live(string) (*executors.Place, bool)                     { return w.place, true }

func (w *world) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	if id != w.place.WorkspaceID {
		return workspaces.Workspace{}, fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return workspaces.Workspace{ID: id, TeamID: w.place.TeamID}, nil
}

func (w *world) request(text string) code.Request {
	return code.Request{TeamID: w.place.TeamID, WorkspaceID: w.place.WorkspaceID, UserID: "usr_1", Language: code.Python, Code: text}
}

func (w *world) run(text string) code.Run {
	w.Helper()
	r, err := w.s.Execute(w.Context(), w.request(text))
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func printed(r code.Run) string {
	var b strings.Builder
	for _, o := range r.Outputs {
		b.WriteString(o.Text)
	}
	return b.String()
}

func (w *world) exists(name string) bool {
	_, err := os.Stat(filepath.Join(w.root, name))
	return err == nil
}

func (w *world) until(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			w.Fatalf("waited for: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestTools(t *testing.T) {
	w := newWorld(t)
	caller := tools.Caller{TeamID: w.place.TeamID, WorkspaceID: w.place.WorkspaceID, UserID: "usr_1"}
	stranger := caller
	stranger.TeamID = "tea_other"
	for _, tool := range w.s.Tools() {
		t.Run(tool.Spec().Name, func(t *testing.T) {
			s := tooltest.Subject{Tool: tool, Caller: caller, Stranger: stranger, Quick: json.RawMessage(`{}`)}
			if tool.Spec().Name == "run_code" {
				s.Quick = json.RawMessage(`{"code": "1 + 1"}`)
				s.Large = json.RawMessage(`{"code": "print('x' * 1000000)"}`)
				s.Slow = json.RawMessage(`{"code": "import time\nopen('slow', 'w').close()\ntry:\n    time.sleep(1000)\nfinally:\n    import os; os.remove('slow')"}`)
				wait := func(there bool) func(ctx context.Context) error {
					return func(ctx context.Context) error {
						for w.exists("slow") != there {
							if ctx.Err() != nil {
								return ctx.Err()
							}
							time.Sleep(5 * time.Millisecond)
						}
						return nil
					}
				}
				s.Began, s.Stopped = wait(true), wait(false)
			}
			tooltest.Run(t, s)
		})
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run("import os, sys\nk = os.environ['TEAM_KEY']\nprint('a', k)\nsys.stdout.write(k[:9]); sys.stdout.flush(); sys.stdout.write(k[9:])\nprint(k, file=sys.stderr)\ndisplay({'text/html': '<b>' + k + '</b>'}, raw=True) if 'IPython' in sys.modules else None\nraise ValueError(k)")
	all, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(all), "hunter2") || !strings.Contains(printed(r), "a ") || r.Error == nil {
		t.Errorf("a secret is shown, or nothing is: %s", all)
	}
	r = w.run("{'key': os.environ['TEAM_KEY']}")
	if all, _ = json.Marshal(r); strings.Contains(string(all), "hunter2") {
		t.Errorf("a secret is shown in a result: %s", all)
	}
	r = w.run("class J:\n    def _repr_json_(self): return {'key': os.environ['TEAM_KEY']}\nJ()")
	if all, _ = json.Marshal(r); strings.Contains(string(all), "hunter2") {
		t.Errorf("a secret is shown in JSON: %s", all)
	}
	if r = w.run("# hunter2-and-more\n1"); strings.Contains(w.rows[r.ID].Code, "hunter2") {
		t.Errorf("a secret is stored in the code: %q", w.rows[r.ID].Code)
	}
}

func TestLargeResultsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run("'y' * 300000")
	if len(r.Outputs) != 1 || r.Outputs[0].Artifacts["text/plain"] == "" || len(w.kept) != 1 {
		t.Fatalf("%+v", r.Outputs)
	}
	r = w.run("for i in range(100000): print('line', i)")
	if n := len(printed(r)); n > code.MaxOutputs || n < code.MaxOutputs-100 || !r.Truncated {
		t.Errorf("%d bytes are kept of a flood, truncated %v", n, r.Truncated)
	}
	w.mu.Lock()
	w.full = true
	w.mu.Unlock()
	r = w.run("for i in range(20): display('y' * 100000)")
	if n := strings.Count(w.log.String(), "could not be saved"); !r.Truncated || n != 1 {
		t.Errorf("results that cannot be kept: truncated %v, %d lines of the log", r.Truncated, n)
	}
}

func TestCallerThatLeavesInterruptsItsCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run("x = 1")
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan code.Run)
	go func() {
		r, _ := w.s.Execute(ctx, w.request("open('on', 'w').close()\nwhile True: pass"))
		done <- r
	}()
	w.until("the code runs", func() bool { return w.exists("on") })
	leave()
	if r := <-done; r.State != code.Interrupted {
		t.Errorf("the run: %+v", r)
	}
	if r := w.run("x"); r.Fresh || r.State != code.OK {
		t.Errorf("after it: %+v", r)
	}
}

// Runs that a server left are complete at the next one, each with its own outputs, also one that waited.
func TestTheNextServerContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run("import os, time; x = 5")
	left := make(chan error, 2)
	begin := func(text string) {
		go func() {
			_, err := w.s.Execute(context.Background(), w.request(text))
			left <- err
		}()
	}
	begin("print('first'); open('on', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('x is', x)")
	w.until("the code runs", func() bool { return w.exists("on") })
	begin("print('second', x)")
	w.until("both are stored", func() bool { rows, _ := w.RunningRuns(t.Context()); return len(rows) == 2 })
	w.stop()
	for range 2 {
		if err := <-left; err == nil {
			t.Error("a run ended with its server")
		}
	}
	if err := os.WriteFile(filepath.Join(w.root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.until("both have ended", func() bool { rows, _ := w.RunningRuns(t.Context()); return len(rows) == 0 })
	var got []string
	for _, r := range w.rows {
		if r.State != code.OK {
			t.Errorf("%+v", r)
		}
		got = append(got, printed(r))
	}
	slices.Sort(got)
	if want := []string{"", "first\nx is 5\n", "second 5\n"}; !slices.Equal(got, want) {
		t.Errorf("outputs %q, want %q", got, want)
	}
	if r := w.run("x"); r.Fresh {
		t.Errorf("the variables are lost: %+v", r)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.request("1")
	other.TeamID = "tea_other"
	if _, err := w.s.Execute(t.Context(), other); fault.CodeOf(err) != "workspace_not_found" {
		t.Errorf("another team: %v", err)
	}
	for i := range code.MaxKernels {
		r := w.request("1")
		r.Language, r.Kernel = code.Shell, fmt.Sprint("k", i)
		if got, err := w.s.Execute(t.Context(), r); err != nil || !got.Fresh {
			t.Fatalf("kernel %d: %+v %v", i, got, err)
		}
	}
	if _, err := w.s.Execute(t.Context(), w.request("1")); fault.CodeOf(err) != "code_kernels_too_many" {
		t.Errorf("one kernel too many: %v", err)
	}
	if err := w.s.Stop(t.Context(), w.place.WorkspaceID, code.Shell, "k0"); err != nil {
		t.Fatal(err)
	}
	if r := w.run("1"); !r.Fresh {
		t.Errorf("in place of the one that was ended: %+v", r)
	}
	w.refuse = fault.New(fault.Forbidden, "command_not_allowed", "python3 is not allowed.")
	if _, err := w.s.Execute(t.Context(), w.request("1")); fault.CodeOf(err) != "command_not_allowed" {
		t.Errorf("the guard: %v", err)
	}
}
