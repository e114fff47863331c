package sessions_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/question"
)

// unasked is a store that cannot say what sessions ask until it is healed.
type unasked struct {
	sessions.Store
	healed *atomic.Bool
}

func (u unasked) OpenQuestions(ctx context.Context, teamID string) ([]question.Question, error) {
	if !u.healed.Load() {
		return nil, fault.New(fault.DiskFull, "disk_full", "The disk of the database is full.")
	}
	return u.Store.OpenQuestions(ctx, teamID)
}

// A server that cannot take a session up for a reason of its own starts all the same and ends nothing: the session's program goes on, others
// are taken up, and once the reason is gone so is this one, with every byte once.
func TestTheServersOwnTroubleEndsNoSession(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"log", "journal", "secrets", "database", "read-only disk"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			if way == "read-only disk" {
				h.smallDisk()
			}
			s := h.start()
			row := s.run(t, "sh", "-c", "stty raw -echo; echo ready; read x; seq 1 100000; read x; echo over; sleep 1000")
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

			var heal func()
			block := func(path string, wrong func(string) error) {
				t.Helper()
				must := func(err error) {
					if err != nil {
						t.Fatal(err)
					}
				}
				away := filepath.Join(h.dir, "away")
				must(os.Rename(path, away))
				must(wrong(path))
				heal = func() {
					must(os.Remove(path))
					must(os.Rename(away, path))
				}
			}
			mkdir := func(path string) error { return os.Mkdir(path, 0o700) }
			switch way {
			case "log":
				block(dir, func(path string) error { return os.WriteFile(path, nil, 0o600) })
			case "journal":
				block(filepath.Join(dir, "journal"), mkdir)
			case "secrets": // without them what is printed would not be masked
				block(filepath.Join(dir, "launch.sealed"), mkdir)
			case "database":
				var healed atomic.Bool
				h.tune = func(c *sessions.Config) { c.Store = unasked{c.Store, &healed} }
				heal = func() { healed.Store(true) }
			case "read-only disk":
				disk := filepath.Join(h.dir, "sessions")
				if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
					t.Fatal(err)
				}
				heal = func() {
					if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, ""); err != nil {
						t.Fatal(err)
					}
				}
			}
			s = h.start()
			all, err := s.List(t.Context(), h.ws.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, now := range all {
				if now.State.Ended() {
					t.Errorf("%s is %s: %s", now.ID, now.State, now.StateReason)
				}
			}
			if way != "database" && way != "read-only disk" {
				s.watch(t, other.ID, sessions.Attach{}).shows(t, "other")
			}
			if _, err := s.Attach(t.Context(), row.ID, sessions.Attach{}); fault.CodeOf(err) != "session_not_ready" {
				t.Errorf("attaching meanwhile: %v", err)
			}
			heal()
			want := append([]byte("ready\n"), counted(100_000)...)
			eventually(t, "it is taken up", func() bool {
				_, _, end, err := s.Output(t.Context(), row.ID, 0, 1)
				return err == nil && end == int64(len(want))
			})
			s.keeps(t, row.ID, want)
			sc = s.watch(t, row.ID, sessions.Attach{Writer: true})
			if err := sc.Input(t.Context(), []byte("\n")); err != nil {
				t.Fatal(err)
			}
			want = append(want, "over\n"...)
			eventually(t, "it goes on", func() bool {
				_, _, end, err := s.Output(t.Context(), row.ID, 0, 1)
				return err == nil && end == int64(len(want))
			})
			s.keeps(t, row.ID, want)
		})
	}
}
