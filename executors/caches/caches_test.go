package caches_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/caches"
)

func TestCachesOfATeam(t *testing.T) {
	t.Parallel()
	dir, used := t.TempDir(), true
	c := caches.New(caches.Config{Dir: dir, Max: 1000,
		Share: func(_ context.Context, ws string) (bool, error) { return ws != "ws_alone", nil },
		InUse: func(context.Context, string) (bool, error) { return used, nil }})
	outfit := func(team, ws string, isolated bool) executors.Spec {
		t.Helper()
		s := executors.Spec{TeamID: team, WorkspaceID: ws, Env: map[string]string{"GOCACHE": "/mine"}}
		if err := c.Outfit(t.Context(), executors.Capabilities{Isolated: isolated}, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := outfit("team_a", "ws_1", false); len(s.Caches) != 0 {
		t.Errorf("in a place without isolation: %+v", s.Caches)
	}
	far := executors.Spec{TeamID: "team_a", WorkspaceID: "ws_1"}
	if err := c.Outfit(t.Context(), executors.Capabilities{Isolated: true, OwnDisk: true}, &far); err != nil || len(far.Caches) != 0 || len(far.Env) != 0 {
		t.Errorf("on another machine: %+v, %v", far, err)
	}
	if s := outfit("team_a", "ws_alone", true); len(s.Caches) != 0 {
		t.Errorf("against its project's word: %+v", s.Caches)
	}
	a, b := outfit("team_a", "ws_1", true), outfit("team_b", "ws_2", true)
	if len(a.Caches) != 4 || a.Env["GOMODCACHE"] != a.Caches[0].Target || a.Env["GOCACHE"] != "/mine" || a.Env["PIP_CACHE_DIR"] == "" || a.Env["npm_config_cache"] == "" || len(a.Groups) != 0 {
		t.Errorf("given %+v", a)
	}
	for _, m := range a.Caches {
		if slices.ContainsFunc(b.Caches, func(o executors.Mount) bool { return o.Source == m.Source }) {
			t.Errorf("two teams share %s", m.Source)
		}
	}
	// What an agent may leave there: read-only folders, links out.
	mod := a.Caches[0].Source
	outside := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(outside, make([]byte, 5000), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.MkdirAll(filepath.Join(mod, "m@v1/sub"), 0o755), os.WriteFile(filepath.Join(mod, "m@v1/sub/f"), make([]byte, 1500), 0o444),
		os.Symlink(outside, filepath.Join(mod, "link")), os.Symlink(filepath.Dir(outside), filepath.Join(mod, "m@v1/out")), os.Chmod(filepath.Join(mod, "m@v1/sub"), 0o555), os.Chmod(filepath.Join(mod, "m@v1"), 0o555)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	npm := a.Caches[2].Source
	if err := os.WriteFile(filepath.Join(npm, "n"), make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(mod, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	size := func() map[string]int64 {
		all, err := c.Sizes(t.Context(), "team_a")
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]int64)
		for _, s := range all {
			out[s.Name] = s.Bytes
		}
		return out
	}
	if s := size(); s["go-mod"] != 1500 || s["npm"] != 100 {
		t.Errorf("sizes %v", s)
	}
	c.Trim(t.Context())
	if s := size(); s["go-mod"] != 1500 {
		t.Errorf("trimmed while in use: %v", s)
	}
	used = false
	c.Trim(t.Context())
	if s := size(); s["go-mod"] != 0 || s["npm"] != 100 {
		t.Errorf("after trimming: %v", s)
	}
	if err := c.Empty(t.Context(), "team_a"); err != nil {
		t.Fatal(err)
	}
	if s := size(); s["npm"] != 0 {
		t.Errorf("after emptying: %v", s)
	}
	if info, err := os.Stat(outside); err != nil || info.Size() != 5000 {
		t.Errorf("what a link pointed to: %v, %v", info, err)
	}
	if err := c.Empty(t.Context(), "../team_b"); err != nil {
		t.Error(err)
	}
}
