package testkit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// A server that is killed, one time after the other, while it updates a branch from its base, stops at conflicts, and ends or gives up what was
// under way: asking again goes on from there, every commit is there once, and what was not committed still is not.
func TestKilledWhileItUpdates(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	p := h.Sample()
	d := &death{Instance: h, t: t}
	write := func(ws testkit.Workspace, name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(ws.Path, name), []byte(text), 0o600))
	}
	commit := func(ws testkit.Workspace, name, text string) {
		t.Helper()
		write(ws, name, text)
		h.API("POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": "Write " + strings.TrimSpace(text), "paths": []string{name}}, nil)
	}
	helper := h.Workspace(p, "Helper")
	inBase := func(name, text string) {
		t.Helper()
		commit(helper, name, text)
		h.API("POST", "/workspaces/"+helper.ID+"/merge", map[string]any{"strategy": "merge"}, nil)
	}
	update := func(ws testkit.Workspace, strategy string) (u struct {
		Updated  bool
		UpToDate bool `json:"up_to_date"`
	}, err error) {
		return u, h.Try("POST", "/workspaces/"+ws.ID+"/update", map[string]any{"strategy": strategy}, &u)
	}
	resolve := func(ws testkit.Workspace, how, strategy string) (files []string, err error) {
		var left struct{ Files []string }
		body := map[string]any{"how": how}
		if strategy != "" {
			body["strategy"] = strategy
		}
		err = h.Try("POST", "/workspaces/"+ws.ID+"/update/resolve", body, &left)
		return left.Files, err
	}
	// stands: the branch has these commits of its own, once each, and nothing of the base counts as the workspace's work.
	stands := func(ws testkit.Workspace, loose string, own ...string) {
		t.Helper()
		if out := d.execIn(ws, "git", "status", "--porcelain"); out != loose {
			t.Errorf("%s: git status says %q", ws.Name, out)
		}
		var log []string
		for line := range strings.Lines(d.execIn(ws, "git", "log", "--format=%s", "--no-merges", ws.Base+"..HEAD")) {
			log = append(log, strings.TrimSpace(line))
		}
		slices.Sort(log)
		slices.Sort(own)
		if !slices.Equal(log, own) {
			t.Errorf("%s has %q, want %q", ws.Name, log, own)
		}
		if out := d.execIn(ws, "git", "rev-list", "--count", "HEAD.."+ws.Base); out != "0\n" {
			t.Errorf("%s lacks %s of the base", ws.Name, out)
		}
		var stray []string
		h.Wait("only its own changes are shown", func() bool {
			stray = nil
			for _, c := range h.Changes(ws.ID).Items {
				if strings.HasPrefix(c.Path, "base") {
					stray = append(stray, c.Path)
				}
			}
			return len(stray) == 0
		})
	}
	rebased, merged, stopped, picked := h.Workspace(p, "rebased"), h.Workspace(p, "merged"), h.Workspace(p, "stopped"), h.Workspace(p, "picked")
	const loose = "?? loose.txt\n"
	for _, ws := range []testkit.Workspace{rebased, merged} {
		commit(ws, "own.txt", "own\n")
		write(ws, "loose.txt", draft)
	}
	commit(stopped, "same.txt", "mine\n")
	commit(picked, "same.txt", "first\n")
	commit(picked, "same.txt", "second\n")
	inBase("base1.txt", "base1\n")
	inBase("same.txt", "theirs\n")
	again := func(ws testkit.Workspace, strategy string) {
		t.Helper()
		if u, err := update(ws, strategy); err != nil || !u.Updated && !u.UpToDate {
			t.Errorf("updating %s again: %+v, %v", ws.Name, u, err)
		}
	}
	marked := func(ws testkit.Workspace) bool {
		b, _ := os.ReadFile(filepath.Join(ws.Path, "same.txt"))
		return strings.Contains(string(b), "<<<<<<<")
	}
	steps := []struct {
		at failpoint.Point
		do func()
	}{
		{failpoint.UpdateApplied, func() { _, _ = update(rebased, "rebase") }},
		{failpoint.UpdateMoved, func() { _, _ = update(rebased, "rebase") }}, // again, from where it was cut
		{failpoint.UpdateBased, func() {
			again(rebased, "rebase")
			stands(rebased, loose, "Write own")
			_, _ = update(merged, "merge")
		}},
		{failpoint.UpdateMoved, func() {
			again(merged, "merge")
			stands(merged, loose, "Write own")
			inBase("base2.txt", "base2\n")
			write(rebased, "same.txt", "theirs\nand mine, not committed\n")
			_, _ = update(rebased, "rebase")
		}},
		{failpoint.ResolveBegun, func() {
			again(rebased, "rebase")
			stands(rebased, " M same.txt\n"+loose, "Write own")
			_, _ = resolve(stopped, "shell", "merge")
		}},
		{failpoint.ResolveTaken, func() {
			left, err := resolve(stopped, "shell", "merge")
			if err != nil || !slices.Equal(left, []string{"same.txt"}) || !marked(stopped) {
				t.Errorf("what is left to resolve: %q, %v", left, err)
			}
			if _, err := resolve(stopped, "finish", ""); err == nil {
				t.Error("a conflict's marks were committed")
			}
			write(stopped, "same.txt", "both\n")
			_, _ = resolve(stopped, "finish", "")
		}},
		{failpoint.ResolveEnded, func() { _, _ = resolve(stopped, "finish", "") }},
		{failpoint.ResolveGiven, func() {
			if _, err := resolve(stopped, "finish", ""); err == nil {
				t.Error("it was finished twice")
			}
			stands(stopped, "", "Write mine")
			if left, err := resolve(picked, "shell", "rebase"); err != nil || !slices.Equal(left, []string{"same.txt"}) {
				t.Errorf("the rebase stops at %q, %v", left, err)
			}
			_, _ = resolve(picked, "abort", "")
		}},
		{failpoint.ResolveEnded, func() {
			if out := d.execIn(picked, "sh", "-c", "git status --porcelain; git log -2 --format=%s; cat same.txt"); out != "Write second\nWrite first\nsecond\n" {
				t.Errorf("given up, it is %q", out)
			}
			if left, err := resolve(picked, "shell", "rebase"); err != nil || len(left) != 1 {
				t.Errorf("the rebase stops at %q, %v", left, err)
			}
			write(picked, "same.txt", "theirs and first\n")
			_, _ = resolve(picked, "finish", "")
		}},
	}
	points, tried := make([]failpoint.Point, len(steps)), map[failpoint.Point]bool{}
	for i, s := range steps {
		points[i], tried[s.at] = s.at, true
	}
	for _, p := range failpoint.OfUpdates {
		if !tried[p] {
			t.Errorf("%s is not tried", p)
		}
	}
	h.DieInTurn(points, func(failpoint.Point) { steps[0].do(); steps = steps[1:] })
	if left, err := resolve(picked, "shell", "rebase"); err != nil || !slices.Equal(left, []string{"same.txt"}) {
		t.Errorf("the rebase stops again at %q, %v", left, err)
	}
	write(picked, "same.txt", "all of it\n")
	if left, err := resolve(picked, "finish", ""); err != nil || len(left) != 0 {
		t.Errorf("finishing the rebase: %q, %v", left, err)
	}
	stands(picked, "", "Write first", "Write second")
	for _, ws := range []testkit.Workspace{rebased, merged} {
		if b, err := os.ReadFile(filepath.Join(ws.Path, "loose.txt")); err != nil || string(b) != draft {
			t.Errorf("%s: %q, %v", ws.Name, b, err)
		}
	}
	if out := d.execIn(picked, "git", "fsck", "--no-dangling", "--no-progress"); strings.Contains(out, "missing") || strings.Contains(out, "broken") {
		t.Errorf("git fsck: %s", out)
	}
}
