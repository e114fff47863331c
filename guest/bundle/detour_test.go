package bundle_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
)

// failed has b unpacked and checks how that fails.
func (r *rig) failed(what, id string, b []byte, code, says string) {
	r.t.Helper()
	p := r.unpack(id, b)
	if p.State != guest.BundleFailed || p.Error == nil || p.Error.Code != code || !strings.Contains(p.Error.Message, says) {
		r.t.Errorf("%s: %s, %+v; want %s: %s", what, p.State, p.Error, code, says)
	}
	if _, err := os.Lstat(filepath.Join(r.root, ".git")); err == nil {
		r.t.Errorf("%s: a worktree that is not whole looks whole", what)
	}
	if left, _ := filepath.Glob(filepath.Join(r.dir, "*.bundle")); len(left) != 0 {
		r.t.Errorf("%s: its bytes stay: %v", what, left)
	}
}

// A name that git's folder has by a detour is its name all the same.
func TestDetoursLeadNowhere(t *testing.T) {
	t.Parallel()
	folder := func(name string) entry {
		return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
	}
	for what, entries := range map[string][]entry{
		"the same folder":              {file(guest.BundleTree+"./.git/config", "x")},
		"back from a folder":           {folder(guest.BundleTree + "a/"), file(guest.BundleTree+"a/../.git/config", "x")},
		"the folder that is made":      {file(guest.BundleTree+"./.git-parawork-bundle/hooks/post-checkout", "x")},
		"a link in its place":          {link(guest.BundleTree+"./.git", "elsewhere")},
		"a folder in its place":        {folder(guest.BundleTree + "./.git/")},
		"the git part, back":           {file(guest.BundleGit+"refs/../../a", "x")},
		"a removal of the same folder": {file(guest.BundleGone, "./.git-parawork-bundle/HEAD\x00"), file(guest.BundleTree+"a", "a")},
		"a removal of what is made":    {file(guest.BundleGone, ".git-parawork-bundle/HEAD\x00"), file(guest.BundleTree+"a", "a")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			b := archive(t, guest.BundleWorktree, append(repository(t), entries...)...)
			r.failed(what, "p1", b, "bundle_corrupt", "leads out of the worktree")
			r.failed(what+", again", "p2", b, "bundle_corrupt", "leads out of the worktree")
		})
	}
}
