package workspaces_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

func TestManyCreationsAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		t.Parallel()
		p := h.pathProject(h.repo("app"))
		var wg sync.WaitGroup
		var mu sync.Mutex
		branches, keys := map[string]bool{}, map[string]bool{}
		for range 8 {
			wg.Go(func() {
				w, err := h.s.Create(t.Context(), h.actor, h.team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "Same name"})
				if err != nil {
					t.Error(err)
					return
				}
				if w = h.settled(w.ID); w.State != workspaces.Ready {
					t.Errorf("%s: %s", w.Key(), w.StateReason)
				}
				mu.Lock()
				defer mu.Unlock()
				branches[w.Branch], keys[w.Key()] = true, true
			})
		}
		wg.Wait()
		if len(branches) != 8 || len(keys) != 8 || !keys["PW-8"] || !branches["parawork/same-name-8"] {
			t.Errorf("%v %v", branches, keys)
		}
	})
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	small, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	h := sqliteHouse(t, func(c *workspaces.Config) { c.DataDir = small })
	h.data = small
	dir := h.repo("big")
	noise := make([]byte, 8<<20)
	rand.Read(noise)
	must(t, os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644))
	commitAll(t, dir, "big")
	p := h.pathProject(dir)
	w := h.settled(h.create(workspaces.NewWorkspace{ProjectID: p.ID}).ID)
	if w.State != workspaces.Failed || !strings.Contains(w.StateReason, "disk is full") {
		t.Errorf("%s %q", w.State, w.StateReason)
	}
	h.nothingLeft(p, w)
	c, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "file://" + dir})
	must(t, err)
	if c = h.cloned(c.ID); c.State != workspaces.ProjectFailed || !strings.Contains(c.StateReason, "disk is full") || exists(small, "projects/"+c.ID) {
		t.Errorf("%s %q", c.State, c.StateReason)
	}
}
