package checks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
)

func TestRunAppliesToTheFilesItRanOn(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), workspaces.Check{ID: "b", Name: "Check b", Command: "run b", TimeoutSeconds: 7})
		fx.change("w", "tree-w")
		if s := fx.standing("w"); s != checks.None {
			t.Errorf("before they ran: %s", s)
		}
		fx.do(func() { f := fx.files["w"]; f.Clean = true; fx.files["w"] = f })
		fx.begin("w")
		if s := fx.standing("w"); s != checks.Running {
			t.Errorf("while the first runs: %s", s)
		}
		if r := fx.newest("w", "b"); r.State != checks.RunWaiting || fx.begun("run b") != 0 {
			t.Errorf("the second does not wait for the first: %+v", r)
		}
		fx.end("a", exit(0))
		fx.end("b", exit(0))
		a := fx.newest("w", "a")
		if a.State != checks.RunPassed || a.Tree != "tree-w" || a.Commit != "head-w" || a.Output != "printed by a" || a.ExitCode == nil || *a.ExitCode != 0 ||
			a.StartedBy != "ada" || a.StartedAt == 0 || a.EndedAt <= a.StartedAt {
			t.Errorf("the run: %+v", a)
		}
		if b := fx.newest("w", "b"); b.BatchID != a.BatchID || b.CreatedAt <= a.CreatedAt {
			t.Errorf("begun together, in order: %+v, %+v", a, b)
		}
		if s := fx.standing("w"); s != checks.Passed {
			t.Errorf("when both passed: %s", s)
		}
		fx.change("w", "other")
		if s := fx.standing("w"); s != checks.Stale {
			t.Errorf("when files changed: %s", s)
		}
		for tree, want := range map[string]checks.State{"tree-w": checks.Passed, "head-w": checks.Passed, "other": checks.Stale} {
			if s, items, err := fx.svc.Standing(t.Context(), "w", tree); err != nil || s != want || len(items) != 2 || items[0].Run == nil {
				t.Errorf("for %s: %s %+v %v, want %s", tree, s, items, err, want)
			}
		}
		fx.begin("w", "a") // on files that are not committed
		fx.end("a", exit(0))
		if a := fx.newest("w", "a"); a.Tree != "other" || a.Commit != "" {
			t.Errorf("on files that are not committed: %+v", a)
		}
		if !slices.ContainsFunc(fx.events, func(e events.Event) bool {
			return e.Type == "checks.updated" && e.WorkspaceID == "w" && e.TeamID == "team"
		}) {
			t.Errorf("no event was published: %+v", fx.events)
		}
	})
}

func TestWhatACheckIsRunWith(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), workspaces.Check{ID: "b", Name: "B", Command: "run b", TimeoutSeconds: 7})
		fx.auto["run a"], fx.auto["run b"] = 0, 0
		fx.begin("w")
		for _, r := range fx.commands {
			seconds := map[string]int64{"run a": workspaces.DefaultCheckSeconds, "run b": 7}[line(r.req)]
			name := map[string]string{"run a": "Check a", "run b": "B"}[line(r.req)]
			if r.req.TimeoutMs != seconds*1000 || !r.req.Background || r.req.WorkspaceID != "w" || r.req.ActorID != "ada" || r.by != "ada" {
				t.Errorf("%s: %+v, asked by %q", line(r.req), r.req, r.by)
			}
			if r.req.Env["PARAWORK_CHECK"] != name || r.req.Env["CI"] != "true" || r.req.Argv[len(r.req.Argv)-2] != "." {
				t.Errorf("%s: environment %v, arguments %q", line(r.req), r.req.Env, r.req.Argv)
			}
		}
		if len(fx.commands) != 2 {
			t.Errorf("%d commands", len(fx.commands))
		}
	})
}

// A run's result applies to the files only if they are the same before and after it.
func TestARunOnFilesThatChangedProvesNothing(t *testing.T) {
	for what, c := range map[string]struct {
		before, after string
		err           error
		says          string
	}{
		"files changed":                {"one", "two", nil, "Files changed while it ran"},
		"what they are after is hid":   {"one", "", nil, "The server could not read the state of the files"},
		"what they were before is hid": {"", "one", nil, "The server could not read the state of the files"},
		"its place cannot be asked":    {"one", "one", fault.New(fault.Unavailable, "away", "The machine is away."), "could not see whether files changed while it ran, so the result is not certain for the current ones: The machine is away."},
	} {
		t.Run(what, func(t *testing.T) {
			withService(t, func(t *testing.T, fx *fixture) {
				fx.workspace("w")
				fx.set(check("a", true))
				fx.change("w", c.before)
				fx.begin("w")
				fx.change("w", c.after)
				fx.do(func() { fx.filesErr = c.err })
				fx.end("a", exit(0))
				r := fx.newest("w", "a")
				if r.State != checks.RunPassed || r.Tree != "" || r.Commit != "" || !strings.Contains(r.Reason, c.says) || r.Output != "printed by a" {
					t.Errorf("%+v", r)
				}
				if s := fx.standing("w"); s != checks.Stale {
					t.Errorf("it stands for the files of now as %s", s)
				}
			})
		})
	}
}

func TestHowARunEnds(t *testing.T) {
	for what, c := range map[string]struct {
		end   func(*command.Command)
		state checks.RunState
		says  string
	}{
		"it failed":             {exit(3), checks.RunFailed, "It ended with exit code 3."},
		"it took too long":      {func(c *command.Command) { c.State, c.Reason = command.TimedOut, "It took longer than its timeout." }, checks.RunTimedOut, "longer than its timeout"},
		"its command was ended": {func(c *command.Command) { c.State = command.Cancelled }, checks.RunCancelled, ""},
		"somebody killed it":    {func(c *command.Command) { c.State, c.Reason = command.Failed, "It was ended by KILL." }, checks.RunLost, "ended by KILL"},
		"no code is known":      {func(c *command.Command) { c.State = command.Completed }, checks.RunLost, ""},
	} {
		t.Run(what, func(t *testing.T) {
			withService(t, func(t *testing.T, fx *fixture) {
				fx.workspace("w")
				fx.set(check("a", true))
				fx.begin("w")
				fx.end("a", func(cmd *command.Command) {
					c.end(cmd)
					cmd.Truncated = true
				})
				if r := fx.newest("w", "a"); r.State != c.state || !strings.Contains(r.Reason, c.says) || r.EndedAt == 0 || r.Output != "printed by a" || !r.Truncated {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestARunThatCannotBegin(t *testing.T) {
	for what, c := range map[string]struct {
		exec, files error
		says        string
	}{
		"its place cannot serve":   {exec: fault.New(fault.Unavailable, "away", "The machine is away."), says: "The machine is away."},
		"the server's own trouble": {exec: errBroken, says: "Something went wrong on the server. Its log says more."},
		"its files cannot be seen": {files: fault.New(fault.Unavailable, "away", "No place is free."), says: "No place is free."},
	} {
		t.Run(what, func(t *testing.T) {
			withService(t, func(t *testing.T, fx *fixture) {
				fx.workspace("w")
				fx.set(check("a", true), check("b", true))
				fx.do(func() { fx.execErr, fx.filesErr = c.exec, c.files })
				fx.begin("w")
				for _, id := range []string{"a", "b"} { // the next one is tried nevertheless
					if r := fx.newest("w", id); r.State != checks.RunFailed || r.Reason != c.says || r.EndedAt == 0 {
						t.Errorf("%s: %+v", id, r)
					}
				}
			})
		})
	}
}

func TestChecksOfAWorkspaceRunOneAfterTheOther(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("v")
		fx.workspace("w")
		fx.set(check("a", true), check("b", true))
		fx.begin("w", "a")
		fx.begin("w", "b")
		fx.begin("v", "b") // another sandbox
		if a, b := len(fx.open("run a")), len(fx.open("run b")); a != 1 || b != 1 {
			t.Errorf("%d of a and %d of b run", a, b)
		}
		if r := fx.newest("w", "b"); r.State != checks.RunWaiting {
			t.Errorf("the second begins while the first runs: %+v", r)
		}
		fx.end("b", exit(0))
		if r := fx.newest("v", "b"); r.State != checks.RunPassed {
			t.Errorf("the other workspace's: %+v", r)
		}
		fx.end("a", exit(1))
		fx.end("b", exit(0)) // a failed check does not stop the others
		if r := fx.newest("w", "b"); r.State != checks.RunPassed {
			t.Errorf("the second: %+v", r)
		}
		if s := fx.standing("w"); s != checks.Failed {
			t.Errorf("together: %s", s)
		}
	})
}

func TestStartingAgainEndsWhatRuns(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), check("b", true), check("c", true))
		fx.begin("w")
		old := []checks.Run{fx.newest("w", "a"), fx.newest("w", "b"), fx.newest("w", "c")}
		fx.begin("w", "a", "b")
		for i, want := range []checks.RunState{checks.RunCancelled, checks.RunCancelled, checks.RunRunning} {
			if r, err := fx.svc.Get(t.Context(), old[i].ID); err != nil || r.State != want {
				t.Errorf("the earlier run of %s: %+v %v, want %s", old[i].Name, r, err, want)
			}
		}
		if n := len(fx.open("run a")); n != 0 {
			t.Errorf("%d commands of it go on", n)
		}
		fx.end("c", exit(0)) // was not requested again, and ends first
		fx.end("a", exit(0))
		fx.end("b", exit(0))
		if s := fx.standing("w"); s != checks.Passed {
			t.Errorf("together: %s", s)
		}
		if n := fx.begun("run b"); n != 1 {
			t.Errorf("the check that had not begun was run %d times", n)
		}
	})
}

func TestRunsAreCancelled(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), check("b", true), check("c", true))
		fx.begin("w")
		a, b := fx.newest("w", "a"), fx.newest("w", "b")
		fx.do(func() { fx.commands[a.CommandID].Stdout = []byte("so far") })
		for _, id := range []string{b.ID, a.ID} {
			if r, err := fx.svc.Cancel(t.Context(), id); err != nil || r.State != checks.RunCancelled || r.EndedAt == 0 {
				t.Fatalf("Cancel: %+v %v", r, err)
			}
		}
		synctest.Wait()
		if c := fx.commands[a.CommandID]; c.State != command.Cancelled {
			t.Errorf("its command is %s", c.State)
		}
		if a := fx.newest("w", "a"); a.State != checks.RunCancelled || a.Output != "so far" || a.Reason != "" {
			t.Errorf("the one that ran: %+v", a)
		}
		if fx.begun("run b") != 0 {
			t.Error("the one that waited was begun")
		}
		fx.end("c", exit(0)) // the others go on
		c := fx.newest("w", "c")
		if again, err := fx.svc.Cancel(t.Context(), c.ID); err != nil || again.State != checks.RunPassed || again.EndedAt != c.EndedAt {
			t.Errorf("one that has ended: %+v %v", again, err)
		}
		if _, err := fx.svc.Cancel(t.Context(), "none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		if s := fx.standing("w"); s != checks.Stale {
			t.Errorf("together: %s", s)
		}
	})
}

func TestWhatIsRefusedToStart(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		start := func(id string, checkIDs ...string) error { return fx.svc.Start(t.Context(), "ada", id, checkIDs) }
		wantCode(t, start("w"), "no_checks")
		fx.set(check("a", true), check("b", true))
		wantCode(t, start("w", "a", "gone"), "check_not_found")
		wantCode(t, start("nowhere"), "not_found")
		state := func(s workspaces.State, deleted int64) {
			w := fx.workspaces["w"]
			w.State, w.DeletedAt = s, deleted
			fx.workspaces["w"] = w
		}
		for _, s := range []workspaces.State{workspaces.Creating, workspaces.SettingUp, workspaces.Failed, workspaces.Archived} {
			state(s, 0)
			wantCode(t, start("w"), "workspace_not_ready")
		}
		state(workspaces.Ready, 1)
		wantCode(t, start("w"), "workspace_not_ready")
		if n := len(fx.store.runs); n != 0 {
			t.Errorf("%d runs were stored", n)
		}
		state(workspaces.Paused, 0) // its sandbox comes back for them
		fx.begin("w", "b", "b")
		if len(fx.store.runs) != 1 || fx.begun("run b") != 1 {
			t.Errorf("the one that was named, twice: %+v", fx.store.runs)
		}
	})
}

func TestChecksAfterATurn(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true))
		fx.svc.AfterTurn("w")
		fx.svc.AfterTurn("nowhere")
		synctest.Wait()
		if n := len(fx.store.runs); n != 0 {
			t.Errorf("%d runs of a project that asks for none", n)
		}
		b := check("b", false)
		b.AfterTurn = true
		fx.set(check("a", true), b)
		w := fx.workspaces["w"]
		w.State = workspaces.Paused
		fx.workspaces["w"] = w
		fx.svc.AfterTurn("w") // it was suspended meanwhile, and is not woken for this
		synctest.Wait()
		if n := len(fx.store.runs); n != 0 {
			t.Errorf("%d runs in a workspace that is paused", n)
		}
		fx.workspace("w")
		fx.svc.AfterTurn("w")
		synctest.Wait()
		if n := len(fx.open("run b")); n != 1 || len(fx.store.runs) != 1 {
			t.Fatalf("%d commands, runs %+v", n, fx.store.runs)
		}
		fx.end("b", exit(0))
		if r := fx.newest("w", "b"); r.State != checks.RunPassed || r.StartedBy != "" {
			t.Errorf("%+v", r)
		}
	})
}

func TestOutputIsSeenWhileACheckRuns(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), check("b", true))
		fx.begin("w")
		see := func(id, want string, wantCut bool) {
			t.Helper()
			if text, cut, err := fx.svc.Output(t.Context(), fx.newest("w", id).ID); err != nil || text != want || cut != wantCut {
				t.Errorf("%s: %.60q, cut %v, %v; want %.60q, %v", id, text, cut, err, want, wantCut)
			}
		}
		cmd := fx.commands[fx.newest("w", "a").CommandID]
		see("a", "", false)
		fx.do(func() { cmd.Stdout = []byte("half a lin") })
		see("a", "half a lin", false)
		fx.do(func() { cmd.Stdout, cmd.Truncated = []byte("beginning, end"), true })
		see("a", "beginning, end", true)
		fx.do(func() {
			cmd.Stdout, cmd.Truncated = []byte(strings.Repeat("x", checks.MaxOutput)+"tail"), false
		})
		see("a", strings.Repeat("x", checks.MaxOutput-4)+"tail", true)
		see("b", "", false) // waits
		fx.do(func() { delete(fx.commands, cmd.ID) })
		see("a", "", false) // nobody knows the command any more
		fx.do(func() { fx.commands[cmd.ID] = cmd })
		fx.end("a", exit(0))
		fx.do(func() { cmd.Stdout = []byte("what somebody else wrote") })
		see("a", "printed by a", false)
		if _, _, err := fx.svc.Output(t.Context(), "none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("of a run that is not there: %v", err)
		}
	})
}

func TestOldRunsAreDeleted(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true))
		for i := range 80 {
			fx.store.runs = append(fx.store.runs, checks.Run{ID: fmt.Sprint("old", i), TeamID: "team", WorkspaceID: "w", CheckID: "a", State: checks.RunFailed, CreatedAt: int64(i), EndedAt: 1})
		}
		fx.auto["run a"] = 0
		fx.begin("w")
		o, err := fx.svc.Overview(t.Context(), "w")
		if err != nil || len(o.History) != 30 || o.History[0].State != checks.RunPassed || o.History[1].ID != "old79" {
			t.Errorf("shown: %d, %v", len(o.History), err)
		}
		if n := len(fx.store.runs); n != 60 {
			t.Errorf("%d are kept", n)
		}
		if _, err := fx.svc.Get(t.Context(), "old0"); !fault.Is(err, fault.NotFound) {
			t.Errorf("the oldest: %v", err)
		}
	})
}

func TestStatesOfATeamsWorkspaces(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		of := func(string) []workspaces.Check { return fx.projects["p"].Checks }
		if states, err := fx.svc.States(t.Context(), "team", of); err != nil || len(states) != 0 {
			t.Errorf("of none: %v %v", states, err)
		}
		fx.set(check("a", true))
		for id, code := range map[string]int{"bad": 1, "good": 0, "old": 0, "never": 0} {
			fx.workspace(id)
			fx.change(id, "tree-"+id)
			if id != "never" {
				fx.do(func() { fx.auto["run a"] = code })
				fx.begin(id)
			}
		}
		fx.change("old", "another")
		states, err := fx.svc.States(t.Context(), "team", of)
		if err != nil || len(states) != 3 || states["bad"] != checks.Failed || states["good"] != checks.Passed || states["old"] != checks.Stale {
			t.Errorf("of the team: %v %v", states, err)
		}
		if states, err := fx.svc.States(t.Context(), "team", of, "good"); err != nil || len(states) != 1 || states["good"] != checks.Passed {
			t.Errorf("of one: %v %v", states, err)
		}
	})
}

func TestNothingIsMadeWithoutItsNeighbours(t *testing.T) {
	t.Parallel()
	w, m := newDoubles(), &memory{}
	for what, drop := range map[string]func(*checks.Config){
		"Store":     func(c *checks.Config) { c.Store = nil },
		"Records":   func(c *checks.Config) { c.Records = nil },
		"Sandboxes": func(c *checks.Config) { c.Sandboxes = nil },
		"Merges":    func(c *checks.Config) { c.Merges = nil },
		"Commands":  func(c *checks.Config) { c.Commands = nil },
		"Accounts":  func(c *checks.Config) { c.Accounts = nil },
	} {
		cfg := checks.Config{Store: m, Records: w, Sandboxes: w, Merges: w, Commands: w, Accounts: w}
		checks.New(cfg) // all it needs
		drop(&cfg)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("made without %s", what)
				}
			}()
			checks.New(cfg)
		}()
	}
}
