package workspaces_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

func TestManyCreationsAtTheSameTime(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		t.Parallel()
		p := h.PathProject(h.Repo("app"))
		var wg sync.WaitGroup
		var mu sync.Mutex
		branches, keys := map[string]bool{}, map[string]bool{}
		for range 8 {
			wg.Go(func() {
				w, err := h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "Same name"})
				if err != nil {
					t.Error(err)
					return
				}
				if w = h.Settled(w.ID); w.State != workspaces.Ready {
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
	wstest.Must(t, err)
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.DataDir = small })
	h.Data = small
	dir := h.Repo("big")
	noise := make([]byte, 8<<20)
	rand.Read(noise)
	wstest.Must(t, os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644))
	wstest.CommitAll(t, dir, "big")
	p := h.PathProject(dir)
	w := h.Settled(h.Create(workspaces.NewWorkspace{ProjectID: p.ID}).ID)
	if w.State != workspaces.Failed || !strings.Contains(w.StateReason, "disk is full") {
		t.Errorf("%s %q", w.State, w.StateReason)
	}
	h.NothingLeft(p, w)
	c, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "file://" + dir})
	wstest.Must(t, err)
	if c = h.Cloned(c.ID); c.State != workspaces.ProjectFailed || !strings.Contains(c.StateReason, "disk is full") || wstest.Exists(small, "projects/"+c.ID) {
		t.Errorf("%s %q", c.State, c.StateReason)
	}
}
