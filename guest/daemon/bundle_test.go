//go:build linux

package daemon_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// packed is a bundle made for a test.
type packed struct {
	buf bytes.Buffer
	tw  *tar.Writer
}

func newBundle(t testing.TB, plan guest.BundlePlan) *packed {
	p := &packed{}
	p.tw = tar.NewWriter(&p.buf)
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	p.file(t, guest.BundlePlanEntry, 0o644, b)
	return p
}

func (p *packed) header(t testing.TB, h tar.Header, b []byte) {
	t.Helper()
	h.Size, h.Format = int64(len(b)), tar.FormatPAX
	if err := p.tw.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := p.tw.Write(b); err != nil {
		t.Fatal(err)
	}
}

func (p *packed) file(t testing.TB, name string, mode int64, b []byte) {
	t.Helper()
	p.header(t, tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, b)
}

// done returns the bundle and its state.
func (p *packed) done(t testing.TB) ([]byte, guest.UnpackRequest) {
	t.Helper()
	if err := p.tw.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(p.buf.Bytes())
	return p.buf.Bytes(), guest.UnpackRequest{Size: int64(p.buf.Len()), Hash: hex.EncodeToString(sum[:])}
}

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// repository makes one with a few files, and a bundle of its git folder.
func repository(t testing.TB) (dir string, p *packed) {
	t.Helper()
	dir = t.TempDir()
	gitIn(t, dir, "init", "-q")
	for name, text := range map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n", "dir/sub/c.txt": "c\n", "gone.txt": "g\n", "was": "w\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-qm", "one")
	p = newBundle(t, guest.BundlePlan{Kind: guest.BundleWorktree})
	root := os.DirFS(filepath.Join(dir, ".git"))
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." || name == "index" || strings.HasPrefix(name, "hooks") {
			return err
		}
		if d.IsDir() {
			p.header(t, tar.Header{Typeflag: tar.TypeDir, Name: guest.BundleGit + name + "/", Mode: 0o755}, nil)
			return nil
		}
		b, err := fs.ReadFile(root, name)
		p.file(t, guest.BundleGit+name, 0o644, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, p
}

// send brings a bundle there and has it unpacked.
func send(t testing.TB, c *client.Client, id string, b []byte, r guest.UnpackRequest) error {
	t.Helper()
	if err := c.SendBundle(within(t), id, bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
	return c.Unpack(within(t), id, r, nil)
}

func TestBundleBecomesAWorktree(t *testing.T) {
	t.Parallel()
	from, p := repository(t)
	p.file(t, guest.BundleGone, 0o644, []byte("gone.txt\x00dir/sub/c.txt\x00was\x00"))
	blob := gitIn(t, from, "rev-parse", "HEAD:a.txt")
	p.file(t, guest.BundleStaged, 0o644, []byte("100755 "+blob+"\tstaged.sh\x00"))
	p.file(t, guest.BundleTree+"a.txt", 0o755, []byte("changed\n"))
	p.header(t, tar.Header{Typeflag: tar.TypeSymlink, Name: guest.BundleTree + "link", Linkname: "/etc/passwd"}, nil)
	p.file(t, guest.BundleTree+"was/now/folder\xff", 0o640, []byte("new"))
	p.file(t, guest.BundleTree+".env", 0o600, []byte("SECRET=1"))
	b, r := p.done(t)
	g := newPlace(t)
	var steps []string
	if err := g.SendBundle(within(t), "prc_1", bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
	err := g.Unpack(within(t), "prc_1", r, func(p guest.Bundle) { steps = append(steps, p.Step) })
	if err != nil {
		t.Fatal(err)
	}
	if got := gitIn(t, g.root, "status", "--porcelain"); got != " M a.txt\n D dir/sub/c.txt\n D gone.txt\nAD staged.sh\n D was\n?? .env\n?? link" {
		t.Errorf("status:\n%s", got)
	}
	if fi, err := os.Lstat(filepath.Join(g.root, "a.txt")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if fi, err := os.Lstat(filepath.Join(g.root, ".env")); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if to, err := os.Readlink(filepath.Join(g.root, "link")); err != nil || to != "/etc/passwd" {
		t.Errorf("link to %q, %v", to, err)
	}
	if _, err := os.Stat(filepath.Join(g.root, "dir/sub")); err == nil {
		t.Error("an empty folder is left")
	}
	if text, err := os.ReadFile(filepath.Join(g.root, "was/now/folder\xff")); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if len(steps) == 0 || steps[len(steps)-1] != guest.UnpackFiles {
		t.Errorf("steps: %v", steps)
	}
	// Once more, as by a host that was cut off: nothing is done twice.
	if err := os.WriteFile(filepath.Join(g.root, "work"), []byte("w"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := send(t, g.Client, "prc_1", b, r); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(g.root, "work")); err != nil {
		t.Error("work was taken away")
	}
	if err := send(t, g.Client, "prc_2", b, r); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("another worktree over the first: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(g.dir, "bundles", "*.bundle"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// breaking is a pipe that breaks after some bytes.
type breaking struct {
	net.Conn
	left *atomic.Int64
}

func (c breaking) Write(p []byte) (int, error) {
	if c.left.Add(-int64(len(p))) < 0 {
		_ = c.Conn.Close()
	}
	return c.Conn.Write(p)
}

// TestBundleOverCuts sends a bundle over pipes that break again and again: what arrived is not sent again.
func TestBundleOverCuts(t *testing.T) {
	t.Parallel()
	g := newPlace(t)
	_, p := repository(t)
	big := make([]byte, 20<<20)
	if _, err := rand.Read(big); err != nil {
		t.Fatal(err)
	}
	p.file(t, guest.BundleTree+"big", 0o644, big)
	b, r := p.done(t)
	var dials, sent atomic.Int64
	c := client.New(client.Config{Token: testToken, SandboxID: g.id, Now: time.Now, OnePipe: true, Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		conn, err := g.dial(ctx)
		if err != nil {
			return nil, err
		}
		left := &atomic.Int64{}
		left.Store(6 << 20)
		dials.Add(1)
		return countingPipe{breaking{conn.(net.Conn), left}, &sent}, nil
	}})
	defer c.Close()
	var last int64
	if err := c.SendBundle(within(t), "prc", bytes.NewReader(b), int64(len(b)), func(n int64) { last = n }); err != nil {
		t.Fatal(err)
	}
	if last != int64(len(b)) || dials.Load() < 4 {
		t.Errorf("reported %d bytes of %d, %d pipes", last, len(b), dials.Load())
	}
	if most := int64(len(b)) * 2; sent.Load() > most {
		t.Errorf("%d bytes were sent for a bundle of %d", sent.Load(), len(b))
	}
	if err := c.Unpack(within(t), "prc", r, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(g.root, "big")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

type countingPipe struct {
	breaking
	n *atomic.Int64
}

func (c countingPipe) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.breaking.Write(p)
}

// TestBundlesRefused unpacks what is not what it should be: nothing is written outside the root, and no half worktree has a .git.
func TestBundlesRefused(t *testing.T) {
	t.Parallel()
	g := newPlace(t)
	outside := filepath.Join(filepath.Dir(g.root), "outside")
	evil := func(name string) *packed {
		_, p := repository(t)
		p.file(t, name, 0o644, []byte("x"))
		return p
	}
	through := func() *packed {
		_, p := repository(t)
		p.header(t, tar.Header{Typeflag: tar.TypeSymlink, Name: guest.BundleTree + "l", Linkname: ".."}, nil)
		p.file(t, guest.BundleTree+"l/outside", 0o644, []byte("x"))
		return p
	}()
	for name, p := range map[string]*packed{"up": evil(guest.BundleTree + "../outside"), "git": evil(guest.BundleTree + ".git/config"), "gitup": evil(guest.BundleGit + "../../outside"),
		"other": evil("outside"), "abs": evil(guest.BundleTree + "/outside"), "kind": newBundle(t, guest.BundlePlan{Kind: "thing"}),
		"none": newBundle(t, guest.BundlePlan{Kind: guest.BundleObjects})} {
		b, r := p.done(t)
		if err := send(t, g.Client, "prc_"+name, b, r); err == nil {
			t.Errorf("%s was unpacked", name)
		}
		if _, err := os.Stat(filepath.Join(g.root, ".git")); err == nil {
			t.Fatalf("%s left a worktree", name)
		}
	}
	b, r := through.done(t)
	r.Hash = strings.Repeat("0", 64)
	if err := send(t, g.Client, "prc_hash", b, r); err == nil {
		t.Error("a bundle with another hash was unpacked")
	}
	_, r = (&packed{buf: *bytes.NewBuffer(b), tw: tar.NewWriter(io.Discard)}).done(t)
	if err := send(t, g.Client, "prc_link", b, r); err != nil {
		t.Errorf("a link that a file replaces: %v", err)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("something was written outside the root")
	}
	for _, id := range []string{"..", "a/b", strings.Repeat("a", 101)} {
		if _, err := g.Bundle(within(t), id); err == nil {
			t.Errorf("%q is a name of a bundle", id)
		}
	}
	if err := g.Unpack(within(t), "prc_nothing", guest.UnpackRequest{Size: 10, Hash: r.Hash}, nil); fault.CodeOf(err) != "bundle_incomplete" {
		t.Errorf("a bundle that never came: %v", err)
	}
}

// TestBundleOfObjects brings commits to a repository that is there, whose parents it does not get.
func TestBundleOfObjects(t *testing.T) {
	t.Parallel()
	from, p := repository(t)
	b, r := p.done(t)
	g := newPlace(t)
	if err := send(t, g.Client, "prc_1", b, r); err != nil {
		t.Fatal(err)
	}
	gitIn(t, from, "commit", "-q", "--allow-empty", "-m", "between")
	gitIn(t, from, "commit", "-q", "--allow-empty", "-m", "two")
	tip := gitIn(t, from, "rev-parse", "HEAD")
	cmd := exec.Command("git", "pack-objects", "--revs", filepath.Join(t.TempDir(), "pack"))
	cmd.Dir, cmd.Stdin = from, strings.NewReader("--shallow "+tip+"\n"+tip+"\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	base := cmd.Args[len(cmd.Args)-1] + "-" + strings.TrimSpace(string(out))
	p = newBundle(t, guest.BundlePlan{Kind: guest.BundleObjects})
	for _, ext := range []string{".idx", ".pack"} {
		text, err := os.ReadFile(base + ext)
		if err != nil {
			t.Fatal(err)
		}
		p.file(t, guest.BundleGit+"objects/pack/"+filepath.Base(base)+ext, 0o444, text)
	}
	p.file(t, guest.BundleShallow, 0o644, []byte(tip+"\n"))
	b, r = p.done(t)
	if err := send(t, g.Client, "prc_2", b, r); err != nil {
		t.Fatal(err)
	}
	if got := gitIn(t, g.root, "log", "--format=%s", tip); got != "two" {
		t.Errorf("log: %q", got)
	}
	gitIn(t, g.root, "fsck", "--strict")
}
