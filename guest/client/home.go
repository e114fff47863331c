package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
)

// Home is the agents' home inside the sandbox, read and written through the guest. Names are relative to it, with slashes. A Home
// is for one task: all its calls end with the context it was made with. Its errors are those of a homedir.Dir where one fits:
// fs.ErrNotExist, fs.ErrExist, homedir.ErrNotPlain, homedir.ErrTooLarge.
type Home struct {
	c   *Client
	ctx context.Context
}

// Home returns the agents' home for work that ends with ctx.
func (c *Client) Home(ctx context.Context) *Home { return &Home{c, ctx} }

// homeError translates an error of the guest for code that works with files.
func homeError(err error) error {
	var means error
	switch {
	case err == nil:
		return nil
	case fault.CodeOf(err) == "file_not_found", fault.CodeOf(err) == "not_a_directory":
		means = fs.ErrNotExist
	case fault.CodeOf(err) == "file_exists":
		means = fs.ErrExist
	case fault.CodeOf(err) == "not_a_file", fault.CodeOf(err) == "is_a_directory", fault.CodeOf(err) == "path_escapes":
		means = homedir.ErrNotPlain
	case fault.CodeOf(err) == "file_too_large":
		means = homedir.ErrTooLarge
	default:
		return err
	}
	return &meant{err, means}
}

// meant is an error that also matches another one.
type meant struct{ error, means error }

func (e *meant) Error() string   { return e.error.Error() }
func (e *meant) Unwrap() []error { return []error{e.error, e.means} }

func (h *Home) request(method, what, name string) (request, error) {
	q, err := file(method, what, guest.EncodePath(name))
	if err == nil {
		q.query.Set("scope", guest.ScopeHome)
	}
	return q, err
}

// do sends a request about a name.
func (h *Home) do(method, what, name string, answer any, more ...string) error {
	q, err := h.request(method, what, name)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.query.Set(more[i], more[i+1])
	}
	return homeError(h.c.ask(h.ctx, q, answer))
}

func homeInfo(i guest.FileInfo) (homedir.Info, error) {
	if err := checkFile(i); err != nil {
		return homedir.Info{}, wrong("a file", err)
	}
	if len(i.ID) > 64 {
		return homedir.Info{}, wrong("a file", errors.New("its id is too long"))
	}
	out := homedir.Info{Name: guest.DecodePath(i.Name), Perm: fs.FileMode(i.Mode).Perm(), Size: i.Size, ModTime: time.UnixMilli(i.Mtime), ID: i.ID, Type: fs.ModeIrregular}
	switch i.Type {
	case "file":
		out.Type = 0
	case "dir":
		out.Type = fs.ModeDir
	case "symlink":
		out.Type = fs.ModeSymlink
	}
	return out, nil
}

// Stat describes what is under a name; it does not follow a link.
func (h *Home) Stat(name string) (homedir.Info, error) {
	var info guest.FileInfo
	if err := h.do("GET", "stat", name, &info); err != nil {
		return homedir.Info{}, err
	}
	return homeInfo(info)
}

// piece reads up to most bytes of a file from off on, fewer only at its end.
func (h *Home) piece(name string, p []byte, off int64) (int, homedir.Info, error) {
	q, err := h.request("GET", "files", name)
	if err != nil {
		return 0, homedir.Info{}, err
	}
	want := min(len(p), guest.MaxPiece)
	q.query.Set("offset", strconv.FormatInt(off, 10))
	q.query.Set("length", strconv.Itoa(want))
	resp, err := h.c.do(h.ctx, q)
	if err != nil {
		return 0, homedir.Info{}, homeError(err)
	}
	defer resp.Body.Close()
	var raw guest.FileInfo
	if err := json.Unmarshal([]byte(resp.Header.Get(guest.HeaderFile)), &raw); err != nil {
		return 0, homedir.Info{}, wrong("a file", err)
	}
	info, err := homeInfo(raw)
	if err != nil {
		return 0, homedir.Info{}, err
	}
	if !info.Regular() || resp.ContentLength < 0 || resp.ContentLength > int64(want) {
		return 0, homedir.Info{}, wrong("a file", errors.New("it does not describe the bytes that follow"))
	}
	n, err := io.ReadFull(resp.Body, p[:resp.ContentLength])
	if err != nil {
		return n, info, unreachable(fmt.Errorf("reading the file: %w", err))
	}
	return n, info, nil
}

// ReadFile reads a regular file of at most homedir.MaxFile bytes.
func (h *Home) ReadFile(name string) ([]byte, error) {
	var out []byte
	buf := make([]byte, 64<<10)
	for {
		n, info, err := h.piece(name, buf, int64(len(out)))
		if err != nil {
			return nil, err
		}
		out = append(out, buf[:n]...)
		switch {
		case len(out) > homedir.MaxFile || info.Size > homedir.MaxFile:
			return nil, fmt.Errorf("%s: %w", name, homedir.ErrTooLarge)
		case n < len(buf):
			return out, nil
		}
		buf = make([]byte, guest.MaxPiece)
	}
}

// Open opens a regular file: later reads are of the file that has the name then.
func (h *Home) Open(name string) (homedir.File, error) {
	info, err := h.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Regular() {
		return nil, fmt.Errorf("%s: %w", name, homedir.ErrNotPlain)
	}
	return &homeFile{h: h, name: name, info: info}, nil
}

// homeFile reads a file piece by piece. When another file takes its name, reading fails.
type homeFile struct {
	h    *Home
	name string
	info homedir.Info
}

func (f *homeFile) Close() error                 { return nil }
func (f *homeFile) Stat() (int64, string, error) { return f.info.Size, f.info.ID, nil }

// ReadAt reads pieces until p is full or the file ends.
func (f *homeFile) ReadAt(p []byte, off int64) (int, error) {
	sum := 0
	for sum < len(p) {
		want := min(len(p)-sum, guest.MaxPiece)
		n, info, err := f.h.piece(f.name, p[sum:sum+want], off+int64(sum))
		if err != nil {
			return sum, err
		}
		if info.ID != f.info.ID {
			return sum, fmt.Errorf("%s: another file has taken its place: %w", f.name, fs.ErrNotExist)
		}
		if sum += n; n < want {
			return sum, io.EOF
		}
	}
	return sum, nil
}

// WriteFile writes a file with these bytes that only its owner can read, replacing whatever is there, and creates missing
// folders. A link is replaced, not followed.
func (h *Home) WriteFile(name string, b []byte) error {
	if len(b) > homedir.MaxFile {
		return fmt.Errorf("%s: %w", name, homedir.ErrTooLarge)
	}
	q, err := h.request("PUT", "files", name)
	if err != nil {
		return err
	}
	q.body = bytes.NewReader(b)
	return homeError(h.c.ask(h.ctx, q, nil))
}

// Mkdir creates a folder and its parents; an existing one is not an error.
func (h *Home) Mkdir(name string) error { return h.do("POST", "mkdir", name, nil) }

// Symlink creates a link. fs.ErrExist when something is there.
func (h *Home) Symlink(to, name string) error {
	return h.do("POST", "symlink", name, nil, "to", guest.EncodePath(to))
}

// Remove removes a file, a link or an empty folder.
func (h *Home) Remove(name string) error { return h.do("DELETE", "files", name, nil) }

// RemoveAll removes what is under a name with all its contents; a missing name is not an error.
func (h *Home) RemoveAll(name string) error { return h.do("DELETE", "files", name, nil, "all", "1") }

// List describes the contents of a folder, ordered by name.
func (h *Home) List(name string) ([]homedir.Info, error) {
	var list guest.List[guest.FileInfo]
	if err := h.do("GET", "list", name, &list); err != nil {
		return nil, err
	}
	if len(list.Items) > homedir.MaxMatches {
		return nil, wrong("a folder", errors.New("more entries than there may be"))
	}
	out := make([]homedir.Info, 0, len(list.Items))
	for _, i := range list.Items {
		info, err := homeInfo(i)
		if err != nil {
			return nil, err
		}
		if info.Name == "" || info.Name == "." || info.Name == ".." || path.Base(info.Name) != info.Name {
			return nil, wrong("a folder", errors.New("a name is invalid"))
		}
		out = append(out, info)
	}
	return out, nil
}

// Glob returns the regular files whose names match a pattern of path.Match, in order.
func (h *Home) Glob(pattern string) ([]string, error) {
	q := request{method: "GET", path: []string{"glob"}, query: url.Values{"path": {guest.EncodePath(pattern)}, "scope": {guest.ScopeHome}}}
	var list guest.List[string]
	if err := h.c.ask(h.ctx, q, &list); err != nil {
		return nil, homeError(err)
	}
	if len(list.Items) > homedir.MaxMatches {
		return nil, wrong("names", errors.New("more names than allowed"))
	}
	out := make([]string, 0, len(list.Items))
	for _, wire := range list.Items {
		name := guest.DecodePath(wire)
		if ok, err := path.Match(pattern, name); err != nil || !ok || guest.CheckPath(wire) != nil {
			return nil, wrong("names", fmt.Errorf("%q does not match", clip(wire, 200)))
		}
		out = append(out, name)
	}
	return out, nil
}
