package workspaces_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

// choosers are sandboxes without walls in several places.
type choosers struct {
	*boxes
	wishes []executors.Kind // of the last choice
	lost   bool
	left   int
}

func (c *choosers) Choose(_ context.Context, _ string, wishes ...executors.Kind) (executors.Kind, error) {
	c.wishes = wishes
	for _, w := range wishes {
		switch w {
		case "", "auto":
		case "docker":
			return "", fault.New(fault.Unavailable, "executor_unavailable", "The daemon does not answer.")
		default:
			return w, nil
		}
	}
	return "local", nil
}

func (c *choosers) CheckWish(_ context.Context, _ string, kind executors.Kind) error {
	if kind == "kvm" {
		return fault.New(fault.Unsupported, "executor_unknown", "There is none.")
	}
	return nil
}

func (c *choosers) Place(_ context.Context, kind executors.Kind) (executors.Capabilities, bool) {
	switch kind {
	case "local":
		return executors.Capabilities{Kind: kind, Name: "This server", Boundary: executors.NoBoundary, Host: true}, true
	case "bubblewrap":
		return executors.Capabilities{Kind: kind, Name: "A sandbox", Boundary: executors.ProcessBoundary, Isolated: true, Network: true, Limits: true, Host: true}, true
	}
	return executors.Capabilities{}, false
}

func (c *choosers) Lost(context.Context, string) bool { return c.lost }

func (c *choosers) Leave(context.Context, string) error { c.left++; return nil }

func choosingHouse(t *testing.T) (*house, *choosers) {
	h := sqliteHouse(t)
	c := &choosers{boxes: h.box}
	h.s.Connect(c, h.ses)
	return h, c
}

func TestAWorkspaceLivesWhereItsProjectSays(t *testing.T) {
	t.Parallel()
	h, c := choosingHouse(t)
	p := h.pathProject(h.repo("app"))
	place := "bubblewrap"
	p, err := h.s.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{Executor: &place})
	must(t, err)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "one"})
	if w.Executor != "bubblewrap" || !slices.Equal(c.wishes, []executors.Kind{"", "bubblewrap"}) {
		t.Errorf("lives in %q after the wishes %q", w.Executor, c.wishes)
	}
	items, _, err := h.s.Activity(t.Context(), w.ID, page.Page{Limit: 10})
	must(t, err)
	if text := items[len(items)-1].Text; !strings.Contains(text, "lives in A sandbox: process sandbox") {
		t.Errorf("the timeline says %q", text)
	}
	if _, err := h.s.Create(t.Context(), h.actor, h.team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "two", Executor: "docker"}); fault.CodeOf(err) != "executor_unavailable" {
		t.Errorf("in a place that cannot be used: %v", err)
	}
	bad := "kvm"
	if _, err := h.s.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{Executor: &bad}); fault.CodeOf(err) != "executor_unknown" {
		t.Errorf("a place that is not there: %v", err)
	}
}

func TestMoving(t *testing.T) {
	t.Parallel()
	h, c := choosingHouse(t)
	p := h.pathProject(h.repo("app"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "one"})
	if _, changes, err := h.s.Move(t.Context(), h.actor, w.ID, "local", ""); err != nil || len(changes) != 0 || c.left != 0 {
		t.Errorf("to where it is: %v, %v, left %d times", changes, err, c.left)
	}
	if _, _, err := h.s.Move(t.Context(), h.actor, w.ID, "docker", ""); fault.CodeOf(err) != "executor_unavailable" || c.left != 0 {
		t.Errorf("to a place that cannot be used: %v", err)
	}
	h.ses.set(1)
	if _, _, err := h.s.Move(t.Context(), h.actor, w.ID, "bubblewrap", ""); fault.CodeOf(err) != "sessions_running" || c.left != 0 {
		t.Errorf("while a session runs: %v", err)
	}
	c.lost = true // its place is gone: nothing can be stopped there
	moved, changes, err := h.s.Move(t.Context(), h.actor, w.ID, "bubblewrap", "")
	must(t, err)
	if moved.Executor != "bubblewrap" || c.left != 1 {
		t.Errorf("moved %+v, left %d times", moved, c.left)
	}
	words := strings.Join(changes, " ")
	for _, want := range []string{"stronger: process sandbox instead of no isolation", "network is kept", "enforced", "another home"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not said in %q", want, words)
		}
	}
	items, _, err := h.s.Activity(t.Context(), w.ID, page.Page{Limit: 10})
	must(t, err)
	if a := items[0]; a.Kind != "workspace.moved" || a.ActorID != h.actor.User.ID || !strings.Contains(a.Text, "Moved from local to bubblewrap.") || a.Data["to"] != "bubblewrap" {
		t.Errorf("noted %+v", a)
	}
	c.lost = false
	h.ses.set(0)
	if _, changes, err = h.s.Move(t.Context(), h.actor, w.ID, "auto", ""); err != nil || !strings.Contains(strings.Join(changes, " "), "weaker") {
		t.Errorf("back: %q, %v", changes, err)
	}
	if w, err = h.s.Delete(t.Context(), h.actor, w.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.s.Move(t.Context(), h.actor, w.ID, "bubblewrap", ""); fault.CodeOf(err) != "already_deleted" {
		t.Errorf("in the trash: %v", err)
	}
}

// set makes so many sessions run.
func (s *setups) set(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = n
}
