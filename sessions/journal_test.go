package sessions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/state"
)

func (s *server) journal(t *testing.T, id string, kinds ...journal.Kind) []journal.Entry {
	t.Helper()
	items, next, err := s.Journal(t.Context(), id, history.JournalQuery{Limit: 5000, Kinds: kinds})
	if err != nil || next >= 0 {
		t.Fatalf("journal: next %d, %v", next, err)
	}
	return items
}

func dataOf[T any](t *testing.T, e journal.Entry) (v T) {
	t.Helper()
	if err := json.Unmarshal(e.Data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Who came, who typed how much, how large the terminal was and what state it was in is kept beside the bytes, also over the
// death of the server; what was typed is not.
func TestJournalTellsWhatHappened(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `read a; echo "got $a"; read b; exit 3`)
	sc := s.watch(t, row.ID, sessions.Attach{UserID: h.actor.User.ID, Name: "Ana", Writer: true})
	sc.Wish(guest.Size{Cols: 91, Rows: 27})
	eventually(t, "the size holds", func() bool { return sc.cells() == [2]uint16{91, 27} })
	if err := sc.Input(t.Context(), []byte("hush\r")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "got hush")
	sc.Close()
	s.end()

	s = h.start()
	if err := s.Input(t.Context(), h.actor, row.ID, "x\r"); err != nil {
		t.Fatal(err)
	}
	s.ended(t, row.ID)
	sizes := s.journal(t, row.ID, journal.Size)
	if len(sizes) != 2 || sizes[0].Offset != 0 || dataOf[journal.Dims](t, sizes[0]).Cols != 120 || dataOf[journal.Dims](t, sizes[1]) != (journal.Dims{Cols: 91, Rows: 27}) {
		t.Errorf("sizes %v", sizes)
	}
	seats := s.journal(t, row.ID, journal.Seat)
	if len(seats) != 2 || dataOf[journal.Visit](t, seats[0]).Name != "Ana" || !dataOf[journal.Visit](t, seats[1]).Left {
		t.Errorf("seats %v", seats)
	}
	typed := s.journal(t, row.ID, journal.Input)
	if len(typed) != 2 || dataOf[journal.Keys](t, typed[0]).Bytes != 5 || dataOf[journal.Keys](t, typed[1]).Bytes != 2 {
		t.Errorf("typing %v", typed)
	}
	states := s.journal(t, row.ID, journal.State)
	if n := len(states); n == 0 || dataOf[journal.Change](t, states[n-1]).State != "exited" {
		t.Errorf("states %v", states)
	}
	all := s.journal(t, row.ID)
	for i, e := range all {
		if e.Kind == journal.Time || e.At == 0 || i > 0 && e.At < all[i-1].At {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	raw, err := os.ReadFile(filepath.Join(h.dir, "sessions", row.ID, "journal"))
	if err != nil || bytes.Contains(raw, []byte("hush")) {
		t.Errorf("the journal holds what was typed (%v)", err)
	}
	// Somebody who looks at an ended session leaves no trace.
	s.watch(t, row.ID, sessions.Attach{UserID: "u", Name: "Ben"}).Close()
	if again := s.journal(t, row.ID); len(again) != len(all) {
		t.Errorf("%d entries after the end, %d before", len(again), len(all))
	}
	if _, _, err := s.Journal(t.Context(), "ses_none", history.JournalQuery{Limit: 1}); err == nil {
		t.Error("a journal of no session")
	}
}

// The timing of output is the time at which its bytes came.
func TestJournalTellsWhenBytesCame(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "stty -echo; printf one; read x; printf two")
	eventually(t, "the journal has the first", func() bool { return len(s.journal(t, row.ID, journal.Time)) == 1 }) // it follows what can be read
	between := time.Now().UnixMilli()
	if err := s.Input(t.Context(), h.actor, row.ID, "\r"); err != nil {
		t.Fatal(err)
	}
	s.ended(t, row.ID)
	marks := s.journal(t, row.ID, journal.Time)
	if len(marks) < 2 {
		t.Fatalf("marks %v", marks)
	}
	if first, last := marks[0], marks[len(marks)-1]; first.Offset != 3 || last.Offset != 6 || first.At > between || last.At < between {
		t.Fatalf("marks %v", marks)
	}
	page, next, err := s.Journal(context.Background(), row.ID, history.JournalQuery{Limit: 1})
	if err != nil || len(page) != 1 || next <= 0 {
		t.Fatalf("page %v, next %d, %v", page, next, err)
	}
	if rest, _, err := s.Journal(context.Background(), row.ID, history.JournalQuery{From: next, Limit: 1}); err != nil || len(rest) != 1 || rest[0].Seq != next {
		t.Fatalf("second page %v, %v", rest, err)
	}
}

// A disk that cannot take the journal stops nothing.
func TestJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "read a; echo bye")
	path := filepath.Join(h.dir, "sessions", row.ID, "journal")
	eventually(t, "the journal is written", func() bool { _, err := os.Stat(path); return err == nil })
	s.watch(t, row.ID, sessions.Attach{UserID: "a"}) // keeps the session in memory
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Input(t.Context(), h.actor, row.ID, "x\r"); err != nil {
		t.Fatal(err)
	}
	if got := s.ended(t, row.ID); got.State != state.Exited {
		t.Fatalf("state %s", got.State)
	}
	if s.output(t, row.ID) == "" {
		t.Fatal("no output")
	}
}

// Files that change while a session runs are noted in it, gathered; not in sessions of other workspaces or ended ones.
func TestJournalTellsOfFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	over := s.run(t, "true")
	s.ended(t, over.ID)
	row := s.run(t, "sh", "-c", "read a")
	s.FilesChanged(h.ws.ID, []string{"a.go", "b.go"}, 0)
	s.FilesChanged(h.ws.ID, []string{"b.go", "c.go"}, 3)
	s.FilesChanged("ws_other", []string{"x"}, 0)
	if err := s.Input(t.Context(), h.actor, row.ID, "x\r"); err != nil {
		t.Fatal(err)
	}
	s.ended(t, row.ID)
	files := s.journal(t, row.ID, journal.Files)
	if len(files) != 1 {
		t.Fatalf("%d entries", len(files))
	}
	if got := dataOf[journal.Touched](t, files[0]); len(got.Paths) != 3 || got.More != 3 {
		t.Fatalf("%+v", got)
	}
	if n := len(s.journal(t, over.ID, journal.Files)); n != 0 {
		t.Fatalf("%d entries in an ended session", n)
	}
}
