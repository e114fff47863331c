package ui

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	indexFile  = "index.html"
	signInFile = "login.html"
	assetsDir  = "assets/"
)

// ContentSecurityPolicy is what every page of the app is served under. Styles may be inline because the terminal's DOM
// renderer builds style elements; scripts never are.
const ContentSecurityPolicy = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"worker-src 'self' blob:; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; object-src 'none'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

//go:embed stub.html
var stub []byte

// Config of the handler.
type Config struct {
	// Dir is a folder to serve instead of the embedded build; "" serves the embedded one. Files are read anew for each
	// request, so that a build that is written while the server runs is seen.
	Dir string
	// Frames is the origin whose pages the app may frame besides its own, "" = none.
	Frames string
	// Measured returns the origins that the app measures its way to besides its own: those of places' regions. Asked for each page; optional.
	Measured func() []string
}

// Handler serves the web app: files under /assets/ for a year and never a substitute for a missing one, any other path
// falls back to index.html, and /login to login.html, which are never cached. It is safe for concurrent use.
type Handler struct {
	files fs.FS
	root  *os.Root // of Config.Dir, else nil

	policy   string
	measured func() []string
}

// New opens the build that cfg names. It fails when Dir is not a folder.
func New(cfg Config) (*Handler, error) {
	policy := ContentSecurityPolicy
	if cfg.Frames != "" {
		policy += "; frame-src 'self' " + cfg.Frames
	}
	if cfg.Dir == "" {
		return &Handler{files: Dist(), policy: policy, measured: cfg.Measured}, nil
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the web app: %w", err)
	}
	return &Handler{files: root.FS(), root: root, policy: policy, measured: cfg.Measured}, nil
}

// Close releases the folder. The handler answers 404 afterwards.
func (h *Handler) Close() error {
	if h.root == nil {
		return nil
	}
	return h.root.Close()
}

// contentPolicy is what a page may reach now.
func (h *Handler) contentPolicy() string {
	if h.measured == nil {
		return h.policy
	}
	if origins := h.measured(); len(origins) > 0 {
		return strings.Replace(h.policy, "connect-src 'self'", "connect-src 'self' "+strings.Join(origins, " "), 1)
	}
	return h.policy
}

// ServeHTTP answers GET and HEAD.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Content-Security-Policy", h.contentPolicy())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}

	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	switch {
	case strings.HasPrefix(name, assetsDir):
		ofPages := head.Clone()
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
		if neverPages(name) {
			for _, of := range [...]string{"Content-Security-Policy", "Permissions-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy"} {
				head.Del(of)
			}
		}
		if !h.serveFile(w, r, name) {
			// A page of an older version asks for a file that is gone. HTML in its place would be a MIME error.
			maps.Copy(head, ofPages)
			head.Set("Cache-Control", "no-store")
			http.Error(w, "no such file", http.StatusNotFound)
		}
	case name == "login" && !r.URL.Query().Has("step") && h.serveFile(w, r, signInFile):
		// what everybody loads first, without the app; the second step is a page of the app
	case name != "" && name != indexFile && !hidden(name) && h.serveFile(w, r, name):
		// a file beside index.html, such as the icon
	case h.serveFile(w, r, indexFile):
	default:
		head.Set("Content-Type", "text/html; charset=utf-8")
		head.Set("Cache-Control", "no-store")
		head.Set("Content-Length", strconv.Itoa(len(stub)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(stub)
		}
	}
}

// neverPages reports whether an asset is a script, a style or a font, which no browser opens as a page: what only pages read would be a third
// of what a small one sends. A worker is held by the policy of its own file.
func neverPages(name string) bool {
	switch path.Ext(name) {
	case ".css", ".woff2":
		return true
	case ".js":
		return !strings.Contains(name, "worker")
	default:
		return false
	}
}

// hidden reports whether a part of the name starts with a dot, or the name is a compressed sibling, which only content
// negotiation serves.
func hidden(name string) bool {
	if strings.HasSuffix(name, ".br") || strings.HasSuffix(name, ".gz") {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// serveFile answers with the file, or a compressed sibling the client takes, and reports whether there is such a file.
func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request, name string) bool {
	if !fs.ValidPath(name) {
		return false
	}
	file, info, err := open(h.files, name)
	if err != nil {
		return false
	}
	defer func() { file.Close() }()

	head := w.Header()
	head.Set("Content-Type", contentType(name))
	head.Add("Vary", "Accept-Encoding")
	for _, enc := range [...]struct{ name, ext string }{{"br", ".br"}, {"gzip", ".gz"}} {
		if !accepts(r.Header.Get("Accept-Encoding"), enc.name) {
			continue
		}
		small, smallInfo, err := open(h.files, name+enc.ext)
		if err != nil {
			continue
		}
		// Names of assets carry a hash of their content; elsewhere a sibling older than its file is of another build.
		if !strings.HasPrefix(name, assetsDir) && smallInfo.ModTime().Before(info.ModTime()) {
			small.Close()
			continue
		}
		file.Close()
		file = small
		head.Set("Content-Encoding", enc.name)
		break
	}
	if !strings.HasPrefix(name, assetsDir) {
		head.Set("Cache-Control", "no-cache")
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			return false
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return false
		}
		head.Set("ETag", `"`+hex.EncodeToString(sum.Sum(nil)[:12])+`"`)
	}
	// ServeContent answers HEAD, ranges and If-None-Match. No time is given: embedded files have none.
	http.ServeContent(w, r, name, time.Time{}, file)
	return true
}

type seekFile interface {
	fs.File
	io.Seeker
}

var errNotAFile = errors.New("not a regular file")

func open(files fs.FS, name string) (seekFile, fs.FileInfo, error) {
	// Asked before opening: opening a FIFO in a served folder would wait for its writer.
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errNotAFile
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, nil, err
	}
	s, ok := f.(seekFile)
	if !ok {
		f.Close()
		return nil, nil, errNotAFile
	}
	return s, info, nil
}

// accepts reports whether an Accept-Encoding header names enc without refusing it with q=0.
func accepts(header, enc string) bool {
	for item := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(item, ";")
		if !strings.EqualFold(strings.TrimSpace(name), enc) {
			continue
		}
		_, q, found := strings.Cut(strings.ToLower(params), "q=")
		if !found {
			return true
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return err == nil && v > 0
	}
	return false
}

// contentType names the type by a table of our own: the host's mime tables differ from machine to machine.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".json", ".map":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".wasm":
		return "application/wasm"
	case ".txt":
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}
