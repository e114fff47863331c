package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// makeDir makes a folder, and those above it, of the sandbox's user. One that is there is no error.
func (d *envd) makeDir(ctx context.Context, path string) error {
	err := d.call(ctx, "filesystem.Filesystem/MakeDir", struct {
		Path string `json:"path"`
	}{path}, nil)
	if isCode(err, "already_exists") {
		return nil
	}
	return err
}

// remove removes a file or a folder with all in it. One that is not there is no error.
func (d *envd) remove(ctx context.Context, path string) error {
	err := d.call(ctx, "filesystem.Filesystem/Remove", struct {
		Path string `json:"path"`
	}{path}, nil)
	if isCode(err, "not_found") {
		return nil
	}
	return err
}

// move renames.
func (d *envd) move(ctx context.Context, from, to string) error {
	return d.call(ctx, "filesystem.Filesystem/Move", struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}{from, to}, nil)
}

// exists reports whether there is something at path.
func (d *envd) exists(ctx context.Context, path string) (bool, error) {
	err := d.call(ctx, "filesystem.Filesystem/Stat", struct {
		Path string `json:"path"`
	}{path}, nil)
	if isCode(err, "not_found") {
		return false, nil
	}
	return err == nil, err
}

// uploadWithin bounds one upload: the guest, on a slow line.
const uploadWithin = 5 * time.Minute

// upload writes a file of the sandbox's user. Its mode is envd's usual one.
func (d *envd) upload(ctx context.Context, path string, content io.Reader) error {
	ctx, cancel := context.WithTimeoutCause(ctx, uploadWithin, errSlow)
	defer cancel()
	q := url.Values{"path": {path}, "username": {sandboxUser}}
	r, w := io.Pipe()
	kind, packed := "application/octet-stream", true
	if atLeast(d.version, 0, 5, 7) {
		go func() { w.CloseWithError(pack(w, content)) }() // ends with r
	} else {
		form := multipart.NewWriter(w)
		kind, packed = form.FormDataContentType(), false
		go func() { w.CloseWithError(fill(form, content)) }() // ends with r
	}
	defer r.Close()
	req, err := d.request(ctx, http.MethodPost, "/files?"+q.Encode(), sandboxUser, r)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	if packed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return fmt.Errorf("uploading to the sandbox: %w", lost(ctx, err))
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return envdRefusal(resp.StatusCode, body)
	}
	return nil
}

// uploadBytes writes a small file.
func (d *envd) uploadBytes(ctx context.Context, path string, b []byte) error {
	return d.upload(ctx, path, bytes.NewReader(b))
}

func pack(w io.Writer, r io.Reader) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, r); err != nil {
		return err
	}
	return z.Close()
}

func fill(form *multipart.Writer, r io.Reader) error {
	part, err := form.CreateFormFile("file", "file")
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, r); err != nil {
		return err
	}
	return form.Close()
}

// atLeast reports whether a version such as 0.6.13 is at least major.minor.patch. An unreported version counts as new.
func atLeast(version string, want ...int) bool {
	if version == "" {
		return true
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	for i, w := range want {
		n := 0
		if i < len(parts) {
			digits := strings.IndexFunc(parts[i], func(r rune) bool { return r < '0' || r > '9' })
			if digits >= 0 {
				parts[i] = parts[i][:digits]
			}
			n, _ = strconv.Atoi(parts[i])
		}
		if n != w {
			return n > w
		}
	}
	return true
}
