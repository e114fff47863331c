// Package boxlitetest is a strict stand-in for a BoxLite server over real HTTP and WebSockets, with real processes in boxes. It takes what
// openapi/box.openapi.yaml of BoxLite says and refuses everything else: fields and parameters that are not there, values out of bounds, two
// attachments to one execution, more executions than a box may have, work in a box that does not run. It loses what the real one loses when its
// server restarts (what runs in boxes, and every execution), and breaks on demand.
//
// What is known of the real one was read from its public document and sources in August 2026. Not there: snapshots, clones, exports,
// volumes, keys, metrics, tunnels, and terminals.
package boxlitetest

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/hosted/hostedtest"
)

// Limits that GET /v1/config tells.
const (
	MaxCPUs       = 4
	MaxMemoryMiB  = 8192
	MaxDiskGB     = 100
	MaxExecutions = 10
)

// Prefix is the routing slot: of two segments, as the document allows.
const Prefix = "us-east/team-42"

// Server is the stand-in. Its fields are changed with Set.
type Server struct {
	t    testing.TB
	http *httptest.Server
	dir  string

	withGuest bool

	mu         sync.Mutex
	key        string
	boxes      map[string]*box
	idempotent map[string]kept
	knobs      Knobs
	made       int
}

// Knobs are what goes wrong.
type Knobs struct {
	LoseCreates   int           // so many boxes are made whose making is not answered
	Full          bool          // no box is made any more
	MissingImages []string      // cannot be fetched
	CutAfter      time.Duration // each attachment is cut after this; 0 = never
	Flat          bool          // it knows the network of the document's first form alone
	Down          bool          // every question is answered with 503
}

type kept struct {
	payload string
	status  int
	answer  []byte
}

// New starts a stand-in that ends with the test. withGuest says that its images hold the guest's program.
func New(t testing.TB, withGuest bool) *Server {
	t.Helper()
	hostedtest.Need(t)
	s := &Server{t: t, withGuest: withGuest, dir: t.TempDir(), key: "blk_test_0123456789", boxes: make(map[string]*box), idempotent: make(map[string]kept)}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.Restart()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Dir is the folder with the disks of everything it runs.
func (s *Server) Dir() string { return s.dir }

// URL is its address, and Key the key it takes.
func (s *Server) URL() string { return s.http.URL }

// Key is the key it takes.
func (s *Server) Key() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key
}

// Set changes what goes wrong.
func (s *Server) Set(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = k
}

// Revoke makes the key one that is not taken.
func (s *Server) Revoke() { s.SetKey(random("blk_")) }

// SetKey has it take another key alone.
func (s *Server) SetKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// Boxes are the names of the boxes there are.
func (s *Server) Boxes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, b := range s.boxes {
		out = append(out, b.name)
	}
	slices.Sort(out)
	return out
}

// Made is how many boxes were ever made.
func (s *Server) Made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// Asked is what the box of that name was asked to be.
func (s *Server) Asked(name string) CreateBoxRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boxes {
		if b.name == name {
			return b.asked
		}
	}
	return CreateBoxRequest{}
}

// Executions are how many executions there are that have not ended.
func (s *Server) Executions() (running int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boxes {
		for _, x := range b.executions {
			if !x.ended() {
				running++
			}
		}
	}
	return running
}

// Vanish removes a box as if its disk had been lost.
func (s *Server) Vanish(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, b := range s.boxes {
		if b.name == name {
			b.stop()
			delete(s.boxes, id)
		}
	}
}

// Restart ends everything in all boxes, as a server that is restarted does: their disks stay.
func (s *Server) Restart() {
	s.mu.Lock()
	all := make([]*box, 0, len(s.boxes))
	for _, b := range s.boxes {
		all = append(all, b)
	}
	s.mu.Unlock()
	for _, b := range all {
		b.stop()
	}
}

func random(prefix string) string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// problem is a refusal in the form of ErrorResponse.
type problem struct {
	status     int
	kind, code string
	message    string
}

func (p *problem) Error() string { return p.message }

func invalid(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, kind: "InvalidArgumentError", code: "invalid_argument", message: "invalid argument: " + fmt.Sprintf(format, args...)}
}

func notFound(what, id string) *problem {
	return &problem{status: http.StatusNotFound, kind: "NotFoundError", code: "not_found", message: what + " not found: " + id}
}

func conflict(format string, args ...any) *problem {
	return &problem{status: http.StatusConflict, kind: "InvalidStateError", code: "invalid_state", message: "invalid state: " + fmt.Sprintf(format, args...)}
}

// errLost says that a question is not answered.
var errLost = errors.New("lost")

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	err := s.route(w, r)
	if err == nil {
		return
	}
	if errors.Is(err, errLost) {
		panic(http.ErrAbortHandler)
	}
	p, ok := err.(*problem)
	if !ok {
		p = &problem{status: http.StatusInternalServerError, kind: "InternalError", code: "internal", message: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": p.message, "type": p.kind, "code": p.code, "request_id": random("req_")}})
}

// answer writes an answer of the document's form.
func answer(w http.ResponseWriter, status int, v any) error {
	if v == nil {
		w.WriteHeader(status)
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(b)
	return err
}

// take reads a body strictly.
func take(r *http.Request, into any) error {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		return invalid("the content type is %q", ct)
	}
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalid("%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("there is more behind the body")
	}
	return nil
}

// only refuses parameters that a call does not have.
func only(q url.Values, names ...string) error {
	for name := range q {
		if !slices.Contains(names, name) {
			return invalid("there is no parameter %s", name)
		}
	}
	return nil
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	key, knobs := s.key, s.knobs
	s.mu.Unlock()
	if knobs.Down {
		return &problem{status: http.StatusServiceUnavailable, kind: "UpstreamUnavailableError", code: "upstream_unavailable", message: "the runner is not reachable"}
	}
	if r.URL.Path == "/v1/config" && r.Method == http.MethodGet {
		return answer(w, http.StatusOK, map[string]any{"defaults": map[string]any{"cpus": 2, "memory_mib": 512, "disk_size_gb": 10, "auto_delete": 0}, "overrides": map[string]string{},
			"capabilities": map[string]any{"max_cpus": MaxCPUs, "max_memory_mib": MaxMemoryMiB, "max_disk_size_gb": MaxDiskGB, "max_concurrent_executions": MaxExecutions,
				"file_transfer_max_bytes": 1 << 30, "tty_enabled": true, "streaming_enabled": true, "idempotency_key_lifetime": "PT24H"}})
	}
	if r.Header.Get("Authorization") != "Bearer "+key {
		return &problem{status: http.StatusUnauthorized, kind: "AuthError", code: "unauthenticated", message: "invalid or missing API key"}
	}
	if r.URL.Path == "/v1/me" && r.Method == http.MethodGet {
		return answer(w, http.StatusOK, map[string]any{"sub": "usr_1", "principal_type": "service_account", "path_prefix": Prefix, "expires_at": nil,
			"scopes": []string{"box:read", "box:write", "box:exec", "box:delete", "me:read"}})
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/"+Prefix+"/boxes")
	if !ok || rest != "" && rest[0] != '/' {
		return notFound("route", r.URL.Path)
	}
	if rest == "" {
		switch r.Method {
		case http.MethodPost:
			return s.create(w, r)
		case http.MethodGet:
			return s.list(w, r)
		}
		return &problem{status: http.StatusMethodNotAllowed, kind: "UnsupportedError", code: "unsupported", message: "method not allowed"}
	}
	parts := strings.Split(rest[1:], "/")
	b := s.find(parts[0])
	if b == nil {
		return notFound("box", parts[0])
	}
	switch call := r.Method + " " + strings.Join(parts[1:], "/"); {
	case call == "GET ":
		return answer(w, http.StatusOK, b.info())
	case call == "DELETE ":
		return s.remove(w, r, b)
	case call == "POST start":
		return s.start(w, b)
	case call == "POST stop":
		b.stop()
		return answer(w, http.StatusOK, b.info())
	case call == "PUT files":
		return s.upload(w, r, b)
	case call == "POST exec":
		return s.exec(w, r, b)
	case len(parts) >= 3 && parts[1] == "executions":
		x := b.execution(parts[2])
		if x == nil {
			return notFound("execution", parts[2])
		}
		switch {
		case len(parts) == 3 && r.Method == http.MethodGet:
			return answer(w, http.StatusOK, x.info())
		case len(parts) == 3 && r.Method == http.MethodDelete:
			x.kill()
			b.forget(x.id)
			return answer(w, http.StatusNoContent, nil)
		case len(parts) == 4 && parts[3] == "attach" && r.Method == http.MethodGet:
			return s.attach(w, r, x)
		}
	}
	return notFound("route", r.Method+" "+r.URL.Path)
}

func (s *Server) find(idOrName string) *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[idOrName]; b != nil {
		return b
	}
	for _, b := range s.boxes {
		if b.name == idOrName {
			return b
		}
	}
	return nil
}

// Policy is what may go out.
type Policy struct {
	Mode     string   `json:"mode"`
	AllowNet []string `json:"allow_net"`
}

// CreateBoxRequest is the document's, as far as it is served here: anything else is refused.
type CreateBoxRequest struct {
	Name       string            `json:"name"`
	Image      string            `json:"image"`
	CPUs       *int              `json:"cpus"`
	MemoryMiB  *int              `json:"memory_mib"`
	DiskGB     *int              `json:"disk_size_gb"`
	WorkingDir string            `json:"working_dir"`
	Env        map[string]string `json:"env"`
	Entrypoint []string          `json:"entrypoint"`
	Cmd        []string          `json:"cmd"`
	User       string            `json:"user"`
	Network    *struct {
		Outbound *Policy  `json:"outbound"`
		Inbound  *Policy  `json:"inbound"`
		Mode     *string  `json:"mode"`
		AllowNet []string `json:"allow_net"`
	} `json:"network"`
	Detach     bool  `json:"detach"`
	Tty        bool  `json:"tty"`
	AutoStop   *int  `json:"auto_stop"`
	AutoDelete *int  `json:"auto_delete"`
	AutoResume *bool `json:"auto_resume"`
}

// Outbound is what the box may reach, in whichever form it was said.
func (c CreateBoxRequest) Outbound() Policy {
	switch n := c.Network; {
	case n == nil:
		return Policy{Mode: "enabled"}
	case n.Outbound != nil:
		return *n.Outbound
	case n.Mode != nil:
		return Policy{*n.Mode, n.AllowNet}
	default:
		return Policy{"enabled", n.AllowNet}
	}
}

var (
	boxName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)
	uuid    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

func (c CreateBoxRequest) check(flat bool) error {
	within := func(name string, v *int, least, most int) error {
		if v != nil && (*v < least || *v > most) {
			return invalid("%s must be between %d and %d", name, least, most)
		}
		return nil
	}
	if c.Name != "" && (len(c.Name) > 128 || !boxName.MatchString(c.Name)) {
		return invalid("name %q", c.Name)
	}
	if n := c.Network; n != nil {
		if flat && (n.Outbound != nil || n.Inbound != nil) {
			return &problem{status: http.StatusUnprocessableEntity, kind: "InvalidArgumentError", code: "invalid_argument", message: "network.outbound: extra inputs are not permitted"}
		}
		if (n.Outbound != nil || n.Inbound != nil) && (n.Mode != nil || n.AllowNet != nil) {
			return invalid("network mixes the nested and the flat form")
		}
		if n.Inbound != nil && len(n.Inbound.AllowNet) > 0 {
			return invalid("network.inbound.allow_net is not supported")
		}
		p := c.Outbound()
		if p.Mode != "enabled" && p.Mode != "disabled" {
			return invalid("network mode %q", p.Mode)
		}
		if p.Mode == "disabled" && len(p.AllowNet) > 0 {
			return invalid(`network.allow_net is incompatible with network.mode="disabled"`)
		}
	}
	return errors.Join(within("cpus", c.CPUs, 1, MaxCPUs), within("memory_mib", c.MemoryMiB, 128, MaxMemoryMiB), within("disk_size_gb", c.DiskGB, 1, MaxDiskGB),
		within("auto_stop", c.AutoStop, 0, 1<<31), within("auto_delete", c.AutoDelete, 0, 1<<31))
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	if err := only(r.URL.Query()); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return err
	}
	key := r.Header.Get("Idempotency-Key")
	if key != "" && !uuid.MatchString(key) {
		return invalid("the Idempotency-Key is no UUID")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.idempotent[key]; ok && key != "" {
		if was.payload != string(body) {
			return &problem{status: http.StatusUnprocessableEntity, kind: "InvalidArgumentError", code: "invalid_argument", message: "the Idempotency-Key was used with another payload"}
		}
		if s.knobs.LoseCreates > 0 {
			s.knobs.LoseCreates--
			return errLost
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(was.status)
		_, err := w.Write(was.answer)
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var c CreateBoxRequest
	if err := take(r, &c); err != nil {
		return err
	}
	if err := c.check(s.knobs.Flat); err != nil {
		if p, ok := errors.AsType[*problem](err); ok {
			return p
		}
		return err
	}
	for _, b := range s.boxes {
		if b.name == c.Name && c.Name != "" {
			return &problem{status: http.StatusConflict, kind: "AlreadyExistsError", code: "already_exists", message: "already exists: box " + c.Name}
		}
	}
	if s.knobs.Full {
		return &problem{status: http.StatusConflict, kind: "ResourceExhaustedError", code: "resource_exhausted", message: "resource exhausted: 50 boxes"}
	}
	b := newBox(random("box"), c, s.dir)
	b.equipped = s.withGuest
	s.boxes[b.id] = b
	s.made++
	text, err := json.Marshal(b.info())
	if err != nil {
		return err
	}
	if key != "" {
		s.idempotent[key] = kept{string(body), http.StatusCreated, text}
	}
	if s.knobs.LoseCreates > 0 {
		s.knobs.LoseCreates--
		return errLost
	}
	w.Header().Set("Location", "/v1/"+Prefix+"/boxes/"+b.id)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, err = w.Write(text)
	return err
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if err := only(q, "pageSize", "pageToken", "status"); err != nil {
		return err
	}
	size, from := 100, 0
	if v := q.Get("pageSize"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1000 {
			return invalid("pageSize %s", v)
		}
		size = min(n, 2) // small pages: whoever reads one only misses boxes
	}
	if v := q.Get("pageToken"); v != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(v, "tok"))
		if err != nil {
			return invalid("pageToken %s", v)
		}
		from = n
	}
	s.mu.Lock()
	var all []*box
	for _, b := range s.boxes {
		all = append(all, b)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *box) int { return strings.Compare(a.id, b.id) })
	out := []boxInfo{}
	for _, b := range all[min(from, len(all)):min(from+size, len(all))] {
		out = append(out, b.info())
	}
	var next *string
	if from+size < len(all) {
		t := "tok" + strconv.Itoa(from+size)
		next = &t
	}
	return answer(w, http.StatusOK, map[string]any{"boxes": out, "next_page_token": next})
}

func (s *Server) start(w http.ResponseWriter, b *box) error {
	s.mu.Lock()
	missing := slices.Contains(s.knobs.MissingImages, b.asked.Image)
	s.mu.Unlock()
	if missing {
		return &problem{status: http.StatusUnprocessableEntity, kind: "ImageError", code: "image_pull_failed", message: "images error: manifest unknown for " + b.asked.Image}
	}
	if err := b.start(); err != nil {
		return err
	}
	return answer(w, http.StatusOK, b.info())
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request, b *box) error {
	if err := only(r.URL.Query(), "force"); err != nil {
		return err
	}
	if b.info().Status == "running" && r.URL.Query().Get("force") != "true" {
		return conflict("box is running")
	}
	b.stop()
	s.mu.Lock()
	delete(s.boxes, b.id)
	s.mu.Unlock()
	return answer(w, http.StatusNoContent, nil)
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, b *box) error {
	q := r.URL.Query()
	if err := only(q, "path", "overwrite"); err != nil {
		return err
	}
	to := q.Get("path")
	if !path.IsAbs(to) || r.Header.Get("Content-Type") != "application/x-tar" {
		return invalid("path %q, content type %q", to, r.Header.Get("Content-Type"))
	}
	m, err := b.running()
	if err != nil {
		return err
	}
	for _, mount := range []string{"/proc", "/dev", "/sys", "/usr"} {
		if to == mount || strings.HasPrefix(to, mount+"/") {
			return invalid("%s is at or under a mount", to)
		}
	}
	for t := tar.NewReader(r.Body); ; {
		h, err := t.Next()
		if err == io.EOF {
			return answer(w, http.StatusNoContent, nil)
		}
		if err != nil {
			return invalid("the archive: %v", err)
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			return invalid("the archive's entry %q", h.Name)
		}
		at := filepath.Join(m.Root, to, h.Name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(at, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, os.FileMode(h.Mode))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, t)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}
