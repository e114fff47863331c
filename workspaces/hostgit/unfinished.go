package hostgit

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// unfinishedPrefix is how git names a pack it still writes.
const unfinishedPrefix = "tmp_pack_"

// importing runs a fast-import and removes the pack it leaves when it does not end well: git does not where the disk is full, and cannot
// when it is killed. Such a pack takes room for a day and more, for git's own cleaning leaves what is young.
func (d *Desk) importing(ctx context.Context, c Call) ([]byte, error) {
	before := unfinished(d.objects)
	out, err := d.git.Run(ctx, c)
	if err != nil {
		d.dropUnfinished(ctx, before)
	}
	return out, err
}

// unfinished names the packs that are being written in a folder of objects, or were when their git ended.
func unfinished(objects string) map[string]bool {
	names := make(map[string]bool)
	found, _ := os.ReadDir(filepath.Join(objects, "pack")) // a folder that cannot be read has none that could be removed
	for _, f := range found {
		if strings.HasPrefix(f.Name(), unfinishedPrefix) && f.Type().IsRegular() {
			names[f.Name()] = true
		}
	}
	return names
}

// dropUnfinished removes unfinished packs that were not there before and that no process has open: others fetch and pack there, too.
func (d *Desk) dropUnfinished(ctx context.Context, before map[string]bool) {
	root, err := os.OpenRoot(d.objects) // whose folders an agent may have made links
	if err != nil {
		return // nothing is left in a folder that is gone
	}
	defer root.Close()
	for name := range unfinished(d.objects) {
		if before[name] {
			continue
		}
		name = path.Join("pack", name)
		if removed, err := removeUnused(root, name); err != nil {
			d.git.cfg.Log.WarnContext(ctx, "an unfinished pack could not be removed", "pack", name, "error", err)
		} else if removed {
			d.git.cfg.Log.InfoContext(ctx, "an unfinished pack was removed", "pack", name, "objects", d.objects)
		}
	}
}
