package filesync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
)

// want describes what the host worktree is to hold under a name.
type want struct {
	path   string
	kind   string // absent, file, base, refused, too_large, leave
	mode   string
	hash   string // of a file; "" = unknown
	stamp  string // of a large file, which has no hash
	size   int64
	base   *BaseFile // the base's entry, even where the sandbox has something else
	was    *BaseFile // the entry in the commit the worktree was built on, where that differs
	reason string
}

// item is one path of a step.
type item struct {
	want
	host   present
	sum    digest // of what is on the host, where it was read
	got    *got   // what to move in
	row    *File  // what to store
	unrow  bool   // it is the base's version again: delete its row
	moving bool   // somebody wrote to it while it was read
}

// chunk is how many paths one step syncs, with one transaction.
const chunk = 1000

// pass syncs the paths of a task, and returns those that must be tried again soon.
func (m *mirror) pass(ctx context.Context, t task) (left map[string]int, err error) {
	root, err := m.s.cfg.Trees.Worktree(ctx, m.id)
	if err != nil {
		return nil, m.fail("finding the worktree", errors.Join(errNoWorktree, err))
	}
	tr, err := openTree(root, m.temp())
	if err != nil {
		return nil, m.fail("reading the worktree", err)
	}
	defer tr.close()
	if err := m.sweep(tr); err != nil {
		return nil, m.fail("clearing unfinished files", err)
	}
	if err := m.moved(ctx, t); err != nil {
		return nil, err
	}
	wants, err := m.wants(ctx, t)
	if err != nil {
		return nil, err
	}
	if wants == nil {
		return t.paths, nil // the base moved
	}
	left = make(map[string]int)
	retry := func(p string) { left[p] = t.paths[p] + 1 }
	// Removals come first: they free names and space for new files.
	gone := 0
	for gone < len(wants) && wants[gone].kind == "absent" {
		gone++
	}
	for first := true; first || len(wants) > 0; first = false {
		n := min(len(wants), chunk)
		if first {
			n = min(len(wants), gone+chunk)
		}
		if n == 0 {
			break
		}
		m.mu.Lock()
		m.left = len(wants)
		m.mu.Unlock()
		if len(wants) > chunk/10 || m.now().State != Synced {
			m.show(Syncing, "")
		}
		if err := m.do(ctx, tr, t.base, wants[:n], retry, func() bool { return n == len(wants) && len(left) == 0 }); err != nil {
			return left, err
		}
		wants = wants[n:]
	}
	if len(left) == 0 && (m.builtOn != t.base || len(t.paths) == 0) {
		m.builtOn = t.base
		m.home()
		m.persist(ctx)
	}
	return left, nil
}

// moved adds what differs between the commit the worktree was built on and the base.
func (m *mirror) moved(ctx context.Context, t task) error {
	if m.builtOn == t.base || m.builtOn == "" {
		return nil
	}
	paths, err := m.s.cfg.Trees.BaseDiff(ctx, m.id, m.builtOn, t.base)
	if err != nil {
		// The old commit can no longer be read: look at everything.
		m.log.Warn("the commit a worktree was built on cannot be compared with", "commit", m.builtOn, "error", err)
		all, err := m.s.cfg.Trees.BaseFiles(ctx, m.id, t.base, nil)
		if err != nil {
			return m.fail("reading the base", err)
		}
		m.builtOn = ""
		for _, b := range all {
			paths = append(paths, b.Path)
		}
	}
	for _, p := range paths {
		if _, ok := t.paths[p]; !ok {
			t.paths[p] = 0
		}
	}
	return nil
}

// do syncs a few paths: it looks, fetches, moves and stores.
func (m *mirror) do(ctx context.Context, tr *tree, base string, items []*item, retry func(string), all func() bool) error {
	tr.forget()
	m.planned = m.total
	var fetch []*item
	for _, it := range items {
		need, err := m.examine(tr, base, it)
		if err != nil {
			return m.fail("looking at "+quoted(it.path), err)
		}
		if need {
			fetch = append(fetch, it)
		}
	}
	if err := m.fetch(ctx, tr, fetch); err != nil {
		return err
	}
	if err := m.journal(tr, items); err != nil {
		return m.fail("journaling the step", err)
	}
	if err := m.s.reach("noted"); err != nil {
		return err
	}
	conflicts, err := m.apply(tr, items)
	if err != nil {
		return err
	}
	if err := m.s.reach("moved"); err != nil {
		return err
	}
	for _, it := range items {
		if it.moving {
			retry(it.path)
		}
	}
	if err := m.store(ctx, tr, items, conflicts, all()); err != nil {
		return err
	}
	return m.s.reach("stored")
}

// examine looks at the host and decides what to do about a path. It reports whether the content must be fetched.
func (m *mirror) examine(tr *tree, base string, it *item) (fetch bool, err error) {
	row, known := m.files[it.path]
	if it.kind == "leave" {
		it.unrow = known
		return false, nil
	}
	if it.host, err = tr.look(it.path); err != nil {
		return false, m.perFile(it, err)
	}
	trusted := known && row.State == FileSynced && it.host.kind != "" && m.marks[it.path] == it.host.st
	if it.kind == "file" && trusted && row.Mode == it.mode && (it.hash != "" && it.hash == row.Hash || it.hash == "" && it.stamp != "" && m.stamps[it.path] == it.stamp) {
		return false, nil
	}
	if it.host.kind == "file" || it.host.kind == "link" {
		if trusted && it.kind == "file" {
			it.sum.hash = row.Hash
		} else if it.sum, err = tr.read(it.path, it.host, base); err != nil {
			return false, m.perFile(it, err)
		}
	}
	switch it.kind {
	case "refused", "too_large":
		state := FileRefused
		if it.kind == "too_large" {
			state = FileTooLarge
		}
		m.skip(it, state)
		return false, nil
	case "absent":
		m.absent(it, known)
		m.planned -= row.held()
		return false, nil
	case "base":
		same := it.host.kind != "" && it.sum.oid == it.base.OID && kindOf(it.mode) == it.host.kind
		if same && it.host.mode == it.mode {
			it.unrow = known
			return false, nil
		}
	case "file":
		if it.hash != "" && it.hash == it.sum.hash && kindOf(it.mode) == it.host.kind {
			it.row = m.rowOf(it, it.sum.hash, it.size)
			return false, nil // its mode may differ: apply corrects that
		}
	}
	if m.over(it, row) {
		it.reason = fmt.Sprintf("With it the workspace's files would exceed %d MB in total.", m.s.cfg.MaxTotal>>20)
		m.skip(it, FileTooLarge)
		return false, nil
	}
	return true, nil
}

// over reports whether a file would exceed the total limit, and counts it where it does not.
func (m *mirror) over(it *item, row File) bool {
	if it.kind != "file" {
		return false
	}
	after := m.planned - row.held() + it.size
	if after > m.s.cfg.MaxTotal {
		return true
	}
	m.planned = after
	return false
}

func kindOf(mode string) string {
	if mode == modeLink {
		return "link"
	}
	return "file"
}

// skip records that the sandbox's version is not copied. What the host has stays.
func (m *mirror) skip(it *item, state string) {
	row := m.rowOf(it, it.sum.hash, it.size)
	row.Mode, row.State, row.Reason = it.host.mode, state, it.reason
	it.row = row
}

func (m *mirror) rowOf(it *item, hash string, size int64) *File {
	return &File{Path: it.path, Hash: hash, Mode: it.mode, Size: size, State: FileSynced, At: m.s.cfg.Now().UnixMilli()}
}

// absent decides about a file the sandbox does not have. It removes only what the mirror wrote, or the base had.
func (m *mirror) absent(it *item, known bool) {
	if _, cut := m.known[it.path]; !known && !cut && it.base == nil && it.was == nil && it.host.kind != "dir" {
		it.host.kind = "" // a person's file that the sandbox never had: it stays
	}
	if it.inBase() {
		it.row = &File{Path: it.path, State: FileSynced, At: m.s.cfg.Now().UnixMilli()}
	} else {
		it.unrow = known
	}
}

// inBase reports whether the base has a file there.
func (it *item) inBase() bool { return it.base != nil && it.base.file() }

// ours reports whether the mirror left what is on the host there, or the repository can restore it at any time.
func (m *mirror) ours(it *item) bool {
	switch it.host.kind {
	case "":
		return true
	case "file", "link":
	default:
		return false
	}
	if row, ok := m.files[it.path]; ok && row.Hash != "" && row.Hash == it.sum.hash {
		return true
	}
	if it.sum.hash != "" && slices.Contains(m.known[it.path], it.sum.hash) {
		return true
	}
	for _, b := range [...]*BaseFile{it.base, it.was} {
		if b != nil && b.file() && it.sum.oid != "" && (b.OID == it.sum.oid || b.OID == it.sum.plain) {
			return true
		}
	}
	return false
}

// perFile turns an error about one file into that file's reason, and returns errors that concern all files.
func (m *mirror) perFile(it *item, err error) error {
	switch {
	case err == nil:
		return nil
	case diskFull(err):
		return err
	case errors.Is(err, errChanging):
		it.moving = true
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EILSEQ):
		it.reason = "The server's disk cannot store a file of this name."
		m.skip(it, FileRefused)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EBUSY), errors.Is(err, unix.ELOOP):
		it.reason = "It could not be written on the server: " + lastWords(err) + "."
		m.skip(it, FileFailed)
		it.moving = true
		m.log.Warn("a file of a sandbox cannot be written", "path", it.path, "error", err)
	default:
		return err
	}
	it.got, it.kind = nil, "leave"
	return nil
}

// lastWords returns the system's own text of an error, without paths.
func lastWords(err error) string {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e.Error()
	}
	return "it is refused"
}

func quoted(p string) string { return fmt.Sprintf("%q", guest.EncodePath(p)) }
