package git_test

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
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// A commit's files are read without a worktree, and a local file is compared with it like in a sandbox's guest.
func TestBaseTrees(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	wstest.Write(t, dir, "deep/x.txt", strings.Repeat("line\n", 20))
	wstest.Write(t, dir, "caf\xe9", "odd\n")
	wstest.Write(t, dir, "gone", "gone\n")
	wstest.Must(t, os.Symlink("deep/x.txt", filepath.Join(dir, "link")))
	wstest.CommitAll(t, dir, "more")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	ctx, base := t.Context(), w.BaseCommit

	if p, err := h.S.Repo.Worktree(ctx, w.ID); err != nil || p != w.Path {
		t.Errorf("%q, %v", p, err)
	}
	files, err := h.S.Repo.BaseFiles(ctx, w.ID, base, []string{"deep/x.txt", "caf\xe9", "link", "nothing", "a*"})
	wstest.Must(t, err)
	modes := map[string]uint32{}
	for _, f := range files {
		modes[f.Path] = f.Mode
	}
	if folder, err := h.S.Repo.BaseFiles(ctx, w.ID, base, []string{"deep"}); err != nil || len(folder) != 1 || folder[0].Mode != 0o040000 {
		t.Errorf("%v, %v", folder, err)
	}
	if len(files) != 3 || modes["deep/x.txt"] != 0o100644 || modes["caf\xe9"] != 0o100644 || modes["link"] != 0o120000 {
		t.Errorf("%v", files)
	}
	all, err := h.S.Repo.BaseFiles(ctx, w.ID, base, nil)
	wstest.Must(t, err)
	if want := strings.Count(wstest.Git(t, dir, "ls-tree", "-r", "--name-only", base), "\n") + 1; len(all) != want {
		t.Errorf("%d files, want %d", len(all), want)
	}
	var many []string
	for range 5000 {
		many = append(many, "deep/x.txt")
	}
	if some, err := h.S.Repo.BaseFiles(ctx, w.ID, base, many); err != nil || len(some) != 1 {
		t.Errorf("%v, %v", some, err)
	}
	got := map[string]string{}
	wstest.Must(t, h.S.Repo.BaseBlobs(ctx, w.ID, files, func(f hostgit.TreeFile, r io.Reader) error {
		b, err := io.ReadAll(r)
		got[f.Path] = string(b)
		return err
	}))
	if got["link"] != "deep/x.txt" || got["caf\xe9"] != "odd\n" || len(got) != 3 {
		t.Errorf("%q", got)
	}
	wstest.Write(t, dir, "deep/y.txt", "y\n")
	wstest.CommitAll(t, dir, "again")
	if d, err := h.S.Repo.BaseDiff(ctx, w.ID, base, wstest.Git(t, dir, "rev-parse", "HEAD")); err != nil || !slices.Equal(d, []string{"deep/y.txt"}) {
		t.Errorf("%q, %v", d, err)
	}

	guestSide := changes.New(changes.Config{Root: w.Path, Dir: t.TempDir()})
	defer guestSide.Close()
	wstest.Write(t, w.Path, "deep/x.txt", strings.Repeat("line\n", 10)+"other\n"+strings.Repeat("line\n", 9))
	wstest.Write(t, w.Path, "new \"name\"\t", "new\n")
	wstest.Write(t, w.Path, "bin", "a\x00b")
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "gone")))
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "link")))
	wstest.Must(t, os.Symlink("elsewhere", filepath.Join(w.Path, "link")))
	for path, mode := range map[string]string{"deep/x.txt": "100644", "new \"name\"\t": "100644", "bin": "100644", "gone": "", "link": "120000"} {
		d := git.HereDiff{Base: base, Path: path, Mode: mode, Context: 3}
		if mode == "120000" {
			d.Content, d.Size = strings.NewReader("elsewhere"), 9
		} else if mode != "" {
			b, err := os.ReadFile(filepath.Join(w.Path, path))
			wstest.Must(t, err)
			d.Content, d.Size = bytes.NewReader(b), int64(len(b))
		}
		var here, there bytes.Buffer
		wstest.Must(t, h.S.Repo.HereDiff(ctx, w.ID, d, &here))
		wstest.Must(t, guestSide.Diff(ctx, guest.DiffRequest{Base: base, Path: guest.EncodePath(path), Context: 3}, &there))
		if here.String() != there.String() || here.Len() == 0 {
			t.Errorf("%q here:\n%s\nthere:\n%s", path, here.String(), there.String())
		}
	}
	wstest.WantCode(t, h.S.Repo.HereDiff(ctx, w.ID, git.HereDiff{Base: base, Path: "never"}, io.Discard), "no_such_file")
	var big bytes.Buffer
	wstest.Must(t, h.S.Repo.HereDiff(ctx, w.ID, git.HereDiff{Base: base, Path: "deep/x.txt", Mode: "100644", Size: 9 << 20}, &big))
	if !strings.Contains(big.String(), changes.NoteMark) {
		t.Errorf("%s", big.String())
	}
	if left, _ := filepath.Glob(filepath.Join(h.Data, "tmp/git/diff-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	wstest.Git(t, dir, "fsck", "--strict")
}
