package verification_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/tools/verification"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
)

// project is a fake of package checks: checks pass unless a test says otherwise.
type project struct {
	mu        sync.Mutex
	list      []workspaces.Check
	output    map[string]string // by id: it fails with this output
	before    map[string]bool   // by id: how it ended on the base, once it ran there
	onBase    map[string]bool   // by id: whether it fails there
	baseErr   error
	ran       []string
	baseRan   []string
	trees     map[string]string
	slow      string // the id of a check that runs until it is cancelled
	began     chan struct{}
	cancelled chan struct{}
}

func newProject(ids ...string) *project {
	p := &project{output: map[string]string{}, before: map[string]bool{}, onBase: map[string]bool{}, trees: map[string]string{}, began: make(chan struct{}, 100), cancelled: make(chan struct{}, 100)}
	for _, id := range ids {
		p.list = append(p.list, workspaces.Check{ID: id, Name: strings.ToUpper(id), Command: id})
	}
	return p
}

func (p *project) Project(ctx context.Context, id string) (workspaces.Workspace, []workspaces.Check, error) {
	if scope, ok := tenant.Of(ctx); !ok || !slices.Equal(scope.Teams(), []string{"team_1"}) || id != "ws_1" {
		return workspaces.Workspace{}, nil, fault.New(fault.NotFound, "workspace_not_found", "There is none.")
	}
	return workspaces.Workspace{ID: id, TeamID: "team_1", BaseCommit: "base"}, p.list, nil
}

func (p *project) RunNow(ctx context.Context, _, _ string, ids []string) ([]checks.Run, error) {
	if len(p.list) == 0 {
		return nil, fault.New(fault.Conflict, "no_checks", "The project has no checks.")
	}
	if slices.Contains(ids, p.slow) {
		p.began <- struct{}{}
		<-ctx.Done()
		p.cancelled <- struct{}{}
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var runs []checks.Run
	for _, c := range p.list {
		if !slices.Contains(ids, c.ID) {
			continue
		}
		p.ran = append(p.ran, c.ID)
		r := checks.Run{CheckID: c.ID, Name: c.Name, State: checks.RunPassed, Tree: "tree", StartedAt: 1, EndedAt: 3}
		if out, fails := p.output[c.ID]; fails {
			code := int64(1)
			r.State, r.Output, r.ExitCode, r.Reason = checks.RunFailed, out, &code, "It ended with exit code 1."
		}
		if tree, ok := p.trees[c.ID]; ok {
			r.Tree = tree
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func (p *project) Baselines(context.Context, string) (map[string]checks.Run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]checks.Run{}
	for id, failed := range p.before {
		r := checks.Run{CheckID: id, State: checks.RunPassed}
		if failed {
			r.State = checks.RunFailed
		}
		out[id] = r
	}
	return out, nil
}

func (p *project) RunBaseline(_ context.Context, _, _ string, ids []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.baseRan = append(p.baseRan, ids...)
	if p.baseErr != nil {
		return p.baseErr
	}
	for _, id := range ids {
		p.before[id] = p.onBase[id]
	}
	return nil
}

var caller = tools.Caller{TeamID: "team_1", WorkspaceID: "ws_1", UserID: "usr_1"}

type answer struct {
	Success bool
	Checks  []struct {
		Name       string
		Success    bool
		WasFailing *bool `json:"was_failing"`
		Output     string
	}
	NewFailures []string `json:"new_failures"`
	Tree        string
	Stale       bool
}

func verify(t *testing.T, cfg verification.Config, args string) (answer, tools.Result, error) {
	t.Helper()
	if cfg.Changed == nil {
		cfg.Changed = func(context.Context, string) ([]string, error) { return nil, nil }
	}
	set, err := tools.New(tools.Config{Tools: []tools.Tool{verification.New(cfg)}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := set.Call(t.Context(), caller, "verify", json.RawMessage(args))
	var a answer
	if err == nil {
		if err := json.Unmarshal(r.Structured, &a); err != nil {
			t.Fatal(err)
		}
	}
	return a, r, err
}

func TestVerifyFollowsTheRulesOfTools(t *testing.T) {
	p := newProject("unit", "lint", "big", "slow")
	p.slow = "slow"
	p.output["big"] = strings.Repeat("error: something is wrong here\n", 2000)
	tooltest.Run(t, tooltest.Subject{
		Tool:     verification.New(verification.Config{Checks: p, Changed: func(context.Context, string) ([]string, error) { return nil, nil }}),
		Caller:   caller,
		Stranger: tools.Caller{TeamID: "team_2", WorkspaceID: "ws_1", UserID: "usr_2"},
		Quick:    json.RawMessage(`{"checks":["unit"]}`),
		Slow:     json.RawMessage(`{"checks":["slow"]}`),
		Large:    json.RawMessage(`{"checks":["big"]}`),
		Began: func(ctx context.Context) error {
			select {
			case <-p.began:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Stopped: func(ctx context.Context) error {
			select {
			case <-p.cancelled:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
}

// What fails now is compared with what failed when the work began. That is looked up once, and only for what fails.
func TestWhatBrokeIsSeparateFromWhatFailedBefore(t *testing.T) {
	t.Parallel()
	p := newProject("unit", "lint", "build")
	p.output["unit"], p.output["lint"] = "boom", "style"
	p.onBase["lint"] = true
	var verified []string
	cfg := verification.Config{Checks: p, Verified: func(_ context.Context, ws, tree string, success bool) {
		verified = append(verified, ws, tree)
		if success {
			t.Error("verified as a success")
		}
	}}
	for range 2 {
		a, r, err := verify(t, cfg, "{}")
		if err != nil || a.Success || !r.IsError || a.Tree != "tree" || a.Stale || !slices.Equal(a.NewFailures, []string{"UNIT"}) || len(a.Checks) != 3 {
			t.Fatalf("%+v %v", a, err)
		}
		if w := a.Checks[0].WasFailing; w == nil || *w || a.Checks[0].Output != "boom" {
			t.Errorf("unit: %+v", a.Checks[0])
		}
		if w := a.Checks[1].WasFailing; w == nil || !*w {
			t.Errorf("lint: %+v", a.Checks[1])
		}
		if c := a.Checks[2]; !c.Success || c.WasFailing != nil || c.Output != "" {
			t.Errorf("build: %+v", c)
		}
		if text := r.Content[0].Text; !strings.Contains(text, "2 of 3 checks did not pass. Broken since the work began: UNIT. Failing before as well: LINT.") {
			t.Errorf("%s", text)
		}
	}
	if !slices.Equal(p.baseRan, []string{"unit", "lint"}) || len(verified) != 4 || verified[1] != "tree" {
		t.Errorf("ran on the base: %v; verified %v", p.baseRan, verified)
	}
}

func TestABaselineThatCannotBeTakenIsUnknown(t *testing.T) {
	t.Parallel()
	p := newProject("unit")
	p.output["unit"], p.baseErr = "boom", errors.New("state of the server")
	a, r, err := verify(t, verification.Config{Checks: p}, "{}")
	if err != nil || a.Success || a.Checks[0].WasFailing != nil || len(a.NewFailures) != 0 || !strings.Contains(r.Content[0].Text, "not known") || strings.Contains(r.Content[0].Text, "state of the server") {
		t.Errorf("%+v %+v %v", a, r, err)
	}
}

func TestFilesThatChangeMeanwhileMakeItStale(t *testing.T) {
	t.Parallel()
	for what, trees := range map[string]map[string]string{"during a check": {"lint": ""}, "between two": {"lint": "other"}} {
		p := newProject("unit", "lint")
		p.trees = trees
		if a, _, err := verify(t, verification.Config{Checks: p}, "{}"); err != nil || !a.Success || !a.Stale || a.Tree != "" {
			t.Errorf("%s: %+v %v", what, a, err)
		}
	}
}

// Checks run when a changed file touches them; those that are named, or all, run in any case.
func TestWhichChecksRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, changed, want string }{
		{`{}`, "server/a/b.go", "all go"},
		{`{}`, "ui/x.ts", "all ui"},
		{`{}`, "", "all"},
		{`{"all":true}`, "", "all go ui"},
		{`{"checks":["ui"," GO"]}`, "", "go ui"},
	} {
		p := newProject("all", "go", "ui")
		p.list[1].Paths, p.list[2].Paths = []string{"server/**/*.go", "go.mod"}, []string{"ui"}
		_, _, err := verify(t, verification.Config{Checks: p, Changed: func(context.Context, string) ([]string, error) { return strings.Fields(c.changed), nil }}, c.args)
		if got := strings.Join(p.ran, " "); err != nil || got != c.want {
			t.Errorf("%s with %q changed: %s, %v", c.args, c.changed, got, err)
		}
	}
	p := newProject("go")
	p.list[0].Paths = []string{"*.go"}
	if a, r, err := verify(t, verification.Config{Checks: p}, "{}"); err != nil || !a.Success || len(a.Checks) != 0 || len(p.ran) != 0 || !strings.Contains(r.Content[0].Text, "all") {
		t.Errorf("nothing touched: %+v %v", a, err)
	}
	if _, _, err := verify(t, verification.Config{Checks: p}, `{"checks":["nope"]}`); fault.CodeOf(err) != "check_not_found" || !strings.Contains(err.Error(), "GO") {
		t.Errorf("%v", err)
	}
	if _, _, err := verify(t, verification.Config{Checks: newProject()}, `{}`); fault.CodeOf(err) != "no_checks" {
		t.Errorf("%v", err)
	}
}

// Of a long output the agent reads the lines that say why.
func TestOutputsAreCutToTheFailingPart(t *testing.T) {
	t.Parallel()
	p := newProject("unit")
	p.output["unit"] = strings.Repeat("ok   some/package\n", 5000) + "--- FAIL: TestSums (0.00s)\n    sums_test.go:9: got 3\n" + strings.Repeat("ok   another/package\n", 5000) + "exit status 1\n"
	a, r, err := verify(t, verification.Config{Checks: p}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	out := a.Checks[0].Output
	if !strings.Contains(out, "TestSums") || !strings.Contains(out, "got 3") || !strings.HasSuffix(out, "exit status 1") || len(out) > 2000 || strings.Count(out, "[...]") != 2 || r.Truncated {
		t.Errorf("%d bytes: %s", len(out), out)
	}
	p.output["unit"] = strings.Repeat("error ж\n", 100_000)
	if a, _, err = verify(t, verification.Config{Checks: p}, "{}"); err != nil || len(a.Checks[0].Output) > 8<<10 || strings.ContainsRune(a.Checks[0].Output, '\uFFFD') {
		t.Errorf("%d bytes, %v", len(a.Checks[0].Output), err)
	}
}
