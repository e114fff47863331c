package bundle_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/bundle"
	"github.com/parawork/parawork/internal/fault"
)

// TestMain stands in for git where it is called by one of these names: written files cannot be run while another test forks.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "git-that-fails":
		fmt.Fprint(os.Stderr, "Updating files:  50% (1/2)\rfatal: bad \x07object\n")
		os.Exit(128)
	case "git-on-a-full-disk":
		fmt.Fprint(os.Stderr, "error: unable to write file a: No space left on device\n")
		os.Exit(128)
	case "git-that-takes-long": // until somebody ends it
		for {
			fmt.Fprint(os.Stderr, "Updating files:  50% (1/2)\r")
			<-time.After(20 * time.Millisecond)
		}
	}
	os.Exit(m.Run())
}

// withGit has the store run a stand-in for git.
func (r *rig) withGit(name string) {
	r.t.Helper()
	me, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.t.TempDir(), name)
	if err := os.Symlink(me, path); err != nil {
		r.t.Fatal(err)
	}
	r.store = bundle.New(bundle.Config{Dir: r.dir, Root: r.root, GitPath: path})
	r.t.Cleanup(r.store.Close)
}

func TestWhatIsNoBundle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	whole := archive(t, guest.BundleWorktree, append(repository(t), file(guest.BundleTree+"a", strings.Repeat("a", 5000)))...)
	raw := func(entries ...entry) []byte { // without a plan before them
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for _, e := range entries {
			h := e.Header
			h.Size = int64(len(e.content))
			if err := errors.Join(w.WriteHeader(&h), writeAll(w, e.content)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	for i, c := range []struct {
		what string
		b    []byte
		says string
	}{
		{"no archive", []byte("hello"), "it does not begin with its plan"},
		{"noise", bytes.Repeat([]byte("noise"), 1000), "it does not begin with its plan"},
		{"an empty archive", raw(), "it does not begin with its plan"},
		{"no plan", raw(file(guest.BundleTree+"a", "a")), "it does not begin with its plan"},
		{"a plan that cannot be read", raw(file(guest.BundlePlanEntry, "{")), "its plan cannot be read"},
		{"an empty plan", raw(file(guest.BundlePlanEntry, "")), "its plan cannot be read"},
		{"another kind", archive(t, "everything", file(guest.BundleTree+"a", "a")), `does not support bundles of kind "everything"`},
		{"no kind", raw(file(guest.BundlePlanEntry, "{}")), `does not support bundles of kind ""`},
		{"cut among its files", whole[:len(whole)-4096], ""},
		{"cut within git's folder", whole[:len(whole)/4/512*512+100], ""},
		{"noise behind its beginning", append(slices.Clone(whole[:2048]), bytes.Repeat([]byte("noise"), 1000)...), ""},
		{"a second plan", archive(t, guest.BundleWorktree, file(guest.BundlePlanEntry, `{"kind":"objects"}`)), "is not part of a bundle"},
		{"without a name", archive(t, guest.BundleWorktree, append(repository(t), entry{tar.Header{Typeflag: tar.TypeDir, Name: guest.BundleTree, Mode: 0o755}, ""})...), "leads out of the worktree"},
	} {
		code := "bundle_corrupt"
		if c.says == "" { // the reader's own words, or what is missing then
			p := r.unpack(fmt.Sprint("c", i), c.b)
			if p.State != guest.BundleFailed || p.Error == nil || p.Error.Message == "" {
				t.Errorf("%s: %s, %+v", c.what, p.State, p.Error)
			}
			continue
		}
		r.failed(c.what, fmt.Sprint("p", i), c.b, code, c.says)
	}
	if p := r.unpack("whole", whole); p.State != guest.BundleDone { // after all that
		t.Errorf("%s, %+v", p.State, p.Error)
	}
}

func writeAll(w *tar.Writer, text string) error {
	_, err := w.Write([]byte(text))
	return err
}

// What a header says of an entry's size is judged before anything of it is read.
func TestWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	announce := func(name string, size int64) []byte {
		plan, err := json.Marshal(guest.BundlePlan{Kind: guest.BundleWorktree})
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: guest.BundlePlanEntry, Size: int64(len(plan)), Mode: 0o644}), writeAll(w, string(plan)),
			w.Flush(), w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, Format: tar.FormatPAX}), writeAll(w, "a little")); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	r.failed("a file", "p1", announce(guest.BundleGit+"objects/pack/pack-1.pack", guest.MaxBundle+1), "bundle_corrupt", "it is too large")
	for i, name := range []string{guest.BundleGone, guest.BundleStaged, guest.BundleShallow} {
		r.failed("the list "+name, fmt.Sprint("l", i), announce(name, guest.MaxBundleList+1), "bundle_corrupt", "a list is too long")
	}
	big := bytes.NewReader(make([]byte, guest.MaxBundlePiece+10))
	p, err := r.store.Write("piece", 0, big)
	if fault.CodeOf(err) != "bundle_piece_too_large" || p.Have != guest.MaxBundlePiece {
		t.Errorf("a piece: %+v, %v", p, err)
	}
}

// What HEAD has may itself be hostile: a link in it is replaced by what the bundle puts below its name.
func TestLinksOfTheCheckoutAreNotFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := os.WriteFile(filepath.Join(r.outside, "kept"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	head := repository(t, func(dir string) error {
		return errors.Join(os.Symlink(r.outside, filepath.Join(dir, "way")), os.Symlink(filepath.Join(r.outside, "kept"), filepath.Join(dir, "one")), os.Symlink(r.outside, filepath.Join(dir, "stays")))
	})
	p := r.unpack("p1", archive(t, guest.BundleWorktree, append(head, file(guest.BundleTree+"way/x", "x"), file(guest.BundleTree+"one", "1"))...))
	if p.State != guest.BundleDone {
		t.Fatalf("%s, %+v", p.State, p.Error)
	}
	if got := r.files(); got["way/x"] != "x" || got["one"] != "1" || got["stays"] != "-> "+r.outside {
		t.Errorf("%v", got)
	}
	r2 := newRig(t)
	p = r2.unpack("p1", archive(t, guest.BundleWorktree, append(head, file(guest.BundleGone, "way/kept\x00"), file(guest.BundleTree+"a", "a"))...))
	if p.State == guest.BundleDone {
		t.Error("a removal through a link was done")
	}
	if left, err := os.ReadDir(r.outside); err != nil || len(left) != 1 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if b, err := os.ReadFile(filepath.Join(r.outside, "kept")); err != nil || string(b) != "kept" {
		t.Errorf("outside: %q, %v", b, err)
	}
}

func TestTheWorktreeIsAsItWasSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	head := repository(t, func(dir string) error {
		return errors.Join(os.MkdirAll(filepath.Join(dir, "deep/er"), 0o755), os.WriteFile(filepath.Join(dir, "deep/er/f"), []byte("f"), 0o644), os.WriteFile(filepath.Join(dir, "was-file"), []byte("f"), 0o644),
			os.MkdirAll(filepath.Join(dir, "was-folder"), 0o755), os.WriteFile(filepath.Join(dir, "was-folder/f"), []byte("f"), 0o644))
	})
	run, locked := file(guest.BundleTree+"run.sh", "#!/bin/sh\n"), file(guest.BundleTree+"read-only", "r")
	run.Mode, locked.Mode = 0o755, 0o444
	b := archive(t, guest.BundleWorktree, append(head,
		file(guest.BundleGone, "deep/er/f\x00nowhere/at/all\x00"), file(guest.BundleStaged, "0 0000000000000000000000000000000000000000\tcommitted.txt\x00"),
		run, locked, file(guest.BundleTree+"was-file/now", "n"), file(guest.BundleTree+"was-folder", "n"), file(guest.BundleTree+"run-twice", "1"), file(guest.BundleTree+"run-twice", "2"))...)
	if p := r.unpack("p1", b); p.State != guest.BundleDone {
		t.Fatalf("%s, %+v", p.State, p.Error)
	}
	got := r.files()
	for name, want := range map[string]string{"committed.txt": "committed\n", "was-file/now": "n", "was-folder": "n", "run.sh": "#!/bin/sh\n", "read-only": "r", "run-twice": "2"} {
		if got[name] != want {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	if _, err := os.Lstat(filepath.Join(r.root, "deep")); err == nil {
		t.Error("folders that are empty now stay")
	}
	for name, want := range map[string]os.FileMode{"run.sh": 0o755, "read-only": 0o444} {
		if st, err := os.Stat(filepath.Join(r.root, name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "git", "ls-files")
	cmd.Dir, cmd.Env = r.root, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "committed.txt") || !strings.Contains(string(out), "deep/er/f") {
		t.Errorf("the index: %q, %v", out, err)
	}
}

func TestCommitsWithoutParentsAreReportedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if p := r.unpack("p1", archive(t, guest.BundleWorktree, repository(t)...)); p.State != guest.BundleDone {
		t.Fatalf("%s, %+v", p.State, p.Error)
	}
	shallow := filepath.Join(r.root, ".git/shallow")
	for i, c := range []struct{ list, want string }{{"bb\naa\n", "aa\nbb\n"}, {"cc\naa\n", "aa\nbb\ncc\n"}, {"", "aa\nbb\ncc\n"}} {
		if p := r.unpack(fmt.Sprint("s", i), archive(t, guest.BundleObjects, file(guest.BundleShallow, c.list))); p.State != guest.BundleDone {
			t.Fatalf("%s, %+v", p.State, p.Error)
		}
		if b, err := os.ReadFile(shallow); err != nil || string(b) != c.want {
			t.Errorf("%q, %v; want %q", b, err, c.want)
		}
	}
	if _, err := os.Lstat(shallow + ".lock"); err == nil {
		t.Error("its lock stays")
	}
}

func TestGitsOwnErrorIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ git, code, says string }{
		{"git-that-fails", "bundle_failed", "git read-tree failed in the sandbox: fatal: bad ?object"},
		{"git-on-a-full-disk", "disk_full", "The sandbox's disk is full"},
	} {
		r := newRig(t)
		r.withGit(c.git)
		r.failed(c.git, "p1", archive(t, guest.BundleWorktree, repository(t)...), c.code, c.says)
	}
	r := newRig(t)
	r.store = bundle.New(bundle.Config{Dir: r.dir, Root: r.root, GitPath: "git-that-is-nowhere"})
	t.Cleanup(r.store.Close)
	r.failed("without git", "p1", archive(t, guest.BundleWorktree, repository(t)...), "git_missing", "The sandbox has no git.")
	r.store = bundle.New(bundle.Config{Dir: r.dir, Root: filepath.Join(r.root, "nowhere")})
	t.Cleanup(r.store.Close)
	r.failed("without a worktree", "p2", archive(t, guest.BundleWorktree, repository(t)...), "bundle_failed", "opening the worktree")
}

// A caller of Unpack gets progress reports and may leave; a guest that ends cancels its unpackings.
func TestAGuestThatEndsStopsUnpacking(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withGit("git-that-takes-long")
	b := archive(t, guest.BundleWorktree, repository(t)...)
	if _, err := r.store.Write("p1", 0, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	left := errors.New("nobody listens")
	ctx, leave := context.WithCancelCause(t.Context())
	err := r.store.Unpack(ctx, "p1", request(b), func(p guest.Bundle) error {
		if p.Step == guest.UnpackCheckout && p.Done == 1 && p.All == 2 {
			leave(left)
		}
		return nil
	})
	if !errors.Is(err, left) {
		t.Errorf("who left: %v", err)
	}
	if p, err := r.store.Status("p1"); err != nil || p.State != guest.BundleUnpacking {
		t.Errorf("it goes on: %+v, %v", p, err)
	}
	if _, err := r.store.Write("p1", 0, strings.NewReader("x")); fault.CodeOf(err) != "bundle_complete" {
		t.Errorf("a piece that comes late: %v", err)
	}
	if err := r.store.Unpack(t.Context(), "p1", request(b), func(guest.Bundle) error { return left }); !errors.Is(err, left) {
		t.Errorf("a caller that cannot be notified: %v", err)
	}
	reported := make(chan guest.Bundle, 1)
	asked := make(chan struct{})
	go func() {
		var last guest.Bundle
		_ = r.store.Unpack(t.Context(), "p1", request(b), func(p guest.Bundle) error {
			if last.ID == "" {
				close(asked)
			}
			last = p
			return nil
		})
		reported <- last
	}()
	<-asked
	r.store.Close()
	if p := <-reported; p.State != guest.BundleFailed {
		t.Errorf("it ended as %+v, %+v", p, p.Error)
	}
	if _, err := r.store.Write("p2", 0, strings.NewReader("x")); fault.CodeOf(err) != "guest_ending" {
		t.Errorf("a guest that ends takes %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(r.dir, "*.bundle")); len(left) != 0 {
		t.Errorf("bytes stay: %v", left)
	}
}

func TestPiecesThatAreCut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := archive(t, guest.BundleWorktree, append(repository(t), file(guest.BundleTree+"a", "a"))...)
	cut := errors.New("the pipe is cut")
	p, err := r.store.Write("p1", 0, iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(b))))
	if !errors.Is(err, iotest.ErrTimeout) || p.Have != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = r.store.Write("p1", 1, iotest.ErrReader(cut)); !errors.Is(err, cut) || p.Have != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = r.store.Write("p1", 1, bytes.NewReader(b[1:])); err != nil || p.Have != int64(len(b)) {
		t.Errorf("%+v, %v", p, err)
	}
	req := request(b)
	req.Hash = strings.ToUpper(req.Hash)
	if err := r.store.Unpack(t.Context(), "p1", guest.UnpackRequest{Hash: req.Hash}, nil); fault.CodeOf(err) != "bundle_incomplete" {
		t.Errorf("without a size: %v", err)
	}
	if p := r.finish("p1", req); p.State != guest.BundleDone {
		t.Errorf("%s, %+v", p.State, p.Error)
	}
}

// What an earlier guest left of bundles that never were unpacked takes no room for ever.
func TestWhatWasLeftIsSweptAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.store.Write("old", 0, strings.NewReader("half of it")); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(r.dir, "old.bundle")
	if err := os.WriteFile(filepath.Join(r.dir, "kept.json"), []byte(`{"state":"done"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	r.store.Close()
	if err := os.WriteFile(old, before, 0o600); err != nil { // as a guest leaves it that was killed
		t.Fatal(err)
	}
	r.open()
	if p, err := r.store.Status("old"); err != nil || p.Have != 0 || p.State != guest.BundleComing {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := os.Lstat(old); err == nil {
		t.Error("it lies there still")
	}
	if p, err := r.store.Status("kept"); err != nil || p.State != guest.BundleDone {
		t.Errorf("one that was unpacked: %+v, %v", p, err)
	}
}
