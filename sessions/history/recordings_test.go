package history_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/find"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is one session that prints, and all there are.
type session struct {
	*history.Recordings
	rec  *history.Recording
	done chan struct{}

	mu       sync.Mutex
	row      history.Row
	answered string
}

func (s *session) Row() history.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.row
	_, row.Bytes = s.rec.Log().Bounds()
	return row
}

func (s *session) Hide(context.Context) (func(string) string, error) {
	return func(text string) string { return strings.ReplaceAll(text, "swordfish", "*********") }, nil
}

func (s *session) Answer(_ context.Context, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered += string(p)
	return nil
}

func (s *session) Release() {}

// sessions are that one.
type sessions struct{ *session }

func (s sessions) Open(_ context.Context, id string) (*history.Recording, func(), error) {
	if id != "ses_1" {
		return nil, nil, fault.New(fault.NotFound, "session_not_found", "None.")
	}
	return s.rec, func() {}, nil
}
func (s sessions) InMemory(string) *history.Recording { return nil }
func (s sessions) WhileUnused(_ string, fn func())    { fn() }
func (s sessions) Rows(context.Context, string) ([]history.Row, error) {
	return []history.Row{s.Row()}, nil
}
func (s sessions) Kept(context.Context, string) ([]history.Kept, error) {
	row := s.Row()
	return []history.Kept{{SessionID: row.ID, TeamID: "team", WorkspaceID: row.WorkspaceID, StartedAt: row.StartedAt, Printed: row.Bytes}}, nil
}

func newSession(t *testing.T) *session {
	ctx, cancel := context.WithCancel(context.Background())
	group := new(tasks.Group)
	s := &session{done: make(chan struct{}), row: history.Row{ID: "ses_1", WorkspaceID: "ws", Agent: "shell", AgentName: "Shell", Cols: 40, Rows: 5, StartedAt: 1}}
	s.Recordings = history.New(history.Config{Sessions: sessions{s}, DataDir: t.TempDir(), MaxLogBytes: 1 << 20, RingBytes: 1 << 10, ScreenSleep: time.Minute, Tasks: group, Context: ctx,
		Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	var err error
	if s.rec, err = s.Record(s.row, s, s.done); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		group.Close()
		if err := s.rec.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// prints appends what the program prints.
func (s *session) prints(t *testing.T, text string) {
	t.Helper()
	end, err := s.rec.Log().Append([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s.rec.Mark(end)
}

// What a session prints can be read in each way there is, and its secrets in none that shows a screen.
func TestWhatIsPrintedCanBeRead(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.prints(t, "one\r\ntwo swordfish\r\nthree\r\nfour\r\nfive\r\nsix")
	text, last, err := s.Screen(t.Context(), "ses_1", 2)
	if err != nil || strings.Join(text.Lines, "|") != "two *********|three|four|five|six" || strings.Join(last, "|") != "five|six" {
		t.Errorf("the screen is %q, the last lines %q (%v)", text.Lines, last, err)
	}
	if up, err := s.Scrollback(t.Context(), "ses_1", history.ScrollbackQuery{Plain: true}); err != nil || strings.Join(up.Lines, "|") != "one" {
		t.Errorf("scrolled off: %q (%v)", up.Lines, err)
	}
	if b, off, end, err := s.Output(t.Context(), "ses_1", 5, 3); err != nil || string(b) != "two" || off != 5 || end != s.Row().Bytes {
		t.Errorf("output %q at %d of %d (%v)", b, off, end, err)
	}
	if _, _, _, err := s.Output(t.Context(), "ses_1", 1000, 1); fault.CodeOf(err) != "offset_beyond_end" {
		t.Errorf("output beyond the end: %v", err)
	}
	if m, err := s.Moment(t.Context(), "ses_1", 3); err != nil || m.Offset != 3 || m.Cols != 40 || !strings.Contains(string(m.Snapshot), "one") {
		t.Errorf("the moment is %+v (%v)", m, err)
	}
	x, err := s.Export(t.Context(), "ses_1", history.PlainText)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if b, err := io.ReadAll(x); err != nil || !strings.HasPrefix(string(b), "one\ntwo swordfish\n") { // the log is masked before it is written
		t.Errorf("exported %q (%v)", b, err)
	}
	if found, err := s.Search(t.Context(), "ws", history.SearchQuery{Query: find.Query{Text: "THREE"}, Limit: 10}); err != nil || len(found.Hits) != 1 || found.Hits[0].AgentName != "Shell" {
		t.Errorf("found %+v (%v)", found, err)
	}
	if _, err := s.Moment(t.Context(), "ses_2", 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("a session that is not there: %v", err)
	}
}

// What happens is noted in order, typing as how much and never as what; an ended session takes no more.
func TestNotes(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.rec.Note(journal.State, journal.Change{State: "working"})
	s.rec.NoteKeys("ana", "Ana", 3)
	s.rec.NoteKeys("ana", "Ana", 4)
	s.rec.NoteFiles([]string{"a.go", "a.go", "b.go"}, 2)
	s.rec.Flush(true)
	items, next, err := s.Journal(t.Context(), "ses_1", history.JournalQuery{Limit: 10})
	if err != nil || next != -1 || len(items) != 3 {
		t.Fatalf("%d entries, next %d (%v)", len(items), next, err)
	}
	if !strings.Contains(string(items[1].Data), `7`) || !strings.Contains(string(items[2].Data), `"b.go"`) {
		t.Errorf("noted %s and %s", items[1].Data, items[2].Data)
	}
	close(s.done)
	s.rec.Note(journal.State, journal.Change{State: "idle"})
	s.rec.Flush(true)
	if again, _, _ := s.Journal(t.Context(), "ses_1", history.JournalQuery{Limit: 10}); len(again) != 3 {
		t.Errorf("%d entries after the end", len(again))
	}
}

// A program that asks its terminal is answered once, while the screen is followed.
func TestQuestionsOfTheProgramAreAnswered(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.rec.Follow()
	s.prints(t, "ready\x1b[6n")
	answer := func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.answered
	}
	for deadline := time.Now().Add(time.Minute); answer() == "" && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
	if got := answer(); got != "\x1b[1;6R" {
		t.Errorf("answered %q", got)
	}
}

// What is forgotten is gone from the disk and from what a team's history takes.
func TestForgottenHistoryIsGone(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.prints(t, strings.Repeat("something\r\n", 100))
	s.rec.Flush(true)
	st, err := s.Storage(t.Context(), "team", "")
	if err != nil || len(st.Sessions) != 1 || st.Sessions[0].Disk == 0 {
		t.Fatalf("storage %+v (%v)", st, err)
	}
	if n, err := s.HistoryBytes(t.Context(), "ws"); err != nil || n != st.Sessions[0].Disk {
		t.Errorf("%d bytes of %d (%v)", n, st.Sessions[0].Disk, err)
	}
	if err := s.Forget(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.HistoryBytes(t.Context(), "ws"); err != nil || n != 0 {
		t.Errorf("%d bytes are left (%v)", n, err)
	}
}
