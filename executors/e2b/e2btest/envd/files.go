package envd

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type written struct {
	Path     string            `json:"path"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Sign makes the signature with which a path of /files can be used without the token. expires is Unix seconds, 0 = never.
func Sign(path, operation, user, token string, expires int64) string {
	text := path + ":" + operation + ":" + user + ":" + token
	if expires > 0 {
		text += ":" + strconv.FormatInt(expires, 10)
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// signed checks the token, or the signature in its place.
func (s *server) signed(r *http.Request, operation string) error {
	token := s.token()
	if token == "" {
		return nil
	}
	if h := r.Header.Get("X-Access-Token"); h != "" {
		if h != token {
			return errors.New("access token present in header but does not match")
		}
		return nil
	}
	q := r.URL.Query()
	if !q.Has("signature") {
		return errors.New("missing signature query parameter")
	}
	var expires int64
	if q.Has("signature_expiration") {
		n, err := strconv.ParseInt(q.Get("signature_expiration"), 10, 64)
		if err != nil {
			return errors.New("invalid signature expiration")
		}
		expires = n
	}
	if q.Get("signature") != Sign(q.Get("path"), operation, q.Get("username"), token, expires) {
		return errors.New("invalid signature")
	}
	if q.Has("signature_expiration") && expires < time.Now().Unix() {
		return errors.New("signature is already expired")
	}
	return nil
}

// file is whose file a call means. It answers false when it has refused.
func (s *server) file(w http.ResponseWriter, r *http.Request, operation string) (*account, bool) {
	if err := s.signed(r, operation); err != nil {
		jsonError(w, http.StatusUnauthorized, err.Error())
		return nil, false
	}
	name := r.URL.Query().Get("username") // the user of a Basic header is not looked at here
	u, err := s.account(name)
	if err != nil {
		jsonError(w, http.StatusUnauthorized, fmt.Sprintf("error looking up user '%s': %v", name, err))
		return nil, false
	}
	return u, true
}

func (s *server) download(w http.ResponseWriter, r *http.Request) {
	u, ok := s.file(w, r, "read")
	if !ok {
		return
	}
	path, err := u.resolve(r.URL.Query().Get("path"))
	if err != nil {
		jsonError(w, http.StatusBadRequest, asRPC(err).Message)
		return
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		jsonError(w, http.StatusNotFound, fmt.Sprintf("path '%s' does not exist", path))
		return
	case err != nil:
		jsonError(w, http.StatusInternalServerError, err.Error())
		return
	case st.IsDir():
		jsonError(w, http.StatusBadRequest, fmt.Sprintf("path '%s' is a directory", path))
		return
	}
	f, err := os.Open(path)
	if err != nil {
		jsonError(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer f.Close()
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filepath.Base(path)}))
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Header.Get("Range") == "" {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/octet-stream")
		z := gzip.NewWriter(w)
		_, _ = io.Copy(z, f)
		_ = z.Close()
		return
	}
	http.ServeContent(w, r, path, st.ModTime(), f)
}

func (s *server) upload(w http.ResponseWriter, r *http.Request) {
	u, ok := s.file(w, r, "write")
	if !ok {
		return
	}
	body := io.Reader(r.Body)
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			jsonError(w, http.StatusBadRequest, "error decompressing request body: "+err.Error())
			return
		}
		defer z.Close()
		body = z
	default:
		jsonError(w, http.StatusBadRequest, fmt.Sprintf("error decompressing request body: unsupported Content-Encoding: %s, supported: [gzip]", r.Header.Get("Content-Encoding")))
		return
	}
	q := r.URL.Query()
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	out := []written{}
	switch {
	case kind == "application/octet-stream":
		if !q.Has("path") {
			jsonError(w, http.StatusBadRequest, "path query parameter is required for raw body upload")
			return
		}
		one, status, err := s.store(r, u, q.Get("path"), body)
		if err != nil {
			jsonError(w, status, err.Error())
			return
		}
		out = append(out, one)
	case strings.HasPrefix(kind, "multipart/"):
		r.Body = io.NopCloser(body)
		parts, err := r.MultipartReader()
		if err != nil {
			jsonError(w, http.StatusInternalServerError, "error parsing multipart form: "+err.Error())
			return
		}
		for {
			part, err := parts.NextPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				jsonError(w, http.StatusInternalServerError, "error reading form: "+err.Error())
				return
			}
			if part.FormName() != "file" {
				continue
			}
			path := q.Get("path")
			if !q.Has("path") {
				_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
				if err != nil || params["filename"] == "" {
					jsonError(w, http.StatusBadRequest, "error getting multipart custom part file name")
					return
				}
				path = params["filename"]
			}
			if abs, err := u.resolve(path); err == nil {
				for _, before := range out {
					if before.Path == abs {
						jsonError(w, http.StatusBadRequest, "you cannot upload multiple files to the same path '"+abs+"' in one upload request")
						return
					}
				}
			}
			one, status, err := s.store(r, u, path, part)
			if err != nil {
				jsonError(w, status, err.Error())
				return
			}
			out = append(out, one)
		}
	default:
		jsonError(w, http.StatusBadRequest, fmt.Sprintf("unsupported content type: %s, expected multipart/form-data or application/octet-stream", r.Header.Get("Content-Type")))
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// store writes one file as root would, and gives it to the account.
func (s *server) store(r *http.Request, u *account, name string, from io.Reader) (written, int, error) {
	path, err := u.resolve(name)
	if err != nil {
		return written{}, http.StatusBadRequest, errors.New(asRPC(err).Message)
	}
	if s.full() {
		_, _ = io.Copy(io.Discard, io.LimitReader(from, 1<<20))
		return written{}, http.StatusInsufficientStorage, errors.New("not enough disk space available")
	}
	if err := u.makeDirs(filepath.Dir(path)); err != nil {
		return written{}, http.StatusInternalServerError, fmt.Errorf("error ensuring directories: %w", err)
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return written{}, http.StatusBadRequest, fmt.Errorf("path is a directory: %s", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return written{}, statusOfWrite(err), fmt.Errorf("error opening file: %w", err)
	}
	defer f.Close()
	if err := u.own(path); err != nil {
		return written{}, http.StatusInternalServerError, fmt.Errorf("error changing file ownership: %w", err)
	}
	if _, err := io.Copy(f, from); err != nil {
		return written{}, statusOfWrite(err), fmt.Errorf("error writing file: %w", err)
	}
	out := written{Path: path, Name: filepath.Base(path), Type: "file"}
	for k, v := range r.Header {
		if key, ok := strings.CutPrefix(k, "X-Metadata-"); ok && len(v) > 0 {
			if out.Metadata == nil {
				out.Metadata = map[string]string{}
			}
			out.Metadata[strings.ToLower(key)] = v[0]
		}
	}
	return out, 0, nil
}

func statusOfWrite(err error) int {
	if errors.Is(err, syscall.ENOSPC) {
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}

// compose puts files together into one and removes them.
func (s *server) compose(w http.ResponseWriter, r *http.Request) {
	var in struct {
		SourcePaths []string `json:"source_paths"`
		Destination string   `json:"destination"`
		Username    string   `json:"username"`
	}
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil || len(in.SourcePaths) == 0 || in.Destination == "" {
		jsonError(w, http.StatusBadRequest, "source_paths and destination are required")
		return
	}
	u, err := s.account(in.Username)
	if err != nil {
		jsonError(w, http.StatusUnauthorized, err.Error())
		return
	}
	var readers []io.Reader
	var sources []string
	for _, p := range in.SourcePaths {
		abs, err := u.resolve(p)
		if err != nil {
			jsonError(w, http.StatusBadRequest, asRPC(err).Message)
			return
		}
		f, err := os.Open(abs)
		if err != nil {
			jsonError(w, http.StatusNotFound, fmt.Sprintf("path '%s' does not exist", abs))
			return
		}
		defer f.Close()
		readers, sources = append(readers, f), append(sources, abs)
	}
	one, status, err := s.store(r, u, in.Destination, io.MultiReader(readers...))
	if err != nil {
		jsonError(w, status, err.Error())
		return
	}
	for _, p := range sources {
		if p != one.Path {
			_ = os.Remove(p)
		}
	}
	writeJSON(w, http.StatusOK, one)
}
