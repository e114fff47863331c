package caches_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/internal/fault"
)

var isolated = executors.Capabilities{Isolated: true}

func sizes(t *testing.T, c *caches.Caches, team string) map[string]int64 {
	t.Helper()
	all, err := c.Sizes(t.Context(), team)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, s := range all {
		out[s.Name] = s.Bytes
	}
	return out
}

// fill puts so many bytes into a cache of a team, which was last written to so long ago.
func fill(t *testing.T, dir, team, name string, bytes int, ago time.Duration) {
	t.Helper()
	to := filepath.Join(dir, team, name)
	at := time.Unix(1_700_000_000, 0).Add(-ago)
	if err := errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, "f"), make([]byte, bytes), 0o644), os.Chtimes(to, at, at)); err != nil {
		t.Fatal(err)
	}
}

// An id that is a path leads to no other team's folder, nor anywhere else.
func TestTeamsThatAreNoName(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "caches")
	fill(t, dir, "team", "npm", 10, 0)
	fill(t, base, "outside", "npm", 10, 0)
	c := caches.New(caches.Config{Dir: dir})
	for _, team := range []string{"", ".", "..", "../outside", "team/../../outside", "/etc", "a\x00b", ".hidden"} {
		s := executors.Spec{TeamID: team, Env: map[string]string{"A": "1"}}
		if err := c.Outfit(t.Context(), isolated, &s); err != nil || len(s.Caches) != 0 || len(s.Env) != 1 {
			t.Errorf("%q: %+v, %v", team, s, err)
		}
		if err := c.Empty(t.Context(), team); err != nil {
			t.Errorf("%q: %v", team, err)
		}
		for name, bytes := range sizes(t, c, team) {
			if bytes != 0 {
				t.Errorf("%q: %s has %d bytes", team, name, bytes)
			}
		}
	}
	for _, kept := range []string{filepath.Join(dir, "team/npm/f"), filepath.Join(base, "outside/npm/f")} {
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("made: %v, %v", left, err)
	}
}

func TestWhoeverAsksForASandboxIsAskedFirst(t *testing.T) {
	t.Parallel()
	trouble := errors.New("the disk is gone")
	dir := t.TempDir()
	c := caches.New(caches.Config{Dir: dir, Share: func(context.Context, string) (bool, error) { return true, trouble }})
	s := executors.Spec{TeamID: "team", WorkspaceID: "ws"}
	if err := c.Outfit(t.Context(), isolated, &s); !errors.Is(err, trouble) || len(s.Caches) != 0 {
		t.Errorf("whether it takes part is not known: %+v, %v", s.Caches, err)
	}
	c = caches.New(caches.Config{Dir: dir, Chown: true, Group: func(context.Context, string) (int64, error) { return 0, trouble }})
	if err := c.Outfit(t.Context(), isolated, &s); !errors.Is(err, trouble) || len(s.Caches) != 0 || len(s.Groups) != 0 {
		t.Errorf("which group is not known: %+v, %v", s, err)
	}
}

// Without one of its caches a sandbox is slower, not impossible.
func TestACacheThatCannotBeShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "team"), 0o755), os.WriteFile(filepath.Join(dir, "team/npm"), nil, 0o644), os.Symlink(outside, filepath.Join(dir, "team/pip"))); err != nil {
		t.Fatal(err)
	}
	c := caches.New(caches.Config{Dir: dir})
	given := map[string]string{"HOME": "/home"}
	s := executors.Spec{TeamID: "team", Env: given}
	if err := c.Outfit(t.Context(), isolated, &s); err != nil || len(s.Caches) != 2 {
		t.Fatalf("%+v, %v", s.Caches, err)
	}
	for _, m := range s.Caches {
		if m.Source == filepath.Join(dir, "team/pip") || !strings.HasPrefix(m.Target, "/var/cache/parawork/") {
			t.Errorf("it is shown %+v", m)
		}
	}
	if s.Env["npm_config_cache"] != "" || s.Env["PIP_CACHE_DIR"] != "" || s.Env["GOMODCACHE"] == "" || s.Env["HOME"] != "/home" || len(given) != 1 {
		t.Errorf("its environment is %v, and the one given %v", s.Env, given)
	}
}

func TestCachesAreTrimmedTheLongestUnusedFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	used := map[string]error{}
	c := caches.New(caches.Config{Dir: dir, Max: 100, InUse: func(_ context.Context, team string) (bool, error) { return team == "busy", used[team] }})
	if c.Max() != 100 {
		t.Errorf("%d", c.Max())
	}
	for _, team := range []string{"busy", "idle", "unknown"} {
		fill(t, dir, team, "go-build", 60, time.Hour)
		fill(t, dir, team, "npm", 70, 3*time.Hour)
		fill(t, dir, team, "pip", 20, 2*time.Hour)
	}
	fill(t, dir, "small", "npm", 100, time.Hour)
	used["unknown"] = errors.New("the disk is gone")
	if err := os.WriteFile(filepath.Join(dir, "a file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Trim(t.Context())
	for team, want := range map[string][3]int64{"busy": {60, 70, 20}, "unknown": {60, 70, 20}, "small": {0, 100, 0}, "idle": {60, 0, 20}} {
		s := sizes(t, c, team)
		if got := [3]int64{s["go-build"], s["npm"], s["pip"]}; got != want {
			t.Errorf("%s: %v, want %v", team, got, want)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "idle/npm")); err != nil || !st.IsDir() {
		t.Errorf("the folder of a cache that was emptied, which sandboxes may be shown: %v", err)
	}
	unbounded := caches.New(caches.Config{Dir: dir})
	unbounded.Trim(t.Context())
	if s := sizes(t, unbounded, "idle"); s["go-build"] != 60 {
		t.Errorf("without a bound: %v", s)
	}
	caches.New(caches.Config{Dir: filepath.Join(dir, "nowhere"), Max: 1}).Trim(t.Context()) // nobody has any
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Sizes(ctx, "idle"); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for the sizes: %v", err)
	}
	if err := c.Empty(ctx, "idle"); fault.CodeOf(err) != "caches_not_emptied" {
		t.Errorf("nobody waits for its end: %v", err)
	}
	if err := c.Empty(t.Context(), "idle"); err != nil {
		t.Error(err)
	}
	for name, bytes := range sizes(t, c, "idle") {
		if bytes != 0 {
			t.Errorf("emptied: %s has %d bytes", name, bytes)
		}
	}
	if err := c.Empty(t.Context(), "never made one"); err != nil {
		t.Error(err)
	}
}

// A cache that an agent has put a link in the place of is not emptied through it.
func TestACacheThatIsALink(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(outside, "kept"), []byte("kept"), 0o600), os.MkdirAll(filepath.Join(dir, "team/npm"), 0o755),
		os.Symlink(outside, filepath.Join(dir, "team/npm/way"))); err != nil {
		t.Fatal(err)
	}
	c := caches.New(caches.Config{Dir: dir})
	if s := sizes(t, c, "team"); s["npm"] != 0 {
		t.Errorf("what a link leads to counts: %v", s)
	}
	if err := c.Empty(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "team/npm/way")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link: %v", err)
	}
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Errorf("what it led to: %v", err)
	}
}

func TestCachesAreTrimmedEveryTenMinutes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := caches.New(caches.Config{Dir: dir, Max: 10})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		for range 2 {
			fill(t, dir, "team", "npm", 100, 0)
			<-time.After(9 * time.Minute)
			synctest.Wait()
			if s := sizes(t, c, "team"); s["npm"] != 100 {
				t.Errorf("too soon: %v", s)
			}
			<-time.After(time.Minute)
			synctest.Wait()
			if s := sizes(t, c, "team"); s["npm"] != 0 {
				t.Errorf("after ten minutes: %v", s)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
