package filesync_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	filesync "github.com/parawork/parawork/sync"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Everything that can happen to a file is synced: content, mode, links, names, renames, empty files, folders that turn into files.
func TestFilesAreSynced(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	r.same()
	steps := []struct {
		name string
		do   func()
	}{
		{"changed, new, empty, deep", func() {
			put(t, r.in("README.md"), "hello\nworld\n")
			put(t, r.in("new/a/b/c.txt"), "new\n")
			put(t, r.in("empty"), "")
			put(t, r.in("caf\xe9\nx"), "odd\n")
			put(t, r.in("ignored/x"), "not taken\n")
		}},
		{"modes", func() {
			must(t, os.Chmod(r.in("README.md"), 0o755))
			must(t, os.Chmod(r.in("run.sh"), 0o644))
		}},
		{"renamed and deleted", func() {
			git(t, r.inside, "mv", "src/lib.go", "src/moved.go")
			must(t, os.RemoveAll(r.in("src/deep")))
			must(t, os.RemoveAll(r.in("new")))
		}},
		{"a file becomes a folder, a folder a file, a link changes", func() {
			must(t, os.Remove(r.in("README.md")))
			put(t, r.in("README.md/inner"), "x\n")
			must(t, os.RemoveAll(r.in("src")))
			put(t, r.in("src"), "a file now\n")
			must(t, os.Remove(r.in("link")))
			must(t, os.Symlink("../../../etc/passwd", r.in("link")))
		}},
		{"and back", func() {
			git(t, r.inside, "checkout", "-qf", ".")
			git(t, r.inside, "reset", "-q", "--hard")
			git(t, r.inside, "clean", "-qfd")
		}},
		{"committed inside", func() {
			put(t, r.in("src/lib.go"), "committed\n")
			git(t, r.inside, "add", "-A")
			git(t, r.inside, "commit", "-qm", "c")
		}},
		{"a large file", func() {
			put(t, r.in("big.bin"), strings.Repeat("0123456789abcdef", 600_000)+"end")
		}},
		{"a very large file is written in its middle", func() {
			put(t, r.in("huge.bin"), strings.Repeat("0123456789abcdef", 2_200_000))
		}},
		{"again", func() {
			f, err := os.OpenFile(r.in("huge.bin"), os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("changed"), 20_000_000)
			must(t, errors.Join(err, f.Close()))
		}},
		{"deleted", func() { must(t, os.Remove(r.in("huge.bin"))); must(t, os.Remove(r.in("big.bin"))) }},
	}
	for _, s := range steps {
		s.do()
		r.sync()
		t.Log(s.name)
		r.same("ignored/x")
		if t.Failed() {
			t.Fatalf("after: %s", s.name)
		}
	}
	if h := r.home(); h.State != filesync.Synced || h.Pending != 0 || len(h.NotSynced)+len(h.Conflicts) != 0 || h.SyncedAt == 0 {
		t.Errorf("told %+v", h)
	}
}

// Changes are synced without a request, and published.
func TestFilesComeByThemselves(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	put(t, r.in("a.txt"), "a\n")
	eventually(t, "the file is synced", func() bool {
		b, err := os.ReadFile(r.onHost("a.txt"))
		return err == nil && string(b) == "a\n" && r.home().State == filesync.Synced
	})
	eventually(t, "the sync is published", func() bool {
		for _, e := range r.published() {
			if e.Type == "sync.updated" && e.WorkspaceID == r.workspaceID {
				return true
			}
		}
		return false
	})
}

// Thousands at once come in several steps.
func TestManyFilesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	for i := range 1200 {
		put(t, r.in("many/"+strconv.Itoa(i%50)+"/"+strconv.Itoa(i)), strings.Repeat(strconv.Itoa(i), 20))
	}
	r.sync()
	r.same()
	must(t, os.RemoveAll(r.in("many")))
	r.sync()
	r.same()
	if _, err := os.Lstat(r.onHost("many")); err == nil {
		t.Error("an empty folder is left")
	}
}

// A file that changed on both sides: the sandbox's version takes the path, the server's is kept beside it, on both sides.
func TestBothSidesAreKept(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	put(t, r.in("README.md"), "first\n")
	r.sync()
	put(t, r.onHost("README.md"), "a person's\n")
	put(t, r.onHost("fresh.txt"), "a person's too\n")
	put(t, r.onHost("way"), "in the way\n")
	put(t, r.in("README.md"), "the agent's\n")
	put(t, r.in("fresh.txt"), "the agent's\n")
	put(t, r.in("way/x"), "x\n")
	r.sync()
	h := r.home()
	if len(h.Conflicts) != 3 {
		t.Fatalf("conflicts: %+v", h.Conflicts)
	}
	kept := map[string]string{}
	for _, c := range h.Conflicts {
		b, err := os.ReadFile(r.onHost(c.Kept))
		must(t, err)
		kept[c.Path] = string(b)
		if !strings.HasPrefix(c.Kept, c.Path+".server-") {
			t.Errorf("%q is kept as %q", c.Path, c.Kept)
		}
	}
	if kept["README.md"] != "a person's\n" || kept["fresh.txt"] != "a person's too\n" || kept["way"] != "in the way\n" {
		t.Errorf("kept %q", kept)
	}
	eventually(t, "the sandbox has them too", func() bool {
		for _, c := range h.Conflicts {
			if _, err := os.Stat(r.in(c.Kept)); err != nil {
				return false
			}
		}
		return true
	})
	r.sync()
	r.same()
	if len(r.home().Conflicts) != 3 {
		t.Errorf("conflicts: %+v", r.home().Conflicts)
	}
	must(t, r.service.SettleConflict(t.Context(), h.Conflicts[0].ID))
	if got := r.home().Conflicts; len(got) != 2 {
		t.Errorf("after settling one: %+v", got)
	}
}

// A host file the sandbox deleted while a person changed it stays under another name.
func TestDeletedInsideAndChangedOutside(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	put(t, r.onHost("README.md"), "a person's\n")
	must(t, os.Remove(r.in("README.md")))
	r.sync()
	if h := r.home(); len(h.Conflicts) != 1 {
		t.Fatalf("conflicts: %+v", h.Conflicts)
	} else if b, err := os.ReadFile(r.onHost(h.Conflicts[0].Kept)); err != nil || string(b) != "a person's\n" {
		t.Errorf("kept %q, %v", b, err)
	}
	r.sync()
	r.same()
}

// Who has waited for a sync has waited for kept files that were on their way to the sandbox, too: what is done there next, a commit or a
// pause, does not meet half of one.
func TestASyncWaitsForWhatIsSent(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	r.stop()
	synced, sent, once := make(chan struct{}), make(chan struct{}), sync.Once{}
	r.start(func(s *filesync.Service) {
		s.Crash(func(at string) error {
			if at == "sending" {
				select {
				case <-synced:
					t.Error("the sync had ended while a kept file was being sent")
				case <-time.After(time.Second): // for it to end, where it does not wait
				}
				once.Do(func() { close(sent) })
			}
			return nil
		})
	})
	put(t, r.onHost("README.md"), "a person's\n")
	put(t, r.in("README.md"), "the agent's\n")
	r.sync()
	close(synced)
	<-sent
	h := r.home()
	if len(h.Conflicts) != 1 {
		t.Fatalf("conflicts: %+v", h.Conflicts)
	}
	if b, err := os.ReadFile(r.in(h.Conflicts[0].Kept)); err != nil || string(b) != "a person's\n" {
		t.Errorf("the sandbox has %q, %v", b, err)
	}
	r.sync()
	r.same()
}

// A kept file that could not be sent is sent again by itself: nothing has to change first.
func TestWhatCouldNotBeSentIsSentAgain(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	r.stop()
	failed := atomic.Int32{}
	r.start(func(s *filesync.Service) {
		s.Crash(func(at string) error {
			if at == "sending" && failed.Add(1) <= 2 {
				return errors.New("the pipe was cut")
			}
			return nil
		})
	})
	put(t, r.onHost("README.md"), "a person's\n")
	put(t, r.in("README.md"), "the agent's\n")
	r.sync()
	h := r.home()
	if len(h.Conflicts) != 1 {
		t.Fatalf("conflicts: %+v", h.Conflicts)
	}
	eventually(t, "the sandbox has it", func() bool {
		b, err := os.ReadFile(r.in(h.Conflicts[0].Kept))
		return err == nil && string(b) == "a person's\n"
	})
	r.sync()
	r.same()
}

// Files on the host the sandbox never had stay.
func TestForeignHostFilesStay(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	put(t, r.onHost("notes.txt"), "mine\n")
	put(t, r.onHost("src/deep/er/mine.txt"), "mine\n")
	must(t, os.RemoveAll(r.in("src/deep")))
	r.sync()
	r.same("notes.txt", "src/deep/er/mine.txt")
	for _, name := range []string{"notes.txt", "src/deep/er/mine.txt"} {
		if b, err := os.ReadFile(r.onHost(name)); err != nil || string(b) != "mine\n" {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
}

// The base moves: what is in it now and was not touched inside is on the host too.
func TestTheBaseMoves(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	put(t, r.in("mine.txt"), "mine\n")
	r.sync()
	put(t, filepath.Join(r.repo, "from-main.txt"), "main\n")
	put(t, filepath.Join(r.repo, "src/lib.go"), "main's\n")
	git(t, r.repo, "rm", "-q", "src/deep/er/old.go")
	git(t, r.repo, "add", "-A")
	git(t, r.repo, "commit", "-qm", "main moves")
	git(t, r.inside, "pull", "-q", "--rebase", "origin", "main")
	r.setBase(git(t, r.repo, "rev-parse", "main"))
	r.sync()
	r.same()
	st, err := r.store.MirrorState(t.Context(), r.workspaceID)
	if err != nil || st.BaseCommit != git(t, r.repo, "rev-parse", "main") {
		t.Errorf("built on %+v, %v", st, err)
	}
	if files, err := r.store.MirrorFiles(t.Context(), r.workspaceID); err != nil || len(files) != 1 || files[0].Path != "mine.txt" {
		t.Errorf("stored: %+v, %v", files, err)
	}
}

// Files that are not synced are listed with the reason, and the host's version stays.
func TestWhatDoesNotCome(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t, func(c *filesync.Config) { c.MaxFile, c.MaxTotal = 1<<20, 3<<20 })
	put(t, r.in("README.md"), strings.Repeat("x", 1<<20+1))
	for i := range 5 {
		put(t, r.in("part"+strconv.Itoa(i)), strings.Repeat("y", 1<<20-1))
	}
	must(t, os.MkdirAll(r.in("sub"), 0o755))
	git(t, r.in("sub"), "init", "-q")
	put(t, r.in("sub/x"), "x\n")
	r.sync()
	states := map[string]string{}
	for _, f := range r.home().NotSynced {
		states[f.Path] = f.State
		if f.Reason == "" {
			t.Errorf("%s without a reason", f.Path)
		}
	}
	if states["README.md"] != filesync.FileTooLarge || states["sub"] != filesync.FileRefused || len(states) != 4 {
		t.Errorf("not synced: %v", states)
	}
	if b, err := os.ReadFile(r.onHost("README.md")); err != nil || string(b) != "hello\n" {
		t.Errorf("the host has %.20q, %v", b, err)
	}
	put(t, r.in("README.md"), "small again\n")
	must(t, os.RemoveAll(r.in("sub")))
	for i := range 5 {
		must(t, os.Remove(r.in("part"+strconv.Itoa(i))))
	}
	r.sync()
	r.same()
	if n := r.home().NotSynced; len(n) != 0 {
		t.Errorf("still not synced: %+v", n)
	}
}

// A server that dies at any instant: the next one brings everything home and mistakes none of its own files for a person's.
func TestDyingAnywhere(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"noted", "moving", "moved", "home", "stored"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newRemoteHarness(t)
			put(t, r.in("README.md"), "one\n")
			put(t, r.in("new.txt"), "one\n")
			r.sync()
			r.stop()

			dead, release, once := make(chan struct{}), make(chan struct{}), sync.Once{}
			s := filesync.New(r.cfg)
			s.Crash(func(point string) error {
				if point != at {
					return nil
				}
				once.Do(func() { close(dead) })
				<-release
				return errors.New("dead")
			})
			ctx, cancel := contextOf(t)
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			put(t, r.in("README.md"), "two\n")
			must(t, os.Remove(r.in("new.txt")))
			must(t, os.Remove(r.in("run.sh")))
			put(t, r.in("another.txt"), "two\n")
			put(t, r.in("passing.txt"), "two\n")
			put(t, r.onHost("src/lib.go"), "a person's\n")
			put(t, r.in("src/lib.go"), "two\n")
			look := func() { // so that the first reported set is current
				_, err := r.place.Guest.PollNow(t.Context(), git(t, r.host, "rev-parse", "HEAD"))
				must(t, err)
			}
			look()
			s.Follow(r.place)
			<-dead
			cancel()
			close(release)
			<-done

			// The sandbox goes on while nobody is there.
			put(t, r.in("README.md"), "three\n")
			put(t, r.in("another.txt"), "three\n")
			must(t, os.Remove(r.in("passing.txt"))) // nothing says that it ever was, but the journal
			look()
			r.start()
			r.sync()
			r.sync() // the kept file is in the sandbox then
			h := r.home()
			if len(h.Conflicts) != 1 || h.Conflicts[0].Path != "src/lib.go" {
				t.Fatalf("conflicts: %+v", h.Conflicts)
			}
			if b, err := os.ReadFile(r.onHost(h.Conflicts[0].Kept)); err != nil || string(b) != "a person's\n" {
				t.Errorf("kept %q, %v", b, err)
			}
			r.same()
		})
	}
}

// After a start everything is looked at again: what a person changed meanwhile is kept.
func TestAStartLooksAtEverything(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	put(t, r.in("README.md"), "one\n")
	r.sync()
	r.stop()
	put(t, r.onHost("README.md"), "a person's\n")
	r.start()
	r.sync()
	r.sync()
	if h := r.home(); len(h.Conflicts) != 1 {
		t.Errorf("conflicts: %+v", h.Conflicts)
	}
	r.same()
}

// Names and links from a sandbox never lead out of the worktree.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	outside := filepath.Join(r.dir, "outside")
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.Symlink(outside, r.onHost("trap"))) // what somebody left on the host
	put(t, r.in("trap/x"), "x\n")
	must(t, os.Symlink(outside, r.in("way")))
	r.sync()
	must(t, os.Remove(r.in("way")))
	put(t, r.in("way/y"), "y\n")
	r.sync()
	r.sync()
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 0 {
		t.Errorf("outside: %v %v", entries, err)
	}
	for _, name := range []string{"trap/x", "way/y"} {
		if b, err := os.ReadFile(r.onHost(name)); err != nil || !bytes.Equal(b, []byte(name[len(name)-1:]+"\n")) {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
}
