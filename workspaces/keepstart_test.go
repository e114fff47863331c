package workspaces_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// A server that died between files that changed and the snapshot with them: the next one's first snapshot is of the files, whatever it is
// taken for and whatever it is told of them.
func TestTheFirstSnapshotAfterAStartIsOfTheFiles(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(h *house, w workspaces.Workspace) error{
		"a file that changed": func(h *house, w workspaces.Workspace) error {
			write(t, w.Path, "later.txt", "later\n")
			return h.s.Polled(context.Background(), w.ID, "", []string{"later.txt"}, false)
		},
		"nothing that is known": func(h *house, w workspaces.Workspace) error {
			return h.s.Polled(context.Background(), w.ID, "", []string{"force.log", "crlf.txt"}, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := sqliteHouse(t)
			ctx := context.Background()
			w := h.workspace()
			write(t, w.Path, ".gitignore", "*.log\n")
			write(t, w.Path, "program", "\x00one")
			write(t, w.Path, "old name", "as it was\n")
			write(t, w.Path, "crlf.txt", "a\nb\n")
			write(t, w.Path, "force.log", "ignored, and added all the same\n")
			paths := []string{".gitignore", "program", "old name", "crlf.txt", "force.log"}
			for i := range 200 {
				f := "made/" + strconv.Itoa(i)
				write(t, w.Path, f, f)
				paths = append(paths, f)
			}
			must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, paths, true))
			// What comes home and is in no snapshot when the server dies.
			write(t, w.Path, "program", "\x00two")
			must(t, os.Rename(filepath.Join(w.Path, "old name"), filepath.Join(w.Path, "new name")))
			must(t, os.RemoveAll(filepath.Join(w.Path, "made")))
			write(t, w.Path, "crlf.txt", "a\r\nb\r\n")
			h.stop()
			h.start()

			must(t, first(h, w))
			sn := h.snaps(w)[0]
			if len(sn.Missing) != 0 {
				t.Errorf("missing: %+v", sn.Missing)
			}
			wantCRLF := name != "a file that changed" // there git's own word counts, for which line ends are no change
			for f, want := range map[string]string{"program": "\x00two", "new name": "as it was\n", "force.log": "ignored, and added all the same\n"} {
				if got := h.fileOf(w, sn.ID, f); got != want {
					t.Errorf("%s has %q", f, got)
				}
			}
			if got := h.fileOf(w, sn.ID, "crlf.txt"); wantCRLF && got != "a\r\nb\r\n" {
				t.Errorf("crlf.txt has %q", got)
			}
			p, err := h.s.Project(ctx, w.ProjectID)
			must(t, err)
			out, err := exec.Command("git", "-C", p.GitDir, "ls-tree", "-r", "--name-only", sn.Tree).Output()
			must(t, err)
			if strings.Contains(string(out), "made/") || strings.Contains(string(out), "old name") {
				t.Errorf("it holds files that are gone:\n%s", out)
			}
		})
	}
}
