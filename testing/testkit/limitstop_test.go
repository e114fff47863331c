package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/internal/failpoint"
)

// stopped is a workspace as one sees it at its limit.
type stopped struct {
	State string
	Grace *struct {
		Scope, State, Reason string
		EndsAt               int64 `json:"ends_at"`
		LeftMs               int64 `json:"left_ms"`
	}
}

// A budget is spent while an agent runs in a remote sandbox: after a grace period everything is synced, and the sandbox is suspended. It
// resumes once the budget is raised. The server is killed at every point of that.
func TestBudgetSuspendsRemoteSandboxAndResumesIt(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{})
	ws := c.Workspace(c.Sample(), "At its limit")
	s := c.Run(ws.ID, "sh", "-c", "echo precious > kept.txt; i=0; while :; do i=$((i+1)); echo $i > .ticks; mv .ticks ticks; echo tick $i; sleep 0.1; done")
	term := c.Attach(s.ID, "from=0&role=viewer")
	if err := term.See("tick 3"); err != nil {
		t.Fatal(err)
	}
	type members map[string]any
	spend := func(body members) { _ = c.Try("PUT", "/teams/"+c.Team+"/budget", body, nil) }
	look := func() (v stopped) {
		c.API("GET", "/workspaces/"+ws.ID, nil, &v)
		return v
	}
	isSuspended := func() {
		t.Helper()
		c.Wait("it is suspended", func() bool { v := look(); return v.Grace != nil && v.Grace.State == "stopped" })
		v := look()
		if v.State != "paused" || v.Grace.Scope != "team_budget" || !strings.Contains(v.Grace.Reason, "The team's budget of ") || v.Grace.LeftMs != 0 {
			t.Fatalf("%+v %+v", v, v.Grace)
		}
		if got := boxOf(c.Instance, ws); got.State != "paused" {
			t.Fatalf("its sandbox: %+v", got)
		}
		if home, err := os.ReadFile(filepath.Join(ws.Path, "kept.txt")); err != nil || string(home) != "precious\n" {
			t.Fatalf("what was made is not synced: %q, %v", home, err)
		}
		// What it did during the sync is in the suspended sandbox.
		home, err := os.ReadFile(filepath.Join(ws.Path, "ticks"))
		if err != nil || len(home) == 0 {
			t.Fatalf("synced ticks: %q, %v", home, err)
		}
		c.Refused(402, "budget_exceeded", "POST", "/workspaces/"+ws.ID+"/wake", nil)
	}
	goesOn := func() {
		t.Helper()
		c.Wait("it goes on", func() bool { return look().Grace == nil && boxOf(c.Instance, ws).State == "running" })
		was, err := os.ReadFile(filepath.Join(c.inside(ws), "ticks"))
		must(t, err)
		c.Wait("the agent is at work", func() bool {
			now, err := os.ReadFile(filepath.Join(c.inside(ws), "ticks"))
			return err == nil && len(now) > 0 && string(now) != string(was)
		})
	}
	spent := members{"limit_nano": 1, "grace_seconds": 1}
	raised := members{"limit_nano": 100_000_000_000}

	c.DieAt(failpoint.GraceBegun, func() { spend(spent) })
	isSuspended()
	c.DieAt(failpoint.GraceLifted, func() { spend(raised) })
	goesOn()
	c.DieAt(failpoint.GraceStopping, func() { spend(spent) })
	isSuspended()
	spend(raised)
	goesOn()
	c.DieAt(failpoint.GraceStopped, func() { spend(spent) })
	isSuspended()
	spend(raised)
	goesOn()

	var reported struct {
		Items []struct{ Kind, Text string }
	}
	c.API("GET", "/workspaces/"+ws.ID+"/activity?limit=200", nil, &reported)
	counts := map[string]int{}
	parts := []string{"In 1 second the sandbox will be paused", "is paused with everything in it. It goes on by itself", "The limit allows it again", "of the team's budget of under $0.0001"}
	for _, a := range reported.Items {
		for _, part := range parts {
			if strings.Contains(a.Text, part) {
				counts[part]++
			}
		}
	}
	for _, part := range parts {
		if n := counts[part]; n != 3 {
			t.Errorf("reported %d times: %q", n, part)
		}
	}
	if len(counts) != 4 {
		t.Errorf("told: %v of %+v", counts, reported.Items)
	}
}
