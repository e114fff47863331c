package workspaces_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/changes"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// What a commit has is read without a worktree, and a file here is compared with it as a sandbox's guest compares.
func TestBaseTrees(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	write(t, dir, "deep/x.txt", strings.Repeat("line\n", 20))
	write(t, dir, "caf\xe9", "odd\n")
	write(t, dir, "gone", "gone\n")
	must(t, os.Symlink("deep/x.txt", filepath.Join(dir, "link")))
	commitAll(t, dir, "more")
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
	ctx, base := t.Context(), w.BaseCommit

	if p, err := h.s.Worktree(ctx, w.ID); err != nil || p != w.Path {
		t.Errorf("%q, %v", p, err)
	}
	files, err := h.s.BaseFiles(ctx, w.ID, base, []string{"deep/x.txt", "caf\xe9", "link", "nothing", "a*"})
	must(t, err)
	modes := map[string]uint32{}
	for _, f := range files {
		modes[f.Path] = f.Mode
	}
	if folder, err := h.s.BaseFiles(ctx, w.ID, base, []string{"deep"}); err != nil || len(folder) != 1 || folder[0].Mode != 0o040000 {
		t.Errorf("%v, %v", folder, err)
	}
	if len(files) != 3 || modes["deep/x.txt"] != 0o100644 || modes["caf\xe9"] != 0o100644 || modes["link"] != 0o120000 {
		t.Errorf("%v", files)
	}
	all, err := h.s.BaseFiles(ctx, w.ID, base, nil)
	must(t, err)
	if want := strings.Count(git(t, dir, "ls-tree", "-r", "--name-only", base), "\n") + 1; len(all) != want {
		t.Errorf("%d files, want %d", len(all), want)
	}
	var many []string
	for range 5000 {
		many = append(many, "deep/x.txt")
	}
	if some, err := h.s.BaseFiles(ctx, w.ID, base, many); err != nil || len(some) != 1 {
		t.Errorf("%v, %v", some, err)
	}
	got := map[string]string{}
	must(t, h.s.BaseBlobs(ctx, w.ID, files, func(f hostgit.TreeFile, r io.Reader) error {
		b, err := io.ReadAll(r)
		got[f.Path] = string(b)
		return err
	}))
	if got["link"] != "deep/x.txt" || got["caf\xe9"] != "odd\n" || len(got) != 3 {
		t.Errorf("%q", got)
	}
	write(t, dir, "deep/y.txt", "y\n")
	commitAll(t, dir, "again")
	if d, err := h.s.BaseDiff(ctx, w.ID, base, git(t, dir, "rev-parse", "HEAD")); err != nil || !slices.Equal(d, []string{"deep/y.txt"}) {
		t.Errorf("%q, %v", d, err)
	}

	guestSide := changes.New(changes.Config{Root: w.Path, Dir: t.TempDir()})
	defer guestSide.Close()
	write(t, w.Path, "deep/x.txt", strings.Repeat("line\n", 10)+"other\n"+strings.Repeat("line\n", 9))
	write(t, w.Path, "new \"name\"\t", "new\n")
	write(t, w.Path, "bin", "a\x00b")
	must(t, os.Remove(filepath.Join(w.Path, "gone")))
	must(t, os.Remove(filepath.Join(w.Path, "link")))
	must(t, os.Symlink("elsewhere", filepath.Join(w.Path, "link")))
	for path, mode := range map[string]string{"deep/x.txt": "100644", "new \"name\"\t": "100644", "bin": "100644", "gone": "", "link": "120000"} {
		d := workspaces.HereDiff{Base: base, Path: path, Mode: mode, Context: 3}
		if mode == "120000" {
			d.Content, d.Size = strings.NewReader("elsewhere"), 9
		} else if mode != "" {
			b, err := os.ReadFile(filepath.Join(w.Path, path))
			must(t, err)
			d.Content, d.Size = bytes.NewReader(b), int64(len(b))
		}
		var here, there bytes.Buffer
		must(t, h.s.HereDiff(ctx, w.ID, d, &here))
		must(t, guestSide.Diff(ctx, guest.DiffRequest{Base: base, Path: guest.EncodePath(path), Context: 3}, &there))
		if here.String() != there.String() || here.Len() == 0 {
			t.Errorf("%q here:\n%s\nthere:\n%s", path, here.String(), there.String())
		}
	}
	wantCode(t, h.s.HereDiff(ctx, w.ID, workspaces.HereDiff{Base: base, Path: "never"}, io.Discard), "no_such_file")
	var big bytes.Buffer
	must(t, h.s.HereDiff(ctx, w.ID, workspaces.HereDiff{Base: base, Path: "deep/x.txt", Mode: "100644", Size: 9 << 20}, &big))
	if !strings.Contains(big.String(), changes.NoteMark) {
		t.Errorf("%s", big.String())
	}
	if left, _ := filepath.Glob(filepath.Join(h.data, "tmp/git/diff-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	git(t, dir, "fsck", "--strict")
}
