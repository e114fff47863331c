package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
)

// entry is one change with what it was computed from, so that the next poll computes only differences.
type entry struct {
	change guest.Change
	raw    rawChange
	st     fileStat
	racy   bool // st may not distinguish the next state from this one
	nums   *counts
	read   bool // the file was read for hash and binary
	hash   string
	binary bool // has a NUL among its first bytes
	kept   bool // from an earlier poll, while untracked files cannot be listed
	staged bool // a submodule HEAD does not have, which status does not report
}

// details computes the set of changes after a poll found a difference.
type details struct {
	s        *shadow
	m        *meter
	base     string
	paths    []dirty
	stats    []fileStat
	prev     map[string]*entry
	degraded bool
	links    *linkCache
	at       int64 // ns, when the files were stat'ed

	dirty   map[string]int // raw path -> index in paths
	scratch string         // GIT_INDEX_FILE of the comparison
	note    string
}

// Below fullBelow paths, the lines of all are counted in one call; above, only of those that differ from last time, unless
// they are more than partialMax.
const (
	fullBelow  = 256
	partialMax = 200
)

func (d *details) compute(ctx context.Context) (map[string]*entry, error) {
	d.dirty = make(map[string]int, len(d.paths))
	for i, p := range d.paths {
		// After `git rm --cached` git reports a path twice, deleted and untracked: the disk decides.
		if j, ok := d.dirty[p.path]; !ok || !d.paths[j].unmerged && p.untracked() {
			d.dirty[p.path] = i
		}
	}
	if err := d.buildIndex(ctx); err != nil {
		return nil, err
	}
	full := len(d.paths)+len(d.prev) <= fullBelow
	raws, nums, err := d.diff(ctx, true, full, nil)
	if err != nil {
		return nil, err
	}
	entries := make(map[string]*entry, len(raws))
	for _, r := range raws {
		if len(entries) >= MaxChanges {
			d.note = joinNotes(d.note, tooMany)
			break
		}
		if d.usable(r) {
			entries[r.path] = d.start(r)
		}
	}
	d.addOwn(entries)
	if err := d.addLinks(ctx, entries); err != nil {
		return nil, err
	}
	if !full {
		if nums, err = d.count(ctx, entries); err != nil {
			return nil, err
		}
	}
	d.readContents(ctx, entries)
	for path, e := range entries {
		if e.kept {
			continue
		}
		if e.nums == nil {
			n := nums[path] // a file git finds unchanged after all has no count
			e.nums = &n
		}
		if d.finish(e); d.phantom(e) {
			delete(entries, path)
		}
	}
	return entries, ctx.Err()
}

// usable excludes names that cannot be a path of the worktree: a commit can be made to contain such names.
func (d *details) usable(r rawChange) bool {
	if guest.CheckPath(guest.EncodePath(r.path)) == nil && (r.oldPath == "" || guest.CheckPath(guest.EncodePath(r.oldPath)) == nil) {
		return true
	}
	d.note = joinNotes(d.note, "Some names in the commit cannot be files and are not shown.")
	return false
}

// buildIndex makes the index for the comparison: the repository's, plus every untracked file as if it were tracked, so that git
// itself finds renames, counts lines and detects binary files for them too, and every conflicted path with what is on the disk.
// The recorded content is that of an empty file and is never read, because times that cannot match make git read the disk. Large
// files are excluded, since git would read them whole to name their content; start and addOwn add them.
func (d *details) buildIndex(ctx context.Context) error {
	var feed bytes.Buffer
	for i, p := range d.paths {
		st := d.stats[i]
		odd := st.exists() && st.gitMode() == "" // a FIFO or the like in place of a file: for git the file is gone
		if p.unmerged || odd || large(st) && !p.untracked() {
			fmt.Fprintf(&feed, "0 %s 0\t%s\x00", zeroID(d.base), p.path)
		} else if !p.untracked() || p.nested {
			continue
		}
		if st.regular() && !large(st) || st.link() {
			fmt.Fprintf(&feed, "%s %s 0\t%s\x00", st.gitMode(), emptyID(d.base), p.path)
		}
	}
	d.scratch = ""
	if feed.Len() == 0 {
		return nil
	}
	return d.scratchIndex(ctx, feed.Bytes())
}

func (d *details) scratchIndex(ctx context.Context, feed []byte) error {
	path := d.s.path("details.index")
	_ = os.Remove(path + ".lock")
	if _, err := copyFile(path, d.s.path("index")); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copying the index: %w", err)
		}
		_ = os.Remove(path)
	}
	d.scratch = path
	_, err := d.s.run(ctx, d.m, call{args: []string{"update-index", "-z", "--replace", "--index-info"},
		env: []string{"GIT_INDEX_FILE=" + path}, stdin: feed, locks: true})
	return err
}

// diff runs `git diff` of the base against the worktree.
func (d *details) diff(ctx context.Context, raw, nums bool, paths []string) ([]rawChange, map[string]counts, error) {
	args := []string{"diff", "-z", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all"}
	if raw {
		args = append(args, "--raw")
	}
	if nums {
		args = append(args, "--numstat")
	}
	if paths == nil {
		args = append(args, "-M", "-l400")
	} else {
		args = append(args, "--no-renames")
	}
	args = append(append(args, d.base, "--"), paths...)
	c := call{args: args, timeout: 2 * d.s.timeout}
	if d.scratch != "" {
		c.env = []string{"GIT_INDEX_FILE=" + d.scratch}
	}
	out, err := d.s.run(ctx, d.m, c)
	if err != nil {
		return nil, nil, err
	}
	return parseDiff(out)
}

// start makes the entry of a record, with what is still known of the same state from last time.
func (d *details) start(r rawChange) *entry {
	e := &entry{raw: r}
	if i, ok := d.dirty[r.path]; ok {
		e.st = d.stats[i]
	} else {
		e.st, _ = lstat(filepath.Join(d.s.repo.root, r.path))
	}
	if _, ok := d.dirty[r.path]; ok && large(e.st) && (r.status == 'D' || r.status == 'A') {
		e.nums = &counts{binary: true}
		if r.status == 'D' { // excluded by buildIndex
			e.raw.status, e.raw.newMode = 'M', e.st.gitMode()
			if r.oldMode == "120000" {
				e.raw.status = 'T'
			}
		}
		r = e.raw
	}
	if r.newMode == "" {
		e.st = fileStat{} // gone for git, whatever a linked folder above it may lead to
	}
	e.racy = e.st.racy(d.at)
	old := d.prev[r.path]
	if old == nil || old.st != e.st || old.racy {
		return e
	}
	e.read, e.hash, e.binary = old.read, old.hash, old.binary
	if o := old.raw; e.nums == nil && o.status == r.status && o.oldID == r.oldID && o.oldMode == r.oldMode && o.oldPath == r.oldPath {
		e.nums = old.nums
	}
	return e
}

// large reports that a file is not compared line by line: it is too large, or unreadable. One such file must not hide all others.
func large(st fileStat) bool { return st.regular() && (st.size > bigFile || st.closed) }

// addOwn adds what git does not compare: untracked repositories, large new files, conflicts without a file and, while untracked
// files cannot be listed, those known from before.
func (d *details) addOwn(entries map[string]*entry) {
	for i, p := range d.paths {
		if entries[p.path] != nil || len(entries) >= MaxChanges {
			continue
		}
		st := d.stats[i]
		switch {
		case p.nested:
			entries[p.path] = &entry{raw: rawChange{status: 'A', newMode: "040000", path: p.path}, nums: &counts{}, read: true}
		case large(st):
			entries[p.path] = d.start(rawChange{status: 'A', newMode: st.gitMode(), path: p.path})
		case p.unmerged:
			entries[p.path] = &entry{raw: rawChange{status: 'U', newMode: st.gitMode(), path: p.path}, st: st, nums: &counts{}}
		}
	}
	if !d.degraded {
		return
	}
	for path, old := range d.prev {
		if _, tracked := d.dirty[path]; tracked || entries[path] != nil || old.change.Status != "untracked" {
			continue
		}
		if st, err := lstat(filepath.Join(d.s.repo.root, path)); err == nil && st == old.st {
			kept := *old
			kept.kept = true
			entries[path] = &kept
		}
	}
}

// addLinks adds repositories recorded as submodules since the base. The comparison above never looks at submodules, because git
// would run inside them; this one compares only commit and index.
func (d *details) addLinks(ctx context.Context, entries map[string]*entry) error {
	raws, err := d.linked(ctx)
	if err != nil {
		return err
	}
	for _, r := range raws {
		if entries[r.path] != nil || len(entries) >= MaxChanges || !d.usable(r) {
			continue
		}
		n := counts{additions: boolInt(r.newMode == gitLink), deletions: boolInt(r.oldMode == gitLink)}
		entries[r.path] = &entry{raw: r, nums: &n, read: true, staged: d.links.staged[r.path]}
	}
	return nil
}

// gitLink is the mode of a submodule.
const gitLink = "160000"

// linked lists the submodules that differ between base and index, and repeats that only when index or HEAD has changed.
func (d *details) linked(ctx context.Context) ([]rawChange, error) {
	if d.links.known && d.links.index == d.s.indexFrom && d.links.head == d.s.head.commit {
		return d.links.raws, nil
	}
	raws, err := d.linksSince(ctx, d.base)
	if err != nil {
		return nil, err
	}
	staged := make(map[string]bool)
	if len(raws) > 0 && d.s.head.commit != "" {
		uncommitted, err := d.linksSince(ctx, d.s.head.commit)
		if err != nil {
			return nil, err
		}
		for _, r := range uncommitted {
			staged[r.path] = true
		}
	}
	*d.links = linkCache{known: true, index: d.s.indexFrom, head: d.s.head.commit, raws: raws, staged: staged}
	return raws, nil
}

// linksSince compares a commit with the index and returns the submodules.
func (d *details) linksSince(ctx context.Context, commit string) ([]rawChange, error) {
	out, err := d.s.run(ctx, d.m, call{args: []string{"diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames",
		"--no-ext-diff", "--no-textconv", "--ignore-submodules=none", commit, "--"}})
	if err != nil {
		return nil, err
	}
	raws, _, err := parseDiff(out)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(raws, func(r rawChange) bool { return r.oldMode != gitLink && r.newMode != gitLink }), nil
}

// linkCache holds the result of linked.
type linkCache struct {
	known  bool
	index  fileStat
	head   string
	raws   []rawChange
	staged map[string]bool // by path: HEAD has another
}

// count counts the lines of entries that are not known from last time.
func (d *details) count(ctx context.Context, entries map[string]*entry) (map[string]counts, error) {
	var missing []string
	size, all := 0, false
	for path, e := range entries {
		switch {
		case e.nums != nil:
		case e.raw.status == 'R' && e.raw.score == 100:
			e.nums = &counts{}
		default:
			all = all || e.raw.status == 'R' // only a comparison of everything finds the same pairs
			missing = append(missing, path)
			size += len(path)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if all || len(missing) > partialMax || size > 100<<10 {
		missing = nil
	}
	_, nums, err := d.diff(ctx, false, true, missing)
	return nums, err
}

// finish derives the published change of an entry.
func (d *details) finish(e *entry) {
	r := e.raw
	c := guest.Change{
		Path: guest.EncodePath(r.path), OldPath: guest.EncodePath(r.oldPath),
		Mode: r.newMode, OldMode: r.oldMode, Size: e.st.size, Hash: e.hash,
	}
	if r.status == 'C' {
		c.OldPath = ""
	}
	if e.st.dir() || !e.st.exists() {
		c.Size = 0
	} else if e.hash == "" && e.st.regular() {
		c.Stamp = e.st.stamp()
	}
	c.Additions, c.Deletions, c.Binary = e.nums.additions, e.nums.deletions, e.nums.binary
	if r.score == 100 { // git compared the IDs without reading the files
		c.Binary = c.Binary || e.binary
	}
	i, isDirty := d.dirty[r.path]
	if !isDirty && r.oldPath != "" {
		i, isDirty = d.dirty[r.oldPath]
	}
	c.Committed, c.Staged = !isDirty && !e.staged, e.staged
	if isDirty {
		p := d.paths[i]
		c.Staged = !p.untracked() && !p.unmerged && p.x != '.'
		c.Status = d.status(r, p)
	} else {
		c.Status = plainStatus(r.status)
	}
	e.change = c
}

func (d *details) status(r rawChange, p dirty) string {
	switch {
	case p.unmerged:
		return "conflicted"
	case p.untracked() && r.status == 'A':
		return "untracked"
	}
	return plainStatus(r.status)
}

func plainStatus(s byte) string {
	switch s {
	case 'A', 'C':
		return "added"
	case 'D':
		return "deleted"
	case 'R':
		return "renamed"
	case 'T':
		return "type_changed"
	case 'U':
		return "conflicted"
	}
	return "modified"
}

// phantom reports that a file differs only in its times: git reports it as modified until it has read it.
func (d *details) phantom(e *entry) bool {
	r := e.raw
	return r.status == 'M' && r.oldMode == r.newMode && e.change.Status != "conflicted" && *e.nums == counts{}
}

func zeroID(like string) string { return strings.Repeat("0", len(like)) }

// emptyID is the object ID of an empty file, in the repository's object format.
func emptyID(like string) string {
	if len(like) == 64 {
		return "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
	}
	return "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
}
