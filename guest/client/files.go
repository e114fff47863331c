package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// file is a request about a path; "" stands for the root where the guest allows it.
func file(method, what, path string) (request, error) {
	if path != "" {
		if err := guest.CheckPath(path); err != nil {
			return request{}, err
		}
	}
	return request{method: method, path: []string{what}, query: url.Values{"path": {path}}}, nil
}

// Stat describes what is at path, in wire form and relative to the root; "" is the root. It neither follows links nor hashes
// contents.
func (c *Client) Stat(ctx context.Context, path string) (guest.FileInfo, error) {
	q, err := file("GET", "stat", path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	var info guest.FileInfo
	if err := c.ask(ctx, q, &info); err != nil {
		return guest.FileInfo{}, err
	}
	if err := checkFile(info); err != nil || info.Path != path {
		return guest.FileInfo{}, wrong("a file", errors.Join(err, errOther(info.Path, path)))
	}
	return info, nil
}

func errOther(got, want string) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("path %q when %q was requested", clip(got, 200), clip(want, 200))
}

// ReadFile opens a regular file. The reader ends with io.EOF only after all the bytes announced by FileInfo; it checks their
// hash, so that the bytes read match Hash. The caller closes it.
func (c *Client) ReadFile(ctx context.Context, path string) (io.ReadCloser, guest.FileInfo, error) {
	return c.ReadFileUpTo(ctx, path, 0)
}

// ReadFileUpTo is ReadFile for files of at most so many bytes, 0 = any; the code of the error is file_too_large for others.
func (c *Client) ReadFileUpTo(ctx context.Context, path string, most int64) (io.ReadCloser, guest.FileInfo, error) {
	q, err := file("GET", "files", path)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	if most > 0 {
		q.query.Set("max", strconv.FormatInt(most, 10))
	}
	resp, err := c.do(ctx, q)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	var info guest.FileInfo
	err = json.Unmarshal([]byte(resp.Header.Get(guest.HeaderFile)), &info)
	if err == nil {
		err = errors.Join(checkFile(info), errOther(info.Path, path))
	}
	if err == nil && (info.Type != "file" || !isHash(info.Hash) || (resp.ContentLength >= 0 && resp.ContentLength != info.Size)) {
		err = errors.New("it does not describe the bytes that follow")
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, guest.FileInfo{}, wrong("a file", err)
	}
	return &content{body: resp.Body, hash: sha256.New(), want: info.Hash, left: info.Size}, info, nil
}

// content reads a file and checks that it matches the announcement.
type content struct {
	body io.ReadCloser
	hash hash.Hash
	want string
	left int64
}

func (r *content) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if int64(n) > r.left {
		return 0, wrong("a file", errors.New("more bytes than announced"))
	}
	r.left -= int64(n)
	r.hash.Write(p[:n])
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, unreachable(fmt.Errorf("reading the file: %w", err))
	case r.left > 0 || hex.EncodeToString(r.hash.Sum(nil)) != r.want:
		return n, wrong("a file", errors.New("contents that do not match the announced hash"))
	}
	return n, err
}

func (r *content) Close() error { return r.body.Close() }

// WriteOptions say how a file is written.
type WriteOptions struct {
	IfMatch string // sha256 in hex that the current file must have, else the error is of kind Precondition; "" = any contents
	New     bool   // the file must not exist yet; otherwise the error's code is file_exists
	Mode    uint32 // permission bits; 0 = those of the current file, else 0644
}

// WriteFile writes a file and creates missing folders. Readers never see half of it: it is written to a temporary file that
// replaces the current one. A link is followed inside the root.
func (c *Client) WriteFile(ctx context.Context, path string, r io.Reader, o WriteOptions) (guest.FileInfo, error) {
	q, err := file("PUT", "files", path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if o.Mode > 0o777 {
		return guest.FileInfo{}, fault.New(fault.Invalid, "invalid_mode", "The mode may have only permission bits.")
	}
	if o.IfMatch != "" {
		q.header = http.Header{guest.HeaderIfMatch: {o.IfMatch}}
	}
	if o.New {
		q.query.Set("new", "1")
	}
	q.query.Set("mode", strconv.FormatUint(uint64(o.Mode), 10))
	// The source's own failure reaches the guest as a cut, not as the end of the file: the transport ensures that.
	h := sha256.New()
	src := &source{r: io.TeeReader(r, h)}
	q.body = src
	var info guest.FileInfo
	if err := c.ask(ctx, q, &info); err != nil {
		if failed := src.failed.Load(); failed != nil {
			return guest.FileInfo{}, *failed
		}
		return guest.FileInfo{}, err
	}
	if err := checkFile(info); err != nil {
		return guest.FileInfo{}, wrong("a file", err)
	}
	if info.Hash != hex.EncodeToString(h.Sum(nil)) {
		return guest.FileInfo{}, wrong("a file", errors.New("its hash does not match what was sent"))
	}
	return info, nil
}

// source remembers why it failed.
type source struct {
	r      io.Reader
	failed atomic.Pointer[error]
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed.Store(&err)
	}
	return n, err
}

// RemoveFile removes a file, a link or an empty folder.
func (c *Client) RemoveFile(ctx context.Context, path string) error {
	return c.RemoveFileIf(ctx, path, "")
}

// RemoveFileIf is RemoveFile for a file whose contents have this sha256, in hex; the error is of kind Precondition when they
// differ.
func (c *Client) RemoveFileIf(ctx context.Context, path, ifMatch string) error {
	q, err := file("DELETE", "files", path)
	if err != nil {
		return err
	}
	if ifMatch != "" {
		q.header = http.Header{guest.HeaderIfMatch: {ifMatch}}
	}
	return c.ask(ctx, q, nil)
}

// RemoveAll removes what is at a path with all its contents; it removes links and follows none. A missing path is not an error.
func (c *Client) RemoveAll(ctx context.Context, path string) error {
	q, err := file("DELETE", "files", path)
	if err != nil {
		return err
	}
	q.query.Set("all", "1")
	return c.ask(ctx, q, nil)
}

// Move gives a file, a link or a folder another path, and creates missing folders. It replaces nothing: the error's code is file_exists.
func (c *Client) Move(ctx context.Context, path, to string) (guest.FileInfo, error) {
	q, err := file("POST", "move", path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if err := guest.CheckPath(to); err != nil {
		return guest.FileInfo{}, err
	}
	q.query.Set("to", to)
	var info guest.FileInfo
	if err := c.ask(ctx, q, &info); err != nil {
		return guest.FileInfo{}, err
	}
	if err := checkFile(info); err != nil || info.Path != to {
		return guest.FileInfo{}, wrong("a file", errors.Join(err, errOther(info.Path, to)))
	}
	return info, nil
}

// Mkdir creates a folder and its parents; an existing one is not an error.
func (c *Client) Mkdir(ctx context.Context, path string) error {
	q, err := file("POST", "mkdir", path)
	if err != nil {
		return err
	}
	return c.ask(ctx, q, nil)
}

// List lists a folder ("" = the root) sorted by name, without .git. It returns at most 10,000 entries, and reports when there are
// more.
func (c *Client) List(ctx context.Context, path string) (guest.List[guest.FileInfo], error) {
	return c.list(ctx, path, false)
}

// ListMarked is List, and says which entries git ignores.
func (c *Client) ListMarked(ctx context.Context, path string) (guest.List[guest.FileInfo], error) {
	return c.list(ctx, path, true)
}

func (c *Client) list(ctx context.Context, path string, marked bool) (guest.List[guest.FileInfo], error) {
	q, err := file("GET", "list", path)
	if err != nil {
		return guest.List[guest.FileInfo]{}, err
	}
	if marked {
		q.query.Set("ignored", "1")
	}
	var list guest.List[guest.FileInfo]
	if err := c.ask(ctx, q, &list); err != nil {
		return guest.List[guest.FileInfo]{}, err
	}
	for _, info := range list.Items {
		if err := checkFile(info); err != nil {
			return guest.List[guest.FileInfo]{}, wrong("a folder", err)
		}
	}
	return list, nil
}
