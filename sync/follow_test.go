package filesync_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	filesync "github.com/parawork/parawork/sync"
)

// script is a guest that sends what a test puts into it.
type script struct {
	filesync.FakeBox
	asked chan ask
	sets  chan guest.ChangeSet
}

type ask struct {
	base  string
	since uint64
}

func newScript() *script {
	s := &script{asked: make(chan ask, 100), sets: make(chan guest.ChangeSet, 1000)}
	s.Sets = func(_ context.Context, base string, since uint64) (<-chan guest.ChangeSet, error) {
		s.asked <- ask{base, since}
		return s.sets, nil
	}
	return s
}

func change(path string) guest.Change {
	return guest.Change{Path: path, Status: "modified", Mode: "100644", OldMode: "100644", Size: 3, Additions: 1, Deletions: 2,
		Hash: strings.Repeat("0", 64)}
}

func reset(version uint64, changes ...guest.Change) guest.ChangeSet {
	return guest.ChangeSet{Version: version, Reset: true, Base: baseA, Head: baseA, Branch: "work", Upserts: changes}
}

func delta(version uint64, changes ...guest.Change) guest.ChangeSet {
	s := reset(version, changes...)
	s.Reset = false
	return s
}

func paths(set filesync.Set) string {
	var out []string
	for _, c := range set.Items {
		out = append(out, c.Path)
	}
	return strings.Join(out, " ")
}

func TestFollowing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		h.run()
		box := newScript()
		gone := make(chan struct{})
		if set := h.changes(); set.Version != 0 || len(set.Items) != 0 || set.SyncedAt != 0 {
			t.Fatalf("before any look: %+v", set)
		}
		h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, gone)
		if a := <-box.asked; a != (ask{baseA, 0}) {
			t.Fatalf("asked %+v", a)
		}
		odd := guest.EncodePath("caf\xe9\n")
		renamed := change("new")
		renamed.Status, renamed.OldPath = "renamed", odd+"2"
		box.sets <- reset(100, change("a"), change(odd), renamed)
		eventually(t, "the first set", func() bool { return h.changes().Version == 1 })
		set := h.changes()
		if paths(set) != "a "+odd+" new" || set.Items[2] != renamed || set.HeadCommit != baseA || set.Branch != "work" || set.SyncedAt == 0 {
			t.Fatalf("got %+v", set)
		}
		sums, err := h.service.Summaries(t.Context(), h.teamID)
		if s := sums[h.workspaceID]; err != nil || s != (filesync.Summary{Files: 3, Additions: 3, Deletions: 6, Version: 1}) {
			t.Fatalf("summary %+v %v", s, err)
		}
		if sums, _ := h.service.Summaries(t.Context(), "another team"); len(sums) != 0 {
			t.Fatalf("another team sees %+v", sums)
		}

		d := delta(101, change("b"))
		d.Removes = []string{"a", "never there"}
		box.sets <- d
		eventually(t, "the delta", func() bool { return h.changes().Version == 2 })
		if set := h.changes(); paths(set) != "b "+odd+" new" {
			t.Fatalf("got %v", paths(set))
		}
		eventually(t, "an event with the last version", func() bool {
			e := h.published()
			return len(e) > 0 && e[len(e)-1].Version == 2 && e[0].Type == "changes.updated" && e[0].ID == h.workspaceID && e[0].TeamID == h.teamID
		})

		// The pipe is cut: it goes on from where it was. An old set sent again is not taken back to.
		close(box.sets)
		if a := <-box.asked; a.since != 101 {
			t.Fatalf("asked %+v", a)
		}

		// The place goes: the last set stays. A new place counts anew, and the version grows on.
		close(gone)
		next := newScript()
		h.service.FollowBox(h.workspaceID, h.teamID, "sbx_2", &next.FakeBox, nil)
		if a := <-next.asked; a.since != 0 {
			t.Fatalf("asked %+v", a)
		}
		next.sets <- reset(7, change("b"), change(odd), renamed)
		eventually(t, "a look", func() bool { return len(next.sets) == 0 })
		next.sets <- delta(8, change("c"))
		eventually(t, "the next change", func() bool { return h.changes().Version == 3 })
		if set := h.changes(); paths(set) != "b c "+odd+" new" {
			t.Fatalf("got %v", paths(set))
		}
	})
}

func TestRecordsOfOneSet(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		h.run()
		box := newScript()
		h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
		const n, each = 50_000, 4000
		for i := 0; i < n; i += each {
			set := delta(5)
			set.Reset, set.More = i == 0, i+each < n
			for j := i; j < min(i+each, n); j++ {
				set.Upserts = append(set.Upserts, change(fmt.Sprintf("folder/file %06d", j)))
			}
			box.sets <- set
		}
		eventually(t, "50,000 changes", func() bool { return h.changes().Version == 1 })
		if set := h.changes(); len(set.Items) != n {
			t.Fatalf("%d items", len(set.Items))
		}
		box.sets <- delta(6, change("one more"))
		eventually(t, "one more", func() bool { return len(h.changes().Items) == n+1 })
		set := delta(7)
		for i := range n {
			set.Removes = append(set.Removes, fmt.Sprintf("folder/file %06d", i))
		}
		box.sets <- set
		eventually(t, "all but one removed", func() bool { return len(h.changes().Items) == 1 })
	})
}

func TestBaseMoves(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.run()
	box := newScript()
	h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
	<-box.asked
	box.sets <- reset(10, change("a"))
	eventually(t, "the first set", func() bool { return h.changes().Version == 1 })
	h.setBase(baseB)
	box.Poll = func(_ context.Context, base string) (guest.ChangeSet, error) {
		set := reset(11, change("b"))
		set.Base = base
		return set, nil
	}
	if err := h.service.Look(t.Context(), h.workspaceID, baseB); err != nil {
		t.Fatal(err)
	}
	if set := h.changes(); paths(set) != "b" || set.BaseCommit != baseB {
		t.Fatalf("got %+v", set)
	}
	if a := <-box.asked; a.base != baseB {
		t.Fatalf("the stream asked %+v", a)
	}
}

func TestLiesAreRefused(t *testing.T) {
	t.Parallel()
	with := func(edit func(c *guest.Change)) guest.ChangeSet {
		c := change("evil")
		edit(&c)
		return delta(3, c)
	}
	set := func(edit func(s *guest.ChangeSet)) guest.ChangeSet {
		s := delta(3, change("evil"))
		edit(&s)
		return s
	}
	lies := map[string]guest.ChangeSet{
		"path with ..":     with(func(c *guest.Change) { c.Path = "../../etc/passwd" }),
		"absolute path":    with(func(c *guest.Change) { c.Path = "/etc/passwd" }),
		"empty path":       with(func(c *guest.Change) { c.Path = "" }),
		"NUL in path":      with(func(c *guest.Change) { c.Path = "a\x00b" }),
		"long path":        with(func(c *guest.Change) { c.Path = strings.Repeat("x", 5000) }),
		"path not UTF-8":   with(func(c *guest.Change) { c.Path = "caf\xe9" }),
		"two wire forms":   with(func(c *guest.Change) { c.Path = "\uF7C3\uF7A9" }),
		"old path with ..": with(func(c *guest.Change) { c.OldPath = "a/../b" }),
		"status":           with(func(c *guest.Change) { c.Status = "<script>" }),
		"mode":             with(func(c *guest.Change) { c.Mode = "rwxrwxrwx" }),
		"negative size":    with(func(c *guest.Change) { c.Size = -1 }),
		"size":             with(func(c *guest.Change) { c.Size = math.MaxInt64 }),
		"additions":        with(func(c *guest.Change) { c.Additions = -5 }),
		"deletions":        with(func(c *guest.Change) { c.Deletions = math.MaxInt }),
		"hash":             with(func(c *guest.Change) { c.Hash = strings.Repeat("Z", 64) }),
		"base":             set(func(s *guest.ChangeSet) { s.Base = baseB }),
		"head":             set(func(s *guest.ChangeSet) { s.Head = "HEAD" }),
		"branch":           set(func(s *guest.ChangeSet) { s.Branch = strings.Repeat("b", 2000) }),
		"removed path":     set(func(s *guest.ChangeSet) { s.Removes = []string{"../x"} }),
		"twice":            set(func(s *guest.ChangeSet) { s.Upserts = append(s.Upserts, change("evil")) }),
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, storetest.SQLite(t))
			h.run()
			box := newScript()
			h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
			<-box.asked
			box.sets <- reset(2, change("honest"))
			eventually(t, "the honest set", func() bool { return h.changes().Version == 1 })
			box.sets <- lie
			eventually(t, "the false report is shown", func() bool { return strings.Contains(h.changes().Error, "cannot be true") })
			if set := h.changes(); paths(set) != "honest" {
				t.Fatalf("kept %v", paths(set))
			}
			// A later honest report clears the error.
			if a := <-box.asked; a.since != 0 {
				t.Fatalf("asked %+v", a)
			}
			box.sets <- reset(4, change("honest"), change("too"))
			eventually(t, "an honest set again", func() bool { s := h.changes(); return s.Error == "" && paths(s) == "honest too" })
		})
	}
}

func TestWordsOfAGuestAreCleaned(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.run()
	box := newScript()
	h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
	set := reset(2)
	set.Error = "bad\x1b[31m\x00 words \xff" + strings.Repeat("x", 10_000)
	set.Branch = "b\x1b]0;"
	box.sets <- set
	eventually(t, "the set", func() bool { return h.changes().Version == 1 })
	got := h.changes()
	if strings.ContainsAny(got.Error+got.Branch, "\x1b\x00\xff") || len(got.Error) > 4200 || !strings.HasPrefix(got.Error, "bad?[31m? words ?") {
		t.Fatalf("got %q %q", got.Error[:40], got.Branch)
	}
}

func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("200,000 files take a while")
	}
	h := newHarness(t, storetest.SQLite(t))
	h.run()
	box := newScript()
	h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
	box.sets <- reset(1, change("honest"))
	eventually(t, "the honest set", func() bool { return h.changes().Version == 1 })
	set := delta(2)
	for i := range filesync.MaxFiles {
		set.Upserts = append(set.Upserts, change(fmt.Sprint(i)))
	}
	box.sets <- set
	eventually(t, "the refusal", func() bool { return h.changes().Error != "" })
	if got := h.changes(); paths(got) != "honest" {
		t.Fatalf("%d items", len(got.Items))
	}
}

func TestEventsAreFew(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.run()
	box := newScript()
	h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
	const n = 40
	box.sets <- reset(1)
	for i := range uint64(n) {
		box.sets <- delta(i+2, change(fmt.Sprint(i)))
	}
	eventually(t, "the last version told", func() bool {
		e := h.published()
		return len(e) > 0 && e[len(e)-1].Version == n+1
	})
	if e := h.published(); len(e) > n/2 {
		t.Errorf("%d events for %d versions", len(e), n+1)
	}
}

// Touched gets the files that changed just now, but not those of a whole set, which does not say when they changed.
func TestTouchedFilesAreReported(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.run()
	box := newScript()
	h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, make(chan struct{}))
	<-box.asked
	many := delta(102)
	for i := range 30 {
		many.Upserts = append(many.Upserts, change(fmt.Sprintf("m%02d", i)))
	}
	gone := delta(103)
	gone.Removes = []string{"a"}
	box.sets <- reset(100, change("a"))
	box.sets <- delta(101, change("b"))
	box.sets <- many
	box.sets <- gone
	eventually(t, "all are reported", func() bool { return len(h.reported()) >= 3 })
	got := h.reported()
	if got[0] != "b+0" || !strings.HasPrefix(got[1], "m00 m01") || !strings.HasSuffix(got[1], "m19+10") || got[2] != "a+0" || len(got) != 3 {
		t.Fatalf("told %q", got)
	}
}
