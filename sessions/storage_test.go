package sessions_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/history"
)

func (s *server) kept(t *testing.T) (all map[string]int64, sum int64) {
	t.Helper()
	st, err := s.Storage(t.Context(), s.h.actor.Memberships[0].Team.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]int64{}
	for _, k := range st.Sessions {
		all[k.SessionID] = k.Disk
		sum += k.Disk
	}
	return all, sum
}

// noise prints about a megabyte that packs badly.
const noise = `head -c 700000 /dev/urandom | base64`

// A team with more history than it may keeps what ended last, and all of what runs; offsets hold.
func TestTeamCapDropsWhatEndedFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	first := s.run(t, "sh", "-c", noise)
	s.ended(t, first.ID)
	running := s.run(t, "sh", "-c", noise+"; read x")
	eventually(t, "it printed", func() bool { return s.get(t, running.ID).Bytes > 900_000 })
	last := s.run(t, "sh", "-c", noise)
	s.ended(t, last.ID)
	packed(t, h, first.ID)
	packed(t, h, last.ID)
	eventually(t, "its screen is kept", func() bool { _, err := os.Stat(filepath.Join(h.dir, "sessions", last.ID, "screen")); return err == nil })
	before, sum := s.kept(t)
	if before[first.ID] == 0 || sum < 1_500_000 {
		t.Fatalf("kept %v", before)
	}
	want := s.get(t, first.ID).Bytes
	s.end()

	h.tune = func(c *sessions.Config) { c.Limits.Team = sum - 1000 }
	s = h.start()
	eventually(t, "the first is dropped", func() bool { kept, _ := s.kept(t); return kept[first.ID] < before[first.ID] })
	after, now := s.kept(t)
	if now > sum-1000 || after[last.ID] != before[last.ID] || after[running.ID] < before[running.ID] {
		t.Fatalf("kept %v of %v", after, before)
	}
	v := s.watch(t, first.ID, sessions.Attach{UserID: "u", Name: "Ana"})
	eventually(t, "the viewer gets its end", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return v.exit != nil })
	if _, offset, end, err := s.Output(t.Context(), first.ID, 0, 10); err != nil || offset != end || end != want {
		t.Fatalf("output from %d to %d, want %d (%v)", offset, end, want, err)
	}
	if _, err := s.Moment(t.Context(), first.ID, want); err != nil {
		t.Fatal(err)
	}
	if f := s.search(t, history.SearchQuery{Query: text("A")}); f.Late {
		t.Fatal("late")
	}
}

func TestHistoryIsKeptForSoLong(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "echo hello")
	s.ended(t, row.ID)
	packed(t, h, row.ID)
	running := s.run(t, "sh", "-c", "echo hello; read x")
	eventually(t, "it printed", func() bool { return s.get(t, running.ID).Bytes > 0 })
	s.end()
	h.tune = func(c *sessions.Config) {
		c.Limits.Keep = 24 * time.Hour
		c.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	}
	s = h.start()
	eventually(t, "it is dropped", func() bool { kept, _ := s.kept(t); return kept[row.ID] == 0 })
	files, _ := filepath.Glob(filepath.Join(h.dir, "sessions", row.ID, "[0-9js]*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() > 0 {
			t.Errorf("%s is left", f)
		}
	}
	if kept, _ := s.kept(t); kept[running.ID] == 0 {
		t.Error("what runs was dropped")
	}
}
