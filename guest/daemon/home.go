package daemon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
)

var errNoHome = fault.New(fault.Unsupported, "no_home", "The sandbox has no home of its own.")

// scoped serves files of the home where the request says so, otherwise of the worktree.
func (d *Daemon) scoped(worktree, home func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		switch r.URL.Query().Get("scope") {
		case "":
			return worktree(w, r)
		case guest.ScopeHome:
			if d.home == nil {
				return errNoHome
			}
			return home(w, r)
		}
		return fault.New(fault.Invalid, "invalid_scope", "The scope must be empty for files of the worktree, or %s for files of the home.", guest.ScopeHome)
	}
}

// inHome turns a path in wire form into one below the home; "" is the home itself, where whole is set.
func inHome(r *http.Request, whole bool) (raw, wire string, err error) {
	wire = r.URL.Query().Get("path")
	if wire == "" && whole {
		return ".", wire, nil
	}
	if err := guest.CheckPath(wire); err != nil {
		return "", wire, err
	}
	return guest.DecodePath(wire), wire, nil
}

// homeInfo describes a file of the home.
func homeInfo(raw string, i homedir.Info) guest.FileInfo {
	out := guest.FileInfo{Path: guest.EncodePath(raw), Name: guest.EncodePath(path.Base(raw)), Mode: uint32(i.Perm), Size: i.Size,
		Mtime: i.ModTime.UnixMilli(), Type: "other", ID: i.ID}
	switch {
	case raw == ".":
		out.Path, out.Name, out.Type, out.Size = "", "", "dir", 0
	case i.Regular():
		out.Type = "file"
	case i.IsDir():
		out.Type, out.Size = "dir", 0
	case i.Type == fs.ModeSymlink:
		out.Type = "symlink"
	}
	return out
}

// fromHome gives errors of the home their kinds.
func fromHome(err error, wire string) error {
	switch {
	case errors.Is(err, homedir.ErrNotPlain), errors.Is(err, syscall.ENXIO):
		return fault.Wrap(err, fault.Conflict, "not_a_file", "%q is not a regular file.", wire)
	case errors.Is(err, homedir.ErrTooLarge):
		return fault.Wrap(err, fault.TooLarge, "file_too_large", "%q is too large to be read here.", wire)
	}
	return fromDisk(err, wire)
}

func (d *Daemon) homeStat(w http.ResponseWriter, r *http.Request) error {
	raw, wire, err := inHome(r, true)
	if err != nil {
		return err
	}
	info, err := d.home.Stat(raw)
	if err != nil {
		return fromHome(err, wire)
	}
	answer(w, http.StatusOK, homeInfo(raw, info))
	return nil
}

// homeRead sends a piece of a file: from an offset on, at most as much as requested and guest.MaxPiece. The header holds the
// whole file's size.
func (d *Daemon) homeRead(w http.ResponseWriter, r *http.Request) error {
	raw, wire, err := inHome(r, false)
	if err != nil {
		return err
	}
	off, err := number(r, "offset")
	if err != nil {
		return err
	}
	most, err := number(r, "length")
	if err != nil {
		return err
	}
	b, info, err := d.home.ReadAt(raw, off, int(min(most, guest.MaxPiece)))
	if err != nil {
		return fromHome(err, wire)
	}
	head, err := json.Marshal(homeInfo(raw, info))
	if err != nil {
		panic(err) // our own types always encode
	}
	w.Header().Set(guest.HeaderFile, asciiJSON(head))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // a host that is gone needs no answer
	return nil
}

func (d *Daemon) homeWrite(w http.ResponseWriter, r *http.Request) error {
	raw, wire, err := inHome(r, false)
	if err != nil {
		return err
	}
	mode, err := number(r, "mode")
	if err != nil {
		return err
	}
	mode = cmp.Or(mode, 0o600)
	if mode > 0o777 {
		return fault.New(fault.Invalid, "invalid_mode", "The mode may have only permission bits.")
	}
	if err := d.home.Mkdir(path.Dir(raw)); err != nil {
		return fromHome(err, wire)
	}
	body := http.MaxBytesReader(w, r.Body, homedir.MaxFile)
	if err := d.home.Write(raw, body, fs.FileMode(mode)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return fault.Wrap(err, fault.TooLarge, "file_too_large", "%q would be larger than %d bytes.", wire, homedir.MaxFile)
		}
		if _, ok := errors.AsType[*fs.PathError](err); !ok {
			return fmt.Errorf("writing the file: %w", err)
		}
		return fromHome(err, wire)
	}
	return done(w)
}

func (d *Daemon) homeRemove(w http.ResponseWriter, r *http.Request) error {
	raw, wire, err := inHome(r, false)
	if err != nil {
		return err
	}
	remove := d.home.Remove
	if r.URL.Query().Get("all") != "" {
		remove = d.home.RemoveAll
	}
	if err := remove(raw); err != nil {
		return fromHome(err, wire)
	}
	return done(w)
}

func (d *Daemon) homeMkdir(w http.ResponseWriter, r *http.Request) error {
	raw, wire, err := inHome(r, false)
	if err != nil {
		return err
	}
	if err := d.home.Mkdir(raw); err != nil {
		return fromHome(err, wire)
	}
	return done(w)
}

// serveSymlink creates a link in the home. Its target is text: nothing here follows a link out of the home.
func (d *Daemon) serveSymlink(w http.ResponseWriter, r *http.Request) error {
	if d.home == nil {
		return errNoHome
	}
	raw, wire, err := inHome(r, false)
	if err != nil {
		return err
	}
	to := guest.DecodePath(r.URL.Query().Get("to"))
	if to == "" || len(to) > guest.MaxPath || strings.IndexByte(to, 0) >= 0 {
		return fault.New(fault.Invalid, "invalid_path", "The request names no target for the link.")
	}
	if err := d.home.Symlink(to, raw); err != nil {
		return fromHome(err, wire)
	}
	return done(w)
}

func (d *Daemon) homeList(w http.ResponseWriter, r *http.Request) error {
	raw, wire, err := inHome(r, true)
	if err != nil {
		return err
	}
	list, err := d.home.List(raw)
	if err != nil {
		return fromHome(err, wire)
	}
	out := guest.List[guest.FileInfo]{Items: []guest.FileInfo{}}
	size := 0
	for _, i := range list {
		item := homeInfo(path.Join(raw, i.Name), i)
		if size += 220 + 3*(len(item.Path)+len(item.Name)); size > maxListBytes {
			break
		}
		out.Items = append(out.Items, item)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// serveGlob lists the regular files of the home that match a pattern.
func (d *Daemon) serveGlob(w http.ResponseWriter, r *http.Request) error {
	if d.home == nil {
		return errNoHome
	}
	raw, _, err := inHome(r, false)
	if err != nil {
		return err
	}
	names, err := d.home.Glob(raw)
	if err != nil {
		return fromHome(err, raw)
	}
	out := guest.List[string]{Items: []string{}}
	size := 0
	for _, name := range names {
		wire := guest.EncodePath(name)
		if size += 8 + 3*len(wire); size > maxListBytes {
			break
		}
		out.Items = append(out.Items, wire)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// openHome opens the home where there is one.
func openHome(dir string) (*homedir.Dir, error) {
	if dir == "" {
		return nil, nil
	}
	home, err := homedir.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the home: %w", err)
	}
	return home, nil
}
