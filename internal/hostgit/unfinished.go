package hostgit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// unfinishedPrefix is git's name for a pack it is still writing.
const unfinishedPrefix = "tmp_pack_"

// importing runs a fast-import and removes the pack it leaves when it fails: git does not when the disk is full, and cannot when it is
// killed. Such a pack takes space for more than a day, because git's own clean-up leaves recent files.
func (d *Scratch) importing(ctx context.Context, c Call) ([]byte, error) {
	n := writing{Objects: d.objects, Before: unfinished(d.objects)}
	done, err := d.git.noteWriting(n)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := d.git.run(ctx, c)
	if err != nil {
		d.git.dropUnfinished(ctx, n)
	}
	return out, err
}

// fetching runs a fetch, which writes its pack into the repository directly, in the same way.
func (g *Git) fetching(ctx context.Context, c Call) ([]byte, error) {
	objects := c.Objects
	if objects == "" {
		objects = filepath.Join(c.GitDir, "objects")
	}
	n := writing{Objects: objects, Before: unfinished(objects)}
	done, err := g.noteWriting(n)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := g.run(ctx, c)
	if err != nil {
		g.dropUnfinished(ctx, n)
	}
	return out, err
}

// writing records what a killed server's git may leave in an object folder, which may be in somebody's repository. It is written to a file
// of ours before git begins, because only that proves later that the leftovers are ours.
type writing struct {
	Objects string          `json:"objects"`
	Before  map[string]bool `json:"before,omitempty"` // unfinished packs that were there already
	Dir     string          `json:"dir,omitempty"`    // a folder of ours in Objects
}

func (g *Git) writingDir() string { return filepath.Join(g.cfg.StateDir, "writing") }

// noteWriting records what is about to be written; done removes the record.
func (g *Git) noteWriting(n writing) (done func(), err error) {
	if g.cfg.StateDir == "" {
		return func() {}, nil
	}
	b, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(g.writingDir(), 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(g.writingDir(), rand.Text())
	if err := os.WriteFile(name, b, 0o600); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(name) }, nil
}

// Sweep removes what git calls left unfinished in repositories when the previous server was killed. Packs still being written stay, for the
// next start. Call it once, before any other call.
func (g *Git) Sweep(ctx context.Context) {
	notes, _ := os.ReadDir(g.writingDir()) // none = nothing was being written
	for _, e := range notes {
		name := filepath.Join(g.writingDir(), e.Name())
		var n writing
		if b, err := os.ReadFile(name); err != nil || json.Unmarshal(b, &n) != nil || !filepath.IsAbs(n.Objects) {
			_ = os.Remove(name) // it was cut before git began
			continue
		}
		if n.Dir != "" && filepath.Dir(n.Dir) == n.Objects && strings.HasPrefix(filepath.Base(n.Dir), incoming) {
			if root, err := os.OpenRoot(n.Objects); err == nil { // nothing is removed through a link
				_ = root.RemoveAll(filepath.Base(n.Dir))
				_ = root.Close()
			}
		}
		if n.Dir != "" || g.dropUnfinished(ctx, n) {
			_ = os.Remove(name)
		}
	}
}

// unfinished returns the names of the packs being written in an object folder, or abandoned there.
func unfinished(objects string) map[string]bool {
	names := make(map[string]bool)
	found, _ := os.ReadDir(filepath.Join(objects, "pack")) // an unreadable folder has none that could be removed
	for _, f := range found {
		if strings.HasPrefix(f.Name(), unfinishedPrefix) && f.Type().IsRegular() {
			names[f.Name()] = true
		}
	}
	return names
}

// dropUnfinished removes unfinished packs that were not there before and that no process has open: others fetch and pack there, too. It
// reports whether none is left.
func (g *Git) dropUnfinished(ctx context.Context, n writing) (all bool) {
	root, err := os.OpenRoot(n.Objects) // an agent may have replaced folders by links
	if err != nil {
		return true // nothing is left in a folder that is gone
	}
	defer root.Close()
	all = true
	for name := range unfinished(n.Objects) {
		if n.Before[name] {
			continue
		}
		name = path.Join("pack", name)
		removed, err := removeUnused(root, name)
		if err != nil {
			g.cfg.Log.WarnContext(ctx, "an unfinished pack could not be removed", "pack", name, "error", err)
		} else if removed {
			g.cfg.Log.InfoContext(ctx, "an unfinished pack was removed", "pack", name, "objects", n.Objects)
		}
		all = all && (removed || err != nil)
	}
	return all
}
