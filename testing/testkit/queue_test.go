package testkit_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

type checksView struct {
	State string
	Items []struct {
		State string
		Run   *struct{ ID, State, Reason string }
	}
}

type entryView struct {
	ID, State, Reason, Commit string
	Position                  int
	Runs                      []struct{ Name, State string }
}

// Checks run where agents work and say whether they are of the files as they are; the queue checks what merging would make; neither loses
// anything when the server is killed.
func TestChecksAndMergeQueue(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	p := h.Sample()
	h.API("PATCH", "/projects/"+p, map[string]any{"setup_script": "test -d .git || test -f .git && echo set up > setup.out", "copy_ignored": []string{},
		"checks": []any{
			map[string]any{"name": "one part", "command": "ls *.part; test $(ls *.part | wc -l) -le 2 && echo fine", "required": true},
			map[string]any{"name": "taste", "command": "echo $PARAWORK_CHECK $CI; exit 3"},
		}}, nil)
	path := func(ws testkit.Workspace, rest string) string { return "/workspaces/" + ws.ID + rest }
	put := func(ws testkit.Workspace, name, text string) {
		t.Helper()
		if resp, out, err := h.Do("PUT", testkit.FilePath(ws.ID, name), strings.NewReader(text)); err != nil || resp.StatusCode >= 300 {
			t.Fatalf("writing %s: %v %s", name, err, out)
		}
	}
	commit := func(ws testkit.Workspace, name, text string) {
		t.Helper()
		put(ws, name, text)
		h.API("POST", path(ws, "/commit"), map[string]any{"message": "add " + name, "paths": []string{name}}, nil)
	}
	read := func(ws testkit.Workspace) (c checksView) {
		t.Helper()
		h.API("GET", path(ws, "/checks"), nil, &c)
		return c
	}
	settled := func(ws testkit.Workspace) (c checksView) {
		t.Helper()
		h.Wait("the checks end", func() bool {
			c = read(ws)
			return c.State != "waiting" && c.State != "running"
		})
		return c
	}
	a, b, c := h.Workspace(p, "a"), h.Workspace(p, "b"), h.Workspace(p, "c")
	commit(a, "a.part", "a\n")
	commit(b, "b.part", "b\n")
	commit(c, "c.part", "c\n")

	// The server dies when the command runs and nothing names it: it runs again.
	h.DieAt(failpoint.CheckStarted, func() { _ = h.Try("POST", path(a, "/checks/run"), map[string]any{}, nil) })
	got := settled(a)
	if got.State != "failed" || len(got.Items) != 2 || got.Items[0].State != "passed" || got.Items[1].State != "failed" || !strings.Contains(got.Items[1].Run.Reason, "exit code 3") {
		t.Fatalf("checks after a crash: %+v", got)
	}
	_, out, err := h.Do("GET", "/check-runs/"+got.Items[1].Run.ID+"/output", nil)
	if err != nil || strings.TrimSpace(string(out)) != "taste true" {
		t.Errorf("output %q %v", out, err)
	}
	put(a, "more.txt", "more\n")
	h.Wait("the checks are stale", func() bool { h.API("POST", path(a, "/sync"), nil, nil); return read(a).State == "stale" })
	// Exactly what was committed must have passed.
	h.API("PATCH", "/projects/"+p, map[string]any{"merging": map[string]any{"require_checks": true}}, nil)
	h.Refused(http.StatusConflict, "checks_required", "POST", path(b, "/merge"), map[string]any{"strategy": "merge"})
	// The forge is no way around it, neither with what was checked nor with other commits.
	there := map[string]any{"strategy": "merge", "expected_head": strings.Repeat("a", 40)}
	h.Refused(http.StatusConflict, "checks_required", "POST", path(b, "/pull-request/merge"), there)
	h.API("PATCH", "/projects/"+p, map[string]any{"checks": []any{map[string]any{"name": "taste", "command": "exit 3"}}}, nil)
	h.Refused(http.StatusConflict, "head_moved", "POST", path(b, "/pull-request/merge"), there)
	// A check that takes for ever is cancelled.
	h.API("PATCH", "/projects/"+p, map[string]any{"merging": map[string]any{"queue": true}, "checks": []any{
		map[string]any{"id": "chk_long", "name": "long", "command": "echo begun; sleep 1000"}}}, nil)
	h.API("POST", path(b, "/checks/run"), map[string]any{}, nil)
	var run string
	h.Wait("it prints", func() bool {
		v := read(b)
		if len(v.Items) == 0 || v.Items[0].Run == nil {
			return false
		}
		run = v.Items[0].Run.ID
		_, out, _ := h.Do("GET", "/check-runs/"+run+"/output", nil)
		return strings.Contains(string(out), "begun")
	})
	h.API("POST", "/check-runs/"+run+"/cancel", map[string]any{}, nil)
	if v := settled(b); v.Items[0].Run.State != "cancelled" {
		t.Errorf("cancelled: %+v", v)
	}
	h.API("PATCH", "/projects/"+p, map[string]any{"checks": []any{
		map[string]any{"name": "two parts at most", "command": "ls *.part; test -f setup.out && test $(ls *.part | wc -l) -le 2", "required": true},
		map[string]any{"name": "taste", "command": "exit 3"}}}, nil)

	entry := func(ws testkit.Workspace) entryView {
		t.Helper()
		var q struct{ Entry *entryView }
		h.API("GET", path(ws, "/merge-queue"), nil, &q)
		if q.Entry == nil {
			return entryView{}
		}
		return *q.Entry
	}
	ended := func(ws testkit.Workspace) (e entryView) {
		t.Helper()
		h.Wait("the queue is done with it", func() bool {
			e = entry(ws)
			return e.State == "merged" || e.State == "failed" || e.State == "cancelled"
		})
		return e
	}
	enqueue := func(ws testkit.Workspace) func() {
		return func() { _ = h.Try("POST", path(ws, "/merge-queue"), map[string]any{"strategy": "squash"}, nil) }
	}
	// Killed when its checks have passed, and on both sides of the landing: it lands once.
	h.DieInTurn([]failpoint.Point{failpoint.QueueChecked, failpoint.QueueLanding}, func(next failpoint.Point) {
		if next == failpoint.QueueChecked { // at the other it dies by itself
			enqueue(a)()
		}
	})
	if e := ended(a); e.State != "merged" {
		t.Fatalf("a: %+v", e)
	}
	h.DieAt(failpoint.QueueLanded, enqueue(b))
	if e := ended(b); e.State != "merged" || len(e.Runs) < 3 {
		t.Fatalf("b: %+v", e)
	}
	// The third is well by itself, and not with the others.
	h.API("POST", path(c, "/merge-queue"), map[string]any{}, nil)
	if e := ended(c); e.State != "failed" || !strings.Contains(e.Reason, "two parts at most") {
		t.Errorf("c: %+v", e)
	}
	h.Refused(http.StatusConflict, "merge_queue_required", "POST", path(c, "/merge"), map[string]any{"strategy": "merge"})

	// Conflicts are seen before anybody merges.
	d, e := h.Workspace(p, "d"), h.Workspace(p, "e")
	put(d, "same.txt", "d\n")
	put(e, "same.txt", "e\n")
	var view struct {
		Overlaps []struct {
			ID, Key string
			Files   int
		}
	}
	h.Wait("the overlap is seen", func() bool {
		h.API("GET", path(d, ""), nil, &view)
		return len(view.Overlaps) == 1
	})
	if o := view.Overlaps[0]; o.ID != e.ID || o.Key != e.Key || o.Files != 1 {
		t.Errorf("overlap %+v", o)
	}
	var all struct {
		Items []struct {
			Files []struct{ Path string }
		}
		Order []struct {
			Key      string
			Overlaps int
		}
	}
	h.API("GET", "/projects/"+p+"/overlaps", nil, &all)
	if s := fmt.Sprint(all); !strings.Contains(s, "same.txt") || len(all.Order) != 2 || all.Order[1].Overlaps != 1 {
		t.Errorf("overlaps %+v", all)
	}
}
