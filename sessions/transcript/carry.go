package transcript

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/homedir"
)

// record is a file of a conversation's record, and its destination.
type record struct {
	name, to string
	info     homedir.Info
}

// Home is where a continuing agent looks for its conversation.
type Home struct {
	Place    *executors.Place
	Inside   bool   // it is the sandbox's own
	Own      bool   // and the machine owner's own
	UserID   string // otherwise it is this user's
	Worktree string // where the agent works, as the sandbox sees it
}

// Carry copies the record of a session's conversation to where its agent, which continues in this sandbox, looks for it: into
// another home when the session ran in another kind of sandbox, and under another folder name when the worktree's path differs
// there. It copies nothing else of a home. It replaces older files there: a conversation only grows.
func (t *Transcripts) Carry(ctx context.Context, old Row, to Home) error {
	if !t.cfg.Agents.Carries(old.Agent) {
		return nil
	}
	inside, known, err := t.cfg.RanInside(old.ID)
	if err != nil || !known {
		return err
	}
	dir := t.cfg.Agents.HostHome(old.WorkspaceID)
	if !inside {
		dir, _ = t.cfg.Agents.HomeHere(old.CreatedBy)
	}
	same := inside && to.Inside && !to.Own || !inside && !to.Inside && old.CreatedBy == to.UserID
	if dir == "" {
		return nil
	}
	src, err := homedir.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer src.Close()
	files, err := t.records(src, old, to.Worktree)
	if err != nil {
		return err
	}
	if same {
		files = slices.DeleteFunc(files, func(r record) bool { return r.name == r.to })
	}
	if len(files) == 0 {
		return nil
	}
	if to.Inside {
		return sendRecords(ctx, src, files, to.Place)
	}
	dir, ok := t.cfg.Agents.HomeHere(to.UserID)
	if !ok {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	dst, err := homedir.Open(dir)
	if err != nil {
		return err
	}
	defer dst.Close()
	for _, r := range files {
		if err := copyRecord(src, dst, r); err != nil {
			return fmt.Errorf("copying %s: %w", r.name, err)
		}
	}
	return nil
}

// records finds the newest record of the session's conversation in a home.
func (t *Transcripts) records(src *homedir.Dir, old Row, worktree string) ([]record, error) {
	rec, ok := t.cfg.Agents.Record(old.Agent, old.Conversation)
	if !ok {
		return nil, nil
	}
	var out []record
	look := func(pattern string) ([]record, error) {
		if pattern == "" {
			return nil, nil
		}
		names, err := src.Glob(pattern)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var found []record
		for _, n := range names {
			i, err := src.Stat(n)
			if err != nil || !i.Regular() || i.Size == 0 || i.Size > guest.MaxPacked {
				continue
			}
			found = append(found, record{n, t.cfg.Agents.Carried(old.Agent, n, worktree), i})
		}
		return found, err
	}
	main, err := look(rec.Name)
	if err != nil || len(main) == 0 {
		return nil, err
	}
	newest := slices.MaxFunc(main, func(a, b record) int { return cmp.Compare(a.info.ModTime.UnixNano(), b.info.ModTime.UnixNano()) })
	out = append(out, newest)
	subs, err := look(rec.Subs)
	if err != nil {
		return nil, err
	}
	for _, r := range subs {
		if path.Dir(path.Dir(path.Dir(r.name))) == path.Dir(newest.name) { // of the newest record, not of an older copy
			out = append(out, r)
		}
	}
	return out, nil
}

func copyRecord(src, dst *homedir.Dir, r record) error {
	f, _, err := src.OpenFile(r.name)
	if err != nil {
		return err
	}
	if f == nil {
		return nil // it has become a link
	}
	defer f.Close()
	if err := dst.Mkdir(path.Dir(r.to)); err != nil {
		return err
	}
	if err := dst.Write(r.to, f, 0o600); err != nil {
		return err
	}
	return dst.Chtimes(r.to, r.info.ModTime)
}

// sendRecords writes them into the home of a sandbox.
func sendRecords(ctx context.Context, src *homedir.Dir, files []record, place *executors.Place) error {
	var open *os.File
	defer func() {
		if open != nil {
			open.Close()
		}
	}()
	return place.Guest.FillHome(ctx, func() (guest.Packed, io.Reader, error) {
		if open != nil {
			open.Close()
			open = nil
		}
		for len(files) > 0 {
			r := files[0]
			files = files[1:]
			f, _, err := src.OpenFile(r.name)
			if err != nil || f == nil {
				continue // it was deleted meanwhile
			}
			st, err := f.Stat()
			if err != nil {
				f.Close()
				return guest.Packed{}, nil, err
			}
			open = f
			return guest.Packed{Path: guest.EncodePath(r.to), Perm: 0o600, Mtime: r.info.ModTime.UnixMilli(), Length: st.Size()}, f, nil
		}
		return guest.Packed{}, nil, io.EOF
	})
}
