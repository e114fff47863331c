package sessions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/sessions"
)

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(words string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), words)
}

// absent is a store that cannot write sessions while it is away, and counts who tries.
type absent struct {
	sessions.Store
	away  atomic.Bool
	tries atomic.Int64
}

func (a *absent) UpdateSession(ctx context.Context, row sessions.Session) error {
	if a.away.Load() {
		a.tries.Add(1)
		return errors.New("connection refused")
	}
	return a.Store.UpdateSession(ctx, row)
}

// While the database is away the log says so once, however many sessions there are and however often they are tried, and once when it is
// back. What changed meanwhile is stored then.
func TestADatabaseThatIsAwayIsLoggedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	store, log := &absent{}, &lines{}
	h.tune = func(c *sessions.Config) {
		store.Store = c.Store
		c.Store = store
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	s := h.start()
	var ids []string
	var screens []*screen
	for range 3 {
		row := s.run(t, "sh", "-c", `printf '\033]0;before\007'; read x; printf '\033]0;after\007'; echo changed; sleep 1000`)
		sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
		ids, screens = append(ids, row.ID), append(screens, sc)
	}
	title := func(want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the title %q is stored", want), func() bool {
			for _, id := range ids {
				if row, err := store.Session(t.Context(), id); err != nil || row.Title != want {
					return false
				}
			}
			return true
		})
	}
	title("before")
	store.away.Store(true)
	for _, sc := range screens {
		if err := sc.Input(t.Context(), []byte("\r")); err != nil {
			t.Fatal(err)
		}
		sc.shows(t, "changed")
	}
	eventually(t, "the sessions were tried again", func() bool { return store.tries.Load() >= 12 })
	if n := log.count("could not be stored; the server keeps trying"); n != 1 {
		t.Errorf("the log says %d times that sessions are not stored", n)
	}
	if n := log.count("stored again"); n != 0 {
		t.Errorf("the log says %d times that sessions are stored again", n)
	}
	store.away.Store(false)
	title("after")
	eventually(t, "the log says that it is over", func() bool { return log.count("stored again") == 1 })
	if log.count("away_for=") != 1 {
		t.Error("the log does not say for how long")
	}
}
