package changes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
)

// watching runs Watch and gives its sets, joined.
func (tr *tree) watching(p *Poller, since uint64) (sets <-chan guest.ChangeSet, stop func()) {
	tr.t.Helper()
	ctx, cancel := context.WithCancel(tr.t.Context())
	out := make(chan guest.ChangeSet, 1000)
	done := make(chan error, 1)
	go func() {
		done <- p.Watch(ctx, tr.base, since, func(s guest.ChangeSet) error { out <- s; return nil })
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			tr.t.Errorf("watch ended with %v", err)
		}
	}
	tr.t.Cleanup(stop)
	return out, stop
}

func next(t testing.TB, sets <-chan guest.ChangeSet, within time.Duration) guest.ChangeSet {
	t.Helper()
	select {
	case s := <-sets:
		return s
	case <-time.After(within):
		t.Fatalf("nothing was reported within %v", within)
		return guest.ChangeSet{}
	}
}

// upserted waits for a set with an upsert of path.
func upserted(t testing.TB, sets <-chan guest.ChangeSet, path string) guest.ChangeSet {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		s := next(t, sets, time.Until(end))
		for _, c := range s.Upserts {
			if c.Path == path {
				return s
			}
		}
	}
}

func TestWatchSendsOnlyDifferences(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tr.write("one", "1\n")
	sets, stop := tr.watching(p, 0)
	first := next(t, sets, time.Minute)
	if !first.Reset || len(first.Upserts) != 1 || first.Head != tr.base || first.Branch != "work" {
		t.Fatalf("first %+v", first)
	}
	tr.write("two", "2\n")
	s := upserted(t, sets, "two")
	if s.Reset || len(s.Upserts) != 1 || s.Since < first.Version || s.Version <= first.Version {
		t.Fatalf("second %+v", s)
	}
	tr.remove("one")
	for len(s.Removes) == 0 {
		s = next(t, sets, time.Minute)
	}
	if len(s.Upserts) != 0 || s.Removes[0] != "one" {
		t.Fatalf("third %+v", s)
	}
	stop()

	// A watcher with a known version gets the differences from it, or an empty set; one with an unknown version gets everything.
	sets, stop = tr.watching(p, s.Version)
	if again := next(t, sets, time.Minute); again.Reset || len(again.Upserts) != 0 || again.Version != s.Version {
		t.Fatalf("again %+v", again)
	}
	stop()
	sets, stop = tr.watching(p, first.Version)
	if behind := next(t, sets, time.Minute); behind.Reset || len(behind.Upserts) != 1 || len(behind.Removes) != 1 {
		t.Fatalf("behind %+v", behind)
	}
	stop()
	for _, unknown := range []uint64{1, s.Version + 1000} {
		sets, stop = tr.watching(p, unknown)
		if all := next(t, sets, time.Minute); !all.Reset || len(all.Upserts) != 1 {
			t.Fatalf("unknown %+v", all)
		}
		stop()
	}
}

// A write is reported, however it was noticed. The schedule, which is tested without a clock, decides how soon.
func TestAWriteIsReportedSoon(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(tr *tree, p *Poller)
		path string
	}{
		{"tracked file", func(tr *tree, _ *Poller) { tr.write("src/main.go", "x\n") }, "src/main.go"},
		{"new file at the root", func(tr *tree, _ *Poller) { tr.write("new", "x\n") }, "new"},
		{"new file in a new folder", func(tr *tree, p *Poller) { tr.write("a/b/c/new", "x\n"); p.Hint() }, "a/b/c/new"},
		{"second edit", func(tr *tree, _ *Poller) { tr.write("README.md", "second\n") }, "README.md"},
		{"mode", func(tr *tree, _ *Poller) { os.Chmod(tr.path("src/lib.go"), 0o755) }, "src/lib.go"},
		{"commit", func(tr *tree, _ *Poller) { tr.git("commit", "-qam", "x") }, "README.md"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			p := tr.poller()
			tr.write("README.md", "first!\n")
			sets, _ := tr.watching(p, 0)
			next(t, sets, time.Minute)
			// The folders are watched once the watcher is idle; then it would not look again for a second and more.
			settle(t, p)
			begin := time.Now()
			tt.do(tr, p)
			upserted(t, sets, tt.path)
			t.Logf("told after %v", time.Since(begin).Round(time.Millisecond))
		})
	}
}

// settle waits until the file system is watched.
func settle(t testing.TB, p *Poller) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for !p.covered() {
		if time.Now().After(end) {
			t.Fatal("the file system is not watched")
		}
		time.Sleep(5 * time.Millisecond) // between two looks at the condition
	}
}

func TestTwoWatchersAndASlowOne(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	stuck := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- p.Watch(ctx, tr.base, 0, func(guest.ChangeSet) error { <-stuck; return nil })
	}()
	sets, stop := tr.watching(p, 0)
	next(t, sets, time.Minute)
	tr.write("x", "x\n")
	upserted(t, sets, "x")
	stop()
	cancel()
	close(stuck)
	<-done
}

func TestWatchEndsWithSend(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	gone := errors.New("the host hung up")
	if err := p.Watch(t.Context(), tr.base, 0, func(guest.ChangeSet) error { return gone }); !errors.Is(err, gone) {
		t.Fatal(err)
	}
}

func TestPollsGivenUpHalfWay(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.PollNow(ctx, tr.base); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	tr.write("x", "x\n")
	if got := tr.poll(p); len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
}

func TestPrivateFolderIsNotInTheWorktree(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := New(Config{Root: tr.root, Dir: filepath.Join(tr.root, "x")})
	if set := tr.pollSet(p); set.Error == "" {
		t.Fatalf("got %+v", set)
	}
	p = New(Config{Root: tr.root}) // a temporary one
	tr.poll(p)
	dir := p.tempDir
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); dir == "" || err == nil {
		t.Fatalf("%q is left behind", dir)
	}
}
