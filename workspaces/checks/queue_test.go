package checks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
)

// states are the states of the runs for a workspace's newest entry, in order.
func (fx *fixture) states(workspaceID string) string {
	fx.t.Helper()
	var out []string
	for _, r := range fx.entry(workspaceID).Runs {
		out = append(out, r.CheckID+" "+string(r.State))
	}
	return strings.Join(out, ", ")
}

// failed asserts how the newest entry of a workspace failed, and that its timeline says so.
func (fx *fixture) failed(workspaceID, says string) {
	fx.t.Helper()
	e := fx.entry(workspaceID)
	if e.State != checks.EntryFailed || !strings.Contains(e.Reason, says) || e.EndedAt == 0 || e.Place != 0 {
		fx.t.Errorf("the entry of %s: %+v, want that it failed: %s", workspaceID, e.Entry, says)
	}
	if want := workspaceID + " queue.failed: The merge queue did not merge it: " + e.Reason; !slices.Contains(fx.timeline, want) {
		fx.t.Errorf("the timeline says %q, not %q", fx.timeline, want)
	}
}

func TestTheQueueMergesInOrder(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.set(check("a", true))
		for _, id := range []string{"u", "v", "w"} {
			fx.workspace(id)
			fx.enqueue(id)
		}
		open, ended, err := fx.svc.Queue(t.Context(), "p")
		if err != nil || len(open) != 3 || len(ended) != 0 {
			t.Fatalf("%+v, %+v, %v", open, ended, err)
		}
		for i, id := range []string{"u", "v", "w"} {
			if o := open[i]; o.WorkspaceID != id || o.Place != i+1 || fx.entry(id).Place != i+1 {
				t.Errorf("place %d: %+v", i, o)
			}
		}
		if open[0].State != checks.EntryChecking || open[1].State != checks.EntryWaiting || len(open[0].Runs) != 1 || open[0].Runs[0].State != checks.RunRunning {
			t.Errorf("the first two: %+v", open[:2])
		}
		if in, err := fx.svc.InQueue(t.Context(), "team"); err != nil || len(in) != 3 || in["v"].Place != 2 {
			t.Errorf("of the team: %+v %v", in, err)
		}
		if in, err := fx.svc.InQueue(t.Context(), "others"); err != nil || len(in) != 0 {
			t.Errorf("of another team: %+v %v", in, err)
		}
		for range 3 {
			fx.end("a", exit(0))
		}
		// Each was checked on the base that the one before it left.
		if want := []string{"head-u+base0", "head-v+head-u+base0", "head-w+head-v+head-u+base0"}; !slices.Equal(fx.landed, want) {
			t.Errorf("landed %q", fx.landed)
		}
		open, ended, err = fx.svc.Queue(t.Context(), "p")
		if err != nil || len(open) != 0 || len(ended) != 3 || ended[0].WorkspaceID != "w" || ended[2].WorkspaceID != "u" {
			t.Fatalf("%+v, %+v, %v", open, ended, err)
		}
		for _, e := range ended {
			if e.State != checks.EntryMerged || e.Commit == "" || e.Place != 0 || e.Reason != "" || len(e.Runs) != 1 || e.Runs[0].Commit != e.Commit {
				t.Errorf("%+v", e)
			}
		}
		if want := []string{"u queue.added: Added to the merge queue", "v queue.added: Added to the merge queue", "w queue.added: Added to the merge queue"}; !slices.Equal(fx.timeline, want) {
			t.Errorf("the timeline: %q", fx.timeline)
		}
		if !slices.ContainsFunc(fx.events, func(e events.Event) bool { return e.Type == "queue.updated" && e.ID == "p" && e.WorkspaceID == "w" }) {
			t.Error("no event was published")
		}
		if want := []string{"out head-u+base0 as main", "dropped u"}; !slices.Equal(fx.folders[:2], want) || len(fx.folders) != 6 {
			t.Errorf("folders %q", fx.folders)
		}
	})
}

func TestMergedResultIsCheckedInASeparateFolder(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.project(func(p *workspaces.Project) { p.SetupScript = "run setup" })
		fx.set(check("taste", false), check("a", true))
		fx.enqueue("w")
		fx.end("setup", exit(0))
		fx.end("a", exit(0))
		if fx.entry("w").State != checks.EntryChecking {
			t.Error("it was merged before all checks ended")
		}
		fx.end("taste", exit(1)) // not required: only reported
		if got := fx.states("w"); got != "setup passed, a passed, taste failed" {
			t.Errorf("runs: %s", got)
		}
		for _, r := range fx.commands {
			want := map[string]int64{"run setup": workspaces.MaxCheckSeconds}[line(r.req)]
			if dir := r.req.Argv[len(r.req.Argv)-2]; dir != "/merged/w" || want != 0 && r.req.TimeoutMs != want*1000 {
				t.Errorf("%s runs in %s for at most %d ms", line(r.req), dir, r.req.TimeoutMs)
			}
		}
		if e := fx.entry("w"); e.State != checks.EntryMerged || len(fx.landed) != 1 {
			t.Errorf("%+v, landed %v", e.Entry, fx.landed)
		}
		if s := fx.standing("w"); s != checks.None {
			t.Errorf("runs of the queue count for the workspace's own files: %s", s)
		}
	})
}

func TestConflictsLetTheNextGoOn(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("v")
		fx.workspace("w")
		fx.conflicts["v"] = []workspaces.Conflict{{Path: "go.mod", Kind: "content"}, {Path: "a\xff", Kind: "content"}}
		fx.enqueue("v")
		fx.enqueue("w")
		fx.failed("v", "It conflicts with main in go.mod, ")
		if e := fx.entry("w"); e.State != checks.EntryMerged || !slices.Equal(fx.landed, []string{"head-w+base0"}) {
			t.Errorf("the next: %+v, landed %q", e.Entry, fx.landed)
		}
		fx.do(func() { delete(fx.conflicts, "v") })
		fx.enqueue("v") // once it is fixed it may be added again
		if e := fx.entry("v"); e.State != checks.EntryMerged || e.Position != 3 {
			t.Errorf("again: %+v", e.Entry)
		}
	})
}

func TestAResultThatFailsItsChecksDoesNotLand(t *testing.T) {
	for what, c := range map[string]struct {
		check string
		end   func(*command.Command)
		says  string
		runs  string
	}{
		"setup":           {"setup", exit(2), "The setup script failed on the merged result.", "setup failed, a cancelled, b cancelled"},
		"required":        {"a", exit(2), `The check "Check a" failed on the merged result.`, "setup passed, a failed, b cancelled"},
		"took too long":   {"a", func(c *command.Command) { c.State = command.TimedOut }, `The check "Check a" took too long on`, "setup passed, a timed_out, b cancelled"},
		"was lost":        {"a", func(c *command.Command) { c.State = command.Failed }, `The check "Check a" was lost on`, "setup passed, a lost, b cancelled"},
		"a person's word": {"a", func(c *command.Command) { c.State = command.Cancelled }, `The check "Check a" was cancelled on`, "setup passed, a cancelled, b cancelled"},
	} {
		t.Run(what, func(t *testing.T) {
			withService(t, func(t *testing.T, fx *fixture) {
				fx.workspace("v")
				fx.workspace("w")
				fx.project(func(p *workspaces.Project) { p.SetupScript = "run setup" })
				fx.set(check("a", true), check("b", false))
				fx.enqueue("v")
				fx.enqueue("w")
				if c.check != "setup" {
					fx.end("setup", exit(0))
				}
				fx.end(c.check, c.end)
				fx.failed("v", c.says)
				if got := fx.states("v"); got != c.runs {
					t.Errorf("runs: %s, want %s", got, c.runs)
				}
				if len(fx.landed) != 0 || !slices.Contains(fx.folders, "dropped v") {
					t.Errorf("landed %v, folders %q", fx.landed, fx.folders)
				}
				if e := fx.entry("w"); e.State != checks.EntryChecking { // on the base without it
					t.Errorf("the next: %+v", e.Entry)
				}
			})
		})
	}
}

func TestARunForTheQueueIsCancelled(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true))
		fx.enqueue("w")
		run := fx.entry("w").Runs[0]
		if _, err := fx.svc.Cancel(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fx.failed("w", `The check "Check a" was cancelled on the merged result.`)
		if c := fx.commands[fx.entry("w").Runs[0].CommandID]; c.State != command.Cancelled || len(fx.landed) != 0 {
			t.Errorf("its command: %s, landed %v", c.State, fx.landed)
		}
	})
}

func TestABaseThatMovesMeanwhile(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true))
		fx.beforeTip = func() { fx.do(func() { fx.base = "pushed" }) }
		fx.enqueue("w")
		fx.end("a", exit(0))
		if e := fx.entry("w"); e.State != checks.EntryChecking || e.BaseCommit != "pushed" || e.Commit != "head-w+pushed" || len(e.Runs) != 2 {
			t.Errorf("it is not checked anew: %+v", e)
		}
		fx.end("a", exit(0))
		if e := fx.entry("w"); e.State != checks.EntryMerged || !slices.Equal(fx.landed, []string{"head-w+pushed"}) {
			t.Errorf("%+v, landed %q", e.Entry, fx.landed)
		}
	})
}

func TestMergeGivesUpWhenTheBaseKeepsMoving(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		var move func()
		moved := 0
		move = func() {
			fx.do(func() { moved++; fx.base, fx.beforeTip = fmt.Sprint("pushed", moved), move })
		}
		fx.beforeTip = move
		fx.enqueue("w")
		fx.failed("w", "main moved 5 times")
		if fx.merges != 5 || len(fx.landed) != 0 {
			t.Errorf("%d results, landed %v", fx.merges, fx.landed)
		}
	})
}

func TestMovedBranchIsNotMerged(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("v")
		fx.workspace("w")
		fx.set(check("a", true))
		fx.enqueue("v")
		fx.enqueue("w")
		fx.do(func() { fx.branch["w"] = [2]string{"head-2", "tree-2"} }) // while the other is checked
		fx.end("a", exit(0))
		fx.failed("w", "branch-w got other commits after it was added to the queue.")
		if len(fx.landed) != 1 {
			t.Errorf("landed %v", fx.landed)
		}
	})
}

func TestAnApprovalThatEndsIsNotMerged(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("v")
		fx.workspace("w")
		fx.set(check("a", true))
		fx.enqueue("v")
		fx.project(func(p *workspaces.Project) { p.Merging.RequireApproval = true })
		fx.do(func() { fx.approved["w"] = "tree-w" })
		fx.enqueue("w")
		fx.do(func() { delete(fx.approved, "w") })
		fx.end("a", exit(0))
		fx.failed("w", "The project requires an approval of exactly what is merged.")
	})
}

func TestRemovedFromTheQueue(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		for _, id := range []string{"u", "v", "w"} {
			fx.workspace(id)
		}
		ada := fx.members["ada"]
		wantCode(t, fx.svc.Dequeue(t.Context(), ada, "w"), "not_queued")
		fx.set(check("a", true))
		for _, id := range []string{"u", "v", "w"} {
			fx.enqueue(id)
		}
		out := func(id string) {
			t.Helper()
			if err := fx.svc.Dequeue(t.Context(), ada, id); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			synctest.Wait()
			if e := fx.entry(id); e.State != checks.EntryCancelled || e.Reason != "" || e.EndedAt == 0 {
				t.Errorf("%s: %+v", id, e.Entry)
			}
		}
		out("v") // that waits
		if e := fx.entry("w"); e.Place != 2 {
			t.Errorf("the one behind it: %+v", e.Entry)
		}
		cmd := fx.open("run a")
		out("u") // that is checked
		if c := fx.commands[cmd[0]]; c.State != command.Cancelled || fx.states("u") != "a cancelled" {
			t.Errorf("its command is %s, its runs %s", c.State, fx.states("u"))
		}
		fx.end("a", exit(0)) // the next's
		if !slices.Equal(fx.landed, []string{"head-w+base0"}) {
			t.Errorf("landed %q", fx.landed)
		}
		wantCode(t, fx.svc.Dequeue(t.Context(), ada, "w"), "not_queued") // it has left
		for _, id := range []string{"u", "v"} {
			if !slices.Contains(fx.timeline, id+" queue.removed: Taken out of the merge queue") {
				t.Errorf("the timeline of %s: %q", id, fx.timeline)
			}
		}
		if slices.ContainsFunc(fx.timeline, func(l string) bool { return strings.Contains(l, "queue.failed") }) {
			t.Errorf("what was taken out is said to have failed: %q", fx.timeline)
		}
	})
}

func TestLandingEntryIsNotRemoved(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		hold := make(chan struct{})
		fx.beforeTip = func() { <-hold }
		fx.enqueue("w")
		if e := fx.entry("w"); e.State != checks.EntryMerging {
			t.Fatalf("%+v", e.Entry)
		}
		wantCode(t, fx.svc.Dequeue(t.Context(), fx.members["ada"], "w"), "merging_now")
		close(hold)
		synctest.Wait()
		if e := fx.entry("w"); e.State != checks.EntryMerged || e.Commit != "head-w+base0" {
			t.Errorf("%+v", e.Entry)
		}
	})
}

// The queue's checks and the workspace's own take turns in its sandbox.
func TestTheQueueWaitsForAWorkspacesOwnChecks(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true))
		fx.begin("w")
		fx.enqueue("w")
		if n := len(fx.open("run a")); n != 1 || len(fx.folders) != 0 {
			t.Fatalf("%d commands run, folders %q", n, fx.folders)
		}
		fx.end("a", exit(0))
		fx.end("a", exit(0))
		if e := fx.entry("w"); e.State != checks.EntryMerged || fx.standing("w") != checks.Passed {
			t.Errorf("%+v, %s", e.Entry, fx.standing("w"))
		}
	})
}

// Starting them does not cancel the queue's runs: they wait.
func TestAWorkspacesOwnChecksWaitForTheQueue(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true))
		fx.enqueue("w")
		fx.begin("w")
		if got := fx.states("w"); got != "a running" || fx.begun("run a") != 1 {
			t.Errorf("for the queue: %s; %d commands were started", got, fx.begun("run a"))
		}
		if r := fx.newest("w", "a"); r.State != checks.RunWaiting {
			t.Errorf("of its own: %+v", r)
		}
		fx.end("a", exit(0))
		fx.end("a", exit(1))
		if e := fx.entry("w"); e.State != checks.EntryMerged || fx.standing("w") != checks.Failed {
			t.Errorf("%+v, %s", e.Entry, fx.standing("w"))
		}
	})
}

func TestQueueSurvivesStorageErrors(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.store.breakReads(errBroken)
		if _, err := fx.svc.Enqueue(t.Context(), fx.members["ada"], "w", checks.EnqueueRequest{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for want := 1; want < 3; want++ { // it waits before it retries
			if fx.asked != want {
				t.Fatalf("asked for patience %d times, want %d", fx.asked, want)
			}
			fx.after <- time.Time{}
			synctest.Wait()
		}
		fx.store.breakReads(nil)
		fx.after <- time.Time{}
		synctest.Wait()
		if e := fx.entry("w"); e.State != checks.EntryMerged {
			t.Errorf("%+v", e.Entry)
		}
	})
}

func TestInternalErrorsAreNotShown(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true))
		fx.enqueue("w")
		fx.do(func() { delete(fx.workspaces, "w") }) // nothing else knows it any more
		fx.end("a", exit(1))
		if e := fx.entry("w"); e.State != checks.EntryFailed {
			t.Errorf("%+v", e.Entry)
		}
		fx.workspace("v")
		fx.do(func() { fx.execErr = errBroken })
		fx.enqueue("v")
		fx.failed("v", `The check "Check a" failed on the merged result.`)
		if r := fx.entry("v").Runs[0]; r.Reason != "Something went wrong on the server. Its log says more." {
			t.Errorf("%+v", r)
		}
	})
}

func TestARestartFollowsWhatRuns(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), check("b", true))
		fx.begin("w")
		a := fx.newest("w", "a")
		fx.stop()
		if got := fx.newest("w", "a"); got.State != checks.RunRunning || got.CommandID == "" {
			t.Fatalf("a stop of the server ended it: %+v", got)
		}
		fx.restart()
		if fx.begun("run a") != 1 {
			t.Error("its command was started again")
		}
		fx.end("a", exit(0))
		fx.end("b", exit(0))
		if got := fx.newest("w", "a"); got.ID != a.ID || got.State != checks.RunPassed || got.Tree != "tree-w" {
			t.Errorf("%+v", got)
		}
		if s := fx.standing("w"); s != checks.Passed {
			t.Errorf("together: %s", s)
		}
	})
}

func TestARestartLosesWhatIsGone(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), check("b", true))
		fx.begin("w")
		fx.stop()
		fx.do(func() { clear(fx.commands) })
		fx.restart()
		if r := fx.newest("w", "a"); r.State != checks.RunLost || r.Reason != "The sandbox is gone, so how it ended is unknown." {
			t.Errorf("%+v", r)
		}
		fx.end("b", exit(0))
		if s := fx.standing("w"); s != checks.Stale {
			t.Errorf("together: %s", s)
		}
	})
}

func TestRestartRestartsAQueueEntry(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("v")
		fx.workspace("w")
		fx.set(check("a", true))
		fx.enqueue("v")
		fx.enqueue("w")
		old := fx.open("run a")
		fx.stop()
		fx.do(func() { fx.base = "pushed" })
		fx.restart()
		if c := fx.commands[old[0]]; c.State != command.Cancelled {
			t.Errorf("the command of before is %s", c.State)
		}
		if got := fx.states("v"); got != "a lost, a running" {
			t.Errorf("runs: %s", got)
		}
		fx.end("a", exit(0))
		fx.end("a", exit(0))
		if want := []string{"head-v+pushed", "head-w+head-v+pushed"}; !slices.Equal(fx.landed, want) {
			t.Errorf("landed %q", fx.landed)
		}
	})
}

// The server is stopped between the landing and storing it: the next one retries, and learns that it landed.
func TestARestartWhileSomethingLands(t *testing.T) {
	for what, c := range map[string]struct {
		landed bool   // the first time
		base   string // that somebody pushed meanwhile
		want   string
		merges int
	}{
		"it had landed":         {true, "", "head-w+base0", 1},
		"it had not":            {false, "", "head-w+base0", 1},
		"nor can it any more":   {false, "pushed", "head-w+pushed", 2},
		"it had, and more came": {true, "pushed", "head-w+base0", 1},
	} {
		t.Run(what, func(t *testing.T) {
			withService(t, func(t *testing.T, fx *fixture) {
				fx.workspace("w")
				hold := make(chan struct{})
				fx.beforeTip = func() { <-hold }
				fx.enqueue("w")
				e := fx.entry("w").Entry // as the server leaves it
				close(hold)
				synctest.Wait()
				fx.stop()
				fx.do(func() {
					if !c.landed {
						fx.landed, fx.base = nil, "base0"
					}
					if c.base != "" {
						fx.base = c.base
					}
				})
				if _, err := fx.store.EditEntry(t.Context(), e.ID, func(now *checks.Entry) error { *now = e; return nil }); err != nil {
					t.Fatal(err)
				}
				fx.restart()
				if got := fx.entry("w"); got.State != checks.EntryMerged || got.Commit != c.want || !slices.Equal(fx.landed, []string{c.want}) || fx.merges != c.merges {
					t.Errorf("%+v, landed %q, %d results", got.Entry, fx.landed, fx.merges)
				}
			})
		})
	}
}

func TestNothingRunsBeforeRun(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.workspace("v")
		fx.set(check("a", true))
		fx.stop()
		fx.make()
		fx.begin("w")
		fx.enqueue("v")
		if n := len(fx.commands); n != 0 {
			t.Errorf("%d commands run", n)
		}
		fx.run()
		fx.endBoth("a")
		if r := fx.newest("w", "a"); r.State != checks.RunPassed || fx.entry("v").State != checks.EntryMerged {
			t.Errorf("%+v, %+v", r, fx.entry("v").Entry)
		}
		fx.stop()
		if err := fx.svc.Start(t.Context(), "ada", "w", nil); err != nil { // it is stored: the next server takes it up
			t.Fatal(err)
		}
		if r := fx.newest("w", "a"); r.State != checks.RunWaiting {
			t.Errorf("after the stop: %+v", r)
		}
		fx.restart()
		fx.end("a", exit(1))
		if r := fx.newest("w", "a"); r.State != checks.RunFailed {
			t.Errorf("with the next server: %+v", r)
		}
	})
}

// endBoth ends two commands that run the same line, of two workspaces.
func (fx *fixture) endBoth(checkID string) {
	fx.t.Helper()
	ids := fx.open("run " + checkID)
	if len(ids) != 2 {
		fx.t.Fatalf("%d commands run", len(ids))
	}
	fx.do(func() {
		for _, id := range ids {
			r := fx.commands[id]
			exit(0)(&r.Command)
			close(r.done)
		}
	})
	synctest.Wait()
}

func TestErrorsDuringRecovery(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.stop()
		fx.store.breakReads(errBroken)
		fx.make()
		if err := fx.svc.Recover(t.Context()); fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "reading merge queues") {
			t.Errorf("%v", err)
		}
		fx.store.breakReads(nil)
	})
}
