package move_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// places is a Chooser and Trier that fails on demand.
type places struct {
	*choosers
	try    func(ctx context.Context) error
	ensure func() error
	leave  error
	lacks  map[string]bool
}

func (p *places) Try(ctx context.Context, _ string, _ executors.Kind, root string, programs []string) ([]string, error) {
	if fi, err := os.Stat(root); err != nil || !fi.IsDir() {
		return nil, errors.New("nothing to try it over")
	}
	if p.try != nil {
		return nil, p.try(ctx)
	}
	return slices.DeleteFunc(programs, func(name string) bool { return !p.lacks[name] }), nil
}

func (p *places) Ensure(ctx context.Context, id string) error {
	if p.ensure != nil {
		if err := p.ensure(); err != nil {
			return err
		}
	}
	return p.choosers.Ensure(ctx, id)
}

func (p *places) Leave(ctx context.Context, id string) error {
	if p.leave != nil {
		return p.leave
	}
	return p.choosers.Leave(ctx, id)
}

func movingHarness(t *testing.T) (*wstest.Env, *places, *wstest.Movers, workspaces.Workspace) {
	h := wstest.SQLiteEnv(t)
	p := &places{choosers: &choosers{Sandboxes: h.Sandboxes}}
	m := &wstest.Movers{Setups: h.Ses, Runs: map[string]bool{"agent": true, "shell": true}}
	h.S.Records.Connect(p, m)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "one"})
	wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "draft.txt"), []byte("draft\n"), 0o644))
	return h, p, m, w
}

func stepStates(m workspaces.Moving) string {
	var out []string
	for _, st := range m.Steps {
		out = append(out, st.Name+"="+st.State)
	}
	return strings.Join(out, " ")
}

func TestMovingLive(t *testing.T) {
	t.Parallel()
	h, _, m, w := movingHarness(t)
	plan, err := h.S.PlanMove(t.Context(), h.Actor, w.ID, "bubblewrap", "")
	wstest.Must(t, err)
	var words []string
	for _, i := range append(plan.Carried, plan.Lost...) {
		words = append(words, i.What+": "+i.Detail)
	}
	all := strings.Join(words, "\n")
	for _, want := range []string{"branch: The branch parawork/one", "files: 1 uncommitted file", "scrollback", "shells: 1 shell", "processes", "logins"} {
		if !strings.Contains(all, want) {
			t.Errorf("the plan does not say %q:\n%s", want, all)
		}
	}
	if !plan.Possible || len(plan.Sessions) != 2 {
		t.Errorf("the plan: %+v", plan)
	}
	if plan, err = h.S.PlanMove(t.Context(), h.Actor, w.ID, "docker", ""); err != nil || plan.Possible || plan.Code != "executor_unavailable" {
		t.Errorf("the plan for a place that cannot be used: %+v, %v", plan, err)
	}
	_, err = h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", "")
	wstest.Must(t, err)
	got := h.MoveEnds(w.ID)
	if want := "keep=done try=done stop=done home=done switch=done start=done resume=done"; got.State != workspaces.MoveDone || stepStates(got) != want {
		t.Errorf("%s: %s (%s)", got.State, stepStates(got), got.Reason)
	}
	if len(m.Went) != 1 || !strings.Contains(m.Went[0], "A sandbox") || got.Sessions[0].Next != "next" || got.Sessions[1].State != "ended" {
		t.Errorf("went on: %q, %+v", m.Went, got.Sessions)
	}
	if w, err = h.S.Records.Workspace(t.Context(), w.ID); err != nil || w.Executor != "bubblewrap" {
		t.Errorf("it lives in %s, %v", w.Executor, err)
	}
	if sn, err := h.Store.SnapshotBefore(t.Context(), w.ID, 0); err != nil || sn.Reason != "move" {
		t.Errorf("kept %+v, %v", sn, err)
	}
	if _, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", ""); fault.CodeOf(err) != "already_there" {
		t.Errorf("to where it is: %v", err)
	}
}

// Whatever fails, the workspace continues where it was, with its agent, and can be moved once that is fixed.
func TestMovingLiveFails(t *testing.T) {
	t.Parallel()
	boom := fault.New(fault.Unavailable, "boom", "It broke.")
	for name, c := range map[string]struct {
		set   func(p *places, m *wstest.Movers)
		unset func(p *places, m *wstest.Movers)
		steps string
	}{
		"tried in vain": {func(p *places, _ *wstest.Movers) { p.try = func(context.Context) error { return boom } }, func(p *places, _ *wstest.Movers) { p.try = nil },
			"keep=done try=failed stop=skipped home=skipped switch=skipped start=skipped resume=skipped"},
		"an agent does not stop": {func(_ *places, m *wstest.Movers) { m.HaltE = boom }, func(_ *places, m *wstest.Movers) { m.HaltE = nil },
			"keep=done try=done stop=failed home=skipped switch=skipped start=skipped resume=skipped back=done"},
		"the old sandbox holds something": {func(p *places, _ *wstest.Movers) { p.leave = boom }, func(p *places, _ *wstest.Movers) { p.leave = nil },
			"keep=done try=done stop=done home=done switch=failed start=skipped resume=skipped back=done"},
		"the new one does not start": {func(p *places, _ *wstest.Movers) {
			p.ensure = func() error { p.ensure = nil; return boom }
		}, func(p *places, _ *wstest.Movers) { p.ensure = nil }, "keep=done try=done stop=done home=done switch=done start=failed resume=skipped back=done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, m, w := movingHarness(t)
			c.set(p, m)
			_, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", "")
			wstest.Must(t, err)
			got := h.MoveEnds(w.ID)
			if got.State != workspaces.MoveFailed || stepStates(got) != c.steps || got.Reason != "It broke." {
				t.Errorf("%s: %s (%s)", got.State, stepStates(got), got.Reason)
			}
			if now, err := h.S.Records.Workspace(t.Context(), w.ID); err != nil || now.Executor != w.Executor || !m.Runs["agent"] {
				t.Errorf("it lives in %s, its agent runs: %v, %v", now.Executor, m.Runs["agent"], err)
			}
			if b, err := os.ReadFile(filepath.Join(w.Path, "draft.txt")); err != nil || string(b) != "draft\n" {
				t.Errorf("the draft: %q, %v", b, err)
			}
			c.unset(p, m)
			_, err = h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", "")
			wstest.Must(t, err)
			if got := h.MoveEnds(w.ID); got.State != workspaces.MoveDone {
				t.Errorf("again: %s (%s)", got.State, got.Reason)
			}
		})
	}
}

// A workspace that shares objects of a folder on a member's machine shares them again when it moves back there.
func TestMovingBackToAFolder(t *testing.T) {
	t.Parallel()
	h, p, _, w := movingHarness(t)
	p.ensure = nil
	_, err := h.Store.EditWorkspace(t.Context(), w.ID, func(w *workspaces.Workspace) error {
		w.Executor, w.Folder = "runner:rnr_1", "/home/ada/app"
		return nil
	})
	wstest.Must(t, err)
	p.ensure = func() error { p.ensure = nil; return fault.New(fault.Unavailable, "boom", "It broke.") }
	_, err = h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", "")
	wstest.Must(t, err)
	if got := h.MoveEnds(w.ID); got.State != workspaces.MoveFailed || got.FromFolder != "/home/ada/app" {
		t.Errorf("%+v", got)
	}
	if now, err := h.S.Records.Workspace(t.Context(), w.ID); err != nil || now.Executor != "runner:rnr_1" || now.Folder != "/home/ada/app" {
		t.Errorf("it lives in %s, borrows from %q, %v", now.Executor, now.Folder, err)
	}
}

func TestCancellingAMove(t *testing.T) {
	t.Parallel()
	h, p, m, w := movingHarness(t)
	tried := make(chan struct{})
	p.try = func(ctx context.Context) error { close(tried); <-ctx.Done(); return ctx.Err() }
	_, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", "")
	wstest.Must(t, err)
	<-tried
	if err := h.S.Moving(t.Context(), w.ID); fault.CodeOf(err) != "workspace_moving" {
		t.Errorf("something new may start meanwhile: %v", err)
	}
	if _, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", ""); err == nil {
		t.Error("it moves twice")
	}
	_, err = h.S.CancelMove(t.Context(), w.ID)
	wstest.Must(t, err)
	if got := h.MoveEnds(w.ID); got.State != workspaces.MoveCancelled || !m.Runs["agent"] || !m.Runs["shell"] {
		t.Errorf("%s: %s, what runs: %v", got.State, stepStates(got), m.Runs)
	}
	if _, err := h.S.CancelMove(t.Context(), w.ID); fault.CodeOf(err) != "not_moving" {
		t.Errorf("cancelled twice: %v", err)
	}
}

// A missing agent program is found when the executor is tried, before anything is stopped; then the plan says so, and the move continues
// without the agent, whose session waits. Moving back resumes it.
func TestMoveToExecutorWithoutTheAgent(t *testing.T) {
	t.Parallel()
	h, p, m, w := movingHarness(t)
	m.Needs, p.lacks = "claude", map[string]bool{"claude": true}
	how := func() string {
		t.Helper()
		plan, err := h.S.PlanMove(t.Context(), h.Actor, w.ID, "bubblewrap", "")
		wstest.Must(t, err)
		if plan.Sessions[0].How == workspaces.MoveWaits && plan.Sessions[0].Reason != "No program there." {
			t.Errorf("it says %+v", plan.Sessions[0])
		}
		return plan.Sessions[0].How
	}
	move := func() workspaces.Moving {
		t.Helper()
		_, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, "bubblewrap", "")
		wstest.Must(t, err)
		return h.MoveEnds(w.ID)
	}
	if got := how(); got != workspaces.MoveResumes {
		t.Errorf("before anybody looked: %s", got)
	}
	one := move()
	if one.State != workspaces.MoveFailed || !strings.HasPrefix(one.Reason, "No program there. Nothing was stopped") || !m.Runs["agent"] || !m.Runs["shell"] {
		t.Fatalf("it went: %+v", one)
	}
	if got := how(); got != workspaces.MoveWaits {
		t.Errorf("after it was tried: %s", got)
	}
	broken := errors.New("no sandbox")
	p.ensure = func() error { return broken }
	if back := move(); back.State != workspaces.MoveFailed || !m.Runs["agent"] || len(m.Went) != 1 {
		t.Errorf("it did not go on where it was: %+v", back)
	}
	p.ensure = nil
	there := move()
	if there.State != workspaces.MoveDone || m.Runs["agent"] || there.Sessions[0].State != "stopped" || there.Sessions[0].Reason != "No program there." {
		t.Errorf("without the agent: %+v", there)
	}

	// Where it is by then, the agent goes on.
	m.Runs["agent"], p.lacks = true, nil
	_, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, "local", "")
	wstest.Must(t, err)
	if on := h.MoveEnds(w.ID); on.State != workspaces.MoveDone || !m.Runs["agent"] {
		t.Errorf("it goes on: %+v", on)
	}
}
