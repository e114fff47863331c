package filesync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/id"
)

// apply moves a step's files. It returns the conflicts it found.
func (m *mirror) apply(tr *tree, items []*item) (conflicts []Conflict, err error) {
	aside := func(path string) error {
		c, err := m.aside(tr, path)
		if err == nil {
			conflicts = append(conflicts, c)
		}
		return err
	}
	for _, it := range items {
		err := error(nil)
		switch {
		case it.kind == "absent" && it.host.kind == "dir":
			tr.clear(it.path)
		case it.kind == "absent" && it.host.kind != "":
			if m.ours(it) {
				err = tr.remove(it.path)
			} else {
				err = aside(it.path)
			}
		case it.got != nil:
			err = m.put(tr, it, aside)
		case it.row != nil && it.row.State == FileSynced && it.host.kind == "file" && it.host.mode != it.mode && it.mode != "":
			err = tr.chmod(it.path, it.host, it.mode)
		}
		if err := m.perFile(it, err); err != nil {
			return conflicts, m.fail("moving "+quoted(it.path), err)
		}
		if err := m.s.reach("moving"); err != nil {
			return conflicts, err
		}
	}
	return conflicts, nil
}

// put moves one file in. It keeps an existing file there that the mirror did not write.
func (m *mirror) put(tr *tree, it *item, aside func(string) error) error {
	now, err := tr.look(it.path)
	switch {
	case err != nil:
		return err
	case now.kind == "dir" && tr.clear(it.path), now.kind == "":
	case now.kind == "file" || now.kind == "link":
		if now.st != it.host.st || !m.ours(it) {
			if err := aside(it.path); err != nil {
				return err
			}
		}
	default:
		if err := aside(it.path); err != nil {
			return err
		}
	}
	for range maxDepth {
		err := tr.place(it.got.temp, it.path)
		blocked, ok := errors.AsType[*errBlocked](err)
		if !ok {
			return err
		}
		if err := aside(blocked.at); err != nil {
			return err
		}
	}
	return unix.ENOTDIR
}

// maxDepth bounds how many files are moved out of the way of one path.
const maxDepth = 64

// maxAside bounds the unresolved conflicts of a workspace.
const maxAside = 1000

// aside keeps the server's version of a file under another name.
func (m *mirror) aside(tr *tree, path string) (Conflict, error) {
	if m.asides >= maxAside {
		return Conflict{}, fmt.Errorf("%w: %d versions of files are kept under other names already", fs.ErrPermission, maxAside)
	}
	kept, err := tr.spare(path, m.s.cfg.Now().UTC().Format("20060102-150405"))
	if err != nil {
		return Conflict{}, err
	}
	c := Conflict{ID: id.New("sco"), TeamID: m.teamID, WorkspaceID: m.id, Path: path, Kept: kept, FoundAt: m.s.cfg.Now().UnixMilli()}
	if err := m.jot(tr, jot{Conflict: &c}); err != nil {
		return c, err
	}
	if err := tr.aside(path, kept); err != nil {
		return c, err
	}
	m.asides++
	m.send[kept] = ""
	m.log.Info("a file changed on both sides: both versions are kept", "path", guest.EncodePath(path), "kept", guest.EncodePath(kept))
	return c, nil
}

// home records that everything is synced.
func (m *mirror) home() {
	m.mu.Lock()
	m.status.SyncedAt = m.s.cfg.Now().UnixMilli()
	m.left = 0
	m.mu.Unlock()
	m.show(Synced, "")
}

// store writes what a step did, in one transaction.
func (m *mirror) store(ctx context.Context, tr *tree, items []*item, conflicts []Conflict, last bool) error {
	d := MirrorDelta{WorkspaceID: m.id, TeamID: m.teamID, Conflicts: conflicts}
	for _, it := range items {
		if it.row != nil && !sameRow(m.files[it.path], *it.row) {
			d.Upserts = append(d.Upserts, *it.row)
		} else if it.unrow {
			d.Removes = append(d.Removes, it.path)
		}
	}
	m.mu.Lock()
	m.left -= len(items)
	all := last && len(m.dirty) == 0
	m.mu.Unlock()
	if all {
		m.home()
	} else {
		m.show(Syncing, "")
	}
	d.State = m.state()
	if len(d.Upserts)+len(d.Removes)+len(d.Conflicts) > 0 || d.State.State != m.stored.State || last && d.State != m.stored {
		if err := m.s.cfg.Store.ApplyMirror(ctx, d); err != nil {
			return m.fail("storing the files", err)
		}
		m.stored = d.State
	}
	for _, f := range d.Upserts {
		m.total += f.held() - m.files[f.Path].held()
		m.files[f.Path] = f
	}
	for _, p := range d.Removes {
		m.total -= m.files[p].held()
		delete(m.files, p)
	}
	for _, it := range items {
		delete(m.known, it.path)
		delete(m.marks, it.path)
		delete(m.stamps, it.path)
		if it.row == nil || it.row.State != FileSynced || it.row.Hash == "" {
			if row, ok := m.files[it.path]; !ok || row.State != FileSynced || row.Hash == "" || it.row != nil {
				continue
			}
		}
		if p, err := tr.look(it.path); err == nil && p.kind != "" {
			m.marks[it.path] = p.st
			if it.stamp != "" {
				m.stamps[it.path] = it.stamp
			}
		}
	}
	if len(d.Upserts)+len(d.Removes)+len(d.Conflicts) > 0 {
		m.s.homeChanged(m.id, m.teamID)
		if err := m.s.reach("home"); err != nil {
			return err
		}
		m.keepHere(ctx, d)
	}
	return m.unjournal(tr)
}

// held is how many bytes of the workspace's limit a file uses.
func (f File) held() int64 {
	if f.State != FileSynced {
		return 0
	}
	return f.Size
}

func sameRow(a, b File) bool {
	b.At = a.At
	return a == b
}
