package pg_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/events/pg"
	"github.com/parawork/parawork/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is one process's bus and line.
type process struct {
	bus  *events.Bus
	line *pg.Line
}

func start(t *testing.T, url string) *process {
	t.Helper()
	p := &process{bus: events.New()}
	p.line = pg.New(pg.Config{URL: url, Bus: p.bus, Retry: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.line.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	select {
	case <-p.line.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the line never listened")
	}
	return p
}

func next(t *testing.T, s *events.Sub) events.Event {
	t.Helper()
	select {
	case e := <-s.C:
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event came")
		return events.Event{}
	}
}

func TestEventsCrossProcesses(t *testing.T) {
	t.Parallel()
	url := storetest.PostgresURL(t)
	a, b := start(t, url), start(t, url)
	atA, atB, other := a.bus.Subscribe("t", 0), b.bus.Subscribe("t", 0), b.bus.Subscribe("other", 0)
	sent := events.Event{Type: "workspace.updated", ID: "ws_1", WorkspaceID: "ws_1", Version: 7, TeamID: "t"}
	a.line.Publish(t.Context(), sent)
	for name, s := range map[string]*events.Sub{"own": atA, "other": atB} {
		got := next(t, s)
		got.Seq = 0
		if got != sent {
			t.Errorf("%s process: %+v", name, got)
		}
	}
	b.line.Publish(t.Context(), events.Event{Type: "x", ID: "2", TeamID: "t"})
	if e := next(t, atA); e.ID != "2" {
		t.Errorf("back: %+v", e)
	}
	// Its own event came once, and nothing reached another team.
	if len(atA.C) != 0 || len(other.C) != 0 {
		t.Errorf("%d and %d events too many", len(atA.C), len(other.C))
	}
}

func TestTooLargeEventMakesTheOthersReadAgain(t *testing.T) {
	t.Parallel()
	url := storetest.PostgresURL(t)
	a, b := start(t, url), start(t, url)
	s := b.bus.Subscribe("t", 0)
	a.line.Publish(t.Context(), events.Event{Type: "x", ID: strings.Repeat("long", 3000), TeamID: "t"})
	if e := next(t, s); e.Type != events.Resync || !s.Missed() {
		t.Errorf("got %s", e.Type)
	}
}

func TestLineComesBackAndSaysSo(t *testing.T) {
	t.Parallel()
	url := storetest.PostgresURL(t)
	a, b := start(t, url), start(t, url)
	s := b.bus.Subscribe("t", 0)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	if e := next(t, s); e.Type != events.Resync || !s.Missed() {
		t.Errorf("got %+v", e)
	}
	// And it works again: the sender may need an attempt to notice its own cut.
	deadline := time.After(time.Minute)
	for {
		a.line.Publish(t.Context(), events.Event{Type: "x", ID: "after", TeamID: "t"})
		select {
		case e := <-s.C:
			if e.ID == "after" {
				return
			}
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatal("no event crosses any more")
		}
	}
}
