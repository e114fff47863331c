package checks

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parawork/parawork/workspaces"
)

func TestHowChecksStand(t *testing.T) {
	t.Parallel()
	a := workspaces.Check{ID: "a", Name: "A", Command: "true", Required: true}
	b := workspaces.Check{ID: "b", Name: "B", Command: "true"}
	run := func(check string, s RunState, tree string) Run {
		return Run{CheckID: check, Command: "true", State: s, Tree: tree, Commit: "commit of " + tree}
	}
	other := run("a", RunPassed, "t")
	other.Command = "false"
	queued := run("a", RunPassed, "t")
	queued.QueueID = "q"
	for _, c := range []struct {
		what string
		runs []Run // the newest first
		tree string
		want string // of a, of b, of both
	}{
		{"never ran", nil, "t", "none none none"},
		{"one passed", []Run{run("a", RunPassed, "t")}, "t", "passed none stale"},
		{"both passed", []Run{run("a", RunPassed, "t"), run("b", RunPassed, "t")}, "t", "passed passed passed"},
		{"by its commit", []Run{run("a", RunPassed, "t"), run("b", RunPassed, "t")}, "commit of t", "passed passed passed"},
		{"other files", []Run{run("a", RunPassed, "t"), run("b", RunFailed, "t")}, "u", "stale stale stale"},
		{"nobody knows the files", []Run{run("a", RunPassed, "t"), run("b", RunFailed, "t")}, "", "passed failed failed"},
		{"an older run of these files", []Run{run("a", RunFailed, "u"), run("a", RunPassed, "t"), run("b", RunPassed, "t")}, "t", "passed passed passed"},
		{"files changed while it ran", []Run{run("a", RunPassed, "")}, "t", "stale none stale"},
		{"the command was changed", []Run{other}, "t", "stale none stale"},
		{"of the queue", []Run{queued}, "t", "none none none"},
		{"runs now", []Run{run("a", RunRunning, "t"), run("a", RunPassed, "t"), run("b", RunFailed, "t")}, "t", "running failed running"},
		{"waits", []Run{run("b", RunWaiting, ""), run("a", RunPassed, "t")}, "t", "passed waiting waiting"},
		{"too long", []Run{run("a", RunTimedOut, "t"), run("b", RunPassed, "t")}, "t", "failed passed failed"},
		{"cancelled and lost", []Run{run("a", RunCancelled, "t"), run("b", RunLost, "t")}, "t", "stale stale stale"},
	} {
		items := stand([]workspaces.Check{a, b}, c.runs, c.tree)
		if got := strings.Join([]string{string(items[0].State), string(items[1].State), string(sum(items))}, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestRunsOfTheQueue(t *testing.T) {
	t.Parallel()
	p := workspaces.Project{ID: "p", SetupScript: "npm ci", Checks: []workspaces.Check{{ID: "1", Name: "taste"}, {ID: "2", Name: "tests", Required: true}}}
	runs := queueRuns(p, workspaces.Workspace{ID: "w"}, Entry{ID: "e", Commit: "c", AddedBy: "u"}, 100)
	var names []string
	for i, r := range runs {
		names = append(names, r.Name)
		if r.QueueID != "e" || r.Commit != "c" || r.StartedBy != "u" || r.CreatedAt != 100+int64(i) {
			t.Errorf("%+v", r)
		}
	}
	if got := strings.Join(names, ", "); got != "Setup script, tests, taste" || !runs[0].Required {
		t.Errorf("runs %s", got)
	}
	var list []workspaces.Conflict
	for _, n := range []string{"a", "b", "c", "d", "e", "f\xff"} {
		list = append(list, workspaces.Conflict{Path: n})
	}
	if got := words(conflicting(workspaces.Workspace{Base: "main"}, list)); !strings.Contains(got, "a, b, c, d, e and 1 more") {
		t.Error(got)
	}
}

func TestEndingOfOutput(t *testing.T) {
	t.Parallel()
	if got, cut := ending([]byte("a\x00\xffb")); cut || got != "a\uFFFDb" {
		t.Errorf("%q %v", got, cut)
	}
	got, cut := ending([]byte(strings.Repeat("é", MaxOutput)))
	if !cut || len(got) > MaxOutput || !utf8.ValidString(got) || !strings.HasPrefix(got, "é") {
		t.Errorf("%d bytes, %v", len(got), cut)
	}
}
