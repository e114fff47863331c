package move_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// choosers are sandboxes without isolation in several executors.
type choosers struct {
	*wstest.Sandboxes
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

func choosingHarness(t *testing.T) (*wstest.Env, *choosers) {
	h := wstest.SQLiteEnv(t)
	c := &choosers{Sandboxes: h.Sandboxes}
	h.S.Records.Connect(c, h.Ses)
	return h, c
}

func TestWorkspaceUsesItsProjectsExecutor(t *testing.T) {
	t.Parallel()
	h, c := choosingHarness(t)
	p := h.PathProject(h.Repo("app"))
	place := "bubblewrap"
	p, err := h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{Executor: &place})
	wstest.Must(t, err)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "one"})
	if w.Executor != "bubblewrap" || !slices.Equal(c.wishes, []executors.Kind{"", "bubblewrap"}) {
		t.Errorf("lives in %q after the wishes %q", w.Executor, c.wishes)
	}
	items, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{Limit: 10})
	wstest.Must(t, err)
	if text := items[len(items)-1].Text; !strings.Contains(text, "runs in A sandbox: process sandbox") {
		t.Errorf("the timeline says %q", text)
	}
	if _, err := h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "two", Executor: "docker"}); fault.CodeOf(err) != "executor_unavailable" {
		t.Errorf("in a place that cannot be used: %v", err)
	}
	bad := "kvm"
	if _, err := h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{Executor: &bad}); fault.CodeOf(err) != "executor_unknown" {
		t.Errorf("a place that is not there: %v", err)
	}
}

func TestMoving(t *testing.T) {
	t.Parallel()
	h, c := choosingHarness(t)
	p := h.PathProject(h.Repo("app"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "one"})
	if _, changes, err := h.S.Move(t.Context(), h.Actor, w.ID, "local", ""); err != nil || len(changes) != 0 || c.left != 0 {
		t.Errorf("to where it is: %v, %v, left %d times", changes, err, c.left)
	}
	if _, _, err := h.S.Move(t.Context(), h.Actor, w.ID, "docker", ""); fault.CodeOf(err) != "executor_unavailable" || c.left != 0 {
		t.Errorf("to a place that cannot be used: %v", err)
	}
	h.Ses.Set(1)
	if _, _, err := h.S.Move(t.Context(), h.Actor, w.ID, "bubblewrap", ""); fault.CodeOf(err) != "sessions_running" || c.left != 0 {
		t.Errorf("while a session runs: %v", err)
	}
	c.lost = true // its executor is gone: nothing can be stopped there
	moved, changes, err := h.S.Move(t.Context(), h.Actor, w.ID, "bubblewrap", "")
	wstest.Must(t, err)
	if moved.Executor != "bubblewrap" || c.left != 1 {
		t.Errorf("moved %+v, left %d times", moved, c.left)
	}
	words := strings.Join(changes, " ")
	for _, want := range []string{"stronger: process sandbox instead of no isolation", "Only hosts the project allows", "enforced", "another home"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not said in %q", want, words)
		}
	}
	items, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{Limit: 10})
	wstest.Must(t, err)
	if a := items[0]; a.Kind != "workspace.moved" || a.ActorID != h.Actor.User.ID || !strings.Contains(a.Text, "Moved from local to bubblewrap.") || a.Data["to"] != "bubblewrap" {
		t.Errorf("noted %+v", a)
	}
	c.lost = false
	h.Ses.Set(0)
	if _, changes, err = h.S.Move(t.Context(), h.Actor, w.ID, "auto", ""); err != nil || !strings.Contains(strings.Join(changes, " "), "weaker") {
		t.Errorf("back: %q, %v", changes, err)
	}
	if w, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.S.Move(t.Context(), h.Actor, w.ID, "bubblewrap", ""); fault.CodeOf(err) != "already_deleted" {
		t.Errorf("in the trash: %v", err)
	}
}
