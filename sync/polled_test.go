package filesync_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/store/storetest"
	filesync "github.com/parawork/parawork/sync"
)

// keeper stores versions, and fails as often as the test wants.
type keeper struct {
	mu   sync.Mutex
	fail int
	kept []string
}

func (k *keeper) polled(_ context.Context, _, _ string, paths []string, whole bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail > 0 {
		k.fail--
		return errors.New("the disk is full")
	}
	what := strings.Join(slices.Sorted(slices.Values(paths)), " ")
	if whole {
		what = "whole: " + what
	}
	k.kept = append(k.kept, what)
	return nil
}

func (k *keeper) breaks(times int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = times
}

func (k *keeper) has(what string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.kept, what)
}

func (k *keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = nil
}

// What could not be kept is looked at again, although nothing changes any more.
func TestWhatWasNotKeptIsKeptLater(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	var k keeper
	h.service = filesync.New(filesync.Config{Store: h.store, Places: h, Workspaces: h, Events: h, Polled: k.polled, Log: slog.New(slog.DiscardHandler)})
	h.run()
	box := newScript()
	box.Poll = func(context.Context, string) (guest.ChangeSet, error) { return reset(2, change("a"), change("b")), nil }
	h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
	<-box.asked
	box.sets <- reset(1, change("a"))
	eventually(t, "the first set is kept", func() bool { return k.has("whole: a") })
	k.breaks(2)
	box.sets <- delta(2, change("b"))
	eventually(t, "what is new is kept", func() bool { return k.has("whole: a b") })
}

// Likewise of a place with a disk of its own, whose files are on this server already.
func TestSyncedFilesWithoutASnapshotGetOneLater(t *testing.T) {
	t.Parallel()
	var k keeper
	r := newRemoteHarness(t, func(c *filesync.Config) { c.Polled = k.polled })
	k.breaks(2)
	put(t, r.in("README.md"), "changed\n")
	r.sync()
	eventually(t, "a version has what was synced", func() bool { return k.has("README.md") })
}

// What somebody looks at who keeps it themself is kept once; where they could not, it is looked at again.
func TestWhoLooksKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	var k keeper
	h.service = filesync.New(filesync.Config{Store: h.store, Places: h, Workspaces: h, Events: h, Polled: k.polled, Log: slog.New(slog.DiscardHandler)})
	h.run()
	box := newScript()
	now := reset(2, change("a"), change("b"))
	var mu sync.Mutex
	box.Poll = func(context.Context, string) (guest.ChangeSet, error) {
		mu.Lock()
		defer mu.Unlock()
		return now, nil
	}
	h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
	<-box.asked
	box.sets <- reset(1, change("a"))
	eventually(t, "the first set is kept", func() bool { return k.has("whole: a") })
	look := func() filesync.Around {
		t.Helper()
		a, ok, err := h.service.LookAround(t.Context(), h.workspaceID)
		if err != nil || !ok || a.Base != baseA || a.Kept == nil {
			t.Fatalf("looked: %+v, %v, %v", a, ok, err)
		}
		return a
	}
	a := look()
	if got := slices.Sorted(slices.Values(a.Paths)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("it saw %q", got)
	}
	a.Kept(true)
	if k.has("whole: a b") {
		t.Error("it was kept twice")
	}
	mu.Lock()
	now = reset(3, change("a"), change("b"), change("c"))
	mu.Unlock()
	look().Kept(false)
	eventually(t, "what was not kept is kept later", func() bool { return k.has("whole: a b c") })
}

// A server that dies between syncing files and storing the version with them: the next one has all files compared, although nothing of them
// changes any more.
func TestFilesSyncedBeforeTheServerDiedAreInASnapshot(t *testing.T) {
	t.Parallel()
	var k keeper
	r := newRemoteHarness(t, func(c *filesync.Config) { c.Polled = k.polled })
	put(t, r.in("gone.txt"), "one\n")
	put(t, r.in("kept.txt"), "one\n")
	r.sync()
	eventually(t, "the first version is kept", func() bool { return k.has("gone.txt kept.txt") })
	r.stop()

	dead, release, once := make(chan struct{}), make(chan struct{}), sync.Once{}
	s := filesync.New(r.cfg)
	s.Crash(func(point string) error {
		if point != "home" {
			return nil
		}
		once.Do(func() { close(dead) })
		<-release
		return errors.New("dead")
	})
	ctx, cancel := contextOf(t)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	must(t, os.Remove(r.in("gone.txt")))
	put(t, r.in("kept.txt"), "two\n")
	s.Follow(r.place)
	if _, err := r.place.Guest.PollNow(t.Context(), git(t, r.host, "rev-parse", "HEAD")); err != nil {
		t.Fatal(err)
	}
	<-dead
	cancel()
	close(release)
	<-done

	k.forget()
	r.start()
	eventually(t, "all files are compared", func() bool { return k.has("whole: kept.txt") })
	r.sync()
	r.same()
}
