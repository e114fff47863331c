package filesync

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// journalName is the journal's name in the folder of unfinished files. Each line is a jot.
const journalName = "journal"

// jot describes what a step is about to do.
type jot struct {
	Path     []byte    `json:"path,omitempty"` // raw
	Hash     string    `json:"hash,omitempty"`
	Conflict *Conflict `json:"conflict,omitempty"`
	Raw      []byte    `json:"raw,omitempty"`  // the conflict's path
	Kept     []byte    `json:"kept,omitempty"` // the conflict's other name
}

// journal records what a step is about to move in.
func (m *mirror) journal(tr *tree, items []*item) error {
	var jots []jot
	for _, it := range items {
		if it.got != nil {
			m.mayHold(it.path, it.got.hash)
			jots = append(jots, jot{Path: []byte(it.path), Hash: it.got.hash})
		}
	}
	return m.jot(tr, jots...)
}

// mayHold records that a step, which may be interrupted anywhere, puts this hash under a path. The path may also still hold what
// an earlier step was about to put there.
func (m *mirror) mayHold(path, hash string) {
	if !slices.Contains(m.known[path], hash) {
		m.known[path] = append(m.known[path], hash)
	}
}

// jot adds lines to the journal.
func (m *mirror) jot(tr *tree, jots ...jot) error {
	if len(jots) == 0 {
		return nil
	}
	var b []byte
	for _, j := range jots {
		if c := j.Conflict; c != nil {
			j.Raw, j.Kept = []byte(c.Path), []byte(c.Kept)
		}
		line, err := json.Marshal(j)
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	f, err := tr.temp.OpenFile(journalName, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// unjournal forgets a stored step, unless something of an earlier, interrupted one remains.
func (m *mirror) unjournal(tr *tree) error {
	if len(m.known) > 0 {
		return nil
	}
	if err := tr.temp.Remove(journalName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m.fail("forgetting the journal", err)
	}
	return nil
}

// load reads what is known of the worktree, and what an interrupted step was about to do.
func (m *mirror) load(ctx context.Context) error {
	files, err := m.s.cfg.Store.MirrorFiles(ctx, m.id)
	if err != nil {
		return err
	}
	st, err := m.s.cfg.Store.MirrorState(ctx, m.id)
	if err != nil {
		return err
	}
	conflicts, err := m.s.cfg.Store.OpenConflicts(ctx, m.id, maxAside)
	if err != nil {
		return err
	}
	clear(m.files)
	m.total = 0
	for _, f := range files {
		m.files[f.Path] = f
		m.total += f.held()
	}
	m.builtOn, m.stored, m.asides = st.BaseCommit, st, len(conflicts)
	if st.State != "" { // otherwise this is the first
		m.mu.Lock()
		m.status.SyncedAt = st.SyncedAt
		m.mu.Unlock()
	}
	for _, c := range conflicts {
		if _, reported := m.files[c.Kept]; !reported {
			m.send[c.Kept] = ""
		}
	}
	if err := m.replay(ctx); err != nil {
		return err
	}
	if m.unsure = st.State != ""; m.unsure {
		for p := range m.files {
			m.owed[p] = true
		}
	}
	m.loaded = true
	return nil
}

// replay reads the journal: hashes that may be on the host although the store lacks them, and conflicts that were not stored.
func (m *mirror) replay(ctx context.Context) error {
	temp, err := os.OpenRoot(m.temp())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer temp.Close()
	f, err := temp.OpenFile(journalName, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a line without an end was not acted on
		}
		if err != nil {
			return err
		}
		var j jot
		if json.Unmarshal(line, &j) != nil {
			continue
		}
		if j.Conflict == nil {
			m.mayHold(string(j.Path), j.Hash)
			continue
		}
		c := *j.Conflict
		c.Path, c.Kept = string(j.Raw), string(j.Kept)
		if err := m.refind(ctx, c); err != nil {
			return err
		}
	}
}

// refind stores the conflict at which a step was interrupted, when its file has been renamed already.
func (m *mirror) refind(ctx context.Context, c Conflict) error {
	if _, err := m.s.cfg.Store.Conflict(ctx, c.ID); !fault.Is(err, fault.NotFound) {
		return err
	}
	root, err := m.s.cfg.Trees.Worktree(ctx, m.id)
	if err != nil {
		return err
	}
	tr, err := openTree(root, m.temp())
	if err != nil {
		return err
	}
	defer tr.close()
	if p, err := tr.look(c.Kept); err != nil || p.kind == "" {
		return err
	}
	if err := m.s.cfg.Store.ApplyMirror(ctx, MirrorDelta{WorkspaceID: m.id, TeamID: m.teamID, State: m.stored, Conflicts: []Conflict{c}}); err != nil {
		return err
	}
	m.asides++
	m.send[c.Kept] = ""
	return nil
}

// sweep removes unfinished files that nothing continues.
func (m *mirror) sweep(tr *tree) error {
	d, err := tr.temp.Open(".")
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	used := make(map[string]bool, len(m.parts))
	for _, p := range m.parts {
		used[p.temp] = true
	}
	for _, n := range names {
		if (strings.HasPrefix(n, "w-") || strings.HasPrefix(n, "part-")) && !used[n] {
			if err := tr.temp.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// sendKept sends the server's versions of files that changed on both sides to the sandbox, where people and agents see them. It
// reports whether some must be tried again soon.
func (m *mirror) sendKept(ctx context.Context) (again bool) {
	if len(m.send) == 0 {
		return false
	}
	root, err := m.s.cfg.Trees.Worktree(ctx, m.id)
	if err != nil {
		return true
	}
	tr, err := openTree(root, m.temp())
	if err != nil {
		return true
	}
	defer tr.close()
	for path, before := range m.send {
		err := m.sendOne(ctx, tr, path)
		if err == nil {
			delete(m.send, path)
			continue
		}
		if why := err.Error(); why != before {
			m.send[path] = why
			m.log.Info("the server's version of a file is not in the sandbox yet", "path", guest.EncodePath(path), "error", err)
		}
		switch fault.KindOf(err) {
		case fault.Conflict, fault.Invalid, fault.Forbidden: // the sandbox rejects it: wait until something changes there
		case fault.Unavailable:
			return true
		default:
			again = true
		}
	}
	return again
}

// sendOne sends one of them. It skips what is no longer a file, or is too large.
func (m *mirror) sendOne(ctx context.Context, tr *tree, path string) error {
	p, err := tr.look(path)
	if err != nil || p.kind != "file" || p.size > m.s.cfg.MaxFile {
		return nil //nolint:nilerr // the server has it, whatever it is
	}
	f, err := tr.open(path, p)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := m.s.reach("sending"); err != nil {
		return err
	}
	return m.source.writeFile(ctx, guest.EncodePath(path), f, uint32(permOf(p.mode)))
}
