package bundle_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/bundle"
	"github.com/parawork/parawork/internal/fault"
)

// rig is a store over an empty worktree, and a folder beside it that nothing may be written to.
type rig struct {
	t         *testing.T
	dir, root string
	outside   string
	store     *bundle.Store
}

func newRig(t *testing.T) *rig {
	t.Helper()
	base := t.TempDir()
	r := &rig{t: t, dir: filepath.Join(base, "transfers"), root: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	for _, d := range []string{r.root, r.outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	return r
}

// open makes the store, as a guest that starts does.
func (r *rig) open() {
	r.store = bundle.New(bundle.Config{Dir: r.dir, Root: r.root})
	r.t.Cleanup(r.store.Close)
}

// entry is one of an archive's; Typeflag 0 = a file.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func link(name, to string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}, ""}
}

func archive(t *testing.T, kind guest.BundleKind, entries ...entry) []byte {
	t.Helper()
	plan, err := json.Marshal(guest.BundlePlan{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range append([]entry{file(guest.BundlePlanEntry, string(plan))}, entries...) {
		h := e.Header
		h.Size, h.Format = int64(len(e.content)), tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// repository returns the entries of a git folder with one commit, which has the file committed.txt and what put puts beside it.
func repository(t *testing.T, put ...func(dir string) error) []entry {
	t.Helper()
	dir := t.TempDir()
	for _, fn := range put {
		if err := fn(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-qm", "one"}} {
		if line[0] == "add" {
			if err := os.WriteFile(filepath.Join(dir, "committed.txt"), []byte("committed\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=T", "-c", "user.email=t@localhost"}, line...)...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", line, err, out)
		}
	}
	var out []entry
	git := os.DirFS(filepath.Join(dir, ".git"))
	err := fs.WalkDir(git, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." || name == "index" || strings.HasPrefix(name, "hooks") {
			return err
		}
		if d.IsDir() {
			out = append(out, entry{tar.Header{Typeflag: tar.TypeDir, Name: guest.BundleGit + name + "/", Mode: 0o755}, ""})
			return nil
		}
		b, err := fs.ReadFile(git, name)
		out = append(out, file(guest.BundleGit+name, string(b)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func request(b []byte) guest.UnpackRequest {
	sum := sha256.Sum256(b)
	return guest.UnpackRequest{Size: int64(len(b)), Hash: hex.EncodeToString(sum[:])}
}

// unpack has b unpacked and returns how that ended.
func (r *rig) unpack(id string, b []byte) guest.Bundle {
	r.t.Helper()
	if _, err := r.store.Write(id, 0, bytes.NewReader(b)); err != nil {
		r.t.Fatal(err)
	}
	return r.finish(id, request(b))
}

func (r *rig) finish(id string, req guest.UnpackRequest) (last guest.Bundle) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.store.Unpack(ctx, id, req, func(p guest.Bundle) error { last = p; return nil }); err != nil {
		r.t.Fatal(err)
	}
	return last
}

// files are those of the worktree but git's, by path.
func (r *rig) files() map[string]string {
	r.t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(r.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			if d != nil && d.IsDir() && d.Name() == ".git" {
				return filepath.SkipDir
			}
			return err
		}
		name, _ := filepath.Rel(r.root, path)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			out[name] = "-> " + to
			return err
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			out[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// Pieces come in any order, twice, over each other and cut short; only what is there without a gap counts, and the whole is what was sent.
func TestPiecesComeInAnyOrder(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t)
	b := archive(t, guest.BundleWorktree, append(repository(t), file(guest.BundleTree+"large.bin", strings.Repeat("0123456789abcdef", 1<<14)))...)
	var cuts []int64
	for off := int64(0); off < int64(len(b)); off += 10_000 {
		cuts = append(cuts, off)
	}
	pieces := append(slices.Clone(cuts), cuts[:len(cuts)/2]...)
	random.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	there := make([]bool, len(b))
	for i, off := range pieces {
		end := min(off+10_000+random.Int64N(500), int64(len(b)))
		if i >= len(cuts) { // a repeated one is cut short
			end = off + random.Int64N(end-off+1)
		}
		p, err := r.store.Write("p1", off, bytes.NewReader(b[off:end]))
		if err != nil {
			t.Fatal(err)
		}
		for n := off; n < end; n++ {
			there[n] = true
		}
		gap := int64(slices.Index(there, false))
		if gap < 0 {
			gap = int64(len(b))
		}
		if p.Have > gap {
			t.Fatalf("%d bytes are said to be there; the first gap is at %d", p.Have, gap)
		}
	}
	for _, off := range cuts { // whatever a cut piece has left open
		if _, err := r.store.Write("p1", off, bytes.NewReader(b[off:min(off+10_000, int64(len(b)))])); err != nil {
			t.Fatal(err)
		}
	}
	if p := r.finish("p1", request(b)); p.State != guest.BundleDone {
		t.Fatalf("%+v, %+v", p, p.Error)
	}
	if got := r.files(); got["committed.txt"] != "committed\n" || len(got["large.bin"]) != 16<<14 {
		t.Errorf("the worktree has %d files", len(got))
	}
}

// What the sender's archive names never leads out of the worktree, through no name and no link, nor into git's own folder.
func TestNothingIsWrittenOutside(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]entry{
		"a name that climbs":             {file(guest.BundleTree+"../outside/x", "x")},
		"an absolute name":               {file(guest.BundleTree+"/etc/x", "x")},
		"git's folder":                   {file(guest.BundleTree+".git/hooks/post-checkout", "x")},
		"git's folder by another name":   {file(guest.BundleTree+".git-parawork-bundle/hooks/post-checkout", "x")},
		"the git part climbs":            {file(guest.BundleGit+"../../outside/x", "x")},
		"a link in git's folder":         {link(guest.BundleGit+"objects/x", "/")},
		"a device":                       {entry{tar.Header{Typeflag: tar.TypeChar, Name: guest.BundleTree + "dev", Devmajor: 1, Devminor: 3}, ""}},
		"a hard link":                    {entry{tar.Header{Typeflag: tar.TypeLink, Name: guest.BundleTree + "hard", Linkname: "/etc/passwd"}, ""}},
		"something else":                 {file("other/x", "x")},
		"a list of removals that climbs": {file(guest.BundleGone, "../outside/kept\x00"), file(guest.BundleTree+"a", "a")},
		"a list of removals names git's": {file(guest.BundleGone, ".git/config\x00"), file(guest.BundleTree+"a", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if err := os.WriteFile(filepath.Join(r.outside, "kept"), []byte("kept"), 0o644); err != nil {
				t.Fatal(err)
			}
			p := r.unpack("p1", archive(t, guest.BundleWorktree, append(repository(t), entries...)...))
			if p.State != guest.BundleFailed || p.Error == nil {
				t.Errorf("it was unpacked: %+v", p)
			}
			if left, err := os.ReadDir(r.outside); err != nil || len(left) != 1 {
				t.Errorf("outside: %v, %v", left, err)
			}
			if _, err := os.Lstat(filepath.Join(r.root, ".git")); err == nil {
				t.Error("a worktree that is not whole looks whole")
			}
		})
	}
}

// A link is made when every file is there: an entry below its name replaces it, and is not written to where it leads.
func TestNoFileIsWrittenThroughALink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.unpack("p1", archive(t, guest.BundleWorktree, append(repository(t),
		link(guest.BundleTree+"way", r.outside), file(guest.BundleTree+"way/x", "x"), link(guest.BundleTree+"other", "../outside"))...))
	if p.State != guest.BundleDone {
		t.Fatalf("%+v, %+v", p, p.Error)
	}
	if left, err := os.ReadDir(r.outside); err != nil || len(left) != 0 {
		t.Errorf("written through a link: %v, %v", left, err)
	}
	if got := r.files(); got["other"] != "-> ../outside" || got["committed.txt"] != "committed\n" {
		t.Errorf("%v", got)
	}
}

// What did not arrive as it was sent is not unpacked, and nothing of it stays.
func TestAnotherContentIsNotUnpacked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := archive(t, guest.BundleWorktree, append(repository(t), file(guest.BundleTree+"a", "a"))...)
	good := request(b)
	b[len(b)/2] ^= 1
	if _, err := r.store.Write("p1", 0, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Unpack(t.Context(), "p1", guest.UnpackRequest{Size: good.Size + 1, Hash: good.Hash}, nil); fault.CodeOf(err) != "bundle_incomplete" {
		t.Errorf("before all of it is there: %v", err)
	}
	if p := r.finish("p1", good); p.State != guest.BundleFailed || p.Error.Code != "bundle_corrupt" {
		t.Errorf("%+v, %+v", p, p.Error)
	}
	if left := r.files(); len(left) != 0 {
		t.Errorf("files of it: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(r.dir, "*.bundle")); len(left) != 0 {
		t.Errorf("its bytes stay: %v", left)
	}
}

// A guest that died while it unpacked begins anew over what it left; one that had finished knows, and touches nothing again.
func TestAGuestThatDiedUnpacksAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := archive(t, guest.BundleWorktree, append(repository(t), file(guest.BundleTree+"a", "a"))...)
	for _, left := range []string{"half.txt", ".git-parawork-bundle/HEAD"} { // what the first guest had made
		path := filepath.Join(r.root, left)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if p := r.unpack("p1", b); p.State != guest.BundleDone {
		t.Fatalf("%+v, %+v", p, p.Error)
	}
	if got := r.files(); len(got) != 2 || got["a"] != "a" {
		t.Errorf("%v", got)
	}
	if err := os.WriteFile(filepath.Join(r.root, "work.txt"), []byte("an agent's"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.store.Close()
	r.open()
	if p := r.finish("p1", request(b)); p.State != guest.BundleDone {
		t.Errorf("asked again: %+v", p)
	}
	if p := r.unpack("p2", b); p.State != guest.BundleFailed || p.Error.Code != "root_not_empty" {
		t.Errorf("another worktree over this one: %+v, %+v", p, p.Error)
	}
	if got := r.files(); got["work.txt"] != "an agent's" {
		t.Errorf("work is gone: %v", got)
	}
}

// Objects that follow are packs and nothing else, for a repository that is there.
func TestObjectsArePacksAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if p := r.unpack("p1", archive(t, guest.BundleObjects, file(guest.BundleGit+"objects/pack/pack-1.pack", "x"))); p.State != guest.BundleFailed || p.Error.Code != "no_repository" {
		t.Errorf("without a repository: %+v, %+v", p, p.Error)
	}
	if p := r.unpack("p2", archive(t, guest.BundleWorktree, repository(t)...)); p.State != guest.BundleDone {
		t.Fatalf("%+v, %+v", p, p.Error)
	}
	for i, name := range []string{"config", "hooks/post-checkout", "objects/pack/other", "objects/pack/../../config", "objects/info/alternates"} {
		if p := r.unpack("o"+string(rune('a'+i)), archive(t, guest.BundleObjects, file(guest.BundleGit+name, "x"))); p.State != guest.BundleFailed {
			t.Errorf("%s was written: %+v", name, p)
		}
	}
	// A pack has its name only when all of it is there: the index comes last.
	if p := r.unpack("q", archive(t, guest.BundleObjects, file(guest.BundleGit+"objects/pack/pack-1.idx", "i"), file(guest.BundleGit+"objects/pack/pack-1.pack", "p"))); p.State != guest.BundleDone {
		t.Errorf("%+v, %+v", p, p.Error)
	}
	for _, name := range []string{"pack-1.idx", "pack-1.pack"} {
		if _, err := os.Stat(filepath.Join(r.root, ".git/objects/pack", name)); err != nil {
			t.Error(err)
		}
	}
}

// However many transfers a host begins, the guest keeps a few.
func TestTransfersAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 20 {
		if _, err := r.store.Write("p"+string(rune('a'+i)), 0, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(r.dir, "*.bundle")); err != nil || len(left) > 4 {
		t.Errorf("%d transfers lie on the sandbox's disk, %v", len(left), err)
	}
	for name, off := range map[string]int64{"before its beginning": -1, "beyond what fits": guest.MaxBundle} {
		if _, err := r.store.Write("pz", off, strings.NewReader("x")); fault.CodeOf(err) != "bundle_too_large" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "../x", "a/b", strings.Repeat("a", 1000)} {
		if _, err := r.store.Status(id); fault.CodeOf(err) != "invalid_bundle" {
			t.Errorf("%q: %v", id, err)
		}
	}
}
