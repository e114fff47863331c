package suspension_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/suspension"
	"github.com/parawork/parawork/internal/fault"
)

// wards are what an enforcer watches over in a test.
type wards struct {
	mu     sync.Mutex
	news   string
	barred []suspension.Barred
	stuck  bool // the files of sandboxes cannot be synced
	done   []string
}

func (w *wards) Announced(context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news, nil
}

func (w *wards) TeamByID(_ context.Context, id string) (accounts.Team, error) {
	t := accounts.Team{ID: id, Name: id}
	if id == "suspended" {
		t.SuspendedAt = 1
	}
	return t, nil
}

func (w *wards) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, what)
}

func (w *wards) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.done = nil }()
	slices.Sort(w.done)
	return strings.Join(w.done, ", ")
}

func (w *wards) set(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func TestWhatSuspendedPeopleLeftRunningEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wards{news: "chg_1"}
		d := suspension.New(suspension.Config{Accounts: w, Recheck: func() { w.note("ask") }, Log: slog.New(slog.DiscardHandler),
			Barred: func(context.Context) ([]suspension.Barred, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.barred, nil
			},
			Destroy: func(_ context.Context, id string) error {
				w.note("end " + id)
				if w.stuck {
					return errors.New("it is not home")
				}
				w.set(func() {
					w.barred = slices.DeleteFunc(slices.Clone(w.barred), func(b suspension.Barred) bool { return b.WorkspaceID == id })
				})
				return nil
			},
			Pause: func(_ context.Context, id, reason string) error { w.note("pause " + id + ": " + reason); return nil },
			Stop:  func(_ context.Context, id, reason string) error { w.note("stop " + id + " " + reason); return nil }})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = d.Run(ctx) })
		synctest.Wait()
		if got := w.take(); got != "" {
			t.Errorf("without anything to do: %s", got)
		}
		// Another process changed something: who is connected is asked within seconds, and what runs is looked at.
		w.set(func() {
			w.news, w.barred = "chg_2", []suspension.Barred{{WorkspaceID: "ws_1", Reason: "team"}, {SessionID: "ses_1", Reason: "account"}}
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.take(); got != "ask, end ws_1, stop ses_1 stopped: its agent's account belongs to somebody who left the team" {
			t.Errorf("after news: %s", got)
		}
		// A sandbox that cannot be synced is suspended, and the server tries again.
		w.set(func() { w.stuck, w.barred = true, []suspension.Barred{{WorkspaceID: "ws_2", Reason: "user"}} })
		d.Poke()
		synctest.Wait()
		if got := w.take(); got != "end ws_2, pause ws_2: Paused: the user is suspended." {
			t.Errorf("poked: %s", got)
		}
		w.set(func() { w.stuck = false })
		time.Sleep(32 * time.Second)
		synctest.Wait()
		if got := w.take(); got != "end ws_2" {
			t.Errorf("later: %s", got)
		}
		cancel()
		all.Wait()
	})
}

// Nothing is begun for a suspended team.
func TestASuspendedTeamGetsNoSandbox(t *testing.T) {
	t.Parallel()
	e := suspension.New(suspension.Config{Accounts: &wards{}})
	for team, code := range map[string]string{"": "", "at work": "", "suspended": "team_suspended"} {
		if err := e.Admit(t.Context(), team); fault.CodeOf(err) != code {
			t.Errorf("%q: %v", team, err)
		}
	}
}
