package changes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
)

// Every kind of change, told by one poll and shown by a diff.
func TestKindsOfChange(t *testing.T) {
	t.Parallel()
	lib := strings.Repeat("line of the library\n", 40)
	old := strings.Repeat("old text, to be moved\n", 30)
	tests := []struct {
		name  string
		make  func(tr *tree)
		want  guest.Change // Path "" = nothing
		diff  []string     // lines that the diff must hold
		lacks string
	}{
		{name: "nothing", make: func(*tree) {}},
		{name: "touched only", make: func(tr *tree) {
			tr.write("README.md", baseFiles["README.md"])
		}},
		{name: "modified", make: func(tr *tree) { tr.write("README.md", "# Title\n\nOther words.\nMore.\n") },
			want: guest.Change{Path: "README.md", Status: "modified", Mode: "100644", OldMode: "100644", Size: 28,
				Additions: 2, Deletions: 1, Hash: hashOf("# Title\n\nOther words.\nMore.\n")},
			diff: []string{"--- a/README.md", "+++ b/README.md", "-Some words.", "+Other words.", "+More."}},
		{name: "staged", make: func(tr *tree) { tr.write("empty", "x\n"); tr.git("add", "empty") },
			want: guest.Change{Path: "empty", Status: "modified", Mode: "100644", OldMode: "100644", Size: 2, Additions: 1, Hash: hashOf("x\n"), Staged: true},
			diff: []string{"+x"}},
		{name: "committed", make: func(tr *tree) { tr.write("empty", "x\n"); tr.git("commit", "-qam", "x") },
			want: guest.Change{Path: "empty", Status: "modified", Mode: "100644", OldMode: "100644", Size: 2, Additions: 1, Hash: hashOf("x\n"), Committed: true},
			diff: []string{"+x"}},
		{name: "committed, then edited", make: func(tr *tree) {
			tr.write("empty", "x\n")
			tr.git("commit", "-qam", "x")
			tr.write("empty", "x\ny\n")
		},
			want: guest.Change{Path: "empty", Status: "modified", Mode: "100644", OldMode: "100644", Size: 4, Additions: 2, Hash: hashOf("x\ny\n")},
			diff: []string{"+x", "+y"}},
		{name: "committed, then taken back", make: func(tr *tree) {
			tr.write("empty", "x\n")
			tr.git("commit", "-qam", "x")
			tr.write("empty", "")
		}},
		{name: "untracked", make: func(tr *tree) { tr.write("new dir/new file.txt", "one\ntwo\n") },
			want: guest.Change{Path: "new dir/new file.txt", Status: "untracked", Mode: "100644", Size: 8, Additions: 2, Hash: hashOf("one\ntwo\n")},
			diff: []string{"new file mode 100644", "--- /dev/null", "+one", "+two"}},
		{name: "untracked empty", make: func(tr *tree) { tr.write("nothing", "") },
			want: guest.Change{Path: "nothing", Status: "untracked", Mode: "100644", Hash: hashOf("")},
			diff: []string{"new file mode 100644"}},
		{name: "ignored", make: func(tr *tree) { tr.write("ignored/x", "x"); tr.write("a.log", "x") }},
		{name: "added", make: func(tr *tree) { tr.write("n.sh", "x\n"); tr.git("add", "n.sh") },
			want: guest.Change{Path: "n.sh", Status: "added", Mode: "100755", Size: 2, Additions: 1, Hash: hashOf("x\n"), Staged: true},
			diff: []string{"new file mode 100755", "+x"}},
		{name: "added by intent", make: func(tr *tree) { tr.write("n.txt", "x\n"); tr.git("add", "-N", "n.txt") },
			want: guest.Change{Path: "n.txt", Status: "added", Mode: "100644", Size: 2, Additions: 1, Hash: hashOf("x\n")},
			diff: []string{"new file mode 100644", "+x"}},
		{name: "deleted", make: func(tr *tree) { tr.remove("src/lib.go") },
			want: guest.Change{Path: "src/lib.go", Status: "deleted", OldMode: "100644", Deletions: 40},
			diff: []string{"deleted file mode 100644", "+++ /dev/null", "-line of the library"}},
		{name: "renamed in git", make: func(tr *tree) { tr.git("mv", "src/old.go", "src/new.go") },
			want: guest.Change{Path: "src/new.go", OldPath: "src/old.go", Status: "renamed", Mode: "100644", OldMode: "100644", Size: int64(len(old)), Hash: hashOf(old), Staged: true},
			diff: []string{"similarity index 100%", "rename from src/old.go", "rename to src/new.go"}},
		{name: "renamed on the disk only, and edited", make: func(tr *tree) {
			tr.remove("src/old.go")
			tr.write("src/new.go", old+"more\n")
		},
			want: guest.Change{Path: "src/new.go", OldPath: "src/old.go", Status: "renamed", Mode: "100644", OldMode: "100644", Size: int64(len(old) + 5), Additions: 1, Hash: hashOf(old + "more\n")},
			diff: []string{"rename from src/old.go", "rename to src/new.go", "+more"}},
		{name: "renamed and committed", make: func(tr *tree) { tr.git("mv", "src/old.go", "new.go"); tr.git("commit", "-qm", "mv") },
			want: guest.Change{Path: "new.go", OldPath: "src/old.go", Status: "renamed", Mode: "100644", OldMode: "100644", Size: int64(len(old)), Hash: hashOf(old), Committed: true},
			diff: []string{"rename from src/old.go", "rename to new.go"}},
		{name: "mode only", make: func(tr *tree) { os.Chmod(tr.path("src/lib.go"), 0o755) },
			want: guest.Change{Path: "src/lib.go", Status: "modified", Mode: "100755", OldMode: "100644", Size: int64(len(lib)), Hash: hashOf(lib)},
			diff: []string{"old mode 100644", "new mode 100755"}},
		{name: "binary", make: func(tr *tree) { tr.write("bin.dat", "a\x00c") },
			want: guest.Change{Path: "bin.dat", Status: "modified", Mode: "100644", OldMode: "100644", Size: 3, Binary: true, Hash: hashOf("a\x00c")},
			diff: []string{"Binary files a/bin.dat and b/bin.dat differ"}},
		{name: "untracked binary", make: func(tr *tree) { tr.write("new.bin", "\x00\x01") },
			want: guest.Change{Path: "new.bin", Status: "untracked", Mode: "100644", Size: 2, Binary: true, Hash: hashOf("\x00\x01")},
			diff: []string{"Binary files /dev/null and b/new.bin differ"}},
		{name: "binary renamed", make: func(tr *tree) { tr.move("bin.dat", "moved.dat") },
			want: guest.Change{Path: "moved.dat", OldPath: "bin.dat", Status: "renamed", Mode: "100644", OldMode: "100644", Size: 5, Binary: true, Hash: hashOf("a\x00b\x01c")},
			diff: []string{"rename to moved.dat"}},
		{name: "file becomes a link", make: func(tr *tree) {
			tr.remove("README.md")
			os.Symlink("../outside", tr.path("README.md"))
		},
			want: guest.Change{Path: "README.md", Status: "type_changed", Mode: "120000", OldMode: "100644", Size: 10, Additions: 1, Deletions: 3, Hash: hashOf("../outside")},
			diff: []string{"deleted file mode 100644", "new file mode 120000", "+../outside"}},
		{name: "link edited", make: func(tr *tree) { tr.remove("link"); os.Symlink("/etc/passwd", tr.path("link")) },
			want: guest.Change{Path: "link", Status: "modified", Mode: "120000", OldMode: "120000", Size: 11, Additions: 1, Deletions: 1, Hash: hashOf("/etc/passwd")},
			diff: []string{"-README.md", "+/etc/passwd"}, lacks: "root:"},
		{name: "untracked link", make: func(tr *tree) { os.Symlink("/etc/passwd", tr.path("l2")) },
			want: guest.Change{Path: "l2", Status: "untracked", Mode: "120000", Size: 11, Additions: 1, Hash: hashOf("/etc/passwd")},
			diff: []string{"new file mode 120000", "+/etc/passwd"}, lacks: "root:"},
		{name: "removed from git, kept and edited", make: func(tr *tree) {
			tr.git("rm", "-q", "--cached", "README.md")
			tr.write("README.md", "new\n")
		},
			want: guest.Change{Path: "README.md", Status: "modified", Mode: "100644", OldMode: "100644", Size: 4, Additions: 1, Deletions: 3, Hash: hashOf("new\n")},
			diff: []string{"-# Title", "+new"}},
		{name: "removed from git, kept the same", make: func(tr *tree) { tr.git("rm", "-q", "--cached", "README.md") }},
		{name: "not UTF-8 content", make: func(tr *tree) { tr.write("README.md", "caf\xe9\n") },
			want: guest.Change{Path: "README.md", Status: "modified", Mode: "100644", OldMode: "100644", Size: 5, Additions: 1, Deletions: 3, Hash: hashOf("caf\xe9\n")},
			diff: []string{"+caf\xe9"}},
		{name: "carriage returns only", make: func(tr *tree) { tr.git("config", "core.autocrlf", "true"); tr.write("empty", "") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tt.make(tr)
			p := tr.poller()
			got := tr.poll(p)
			if tt.want.Path == "" {
				if len(got) != 0 {
					t.Fatalf("want no change, got %+v", got)
				}
				return
			}
			if len(got) != 1 || got[tt.want.Path] != tt.want {
				t.Fatalf("got  %+v\nwant %+v", got, tt.want)
			}
			text := tr.diff(p, tt.want.Path, tt.want.OldPath)
			for _, line := range tt.diff {
				if !strings.Contains("\n"+text, "\n"+line) {
					t.Errorf("the diff lacks %q:\n%s", line, text)
				}
			}
			if tt.lacks != "" && strings.Contains(text, tt.lacks) {
				t.Errorf("the diff holds %q:\n%s", tt.lacks, text)
			}
		})
	}
}

func TestFileBecomesFolder(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tr.remove("README.md")
	tr.write("README.md/inner", "x\n")
	got := tr.poll(p)
	if len(got) != 2 || got["README.md"].Status != "deleted" || got["README.md/inner"].Status != "untracked" {
		t.Fatalf("got %+v", got)
	}
	if text := tr.diff(p, "README.md", ""); !strings.Contains(text, "deleted file mode") {
		t.Errorf("diff: %s", text)
	}
	if text := tr.diff(p, "README.md/inner", ""); !strings.Contains(text, "+x\n") {
		t.Errorf("diff: %s", text)
	}
}

func TestFolderBecomesFileAndLink(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tr.remove("dir")
	tr.write("dir", "now a file\n")
	got := tr.poll(p)
	if len(got) != 2 || got["dir"].Status != "untracked" || got["dir/deep/a.txt"].Status != "deleted" {
		t.Fatalf("got %+v", got)
	}
	if text := tr.diff(p, "dir", ""); !strings.Contains(text, "+now a file") || strings.Count(text, "diff --git") != 1 {
		t.Errorf("diff: %s", text)
	}
	outside := realTemp(t)
	writeFile(t, outside+"/deep/a.txt", "secret of another\n")
	tr.remove("dir")
	if err := os.Symlink(outside, tr.path("dir")); err != nil {
		t.Fatal(err)
	}
	got = tr.poll(p)
	c := got["dir/deep/a.txt"]
	if len(got) != 2 || got["dir"].Mode != "120000" || c.Status != "deleted" || c.Size != 0 || c.Hash != "" {
		t.Fatalf("got %+v", got)
	}
	if text := tr.diff(p, "dir/deep/a.txt", ""); strings.Contains(text, "secret") || !strings.Contains(text, "deleted file mode") {
		t.Errorf("diff: %s", text)
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tr.git("checkout", "-q", "-b", "other")
	tr.write("README.md", "theirs\n")
	tr.remove("run.sh")
	tr.git("commit", "-qam", "theirs")
	tr.git("checkout", "-q", "work")
	tr.write("README.md", "ours\n")
	tr.write("run.sh", "#!/bin/sh\necho ours\n")
	tr.git("commit", "-qam", "ours")
	tr.mayFail("merge", "other")
	got := tr.poll(p)
	for _, name := range []string{"README.md", "run.sh"} {
		if c := got[name]; c.Status != "conflicted" || c.Staged || c.Committed || c.Hash == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := got["README.md"]; c.Additions != 5 || c.Deletions != 3 {
		t.Errorf("lines of the conflict: %+v", c)
	}
	if text := tr.diff(p, "README.md", ""); !strings.Contains(text, "+<<<<<<< HEAD") {
		t.Errorf("diff: %s", text)
	}
}

func TestHeadAndBranch(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	set := tr.pollSet(p)
	if set.Branch != "work" || set.Head != tr.base || set.Base != tr.base {
		t.Fatalf("got %+v", set)
	}
	v := set.Version
	if again := tr.pollSet(p); again.Version != v {
		t.Fatalf("the version grew from %d to %d though nothing changed", v, again.Version)
	}
	tr.git("checkout", "-q", "--detach")
	if set = tr.pollSet(p); set.Branch != "" || set.Head != tr.base || set.Version != v+1 {
		t.Fatalf("detached: %+v", set)
	}
	tr.git("checkout", "-q", "work")
	tr.git("pack-refs", "--all")
	if set = tr.pollSet(p); set.Branch != "work" || set.Head != tr.base {
		t.Fatalf("packed: %+v", set)
	}
	tr.git("checkout", "-q", "--orphan", "lonely")
	if set = tr.pollSet(p); set.Branch != "lonely" || set.Head != "" || set.Error != "" || len(set.Upserts) != 0 {
		t.Fatalf("unborn: %+v", set)
	}
}

func TestSecondEditOfDirtyFile(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	seen := make(map[uint64]bool)
	for _, text := range []string{"aaa\n", "bbb\n", "ccc\n", "ddd\n"} { // all of one size, so that status says the same
		tr.write("README.md", text)
		tr.write("untracked.txt", text)
		set := tr.pollSet(p)
		m := byPath(t, set)
		if m["README.md"].Hash != hashOf(text) || m["untracked.txt"].Hash != hashOf(text) {
			t.Fatalf("after %q: %+v", text, m)
		}
		if seen[set.Version] {
			t.Fatalf("version %d stands for two states", set.Version)
		}
		seen[set.Version] = true
	}
}

// The kinds of repository a workspace may come from.
func TestKindsOfRepository(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, tr *tree) {
		t.Helper()
		p := tr.poller()
		if got := tr.poll(p); len(got) != 0 {
			t.Fatalf("before: %+v", got)
		}
		tr.write("README.md", "x\n")
		tr.write("new", "x\n")
		tr.move("src/old.go", "src/moved.go")
		got := tr.poll(p)
		if len(got) != 3 || got["README.md"].Status != "modified" || got["new"].Status != "untracked" || got["src/moved.go"].Status != "renamed" {
			t.Fatalf("got %+v", got)
		}
		for _, path := range []string{"README.md", "new"} {
			if text := tr.diff(p, path, ""); !strings.Contains(text, "+x\n") {
				t.Errorf("diff of %s: %s", path, text)
			}
		}
		tr.git("add", "-A")
		tr.git("commit", "-qm", "x")
		if got := tr.poll(p); len(got) != 3 || !got["new"].Committed {
			t.Fatalf("committed: %+v", got)
		}
	}
	t.Run("main worktree", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		tr.root = tr.repo
		check(t, tr)
	})
	t.Run("sha256", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		tr.remove(".git")
		tr.git("init", "-q", "--object-format=sha256")
		tr.git("add", "-A")
		tr.git("commit", "-qm", "base")
		tr.base = tr.git("rev-parse", "HEAD")
		check(t, tr)
	})
	t.Run("bare", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		bare := filepath.Join(filepath.Dir(tr.root), "bare.git")
		tr.gitIn(tr.repo, "clone", "-q", "--bare", tr.repo, bare)
		tr.root += "2"
		tr.gitIn(bare, "worktree", "add", "-q", "-b", "other", tr.root, "main")
		check(t, tr)
	})
	t.Run("split index", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		tr.git("update-index", "--split-index")
		check(t, tr)
	})
	t.Run("index version 4", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		tr.git("update-index", "--index-version", "4")
		check(t, tr)
	})
	t.Run("packed and with alternates", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		shared := filepath.Join(filepath.Dir(tr.root), "shared")
		tr.gitIn(tr.repo, "gc", "-q")
		tr.gitIn(tr.repo, "clone", "-q", "--shared", tr.repo, shared)
		tr.root = shared
		check(t, tr)
	})
	t.Run("sparse checkout", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		tr.git("sparse-checkout", "set", "src")
		check(t, tr)
	})
	t.Run("reached through a link", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		link := tr.root + "-link"
		if err := os.Symlink(tr.root, link); err != nil {
			t.Fatal(err)
		}
		tr.root = link
		check(t, tr)
	})
}
