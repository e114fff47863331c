package sessions_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/state"
)

// A session whose files cannot be read, and will not be by waiting, says so with the cause. People can stop it, and end it with its workspace:
// what cannot be read is set aside, and nothing is shown that could not be masked. Repaired in time, it loses nothing.
func TestASessionWhoseFilesAreDamagedCanBeStopped(t *testing.T) {
	t.Parallel()
	const damaged = "what is left of it"
	for _, way := range []string{"journal", "secrets", "log", "repaired"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.tune = func(c *sessions.Config) { c.TakeUpTries = 1 }
			s := h.start()
			// It prints what the damaged files must not show only once the server that could still read them has ended.
			ended, printed := filepath.Join(h.dir, "ended"), filepath.Join(h.dir, "printed")
			row := s.run(t, "sh", "-c", `stty raw -echo; echo ready; read x; until [ -e "$1" ]; do sleep 0.05; done; echo later; : > "$2"; read x; sleep 1000`, "sh", ended, printed)
			other := s.run(t, "sh", "-c", "echo other; sleep 1000")
			s.watch(t, other.ID, sessions.Attach{}).shows(t, "other")
			sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
			sc.shows(t, "ready\n")
			dir := filepath.Join(h.dir, "sessions", row.ID)
			eventually(t, "the journal is written", func() bool {
				_, err := os.Stat(filepath.Join(dir, "journal"))
				return err == nil
			})
			if err := sc.Input(t.Context(), []byte("\n")); err != nil {
				t.Fatal(err)
			}
			s.end()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.WriteFile(ended, nil, 0o600))
			eventually(t, "the program has printed more", func() bool {
				_, err := os.Stat(printed)
				return err == nil
			})

			path := map[string]string{"secrets": filepath.Join(dir, "launch.sealed"), "log": dir}[way]
			if path == "" {
				path = filepath.Join(dir, "journal")
			}
			away := filepath.Join(h.dir, "away")
			must(os.Rename(path, away))
			if way == "log" {
				must(os.WriteFile(path, []byte(damaged), 0o600))
			} else {
				must(os.Mkdir(path, 0o700))
				must(os.WriteFile(filepath.Join(path, "rest"), []byte(damaged), 0o600))
			}
			s = h.start()
			eventually(t, "the session says what is wrong", func() bool {
				got := s.get(t, row.ID)
				return got.State == state.Waiting && strings.Contains(got.StateReason, "sessions/"+row.ID)
			})
			if err := s.Input(t.Context(), h.actor, row.ID, "x"); fault.CodeOf(err) != "session_unreadable" {
				t.Errorf("typing meanwhile: %v", err)
			}
			looks := s.watch(t, other.ID, sessions.Attach{})
			looks.shows(t, "other")
			looks.Close()

			if way == "repaired" {
				must(os.RemoveAll(path))
				must(os.Rename(away, path))
			}
			if way == "journal" || way == "repaired" {
				if _, err := s.Stop(t.Context(), h.actor, row.ID, 0); err != nil {
					t.Fatal(err)
				}
			}
			must(s.StopAll(t.Context(), h.ws.ID))
			for _, id := range []string{row.ID, other.ID} {
				if got := s.get(t, id); got.State != state.Exited || !strings.HasPrefix(got.StateReason, "stopped ") {
					t.Errorf("session %s is %s: %s", id, got.State, got.StateReason)
				}
			}
			out, _, _, err := s.Output(t.Context(), row.ID, 0, 1<<20)
			must(err)
			kept, err := filepath.Glob(path + ".aside-*")
			must(err)
			switch way {
			case "repaired":
				if string(out) != "ready\nlater\n" || len(kept) != 0 {
					t.Errorf("a repaired session has %q and %q set aside", out, kept)
				}
			case "journal":
				if string(out) != "ready\nlater\n" {
					t.Errorf("the output is %q", out)
				}
			default: // what its secrets are is not known any more
				if bytes.Contains(out, []byte("later")) {
					t.Errorf("what could not be masked is shown: %q", out)
				}
			}
			if way != "repaired" {
				if len(kept) != 1 {
					t.Fatalf("set aside: %q", kept)
				}
				file := kept[0]
				if way != "log" {
					file = filepath.Join(file, "rest")
				}
				if b, err := os.ReadFile(file); err != nil || string(b) != damaged {
					t.Errorf("set aside: %q, %v", b, err)
				}
			}
			eventually(t, "its history can be removed", func() bool { return s.Forget(t.Context(), h.ws.ID) == nil }) // those who stopped them let go
			left, err := filepath.Glob(dir + "*")
			must(err)
			if len(left) != 0 {
				t.Errorf("after the history was removed there is %q", left)
			}
		})
	}
}
