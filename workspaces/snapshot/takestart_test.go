package snapshot_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// A server died between changing files and the snapshot of them: the next one's first snapshot has the files, whatever it is taken for and
// whatever is reported of them.
func TestTheFirstSnapshotAfterAStartIsOfTheFiles(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(h *wstest.Env, w workspaces.Workspace) error{
		"a file that changed": func(h *wstest.Env, w workspaces.Workspace) error {
			wstest.Write(t, w.Path, "later.txt", "later\n")
			return h.S.Snapshots.Polled(context.Background(), w.ID, "", []string{"later.txt"}, false)
		},
		"nothing that is known": func(h *wstest.Env, w workspaces.Workspace) error {
			return h.S.Snapshots.Polled(context.Background(), w.ID, "", []string{"force.log", "crlf.txt"}, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := wstest.SQLiteEnv(t)
			ctx := context.Background()
			w := h.Workspace()
			wstest.Write(t, w.Path, ".gitignore", "*.log\n")
			wstest.Write(t, w.Path, "program", "\x00one")
			wstest.Write(t, w.Path, "old name", "as it was\n")
			wstest.Write(t, w.Path, "crlf.txt", "a\nb\n")
			wstest.Write(t, w.Path, "force.log", "ignored, and added all the same\n")
			paths := []string{".gitignore", "program", "old name", "crlf.txt", "force.log"}
			for i := range 200 {
				f := "made/" + strconv.Itoa(i)
				wstest.Write(t, w.Path, f, f)
				paths = append(paths, f)
			}
			wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, paths, true))
			// What is synced and in no snapshot when the server dies.
			wstest.Write(t, w.Path, "program", "\x00two")
			wstest.Must(t, os.Rename(filepath.Join(w.Path, "old name"), filepath.Join(w.Path, "new name")))
			wstest.Must(t, os.RemoveAll(filepath.Join(w.Path, "made")))
			wstest.Write(t, w.Path, "crlf.txt", "a\r\nb\r\n")
			h.Stop()
			h.Start()

			wstest.Must(t, first(h, w))
			sn := h.Snaps(w)[0]
			if len(sn.Missing) != 0 {
				t.Errorf("missing: %+v", sn.Missing)
			}
			wantCRLF := name != "a file that changed" // there git's own word counts, for which line ends are no change
			for f, want := range map[string]string{"program": "\x00two", "new name": "as it was\n", "force.log": "ignored, and added all the same\n"} {
				if got := h.FileOf(w, sn.ID, f); got != want {
					t.Errorf("%s has %q", f, got)
				}
			}
			if got := h.FileOf(w, sn.ID, "crlf.txt"); wantCRLF && got != "a\r\nb\r\n" {
				t.Errorf("crlf.txt has %q", got)
			}
			p, err := h.S.Records.Project(ctx, w.ProjectID)
			wstest.Must(t, err)
			out, err := exec.Command("git", "-C", p.GitDir, "ls-tree", "-r", "--name-only", sn.Tree).Output()
			wstest.Must(t, err)
			if strings.Contains(string(out), "made/") || strings.Contains(string(out), "old name") {
				t.Errorf("it holds files that are gone:\n%s", out)
			}
		})
	}
}
