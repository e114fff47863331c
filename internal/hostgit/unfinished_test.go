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

	"github.com/parawork/parawork/internal/hostgit"
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
	scratch, err := g.Scratch(t.Context(), t.TempDir(), repo)
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, feed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := scratch.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done"}, Stdin: in})
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

// What a killed server's git left in somebody's repository is removed at the next start, and nothing else of it.
func TestTheNextStartRemovesWhatWasUnfinished(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says whether a file is open")
	}
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	g := hostgit.New(hostgit.Config{Path: path, StateDir: state, Env: os.Getenv})
	repo := filepath.Join(t.TempDir(), "r.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	objects := filepath.Join(repo, "objects")
	put := func(name string) {
		if err := os.WriteFile(name, nil, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(objects, "pack", "tmp_pack_theirs"))
	if err := os.Mkdir(filepath.Join(objects, "tmp_objdir-incoming-theirs"), 0o700); err != nil {
		t.Fatal(err)
	}
	in, err := g.Quarantine(t.Context(), t.TempDir(), repo)
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := g.Scratch(t.Context(), t.TempDir(), repo)
	if err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := scratch.Run(t.Context(), hostgit.Call{Args: []string{"fast-import", "--quiet", "--done"}, Stdin: pr})
		pr.CloseWithError(io.ErrClosedPipe)
		done <- err
	}()
	if _, err := io.WriteString(pw, "blob\ndata 4\nabc\n\nblob\ndata 100\n"); err != nil {
		t.Fatal(err)
	}
	ours := func() (out []string) {
		found, _ := filepath.Glob(filepath.Join(objects, "pack", "tmp_pack_*"))
		for _, f := range found {
			if filepath.Base(f) != "tmp_pack_theirs" {
				out = append(out, f)
			}
		}
		return out
	}
	for until := time.Now().Add(30 * time.Second); len(ours()) == 0; time.Sleep(time.Millisecond) { // until git has begun its pack
		if time.Now().After(until) {
			t.Fatal("git writes no pack")
		}
	}
	g.Sweep(t.Context()) // of a server that came up while the old one's git still writes
	if len(ours()) == 0 {
		t.Fatal("a pack that is being written was removed")
	}
	notes, err := os.ReadDir(filepath.Join(state, "writing"))
	if err != nil || len(notes) != 1 {
		t.Fatalf("%d notes, %v", len(notes), err)
	}
	note := filepath.Join(state, "writing", notes[0].Name())
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	left := ours()[0]
	pw.CloseWithError(errors.New("cut"))
	if err := <-done; err == nil {
		t.Fatal("the import ended well")
	}
	put(left) // as a git that was killed with its server leaves it
	if err := os.WriteFile(note, text, 0o600); err != nil {
		t.Fatal(err)
	}
	hostgit.New(hostgit.Config{Path: path, StateDir: state, Env: os.Getenv}).Sweep(t.Context())
	var all []string
	for _, pattern := range []string{"tmp_*", "pack/tmp_*"} {
		found, _ := filepath.Glob(filepath.Join(objects, pattern))
		for _, f := range found {
			all = append(all, filepath.Base(f))
		}
	}
	if slices.Sort(all); !slices.Equal(all, []string{"tmp_objdir-incoming-theirs", "tmp_pack_theirs"}) {
		t.Errorf("left: %s", strings.Join(all, " "))
	}
	if notes, _ := os.ReadDir(filepath.Join(state, "writing")); len(notes) != 0 {
		t.Errorf("%d notes are left", len(notes))
	}
	_, _ = in.Close(), scratch.Close()
}
