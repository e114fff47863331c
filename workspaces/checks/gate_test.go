package checks_test

import (
	"testing"
	"testing/synctest"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
)

// A project's rules apply to exactly what would be merged: the commit of the branch.
func TestGateBeforeAManualMerge(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		w := fx.workspace("w")
		fx.set(check("a", true), check("b", false))
		gate := func(want string) error {
			t.Helper()
			err := fx.svc.Gate(t.Context(), w)
			wantCode(t, err, want)
			return err
		}
		rules := func(m workspaces.Merging) { fx.project(func(p *workspaces.Project) { p.Merging = m }) }
		gate("") // no rules
		rules(workspaces.Merging{RequireChecks: true})
		if err, ok := gate("checks_required").(*fault.Error); !ok || err.Details["check"] != "Check a" || err.Details["state"] != "none" {
			t.Errorf("before it ran: %+v", err)
		}
		fx.begin("w")
		if err, ok := gate("checks_required").(*fault.Error); !ok || err.Details["state"] != "running" {
			t.Errorf("while it runs: %+v", err)
		}
		fx.end("a", exit(1))
		if err, ok := gate("checks_required").(*fault.Error); !ok || err.Details["state"] != "failed" {
			t.Errorf("when it failed: %+v", err)
		}
		fx.end("b", exit(1))
		fx.do(func() { fx.auto["run a"] = 0 })
		fx.begin("w", "a")
		gate("") // the other is not required

		fx.do(func() { fx.branch["w"] = [2]string{"head-2", "tree-2"} })
		if err, ok := gate("checks_required").(*fault.Error); !ok || err.Details["state"] != "stale" {
			t.Errorf("after another commit: %+v", err)
		}
		fx.do(func() { fx.branch["w"] = [2]string{"head-2", "tree-w"} }) // another commit of the same files
		gate("")
		fx.do(func() { fx.branch["w"] = [2]string{"head-w", "as git keeps it"} }) // a filter stores them differently than they are on disk
		gate("")

		fx.do(func() { fx.branch["w"] = [2]string{"head-w", "tree-w"} })
		rules(workspaces.Merging{RequireChecks: true, RequireApproval: true})
		gate("approval_required")
		fx.do(func() { fx.approved["w"] = "tree-2" })
		gate("approval_required") // of other files
		fx.do(func() { fx.approved["w"] = "tree-w" })
		gate("")
		fx.set(check("a", true), check("b", false), check("new", true))
		gate("checks_required") // an approval does not replace checks
		changed := check("a", true)
		changed.Command = "run more"
		fx.set(changed)
		gate("checks_required") // it passed with another command

		rules(workspaces.Merging{Queue: true})
		gate("merge_queue_required")
	})
}

func TestNoApprovalWithoutApprovers(t *testing.T) {
	t.Parallel()
	w := newDoubles()
	ws := w.workspace("w")
	w.project(func(p *workspaces.Project) { p.Merging.RequireApproval = true })
	svc := checks.New(checks.Config{Store: &memory{}, Records: w, Sandboxes: w, Merges: w, Commands: w, Accounts: w})
	wantCode(t, svc.Gate(t.Context(), ws), "approval_required")
}

// A merge on the forge lands the commit that is there: it must be the one that the rules were applied to.
func TestGateBeforeAMergeOnTheForge(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		w := fx.workspace("w")
		gate := func(head, want string) {
			t.Helper()
			wantCode(t, fx.svc.GateOf(t.Context(), w, head), want)
		}
		gate("any other commit", "") // no rules
		fx.project(func(p *workspaces.Project) { p.Merging.RequireApproval = true })
		gate("head-w", "approval_required")
		fx.do(func() { fx.approved["w"] = "tree-w" })
		gate("head-w", "")
		gate("head-0", "head_moved")
		fx.project(func(p *workspaces.Project) { p.Merging.Queue = true })
		gate("head-w", "merge_queue_required")
	})
}

func TestWhatIsRefusedToTheQueue(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		ada := fx.members["ada"]
		add := func(want string, r checks.EnqueueRequest) {
			t.Helper()
			_, err := fx.svc.Enqueue(t.Context(), ada, "w", r)
			wantCode(t, err, want)
		}
		add("strategy_invalid", checks.EnqueueRequest{Strategy: "octopus"})
		add("message_invalid", checks.EnqueueRequest{Message: "a\x00b"})
		add("message_invalid", checks.EnqueueRequest{Message: "\xff"})
		add("message_invalid", checks.EnqueueRequest{Message: string(make([]byte, 64<<10+1))})
		add("head_moved", checks.EnqueueRequest{ExpectedHead: "head-0"})
		fx.project(func(p *workspaces.Project) { p.Merging.RequireApproval = true })
		add("approval_required", checks.EnqueueRequest{})
		fx.do(func() { fx.approved["w"] = "tree-w" })
		if _, err := fx.svc.Enqueue(t.Context(), ada, "nowhere", checks.EnqueueRequest{}); !fault.Is(err, fault.NotFound) {
			t.Errorf("no such workspace: %v", err)
		}
		for _, s := range []workspaces.State{workspaces.Creating, workspaces.Failed, workspaces.Archived} {
			w := fx.workspaces["w"]
			w.State = s
			fx.workspaces["w"] = w
			add("workspace_not_ready", checks.EnqueueRequest{})
		}
		fx.workspace("w")
		if e, err := fx.svc.Newest(t.Context(), "w"); e != nil || err != nil || len(fx.timeline) != 0 {
			t.Errorf("something was added: %+v %v, timeline %v", e, err, fx.timeline)
		}
		fx.set(check("a", true)) // so that it stays in the queue
		add("", checks.EnqueueRequest{ExpectedHead: "head-w", Strategy: workspaces.StrategySquash, Message: "All of it"})
		synctest.Wait()
		if e := fx.entry("w"); e.Strategy != workspaces.StrategySquash || e.Message != "All of it" || e.Base != "main" || e.AddedBy != "ada" || e.Place != 1 || e.State != checks.EntryChecking {
			t.Errorf("%+v", e)
		}
		add("merge_queued", checks.EnqueueRequest{})
	})
}

func TestTheQueueMergesAsTheProjectDoes(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("v")
		fx.enqueue("v")
		fx.project(func(p *workspaces.Project) { p.Merging.Strategy = workspaces.StrategyRebase })
		fx.workspace("w")
		fx.enqueue("w")
		if v, w := fx.entry("v"), fx.entry("w"); v.Strategy != workspaces.StrategyMerge || w.Strategy != workspaces.StrategyRebase {
			t.Errorf("strategies %s and %s", v.Strategy, w.Strategy)
		}
	})
}

// Whoever adds a workspace must still be allowed to merge it when its turn comes.
func TestTheQueueAsksAgainWhoseMergeItIs(t *testing.T) {
	for what, change := range map[string]func(fx *fixture){
		"they left":           func(fx *fixture) { delete(fx.members, "ada") },
		"they only look on":   func(fx *fixture) { fx.join("ada", accounts.Viewer) },
		"they were suspended": func(fx *fixture) { a := fx.members["ada"]; a.User.SuspendedAt = 1; fx.members["ada"] = a },
		"it is another's own": func(fx *fixture) {
			w := fx.workspaces["w"]
			w.Private, w.CreatedBy = true, "bob"
			fx.workspaces["w"] = w
		},
		"the team has no more": func(fx *fixture) { w := fx.workspaces["w"]; w.TeamID = "other"; fx.workspaces["w"] = w },
	} {
		t.Run(what, func(t *testing.T) {
			withService(t, func(t *testing.T, fx *fixture) {
				fx.workspace("v")
				fx.workspace("w")
				fx.set(check("a", true))
				fx.enqueue("v") // the one before it, whose check runs
				e := fx.enqueue("w")
				fx.do(func() { change(fx) })
				fx.end("a", exit(1))
				if got := fx.entry("w"); got.ID != e.ID || got.State != checks.EntryFailed || got.Reason == "" || got.EndedAt == 0 {
					t.Errorf("%+v", got)
				}
				if len(fx.landed) != 0 || fx.begun("run a") != 1 {
					t.Errorf("landed %v, %d checks", fx.landed, fx.begun("run a"))
				}
			})
		})
	}
}
