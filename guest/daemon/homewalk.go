package daemon

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
)

// serveWalk lists what is below folders of the home.
func (d *Daemon) serveWalk(w http.ResponseWriter, r *http.Request) error {
	if d.home == nil {
		return errNoHome
	}
	var req guest.WalkRequest
	if err := body(w, r, &req); err != nil {
		return err
	}
	skip := make(map[string]bool, len(req.Skip))
	for _, wire := range req.Skip {
		skip[guest.DecodePath(wire)] = true
	}
	out := guest.WalkAnswer{Items: []guest.FileInfo{}}
	size := 0
	add := func(raw string, i homedir.Info) bool {
		item := homeInfo(raw, i)
		item.Name = "" // the path contains it
		if size += 220 + 6*len(item.Path); len(out.Items) >= guest.MaxWalk || size > maxListBytes {
			out.Truncated = true
			return false
		}
		out.Items = append(out.Items, item)
		return true
	}
	for _, wire := range req.Roots {
		if err := guest.CheckPath(wire); err != nil {
			return err
		}
		todo := []string{guest.DecodePath(wire)}
		for len(todo) > 0 && !out.Truncated && r.Context().Err() == nil {
			raw := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			i, err := d.home.Stat(raw)
			if err != nil || skip[raw] || !i.Regular() && !i.IsDir() && i.Type != fs.ModeSymlink || !add(raw, i) || !i.IsDir() {
				continue
			}
			list, err := d.home.List(raw)
			if err != nil {
				continue // it was deleted, or is unreadable
			}
			for _, e := range list {
				todo = append(todo, path.Join(raw, e.Name))
			}
		}
	}
	answer(w, http.StatusOK, out)
	return nil
}

// serveFillHome writes files into the home: records of Packed, each followed by its bytes. It replaces what is there, without
// following links. It stops at a file that cannot be written, leaving earlier ones in place.
func (d *Daemon) serveFillHome(w http.ResponseWriter, r *http.Request) error {
	if d.home == nil {
		return errNoHome
	}
	for {
		head, err := guest.ReadRecord(r.Body)
		if errors.Is(err, io.EOF) {
			return done(w)
		}
		var p guest.Packed
		if err == nil {
			err = json.Unmarshal(head, &p)
		}
		if err != nil {
			return fault.Wrap(err, fault.Invalid, "invalid_request", "The transferred data cannot be read.")
		}
		if err := d.fillHome(p, r.Body); err != nil {
			return err
		}
	}
}

func (d *Daemon) fillHome(p guest.Packed, r io.Reader) error {
	if err := guest.CheckPath(p.Path); err != nil {
		return err
	}
	if p.Length < 0 || p.Length > guest.MaxPacked || p.Perm > 0o777 {
		return fault.New(fault.Invalid, "invalid_request", "A size or a mode is out of bounds.")
	}
	raw := guest.DecodePath(p.Path)
	if err := d.home.Mkdir(path.Dir(raw)); err != nil {
		return fromHome(err, p.Path)
	}
	if p.Link != "" {
		if err := d.home.Symlink(guest.DecodePath(p.Link), raw); err != nil && !errors.Is(err, fs.ErrExist) {
			return fromHome(err, p.Path)
		}
		return nil
	}
	from := &exact{r: r, left: p.Length}
	if err := d.home.Write(raw, from, fs.FileMode(p.Perm)); err != nil {
		return fromHome(err, p.Path)
	}
	if p.Mtime > 0 {
		_ = d.home.Chtimes(raw, time.UnixMilli(p.Mtime)) // only their order matters
	}
	return nil
}

// exact reads exactly this many bytes, and fails where there are fewer.
type exact struct {
	r    io.Reader
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	} else if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
