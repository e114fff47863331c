package workspaces_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// movers are sessions that move: one agent that is at work, and a shell.
type movers struct {
	*setups
	mu    sync.Mutex
	runs  map[string]bool // by session id
	haltE error
	goE   error
	onTry func(ctx context.Context) error
	went  []string
	needs string // the program the agent's place has to have
}

func (m *movers) MovePlan(context.Context, string, executors.Capabilities, executors.Capabilities) ([]workspaces.MovedSession, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []workspaces.MovedSession
	if m.runs["agent"] {
		out = append(out, workspaces.MovedSession{ID: "agent", Agent: "claude-code", How: workspaces.MoveResumes, Busy: true, Program: m.needs, Lacking: "No program there."})
	}
	if m.runs["shell"] {
		out = append(out, workspaces.MovedSession{ID: "shell", Agent: "shell", How: workspaces.MoveEnds})
	}
	return out, nil
}

func (m *movers) Halt(_ context.Context, id, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.haltE != nil && id == "agent" {
		return m.haltE
	}
	m.runs[id] = false
	return nil
}

func (m *movers) Halted(context.Context, string) error { return nil }

func (m *movers) GoOn(_ context.Context, one workspaces.MovedSession, words string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.goE != nil {
		return "", m.goE
	}
	m.runs[one.ID] = true
	m.went = append(m.went, one.ID+": "+words)
	return "next", nil
}

// places are choosers that can be tried, and that fail where they are told to.
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

func movingHouse(t *testing.T) (*house, *places, *movers, workspaces.Workspace) {
	h := sqliteHouse(t)
	p := &places{choosers: &choosers{boxes: h.box}}
	m := &movers{setups: h.ses, runs: map[string]bool{"agent": true, "shell": true}}
	h.s.Connect(p, m)
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID, Name: "one"})
	must(t, os.WriteFile(filepath.Join(w.Path, "draft.txt"), []byte("draft\n"), 0o644))
	return h, p, m, w
}

// moveEnds waits until the newest move of a workspace has ended.
func (h *house) moveEnds(id string) workspaces.Moving {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, ok := h.s.MoveOf(id); ok {
			continue
		}
		all, err := h.s.Moves(h.t.Context(), id)
		must(h.t, err)
		if len(all) > 0 && all[0].EndedAt != 0 {
			return all[0]
		}
	}
	h.t.Fatal("the move does not end")
	return workspaces.Moving{}
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
	h, _, m, w := movingHouse(t)
	plan, err := h.s.PlanMove(t.Context(), h.actor, w.ID, "bubblewrap", "")
	must(t, err)
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
	if plan, err = h.s.PlanMove(t.Context(), h.actor, w.ID, "docker", ""); err != nil || plan.Possible || plan.Code != "executor_unavailable" {
		t.Errorf("the plan for a place that cannot be used: %+v, %v", plan, err)
	}
	_, err = h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", "")
	must(t, err)
	got := h.moveEnds(w.ID)
	if want := "keep=done try=done stop=done home=done switch=done start=done resume=done"; got.State != workspaces.MoveDone || stepStates(got) != want {
		t.Errorf("%s: %s (%s)", got.State, stepStates(got), got.Reason)
	}
	if len(m.went) != 1 || !strings.Contains(m.went[0], "A sandbox") || got.Sessions[0].Next != "next" || got.Sessions[1].State != "ended" {
		t.Errorf("went on: %q, %+v", m.went, got.Sessions)
	}
	if w, err = h.s.Workspace(t.Context(), w.ID); err != nil || w.Executor != "bubblewrap" {
		t.Errorf("it lives in %s, %v", w.Executor, err)
	}
	if sn, err := h.store.SnapshotBefore(t.Context(), w.ID, 0); err != nil || sn.Reason != "move" {
		t.Errorf("kept %+v, %v", sn, err)
	}
	if _, err := h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", ""); fault.CodeOf(err) != "already_there" {
		t.Errorf("to where it is: %v", err)
	}
}

// Whatever fails, the workspace goes on where it was, with its agent, and can be moved once that is mended.
func TestMovingLiveFails(t *testing.T) {
	t.Parallel()
	boom := fault.New(fault.Unavailable, "boom", "It broke.")
	for name, c := range map[string]struct {
		set   func(p *places, m *movers)
		unset func(p *places, m *movers)
		steps string
	}{
		"tried in vain": {func(p *places, _ *movers) { p.try = func(context.Context) error { return boom } }, func(p *places, _ *movers) { p.try = nil },
			"keep=done try=failed stop=skipped home=skipped switch=skipped start=skipped resume=skipped"},
		"an agent does not stop": {func(_ *places, m *movers) { m.haltE = boom }, func(_ *places, m *movers) { m.haltE = nil },
			"keep=done try=done stop=failed home=skipped switch=skipped start=skipped resume=skipped back=done"},
		"the old sandbox holds something": {func(p *places, _ *movers) { p.leave = boom }, func(p *places, _ *movers) { p.leave = nil },
			"keep=done try=done stop=done home=done switch=failed start=skipped resume=skipped back=done"},
		"the new one does not start": {func(p *places, _ *movers) {
			p.ensure = func() error { p.ensure = nil; return boom }
		}, func(p *places, _ *movers) { p.ensure = nil }, "keep=done try=done stop=done home=done switch=done start=failed resume=skipped back=done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, m, w := movingHouse(t)
			c.set(p, m)
			_, err := h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", "")
			must(t, err)
			got := h.moveEnds(w.ID)
			if got.State != workspaces.MoveFailed || stepStates(got) != c.steps || got.Reason != "It broke." {
				t.Errorf("%s: %s (%s)", got.State, stepStates(got), got.Reason)
			}
			if now, err := h.s.Workspace(t.Context(), w.ID); err != nil || now.Executor != w.Executor || !m.runs["agent"] {
				t.Errorf("it lives in %s, its agent runs: %v, %v", now.Executor, m.runs["agent"], err)
			}
			if b, err := os.ReadFile(filepath.Join(w.Path, "draft.txt")); err != nil || string(b) != "draft\n" {
				t.Errorf("the draft: %q, %v", b, err)
			}
			c.unset(p, m)
			_, err = h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", "")
			must(t, err)
			if got := h.moveEnds(w.ID); got.State != workspaces.MoveDone {
				t.Errorf("again: %s (%s)", got.State, got.Reason)
			}
		})
	}
}

// A workspace that borrows from a folder of a member's machine borrows from it again when it goes back there.
func TestMovingBackToAFolder(t *testing.T) {
	t.Parallel()
	h, p, _, w := movingHouse(t)
	p.ensure = nil
	_, err := h.store.EditWorkspace(t.Context(), w.ID, func(w *workspaces.Workspace) error {
		w.Executor, w.Folder = "runner:rnr_1", "/home/ada/app"
		return nil
	})
	must(t, err)
	p.ensure = func() error { p.ensure = nil; return fault.New(fault.Unavailable, "boom", "It broke.") }
	_, err = h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", "")
	must(t, err)
	if got := h.moveEnds(w.ID); got.State != workspaces.MoveFailed || got.FromFolder != "/home/ada/app" {
		t.Errorf("%+v", got)
	}
	if now, err := h.s.Workspace(t.Context(), w.ID); err != nil || now.Executor != "runner:rnr_1" || now.Folder != "/home/ada/app" {
		t.Errorf("it lives in %s, borrows from %q, %v", now.Executor, now.Folder, err)
	}
}

func TestCancellingAMove(t *testing.T) {
	t.Parallel()
	h, p, m, w := movingHouse(t)
	tried := make(chan struct{})
	p.try = func(ctx context.Context) error { close(tried); <-ctx.Done(); return ctx.Err() }
	_, err := h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", "")
	must(t, err)
	<-tried
	if err := h.s.Moving(t.Context(), w.ID); fault.CodeOf(err) != "workspace_moving" {
		t.Errorf("something new may start meanwhile: %v", err)
	}
	if _, err := h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", ""); err == nil {
		t.Error("it moves twice")
	}
	_, err = h.s.CancelMove(t.Context(), w.ID)
	must(t, err)
	if got := h.moveEnds(w.ID); got.State != workspaces.MoveCancelled || !m.runs["agent"] || !m.runs["shell"] {
		t.Errorf("%s: %s, what runs: %v", got.State, stepStates(got), m.runs)
	}
	if _, err := h.s.CancelMove(t.Context(), w.ID); fault.CodeOf(err) != "not_moving" {
		t.Errorf("cancelled twice: %v", err)
	}
}

// A place that lacks an agent's program is found out when it is tried, before anything is stopped; then the plan says so, and the move goes
// without the agent, whose session waits. One that goes back has it go on.
func TestAMoveToAPlaceWithoutTheAgent(t *testing.T) {
	t.Parallel()
	h, p, m, w := movingHouse(t)
	m.needs, p.lacks = "claude", map[string]bool{"claude": true}
	how := func() string {
		t.Helper()
		plan, err := h.s.PlanMove(t.Context(), h.actor, w.ID, "bubblewrap", "")
		must(t, err)
		if plan.Sessions[0].How == workspaces.MoveWaits && plan.Sessions[0].Reason != "No program there." {
			t.Errorf("it says %+v", plan.Sessions[0])
		}
		return plan.Sessions[0].How
	}
	move := func() workspaces.Moving {
		t.Helper()
		_, err := h.s.MoveLive(t.Context(), h.actor, w.ID, "bubblewrap", "")
		must(t, err)
		return h.moveEnds(w.ID)
	}
	if got := how(); got != workspaces.MoveResumes {
		t.Errorf("before anybody looked: %s", got)
	}
	one := move()
	if one.State != workspaces.MoveFailed || !strings.HasPrefix(one.Reason, "No program there. Nothing was stopped") || !m.runs["agent"] || !m.runs["shell"] {
		t.Fatalf("it went: %+v", one)
	}
	if got := how(); got != workspaces.MoveWaits {
		t.Errorf("after it was tried: %s", got)
	}
	broken := errors.New("no sandbox")
	p.ensure = func() error { return broken }
	if back := move(); back.State != workspaces.MoveFailed || !m.runs["agent"] || len(m.went) != 1 {
		t.Errorf("it did not go on where it was: %+v", back)
	}
	p.ensure = nil
	there := move()
	if there.State != workspaces.MoveDone || m.runs["agent"] || there.Sessions[0].State != "stopped" || there.Sessions[0].Reason != "No program there." {
		t.Errorf("without the agent: %+v", there)
	}

	// Where it is by then, the agent goes on.
	m.runs["agent"], p.lacks = true, nil
	_, err := h.s.MoveLive(t.Context(), h.actor, w.ID, "local", "")
	must(t, err)
	if on := h.moveEnds(w.ID); on.State != workspaces.MoveDone || !m.runs["agent"] {
		t.Errorf("it goes on: %+v", on)
	}
}
