package filesync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
)

// wants lists what the worktree is to hold under each path of a task: removals first, then ordered by path.
func (m *mirror) wants(ctx context.Context, t task) ([]*item, error) {
	items := make([]*item, 0, len(t.paths))
	var ask []string
	m.mu.Lock()
	if m.base != t.base {
		m.mu.Unlock()
		return nil, nil
	}
	for p := range t.paths {
		w := want{path: p, kind: "base"}
		if c, ok := m.set[p]; ok {
			w = m.wanted(p, c)
		} else if m.from[p] > 0 {
			w.kind = "absent"
		}
		items = append(items, &item{want: w})
		if row, ok := m.files[p]; w.kind == "base" || w.kind == "absent" || !ok || row.State != FileSynced {
			ask = append(ask, p)
		}
	}
	m.mu.Unlock()
	base, err := m.baseFiles(ctx, t.base, ask)
	if err != nil {
		return nil, m.fail("reading the base", err)
	}
	was := map[string]*BaseFile{}
	if m.builtOn != "" && m.builtOn != t.base {
		if was, err = m.baseFiles(ctx, m.builtOn, ask); err != nil {
			return nil, m.fail("reading the previous base", err)
		}
	}
	for _, it := range items {
		it.base, it.was = base[it.path], was[it.path]
		if it.kind != "base" {
			continue
		}
		switch b := it.base; {
		case b == nil, b.Mode == "040000":
			it.kind = "absent"
		case !b.file():
			it.kind = "leave" // a submodule: its contents are never copied
		default:
			it.mode, it.size = b.Mode, b.Size
		}
	}
	slices.SortFunc(items, func(a, b *item) int {
		if ga, gb := a.kind == "absent", b.kind == "absent"; ga != gb {
			if ga {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.path, b.path)
	})
	return items, nil
}

func (m *mirror) baseFiles(ctx context.Context, commit string, paths []string) (map[string]*BaseFile, error) {
	out := make(map[string]*BaseFile, len(paths))
	if len(paths) == 0 {
		return out, nil
	}
	files, err := m.s.cfg.Trees.BaseFiles(ctx, m.id, commit, paths)
	for i := range files {
		out[files[i].Path] = &files[i]
	}
	return out, err
}

// wanted returns what a change of the guest's requires. The caller holds m.mu.
func (m *mirror) wanted(p string, c guest.Change) want {
	w := want{path: p, kind: "file", mode: c.Mode, hash: c.Hash, stamp: c.Stamp, size: c.Size}
	switch {
	case c.Status == "deleted" || c.Mode == "":
		w.kind = "absent"
	case inGit(p):
		w.kind, w.reason = "refused", "It is in a folder named .git, from which nothing is copied."
	case c.Mode != modeFile && c.Mode != modeExec && c.Mode != modeLink:
		w.kind, w.reason = "refused", "It is a git repository of its own: its contents stay in the sandbox."
	case c.Size > m.s.cfg.MaxFile:
		w.kind, w.reason = "too_large", fmt.Sprintf("It is larger than %d MB.", m.s.cfg.MaxFile>>20)
	default:
		if above, ok := m.above(p); ok {
			w.kind, w.reason = "refused", fmt.Sprintf("%q above it is a file.", above)
		}
	}
	return w
}

// above returns a path above p that the guest reports as a file or a link.
func (m *mirror) above(p string) (string, bool) {
	for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
		if c, ok := m.set[p[:i]]; ok && c.Status != "deleted" && c.Mode != "" {
			return p[:i], true
		}
	}
	return "", false
}
