package conflict_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/conflict"
)

// sides is what both sides do: scripts that run in the base's folder and in the workspace's.
type sides struct{ began, branch, base string }

// everyConflict has one of each kind.
var everyConflict = sides{
	began: `printf 'one\ntwo\nthree\n' > text; printf '\0a' > pic.png; echo t > kept; echo t > gone; echo t > type; echo t > fd
		ln -s a link; for n in ren rendel; do seq 20 > $n; done`,
	branch: `printf 'one\nbranch\nthree\n' > text; printf '\0branch' > pic.png; echo branch >> kept; rm gone; rm type; ln -s there type; rm fd; mkdir fd; echo in > fd/in
		rm link; ln -s branch link; mv ren ren-branch; mv rendel rendel-branch; printf '\0x' > added.bin; echo same > prog; chmod +x prog`,
	base: `printf 'one\nbase\nthree\n' > text; printf '\0base' > pic.png; rm kept; echo base >> gone; echo base >> type; echo base >> fd
		rm link; ln -s base link; mv ren ren-base; rm rendel; printf '\0y' > added.bin; echo same > prog`,
}

func run(t testing.TB, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// disputed makes a workspace and a base that conflict.
func disputed(t *testing.T, h *wstest.Env, s sides) (workspaces.Workspace, string) {
	t.Helper()
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path})
	dir := h.Repo("app")
	run(t, dir, s.began)
	wstest.CommitAll(t, dir, "began")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	run(t, w.Path, s.branch)
	wstest.CommitAll(t, w.Path, "branch")
	run(t, dir, s.base)
	wstest.CommitAll(t, dir, "base")
	return w, dir
}

func begin(h *wstest.Env, w workspaces.Workspace, strategy string) {
	h.T.Helper()
	_, err := h.S.Conflicts.BeginResolve(h.T.Context(), h.Actor, w.ID, strategy)
	wstest.Must(h.T, err)
}

func takeBack(h *wstest.Env, w workspaces.Workspace, name, snapshot string) {
	h.T.Helper()
	_, err := h.S.Conflicts.Decide(h.T.Context(), h.Actor, w.ID, conflict.Decisions{SnapshotID: snapshot, List: []conflict.Decision{{Path: name, Version: h.Open(w)[name].Version, Undo: true}}})
	if err != nil {
		h.T.Fatalf("taking back what was decided of %s: %v", name, err)
	}
}

// tree lists the files of a commit with their modes and contents.
func tree(t testing.TB, dir, rev string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(wstest.Git(t, dir, "ls-tree", "-r", rev)) {
		f := strings.Fields(line)
		fmt.Fprintf(&out, "%s %s %q\n", f[0], f[3], wstest.Git(t, dir, "cat-file", "blob", f[2]))
	}
	return out.String()
}

func TestConflictsWithoutLinesAreDecided(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{"text": "content", "pic.png": "binary", "kept": "deleted", "gone": "deleted", "type": "types", "fd": "folder", "link": "symlink",
		"ren": "renames", "rendel-branch": "rename_gone", "added.bin": "binary", "prog": "mode"}
	want := map[string]map[string]string{ // the choice: files afterwards, "" = none
		"branch": {"text": "one\nbranch\nthree\n", "pic.png": "\x00branch", "kept": "t\nbranch\n", "gone": "", "type": "->there", "fd.main": "", "fd/in": "in\n", "link": "->branch",
			"ren": "", "ren-branch": "seq", "ren-base": "", "rendel-branch": "seq", "added.bin": "\x00x", "prog": "same\n"},
		"base": {"text": "one\nbase\nthree\n", "pic.png": "\x00base", "kept": "", "gone": "t\nbase\n", "type": "t\nbase\n", "fd.main": "t\nbase\n", "fd/in": "in\n", "link": "->base",
			"ren": "", "ren-branch": "", "ren-base": "seq", "rendel-branch": "", "added.bin": "\x00y", "prog": "same\n"},
		"both": {"text": "one\nbranch\nthree\n", "text.main": "one\nbase\nthree\n", "pic.png": "\x00branch", "pic.main.png": "\x00base", "kept": "t\nbranch\n", "gone": "t\nbase\n", "type": "->there", "type.main": "t\nbase\n",
			"fd.main": "t\nbase\n", "link": "->branch", "link.main": "->base", "ren": "", "ren-branch": "seq", "ren-base": "seq", "rendel-branch": "seq", "added.bin": "\x00x", "added.main.bin": "\x00y", "prog": "same\n"},
	}
	take := func(c conflict.OpenConflict, side string) string {
		if slices.Contains(c.Choices, side) {
			return side
		}
		has := c.Branch != nil && side == "branch" || c.Base != nil && side == "base" || side == "both"
		switch {
		case c.Kind == "mode":
			return "branch"
		case has:
			return "keep"
		}
		return "delete"
	}
	for _, strategy := range []string{"merge", "rebase"} {
		for side, files := range want {
			t.Run(strategy+" "+side, func(t *testing.T) {
				t.Parallel()
				h := wstest.SQLiteEnv(t)
				w, _ := disputed(t, h, everyConflict)
				begin(h, w, strategy)
				before := h.Open(w)
				for name, kind := range kinds {
					if before[name].Kind != kind || before[name].Decided {
						t.Errorf("%s is %+v", name, before[name])
					}
				}
				if len(before) != len(kinds) || t.Failed() {
					t.Fatalf("%d conflicts", len(before))
				}
				if c := before["gone"]; c.Branch != nil || c.Base == nil || c.Base.Size != 7 || c.Was == nil {
					t.Errorf("%+v", c)
				}
				if c := before["rendel-branch"]; c.Was == nil || c.Was.Path != "rendel" {
					t.Errorf("%+v", c)
				}
				if c := before["text"]; !slices.Equal(c.Marks, []int{2, 6}) {
					t.Errorf("marks at %v", c.Marks)
				}
				_, _, err := h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
				wstest.WantCode(t, err, "undecided_conflicts")
				for _, name := range slices.Sorted(maps.Keys(before)) {
					status := wstest.Git(t, w.Path, "status", "--porcelain=v2", "-uall")
					was := everyFile(t, w.Path)
					choice := take(before[name], side)
					snap := h.Decide(w, name, choice)
					if c := h.Open(w)[name]; !c.Decided || c.Taken != choice {
						t.Errorf("%s after %s: %+v", name, choice, c)
					}
					// It can be undone, to the state before and as git left it, and decided again.
					for i, from := range []string{snap, ""} {
						if (strategy == "merge") != (side == "both") || (i == 0) != (side == "both") && side != "base" {
							continue // one choice of each is enough
						}
						takeBack(h, w, name, from)
						if now := wstest.Git(t, w.Path, "status", "--porcelain=v2", "-uall"); now != status {
							t.Errorf("%s taken back from %q: the status is\n%s\nbefore\n%s", name, from, now, status)
						}
						if now := everyFile(t, w.Path); from != "" && now != was || name != "text" && now != was {
							t.Errorf("%s taken back from %q: %s\nbefore %s", name, from, now, was)
						}
						h.Decide(w, name, choice)
					}
				}
				op, left, err := h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
				wstest.Must(t, err)
				if op != strategy || len(left) > 0 || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
					t.Errorf("%s left %v, %s", op, left, wstest.Git(t, w.Path, "status", "--porcelain"))
				}
				for name, text := range files {
					fi, err := os.Lstat(filepath.Join(w.Path, name))
					got := ""
					switch {
					case err != nil:
					case fi.Mode()&os.ModeSymlink != 0:
						to, _ := os.Readlink(filepath.Join(w.Path, name))
						got = "->" + to
					default:
						got = wstest.Read(t, w.Path, name)
					}
					if text == "seq" && strings.HasPrefix(got, "1\n2\n") {
						got = "seq"
					}
					if got != text {
						t.Errorf("%s has %q, want %q", name, got, text)
					}
				}
				if fi, err := os.Stat(filepath.Join(w.Path, "prog")); err != nil || (fi.Mode()&0o111 != 0) != (side != "base") {
					t.Errorf("prog: %v %v", fi.Mode(), err)
				}
				if len(h.Open(w)) != 0 {
					t.Error("something is under way still")
				}
			})
		}
	}
}

// everyFile is all files of a worktree.
func everyFile(t testing.TB, dir string) string {
	t.Helper()
	var out strings.Builder
	wstest.Must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(p) == ".git" {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		if d.Type()&os.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			fmt.Fprintf(&out, "%s -> %s\n", name, to)
			return err
		}
		fi, err := d.Info()
		fmt.Fprintf(&out, "%s %v %q\n", name, fi.Mode(), wstest.Read(t, dir, name))
		return err
	}))
	return out.String()
}

// A conflict that has changed since it was shown is not decided, and nothing is overwritten that no snapshot has.
func TestDecidingMeetsTheAgent(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w, _ := disputed(t, h, everyConflict)
	begin(h, w, "merge")
	try := func(d conflict.Decision) error {
		_, err := h.S.Conflicts.Decide(t.Context(), h.Actor, w.ID, conflict.Decisions{List: []conflict.Decision{d}})
		return err
	}
	seen := h.Open(w)
	pic := conflict.Decision{Path: "pic.png", Version: seen["pic.png"].Version, Take: "base"}
	for _, bad := range []conflict.Decision{{Path: "pic.png", Version: pic.Version, Take: "keep"}, {Path: "pic.png", Version: pic.Version, Take: "theirs"}} {
		wstest.WantCode(t, try(bad), "choice_invalid")
	}
	wstest.WantCode(t, try(conflict.Decision{Path: "pic.png", Version: pic.Version, Undo: true}), "conflict_changed")
	wstest.WantCode(t, try(conflict.Decision{Path: "a.txt", Version: pic.Version, Take: "base"}), "conflict_changed")
	wstest.WantCode(t, try(conflict.Decision{}), "conflict_changed")

	// The agent stages it first.
	wstest.Git(t, w.Path, "add", "pic.png")
	before := everyFile(t, w.Path)
	wstest.WantCode(t, try(pic), "conflict_changed")
	if now := everyFile(t, w.Path); now != before {
		t.Errorf("files changed: %s", now)
	}
	if c := h.Open(w)["pic.png"]; !c.Decided || c.Taken != "branch" {
		t.Errorf("%+v", c)
	}

	// It stages at the very moment at which the file is written: its index stays.
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path, Before: func(op, name string) {
		if op == "put" && name == "text" {
			wstest.Git(t, w.Path, "add", "text")
		}
	}})
	wstest.WantCode(t, try(conflict.Decision{Path: "text", Version: seen["text"].Version, Take: "base"}), "conflict_changed")

	// It writes to the file at that moment: what it wrote stays.
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path, Before: func(op, name string) {
		if op == "put" && name == "added.bin" {
			wstest.Write(t, w.Path, "added.bin", "just now")
		}
	}})
	wstest.WantCode(t, try(conflict.Decision{Path: "added.bin", Version: seen["added.bin"].Version, Take: "base"}), "part_changed")
	if got := wstest.Read(t, w.Path, "added.bin"); got != "just now" {
		t.Errorf("added.bin has %q", got)
	}
	// There is another file where the second is to be stored.
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path})
	wstest.Write(t, w.Path, "added.main.bin", "mine")
	wstest.WantCode(t, try(conflict.Decision{Path: "added.bin", Version: seen["added.bin"].Version, Take: "both"}), "files_in_the_way")
	if got := wstest.Read(t, w.Path, "added.main.bin"); got != "mine" {
		t.Errorf("added.main.bin has %q", got)
	}
	// The file can also be taken as it is in the folder.
	h.Decide(w, "added.bin", "as_is")
	if got := wstest.Git(t, w.Path, "show", ":added.bin"); got != "just now" {
		t.Errorf("staged is %q", got)
	}
}

// Markers are also found in resolved files, with their lines; marker-like lines of a side do not count.
func TestMarksAreFoundBeforeFinishing(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w, _ := disputed(t, h, sides{
		began:  "printf 'one\n<<<<<<< of its own\ntwo\n' > doc; printf 'x\n' > text",
		branch: "printf 'one\n<<<<<<< of its own\nbranch\n' > doc; printf 'branch\n' > text",
		base:   "printf 'one\n<<<<<<< of its own\nbase\n' > doc; printf 'base\n' > text",
	})
	begin(h, w, "merge")
	if c := h.Open(w); !slices.Equal(c["doc"].Marks, []int{3, 7}) || !slices.Equal(c["text"].Marks, []int{1, 5}) {
		t.Fatalf("%+v", c)
	}
	finish := func() error { _, _, err := h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID); return err }
	err := finish()
	wstest.WantCode(t, err, "unresolved_conflicts")
	if !strings.Contains(err.Error(), `"doc" in lines 3, 7; "text" in lines 1, 5`) {
		t.Errorf("%v", err)
	}
	wstest.Git(t, w.Path, "add", "text") // with its marks
	h.Decide(w, "doc", "base")
	if c := h.Open(w); len(c["doc"].Marks) != 0 || !c["text"].Decided || !slices.Equal(c["text"].Marks, []int{1, 5}) {
		t.Fatalf("%+v", c)
	}
	wstest.WantCode(t, finish(), "unresolved_conflicts")
	wstest.Write(t, w.Path, "text", "both\n") // the markers are still staged
	wstest.Must(t, finish())
	if got := wstest.Git(t, w.Path, "show", "HEAD:text"); got != "both" || wstest.Read(t, w.Path, "doc") != "one\n<<<<<<< of its own\nbase\n" || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("%q, %s", got, wstest.Git(t, w.Path, "status", "--porcelain"))
	}
}

// If a submodule's commit is in conflict, its pointer is decided; its folder stays as it is.
func TestSubmodulePointersAreDecided(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	point := func(c string) string {
		return "git update-index --add --cacheinfo 160000," + strings.Repeat(c, 40) + ",sub; mkdir -p sub"
	}
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path})
	dir := h.Repo("app")
	commit := func(at, c string) {
		run(t, at, point(c)+"; git -c user.name=a -c user.email=a@example.com commit -qm "+c)
	}
	commit(dir, "1")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	commit(w.Path, "2")
	commit(dir, "3")
	for strategy, take := range map[string]string{"merge": "base", "rebase": "branch"} {
		begin(h, w, strategy)
		if c := h.Open(w)["sub"]; c.Kind != "submodule" || !slices.Equal(c.Choices, []string{"branch", "base"}) || c.Branch.OID[0] != '2' || c.Base.OID[0] != '3' {
			t.Fatalf("%+v", c)
		}
		_, _, err := h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
		wstest.WantCode(t, err, "undecided_conflicts")
		takeBack(h, w, "sub", h.Decide(w, "sub", take))
		h.Decide(w, "sub", take)
		if got := wstest.Git(t, w.Path, "ls-files", "-s", "sub"); !strings.HasPrefix(got, "160000 "+map[string]string{"base": "333", "branch": "222"}[take]) || !strings.Contains(got, " 0\t") {
			t.Errorf("%s: %s", strategy, got)
		}
		wstest.Must(t, h.S.Conflicts.AbortResolve(t.Context(), h.Actor, w.ID))
	}
}

// In isolated and remote sandboxes conflicts are decided where the agent works.
func TestDecidingInIsolatedAndRemoteSandboxes(t *testing.T) {
	t.Parallel()
	began, ours, theirs := `printf '\0a' > pic.png; echo t > gone`, `printf '\0branch' > pic.png; rm gone`, `printf '\0base' > pic.png; echo more >> gone`
	through := func(t *testing.T, h *wstest.Env, sh func(string) string, dir string, w workspaces.Workspace) {
		sh(ours + "; git add -A; git commit -qm ours")
		run(t, dir, theirs)
		wstest.CommitAll(t, dir, "theirs")
		begin(h, w, "rebase")
		raw, _, err := h.S.Conflicts.ConflictFile(t.Context(), w.ID, "pic.png", "base")
		wstest.Must(t, err)
		if string(raw) != "\x00base" {
			t.Errorf("%q", raw)
		}
		takeBack(h, w, "pic.png", h.Decide(w, "pic.png", "both"))
		h.Decide(w, "pic.png", "both")
		h.Decide(w, "gone", "keep")
		_, _, err = h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
		wstest.Must(t, err)
		if got := sh("git status --porcelain; git ls-files; cat gone pic.main.png | tr '\\000' 0; git rev-parse HEAD"); got != ".gitignore\na.txt\ndir/b.txt\ngone\npic.main.png\npic.png\nt\nmore\n0base"+wstest.Git(t, dir, "rev-parse", w.Branch) {
			t.Errorf("%q", got)
		}
	}
	t.Run("boxed", func(t *testing.T) {
		t.Parallel()
		h, walls := wstest.IsolatedEnv(t)
		h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path})
		dir := h.Repo("app")
		run(t, dir, began)
		wstest.CommitAll(t, dir, "began")
		w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
		through(t, h, func(script string) string {
			r, err := walls.RunInSandbox(t.Context(), w.ID, executors.SandboxCommand{Argv: []string{"sh", "-ec", script}, TimeoutMs: 30_000})
			wstest.Must(t, err)
			return strings.TrimSuffix(string(r.Stdout), "\n")
		}, dir, w)
	})
	t.Run("far", func(t *testing.T) {
		t.Parallel()
		h, a := wstest.RemoteEnv(t)
		h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: func(id string) (string, error) {
			w, err := h.S.Records.Workspace(t.Context(), id)
			return a.Root(w), err
		}})
		dir := h.Repo("app")
		run(t, dir, began)
		wstest.CommitAll(t, dir, "began")
		w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
		through(t, h, func(script string) string { return a.Sh(w, script) }, dir, w)
	})
}
