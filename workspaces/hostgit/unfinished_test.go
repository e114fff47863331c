package hostgit_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/workspaces/hostgit"
)

// A fast-import that is killed half-way takes its pack with it, and nobody else's.
func TestAFailedImportLeavesNoPack(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says whether a file is open")
	}
	g := real(t)
	repo := filepath.Join(t.TempDir(), "r.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packs := filepath.Join(repo, "objects", "pack")
	names := func() (out []string) {
		found, err := os.ReadDir(packs)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			out = append(out, f.Name())
		}
		return out
	}
	if err := os.WriteFile(filepath.Join(packs, "tmp_pack_old"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	desk, err := g.Desk(t.Context(), t.TempDir(), repo)
	if err != nil {
		t.Fatal(err)
	}
	defer desk.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, feed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := desk.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done"}, Stdin: in})
		in.CloseWithError(io.ErrClosedPipe)
		done <- err
	}()
	if _, err := io.WriteString(feed, "blob\ndata 4\nabc\n\nblob\ndata 100\n"); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(30 * time.Second); len(names()) < 2; time.Sleep(time.Millisecond) { // until git has begun its pack
		if time.Now().After(until) {
			t.Fatalf("git writes no pack: %v", names())
		}
	}
	other, err := os.Create(filepath.Join(packs, "tmp_pack_other")) // somebody fetches
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cancel()
	feed.CloseWithError(errors.New("cancelled"))
	if err := <-done; err == nil {
		t.Fatal("the import ended well")
	}
	if left := names(); !slices.Equal(left, []string{"tmp_pack_old", "tmp_pack_other"}) {
		t.Errorf("left: %s", strings.Join(left, " "))
	}
}
