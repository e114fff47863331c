package move_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// clouds are choosers with a remote executor, "cloud".
type clouds struct {
	*choosers
	down bool
}

func (c *clouds) Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool) {
	if kind == "cloud" {
		return executors.Capabilities{Kind: kind, Name: "Cloud", Boundary: executors.MachineBoundary, Isolated: true, OwnDisk: true, Available: !c.down}, true
	}
	return c.choosers.Place(ctx, kind)
}

func (c *clouds) Choose(ctx context.Context, team string, wishes ...executors.Kind) (executors.Kind, error) {
	for _, w := range wishes {
		if w == "cloud" && c.down {
			return "", fault.New(fault.Unavailable, "executor_unavailable", "Cloud cannot be used now: no key.")
		}
	}
	return c.choosers.Choose(ctx, team, wishes...)
}

func (c *clouds) ChooseHere(context.Context, string) (executors.Kind, error) {
	return "bubblewrap", nil
}

func cloudHarness(t *testing.T, allowed *bool) (*wstest.Env, *clouds) {
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) {
		c.FallBackAllowed = func(context.Context, executors.Kind) bool { return *allowed }
	})
	c := &clouds{choosers: &choosers{Sandboxes: h.Sandboxes}}
	h.S.Records.Connect(c, h.Ses)
	return h, c
}

func TestFallbackNeedsTheOperatorAndTheOwner(t *testing.T) {
	t.Parallel()
	allowed := false
	h, _ := cloudHarness(t, &allowed)
	p := h.PathProject(h.Repo("app"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "one", Executor: "cloud"})
	cause := errors.New("no capacity")
	try := func() bool {
		t.Helper()
		did, err := h.S.FallBack(t.Context(), w.ID, cause)
		wstest.Must(t, err)
		return did
	}
	if try() {
		t.Error("it fell back although nobody agreed")
	}
	allowed = true
	if try() {
		t.Error("it fell back although its owner did not agree")
	}
	other := accounts.Actor{User: accounts.User{ID: "usr_other"}}
	if _, err := h.S.AgreeToFallBack(t.Context(), other, w.ID, true); fault.CodeOf(err) != "not_the_owner" {
		t.Errorf("somebody else agreed: %v", err)
	}
	_, err := h.S.AgreeToFallBack(t.Context(), h.Actor, w.ID, true)
	wstest.Must(t, err)
	allowed = false
	if try() {
		t.Error("it fell back although the operator does not allow it")
	}
	allowed = true
	if !try() {
		t.Fatal("it did not fall back")
	}
	w, err = h.S.Records.Workspace(t.Context(), w.ID)
	wstest.Must(t, err)
	if w.Executor != "bubblewrap" {
		t.Errorf("lives in %q", w.Executor)
	}
	items, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{Limit: 10})
	wstest.Must(t, err)
	if a := items[0]; a.Kind != "workspace.fell_back" || !strings.Contains(a.Text, "bubblewrap instead of cloud") || !strings.Contains(a.Text, "no capacity") {
		t.Errorf("noted %+v", a)
	}
	if try() {
		t.Error("it fell back from this server")
	}
}

func TestWorkspaceIsCreatedForUnavailableExecutorWithFallback(t *testing.T) {
	t.Parallel()
	allowed := true
	h, c := cloudHarness(t, &allowed)
	p := h.PathProject(h.Repo("app"))
	c.down = true
	if _, err := h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "one", Executor: "cloud"}); fault.CodeOf(err) != "executor_unavailable" {
		t.Errorf("not agreed: %v", err)
	}
	w, err := h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "one", Executor: "cloud", FallbackOK: true})
	if err != nil || w.Executor != "cloud" || !w.FallbackOK {
		t.Errorf("agreed: %+v, %v", w, err)
	}
	if err := h.S.Lifecycle.CheckPlace(t.Context(), h.Team, "cloud", "", false); fault.CodeOf(err) != "executor_unavailable" {
		t.Errorf("asked beforehand: %v", err)
	}
}

func TestFallbackOnRequest(t *testing.T) {
	t.Parallel()
	allowed := false
	h, _ := cloudHarness(t, &allowed)
	p := h.PathProject(h.Repo("app"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "one", Executor: "cloud"})
	h.Ses.Set(1)
	if _, _, err := h.S.FallBackNow(t.Context(), h.Actor, w.ID); fault.CodeOf(err) != "sessions_running" {
		t.Errorf("while a session runs: %v", err)
	}
	h.Ses.Set(0)
	w, changes, err := h.S.FallBackNow(t.Context(), h.Actor, w.ID)
	if err != nil || w.Executor != "bubblewrap" || !strings.Contains(strings.Join(changes, " "), "weaker") {
		t.Errorf("asked: %+v, %q, %v", w, changes, err)
	}
	if _, _, err := h.S.FallBackNow(t.Context(), h.Actor, w.ID); fault.CodeOf(err) != "already_here" {
		t.Errorf("once more: %v", err)
	}
}

// Before a workspace falls back to this server, a snapshot of all its files is taken, as before any other move.
func TestFallbackTakesASnapshotFirst(t *testing.T) {
	t.Parallel()
	allowed := true
	h, _ := cloudHarness(t, &allowed)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "one", Executor: "cloud"})
	h.Keeping(w, ".env")
	wstest.Write(t, w.Path, "new.txt", "nobody has looked\n")
	wstest.Write(t, w.Path, ".env", "ONE=1\n")
	_, _, err := h.S.FallBackNow(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	all := h.Snaps(w)
	if len(all) == 0 {
		t.Fatal("nothing is kept")
	}
	sn := all[0]
	if sn.Reason != "move" || h.FileOf(w, sn.ID, "new.txt") != "nobody has looked\n" || sn.IgnoredN != 1 {
		t.Errorf("kept %+v", sn)
	}
}

// away are choosers that know where a person's work goes while their machine is away.
type away struct {
	*clouds
	to    executors.Kind
	asked []string
}

func (a *away) ChooseAway(_ context.Context, _, userID string, from executors.Kind) (executors.Kind, error) {
	a.asked = append(a.asked, userID+" "+string(from))
	return a.to, nil
}

func TestWorkLeavesAMachineThatIsAway(t *testing.T) {
	t.Parallel()
	allowed := false // only the owner agrees: the operator's word is about places of the server
	h, c := cloudHarness(t, &allowed)
	a := &away{clouds: c}
	h.S.Records.Connect(a, h.Ses)
	p := h.PathProject(h.Repo("app"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "one", Executor: "cloud"})
	machine := executors.Kind(executors.Runner).Of("rnr_1")
	_, err := h.S.Records.Edit(t.Context(), w.ID, func(w *workspaces.Workspace) error { w.Executor, w.Folder = string(machine), "rfo_1"; return nil })
	wstest.Must(t, err)
	leaves := func() (bool, workspaces.Workspace) {
		t.Helper()
		did, err := h.S.FallBack(t.Context(), w.ID, errors.New("the laptop is not connected"))
		wstest.Must(t, err)
		now, err := h.S.Records.Workspace(t.Context(), w.ID)
		wstest.Must(t, err)
		return did, now
	}
	if did, now := leaves(); did || now.Executor != string(machine) {
		t.Errorf("its owner agreed to nothing, and it is in %s", now.Executor)
	}
	if want := h.Actor.User.ID + " " + string(machine); len(a.asked) != 1 || a.asked[0] != want {
		t.Errorf("asked for %q, not %q", a.asked, want)
	}
	a.to = "cloud"
	h.Ses.Set(1)
	if did, now := leaves(); did || now.Executor != string(machine) {
		t.Errorf("a session is open there, and it is in %s", now.Executor)
	}
	h.Ses.Set(0)
	if did, now := leaves(); !did || now.Executor != "cloud" || now.Folder != "" {
		t.Errorf("it is in %s, with the folder %q", now.Executor, now.Folder)
	}
	items, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{Limit: 10})
	wstest.Must(t, err)
	if text := items[0].Text; items[0].Kind != "workspace.fell_back" || !strings.Contains(text, "the laptop is not connected") || !strings.Contains(text, "once it is back") {
		t.Errorf("the activity says %q", text)
	}
}
