package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
)

func TestCheckNamesWhatToFix(t *testing.T) {
	t.Parallel()
	p, id, out := connected(t, wire.Docker)
	env := p.Env
	p.Env = func(name string) string {
		if name == "DOCKER_HOST" {
			return "unix:///nonexistent.sock"
		}
		return env(name)
	}
	p.Exec = func(context.Context, string, ...string) (string, error) { return "git version 2.47.1", nil }
	id.Server = "http://127.0.0.1:1" // nobody listens there
	if err := id.Save(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(id.Dir, "runner.json")
	check := func(code int, parts ...string) {
		t.Helper()
		out.Reset()
		if got := p.Run(t.Context(), []string{"check"}); got != code {
			t.Errorf("%d, wanted %d", got, code)
		}
		for _, part := range parts {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%q is not said in:\n%s", part, out)
			}
		}
	}
	check(1, "FAIL  file", "cannot be read")
	if err := os.WriteFile(file, []byte(`{"acces": "full"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	check(1, "FAIL  file", `unknown field "acces"`)
	if err := os.WriteFile(file, []byte(`{"folders": [{"path": "~/gone"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(id.Dir, policy.StopName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(1, "ok    file", "~/gone does not exist", "the kill switch was used", "FAIL  place", "FAIL  server", "ok    git         2.47.1", "to fix")
}

func TestTimesAndNumbersInWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	if got := clock(now.Add(-time.Hour).UnixMilli(), now); got != "14:00" {
		t.Errorf("%q", got)
	}
	if got := clock(now.AddDate(0, 0, -1).UnixMilli(), now); got != "Sat Nov 21 15:00" {
		t.Errorf("%q", got)
	}
	if got := count(1, "sandbox") + ", " + count(2, "sandbox") + ", " + count(0, "line"); got != "1 sandbox, 2 sandboxes, 0 lines" {
		t.Errorf("%q", got)
	}
	many := running{Key: "PW-1\x1b[2J", State: wire.Paused, Processes: []string{"a", "b", "c", "d", "e", "f", "g", "h"}}
	if got := many.words(); got != "PW-1[2J, paused: a, b, c, d, e, f, 2 more" {
		t.Errorf("%q", got)
	}
}
