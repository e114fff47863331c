package changes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// cheap polls as a watcher does: git may believe what it remembers. It returns the reported paths.
func (tr *tree) cheap(p *Poller) map[string]bool {
	tr.t.Helper()
	t, err := p.tracker(tr.base)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer p.release(t)
	if err := p.poll(tr.t.Context(), t, p.pollsBegun(), false); err != nil {
		tr.t.Fatal(err)
	}
	reported := make(map[string]bool)
	for path := range byPath(tr.t, t.delta(0)[0]) {
		reported[path] = true
	}
	return reported
}

// dated makes a file with a modification time, as a pattern for touch.
func (tr *tree) dated(at time.Time) string {
	tr.t.Helper()
	path := filepath.Join(realTemp(tr.t), "dated")
	writeFile(tr.t, path, "")
	if err := os.Chtimes(path, at, at); err != nil {
		tr.t.Fatal(err)
	}
	return path
}

// Git compares times in whole seconds. What changes between its looking and its writing of the index, in the second of the change before
// and while the index is already of the next one, would be taken for what it saw, for ever: here a new folder of many files. A file that was
// rewritten with as many bytes is seen as well.
func TestWhatChangesWhileGitLooksIsSeenByTheNextPoll(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.git("config", "core.trustctime", "false") // the time of the inode cannot be set, and is of the same second in the real case
	tr.write("p/x", "x\n")
	second := time.Now().Add(5 * time.Second).Truncate(time.Second) // in which git looks, for all it can tell by the times
	same, later := tr.dated(second), tr.dated(second.Add(time.Second))
	for _, path := range []string{"p", "src/lib.go"} {
		if err := os.Chtimes(tr.path(path), second, second); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(tr.path("src/lib.go"))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(realTemp(t), "other")
	writeFile(t, other, "L"+string(was[1:]))
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	once := filepath.Join(realTemp(t), "once")
	slow := filepath.Join(realTemp(t), "git.sh")
	writeFile(t, slow, fmt.Sprintf(`#!/bin/sh
%[1]s "$@"
code=$?
case " $* " in *" status "*)
	if mkdir %[2]s 2>/dev/null; then
		mkdir p/new
		for i in 0 1 2 3 4 5 6 7 8 9; do echo $i >p/new/$i; done
		touch -r %[3]s p
		cat %[4]s >src/lib.go
		touch -r %[3]s src/lib.go
		touch -r %[5]s "$GIT_DIR/index"
	fi
esac
exit $code
`, real, once, same, other, later))
	p := New(Config{Root: tr.root, Dir: filepath.Join(realTemp(t), "private"), GitPath: slow, Timeout: 20 * time.Second})
	t.Cleanup(func() { p.Close() })
	if reported := tr.cheap(p); !reported["p/x"] || reported["p/new/0"] {
		t.Fatalf("the first poll told %v", reported)
	}
	if _, err := os.Stat(once); err != nil {
		t.Fatal("nothing changed while git looked")
	}
	reported := tr.cheap(p)
	for _, path := range []string{"p/x", "p/new/0", "p/new/9", "src/lib.go"} {
		if !reported[path] {
			t.Errorf("the next poll does not tell %s: %v", path, reported)
		}
	}
}

// Whoever asks now is answered by a look at everything, whatever git remembers of folders; and the polls after it know as much.
func TestAnAnswerNowIsNoMemory(t *testing.T) {
	t.Parallel()
	for name, remember := range map[string]func(tr *tree, p *Poller) (index string){
		"of our own": func(tr *tree, p *Poller) string {
			tr.cheap(p)
			tr.cheap(p)
			return p.shadow.path("index")
		},
		"of the agent's git": func(tr *tree, _ *Poller) string {
			tr.git("config", "core.untrackedCache", "true")
			tr.git("config", "status.showUntrackedFiles", "all")
			tr.git("status")
			tr.git("status")
			return tr.git("rev-parse", "--git-path", "index")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.git("config", "core.trustctime", "false")
			tr.write("p/x", "x\n")
			second := time.Now().Add(-5 * time.Second).Truncate(time.Second)
			hide := func() {
				if err := os.Chtimes(tr.path("p"), second, second); err != nil {
					t.Fatal(err)
				}
			}
			hide()
			p := tr.poller()
			index := remember(tr, p)
			tr.write("p/new/0", "0\n")
			hide()
			if err := os.Chtimes(index, time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
			if name == "of our own" && tr.cheap(p)["p/new/0"] {
				t.Fatal("git does not remember: the test is about nothing")
			}
			if name != "of our own" {
				if reported := tr.cheap(p); !reported["p/new/0"] {
					t.Errorf("a poll believes the agent's git: %v", reported)
				}
			}
			if !tr.named(p)["p/new/0"] {
				t.Error("the names lack the new file")
			}
			if got := tr.poll(p); got["p/new/0"].Path == "" {
				t.Errorf("PollNow returned %v", got)
			}
			if reported := tr.cheap(p); !reported["p/new/0"] {
				t.Errorf("the poll after it tells %v", reported)
			}
		})
	}
}

// A look that began after the question answers it, unless it was not a whole one.
func TestOnlyAWholeLookAnswers(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tk, err := p.tracker(tr.base)
	if err != nil {
		t.Fatal(err)
	}
	defer p.release(tk)
	asked := p.pollsBegun()
	looks := func(full bool) uint64 {
		before := p.pollsBegun()
		if err := p.poll(t.Context(), tk, asked, full); err != nil {
			t.Fatal(err)
		}
		return p.pollsBegun() - before
	}
	for i, c := range []struct {
		full bool
		want uint64
	}{{false, 1}, {false, 0}, {true, 1}, {true, 0}, {false, 0}} {
		if got := looks(c.full); got != c.want {
			t.Errorf("step %d: it looked %d times", i, got)
		}
	}
}
