package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// However many files differ, only a bounded part of their content is in memory: the rest is written to the repository one by one.
func TestASnapshotHoldsLittleInMemory(t *testing.T) {
	t.Parallel()
	dir, tree := t.TempDir(), t.TempDir()
	g := hostgit.New(hostgit.Config{Path: "git", Env: os.Getenv})
	if _, err := g.Run(t.Context(), hostgit.Call{GitDir: dir, Args: []string{"init", "-q", "--bare", dir}}); err != nil {
		t.Fatal(err)
	}
	const files = 90
	var names []string
	text := make([]byte, sandboxgit.SmallFile)
	for i := range files {
		name := strconv.Itoa(i)
		copy(text, name+" ")
		if err := os.WriteFile(filepath.Join(tree, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	scratch, err := g.Scratch(t.Context(), t.TempDir(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	root, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := &Service{sandboxes: new(sandboxgit.Store)}
	tk := &Job{s: s, Scratch: scratch, limit: keepFile, total: keepTotal, Head: "0000000000000000000000000000000000000000"}
	edits, err := tk.read(context.Background(), root, names, nil, nil)
	if err != nil || len(edits) != files {
		t.Fatalf("%d files, %v", len(edits), err)
	}
	held := 0
	for _, e := range edits {
		held += len(e.data)
		if e.data == nil {
			if _, err := scratch.Text(t.Context(), "cat-file", "-e", e.oid); err != nil {
				t.Errorf("%s is neither in memory nor in the repository: %v", e.path, err)
			}
		}
	}
	if held > 40<<20 {
		t.Errorf("%d MiB are held in memory", held>>20)
	}
}
