// Package verceltest is a strict stand-in for Vercel's Sandbox API over real HTTP and WebSockets, with real processes. It takes what Vercel's SDK
// 3.5.0 sends and refuses everything else: fields and parameters that are not there, more than the plan allows, work in a session that has stopped,
// files in folders that the sandbox's user may not write, a pipe whose token was used. It stops a session whose time is over, and keeps its disk.
//
// What is known of the real one was read from the SDK's sources and its mock server in August 2026. Not there: sources, forks, ports, snapshots beyond
// the one of a stop.
package verceltest

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/hosted/hostedtest"
)

// What the token is for.
const (
	Team    = "team_abc"
	Project = "prj_abc"
)

// Knobs are what goes wrong.
type Knobs struct {
	LoseCreates int           // so many sandboxes are made whose making is not answered
	Status      int           // making a sandbox is refused with this
	CutStreams  bool          // each command's stream is cut once the command has begun
	CutAfter    time.Duration // each pipe is cut after this; 0 = never
	NoImage     bool          // its images and runtimes are not there
	Down        bool
}

// Server is the stand-in.
type Server struct {
	http      *httptest.Server
	dir       string
	withGuest bool

	mu        sync.Mutex
	token     string
	max       time.Duration // of a session, as the plan says
	boxes     map[string]*box
	snapshots map[string]string // the sandbox of each
	sessions  map[string]*session
	pipes     map[string]*session // by the token that opens one
	knobs     Knobs
}

type box struct {
	name     string
	asked    CreateRequest
	snapshot string
	present  *session
	policy   json.RawMessage
	created  time.Time
}

type session struct {
	id, box string
	status  string
	started time.Time
	stopped time.Time
	timeout time.Duration
	end     *time.Timer
	m       *hostedtest.Machine
	cmds    map[string]*command
	orphans bool // its sandbox is deleted with its snapshots
}

type command struct {
	id     string
	done   chan struct{}
	mu     sync.Mutex
	code   int
	output []byte
}

// New starts a stand-in that ends with the test.
func New(t testing.TB, withGuest bool) *Server {
	t.Helper()
	hostedtest.Need(t)
	s := &Server{dir: t.TempDir(), withGuest: withGuest, token: random("vck_"), max: 24 * time.Hour, boxes: make(map[string]*box), snapshots: make(map[string]string), sessions: make(map[string]*session), pipes: make(map[string]*session)}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.StopAll()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Dir is the folder with the disks of everything it runs.
func (s *Server) Dir() string { return s.dir }

// URL is its address.
func (s *Server) URL() string { return s.http.URL + "/api" }

// Token is the token it takes.
func (s *Server) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// SetToken makes it take another token.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Set changes what goes wrong, and Plan how long a session may last.
func (s *Server) Set(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = k
}

// Plan says how long a session may last.
func (s *Server) Plan(most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = most
}

// Boxes are the names of the sandboxes there are.
func (s *Server) Boxes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.boxes {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Asked is what a sandbox was asked to be, and Policy what it may reach now.
func (s *Server) Asked(name string) (asked CreateRequest, policy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[name]; b != nil {
		return b.asked, string(b.policy)
	}
	return CreateRequest{}, ""
}

// StopAll ends every session, as when all leases end.
func (s *Server) StopAll() {
	s.mu.Lock()
	var all []*session
	for _, b := range s.boxes {
		all = append(all, b.present)
	}
	s.mu.Unlock()
	for _, x := range all {
		s.stop(x)
	}
}

// Delete removes a sandbox, as somebody in the dashboard does.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	b := s.boxes[name]
	delete(s.boxes, name)
	s.mu.Unlock()
	if b != nil {
		s.stop(b.present)
	}
}

// Snapshots are the disks that are kept, and paid for.
func (s *Server) Snapshots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.snapshots)
}

func random(prefix string) string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

type problem struct {
	status  int
	code    string
	message string
}

func (p *problem) Error() string { return p.message }

func bad(format string, args ...any) error {
	return &problem{http.StatusBadRequest, "bad_request", fmt.Sprintf(format, args...)}
}

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
		p = &problem{http.StatusInternalServerError, "internal_server_error", err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": p.code, "message": p.message}})
}

func answer(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

func take(r *http.Request, into any) error {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		return bad("the content type is %q", ct)
	}
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return bad("%v", err)
	}
	return nil
}

func only(q url.Values, names ...string) error {
	for name := range q {
		if name != "teamId" && !slices.Contains(names, name) {
			return bad("should NOT have additional property %s", name)
		}
	}
	return nil
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	token, knobs := s.token, s.knobs
	s.mu.Unlock()
	if id, ok := strings.CutPrefix(r.URL.Path, "/interactive/"); ok {
		return s.interactive(w, r, id)
	}
	if knobs.Down {
		return &problem{http.StatusBadGateway, "bad_gateway", "upstream"}
	}
	q := r.URL.Query()
	if r.Header.Get("Authorization") != "Bearer "+token {
		return &problem{http.StatusForbidden, "forbidden", "Not authorized"}
	}
	if q.Get("teamId") != Team {
		return &problem{http.StatusForbidden, "forbidden", "Not authorized for the team"}
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v2/sandboxes")
	if v3 := r.URL.Path == "/api/v3/sandboxes"; (v3 || rest == "" && ok) && r.Method == http.MethodPost {
		return s.create(w, r, v3)
	}
	if !ok {
		return &problem{http.StatusNotFound, "not_found", "no route " + r.URL.Path}
	}
	if rest == "" && r.Method == http.MethodGet {
		return s.list(w, r)
	}
	parts := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	switch {
	case parts[0] == "sessions" && len(parts) > 2:
		return s.inSession(w, r, parts[1], strings.Join(parts[2:], "/"))
	case len(parts) == 1:
		return s.one(w, r, parts[0])
	}
	return &problem{http.StatusNotFound, "not_found", "no route " + r.URL.Path}
}

// CreateRequest is the body of a creation, as far as it is served here.
type CreateRequest struct {
	ProjectID string `json:"projectId"`
	Name      string `json:"name"`
	Timeout   int64  `json:"timeout"`
	Resources *struct {
		VCPUs int `json:"vcpus"`
	} `json:"resources"`
	Persistent    bool              `json:"persistent"`
	Runtime       string            `json:"runtime"`
	Image         string            `json:"image"`
	NetworkPolicy json.RawMessage   `json:"networkPolicy"`
	Tags          map[string]string `json:"tags"`
	Keep          *struct {
		Count         int   `json:"count"`
		Expiration    int64 `json:"expiration"`
		DeleteEvicted bool  `json:"deleteEvicted"`
	} `json:"keepLastSnapshots"`
	Region string `json:"region"`
}

func checkPolicy(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var p struct {
		Mode    string   `json:"mode"`
		Allow   []string `json:"allow"`
		Subnets *struct {
			Allow []string `json:"allow"`
			Deny  []string `json:"deny"`
		} `json:"subnets"`
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return bad("networkPolicy: %v", err)
	}
	if p.Mode != "" && (p.Mode != "allow-all" && p.Mode != "deny-all" || p.Allow != nil || p.Subnets != nil) {
		return bad("networkPolicy: mode %q", p.Mode)
	}
	return nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, v3 bool) error {
	if err := only(r.URL.Query()); err != nil {
		return err
	}
	var c CreateRequest
	if err := take(r, &c); err != nil {
		return err
	}
	s.mu.Lock()
	knobs, most := s.knobs, s.max
	_, there := s.boxes[c.Name]
	s.mu.Unlock()
	switch {
	case knobs.Status != 0:
		return &problem{knobs.Status, map[int]string{402: "payment_required", 429: "too_many_requests"}[knobs.Status], "limit of the plan"}
	case knobs.NoImage:
		return &problem{http.StatusNotFound, "image_not_found", "Image not found"}
	case c.ProjectID != Project:
		return &problem{http.StatusNotFound, "not_found", "Project not found"}
	case v3 == (c.Runtime != "") || !v3 && c.Image != "":
		return bad("runtime %q and image %q", c.Runtime, c.Image)
	case !v3 && !slices.Contains([]string{"node22", "node24", "node26", "python3.13"}, c.Runtime):
		return &problem{http.StatusBadRequest, "invalid_runtime", "no runtime " + c.Runtime}
	case c.Name == "" || len(c.Name) > 128:
		return bad("name %q", c.Name)
	case there:
		return &problem{http.StatusConflict, "conflict", "the name is taken"}
	case c.Timeout < 1000 || c.Timeout > most.Milliseconds():
		return bad("timeout must be at most %d", most.Milliseconds())
	case c.Resources != nil && (c.Resources.VCPUs < 1 || c.Resources.VCPUs > 8):
		return bad("resources.vcpus must be at most 8")
	case len(c.Tags) > 5:
		return bad("too many tags")
	}
	if err := checkPolicy(c.NetworkPolicy); err != nil {
		return err
	}
	b := &box{name: c.Name, asked: c, policy: c.NetworkPolicy, created: time.Now()}
	x, err := s.begin(b)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.boxes[c.Name] = b
	lost := s.knobs.LoseCreates > 0
	if lost {
		s.knobs.LoseCreates--
	}
	s.mu.Unlock()
	if lost {
		return errLost
	}
	return s.answerBox(w, b, x, false)
}

// begin starts a session over the sandbox's disk.
func (s *Server) begin(b *box) (*session, error) {
	root := filepath.Join(s.dir, b.name)
	m, err := hostedtest.Boot(root, s.withGuest)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(root, "vercel/sandbox"), 0o755); err != nil {
		return nil, err
	}
	x := &session{id: random("se_"), box: b.name, status: "running", started: time.Now(), timeout: time.Duration(b.asked.Timeout) * time.Millisecond, m: m, cmds: make(map[string]*command)}
	x.end = time.AfterFunc(x.timeout, func() { s.stop(x) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[x.id], b.present = x, x
	return x, nil
}

// stop ends a session; its disk stays.
func (s *Server) stop(x *session) {
	s.mu.Lock()
	runs := x.status == "running"
	if runs {
		x.status, x.stopped = "stopped", time.Now()
		x.end.Stop()
		if b := s.boxes[x.box]; b != nil {
			b.snapshot = random("snap_")
			s.snapshots[b.snapshot] = b.name
		} else if !x.orphans {
			s.snapshots[random("snap_")] = x.box // a persistent sandbox that is deleted while it runs leaves one, too
		}
	}
	s.mu.Unlock()
	if runs {
		x.m.Kill()
	}
}

func (s *Server) answerBox(w http.ResponseWriter, b *box, x *session, resumed bool) error {
	s.mu.Lock()
	v := map[string]any{"sandbox": s.describe(b), "session": s.describeSession(x), "routes": []any{}, "resumed": resumed}
	s.mu.Unlock()
	return answer(w, v)
}

// describe is a Sandbox of the SDK's validators. The caller holds mu.
func (s *Server) describe(b *box) any {
	v := map[string]any{"name": b.name, "persistent": b.asked.Persistent, "region": "iad1", "timeout": b.asked.Timeout, "createdAt": b.created.UnixMilli(), "updatedAt": time.Now().UnixMilli(),
		"currentSessionId": b.present.id, "status": b.present.status, "cwd": "/vercel/sandbox"}
	if b.snapshot != "" {
		v["currentSnapshotId"] = b.snapshot
	}
	return v
}

func (s *Server) describeSession(x *session) any {
	v := map[string]any{"id": x.id, "memory": 4096, "vcpus": 2, "region": "iad1", "timeout": x.timeout.Milliseconds(), "status": x.status, "requestedAt": x.started.UnixMilli(),
		"startedAt": x.started.UnixMilli(), "createdAt": x.started.UnixMilli(), "cwd": "/vercel/sandbox", "updatedAt": time.Now().UnixMilli()}
	if x.status == "stopped" {
		v["stoppedAt"] = x.stopped.UnixMilli()
	}
	return v
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if err := only(q, "project", "limit", "sortBy", "sortOrder", "namePrefix", "cursor", "tags"); err != nil {
		return err
	}
	if q.Get("project") != Project {
		return &problem{http.StatusNotFound, "not_found", "Project not found"}
	}
	if n, err := strconv.Atoi(q.Get("limit")); err != nil || n < 1 || n > 50 {
		return bad("limit must be at most 50")
	}
	if q.Get("namePrefix") != "" && q.Get("sortBy") != "name" {
		return bad("namePrefix needs sortBy=name")
	}
	from, _ := strconv.Atoi(q.Get("cursor"))
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*box
	for _, b := range s.boxes {
		if strings.HasPrefix(b.name, q.Get("namePrefix")) {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b *box) int { return strings.Compare(a.name, b.name) })
	out := []any{}
	for _, b := range all[min(from, len(all)):min(from+1, len(all))] { // pages of one: whoever reads one only misses sandboxes
		out = append(out, s.describe(b))
	}
	var next *string
	if from+1 < len(all) {
		t := strconv.Itoa(from + 1)
		next = &t
	}
	return answer(w, map[string]any{"sandboxes": out, "pagination": map[string]any{"count": len(out), "next": next}})
}

func (s *Server) one(w http.ResponseWriter, r *http.Request, name string) error {
	q := r.URL.Query()
	may := map[string]string{http.MethodGet: "resume", http.MethodDelete: "deleteOrphanSnapshots"}[r.Method]
	if err := only(q, "projectId", may); err != nil {
		return err
	}
	s.mu.Lock()
	b := s.boxes[name]
	s.mu.Unlock()
	if b == nil || q.Get("projectId") != Project {
		return &problem{http.StatusNotFound, "not_found", "Sandbox not found: " + name}
	}
	switch r.Method {
	case http.MethodGet:
		s.mu.Lock()
		x := b.present
		resume := q.Get("resume") == "true" && x.status != "running"
		s.mu.Unlock()
		if resume {
			var err error
			if x, err = s.begin(b); err != nil {
				return err
			}
		}
		return s.answerBox(w, b, x, resume)
	case http.MethodDelete:
		s.mu.Lock()
		b.present.orphans = q.Get("deleteOrphanSnapshots") == "true"
		if b.present.orphans {
			maps.DeleteFunc(s.snapshots, func(_, of string) bool { return of == name })
		}
		s.mu.Unlock()
		s.Delete(name)
		s.mu.Lock()
		defer s.mu.Unlock()
		return answer(w, map[string]any{"sandbox": s.describe(b)})
	case http.MethodPatch:
		var in struct {
			NetworkPolicy json.RawMessage `json:"networkPolicy"`
		}
		if err := take(r, &in); err != nil {
			return err
		}
		if err := checkPolicy(in.NetworkPolicy); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		b.policy = in.NetworkPolicy
		return answer(w, map[string]any{"sandbox": s.describe(b)})
	}
	return &problem{http.StatusMethodNotAllowed, "method_not_allowed", r.Method}
}

func (s *Server) inSession(w http.ResponseWriter, r *http.Request, id, call string) error {
	s.mu.Lock()
	x := s.sessions[id]
	status := ""
	if x != nil {
		status = x.status
	}
	cut := s.knobs.CutStreams
	s.mu.Unlock()
	if x == nil {
		return &problem{http.StatusNotFound, "not_found", "Session not found: " + id}
	}
	if status != "running" {
		return &problem{http.StatusGone, "sandbox_stopped", "Sandbox is stopped"}
	}
	if err := only(r.URL.Query(), "wait"); err != nil {
		return err
	}
	parts := strings.Split(call, "/")
	switch {
	case r.Method == http.MethodPost && call == "stop":
		s.stop(x)
		s.mu.Lock()
		defer s.mu.Unlock()
		return answer(w, map[string]any{"session": s.describeSession(x)})
	case r.Method == http.MethodPost && call == "extend-timeout":
		return s.extend(w, r, x)
	case r.Method == http.MethodPost && call == "network-policy":
		b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil {
			err = checkPolicy(b)
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if box := s.boxes[x.box]; box != nil {
			box.policy = b
		}
		return answer(w, map[string]any{"session": s.describeSession(x)})
	case r.Method == http.MethodPost && call == "fs/write":
		return write(w, r, x)
	case r.Method == http.MethodPost && call == "interactive":
		token := random("tok_")
		s.mu.Lock()
		s.pipes[token] = x
		s.mu.Unlock()
		return answer(w, map[string]string{"url": strings.Replace(s.http.URL, "http", "ws", 1) + "/interactive/" + x.id, "token": token})
	case r.Method == http.MethodPost && call == "cmd":
		return s.run(w, r, x, cut)
	case r.Method == http.MethodGet && parts[0] == "cmd" && len(parts) >= 2:
		s.mu.Lock()
		c := x.cmds[parts[1]]
		s.mu.Unlock()
		if c == nil {
			return &problem{http.StatusNotFound, "not_found", "Command not found"}
		}
		if len(parts) == 3 && parts[2] == "logs" {
			return c.stream(w, false, false)
		}
		if r.URL.Query().Get("wait") == "true" {
			<-c.done
		}
		return answer(w, map[string]any{"command": c.describe()})
	}
	return &problem{http.StatusNotFound, "not_found", "no route " + r.Method + " " + call}
}

func (s *Server) extend(w http.ResponseWriter, r *http.Request, x *session) error {
	var in struct {
		Duration int64 `json:"duration"`
	}
	if err := take(r, &in); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	longer := x.timeout + time.Duration(in.Duration)*time.Millisecond
	if in.Duration < 1000 || longer > s.max {
		return bad("duration: the session may last %d at most", s.max.Milliseconds())
	}
	x.timeout = longer
	x.end.Reset(time.Until(x.started.Add(longer)))
	return answer(w, map[string]any{"session": s.describeSession(x)})
}

// write unpacks an archive as the sandbox's user, who may not write everywhere.
func write(w http.ResponseWriter, r *http.Request, x *session) error {
	dir := r.Header.Get("X-Cwd")
	if r.Header.Get("Content-Type") != "application/gzip" || !path.IsAbs(dir) {
		return bad("content type %q, x-cwd %q", r.Header.Get("Content-Type"), dir)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return bad("%v", err)
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return answer(w, struct{}{})
		}
		if err != nil {
			return bad("%v", err)
		}
		at := path.Join(dir, h.Name)
		if !strings.HasPrefix(at, "/tmp/") && !strings.HasPrefix(at, "/vercel/sandbox/") {
			return bad("open %s: permission denied", at)
		}
		f, err := os.OpenFile(filepath.Join(x.m.Root, at), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, os.FileMode(h.Mode))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, t)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

func (c *command) describe() any {
	v := map[string]any{"id": c.id, "name": "sh", "args": []string{}, "cwd": "/", "sessionId": "se", "exitCode": nil, "startedAt": time.Now().UnixMilli()}
	select {
	case <-c.done:
		v["exitCode"] = c.code
	default:
	}
	return v
}

func (s *Server) run(w http.ResponseWriter, r *http.Request, x *session, cut bool) error {
	var in struct {
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Cwd     string            `json:"cwd"`
		Env     map[string]string `json:"env"`
		Sudo    bool              `json:"sudo"`
		Wait    bool              `json:"wait"`
		Logs    bool              `json:"logs"`
		Timeout int64             `json:"timeout"`
	}
	if err := take(r, &in); err != nil {
		return err
	}
	if in.Command == "" || !in.Sudo {
		return bad("command %q", in.Command)
	}
	c := &command{id: random("cmd_"), done: make(chan struct{})}
	cmd := x.m.Command(context.Background(), append([]string{in.Command}, in.Args...), nil, in.Cwd)
	cmd.Stdout, cmd.Stderr = c, c
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return bad("%v", err)
	}
	s.mu.Lock()
	x.cmds[c.id] = c
	s.mu.Unlock()
	go func() { // ends with the program
		_ = cmd.Wait()
		c.code = cmd.ProcessState.ExitCode()
		close(c.done)
	}()
	if !in.Wait {
		return answer(w, map[string]any{"command": c.describe()})
	}
	return c.stream(w, cut, true)
}

// Write keeps what the program writes.
func (c *command) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = append(c.output, p...)
	return len(p), nil
}

// stream answers with lines of JSON: the command, what it wrote, and its end.
func (c *command) stream(w http.ResponseWriter, cut, ends bool) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	e := json.NewEncoder(w)
	if ends {
		_ = e.Encode(map[string]any{"command": map[string]any{"id": c.id, "exitCode": nil}})
		_ = http.NewResponseController(w).Flush()
	}
	if cut {
		return errLost
	}
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.output) > 0 {
		_ = e.Encode(map[string]string{"stream": "stdout", "data": string(c.output)})
	}
	if ends {
		return e.Encode(map[string]any{"command": c.describe()})
	}
	return nil
}

// interactive is a terminal over a WebSocket.
func (s *Server) interactive(w http.ResponseWriter, r *http.Request, id string) error {
	token := r.URL.Query().Get("token")
	s.mu.Lock()
	x := s.pipes[token]
	delete(s.pipes, token) // it opens one
	cut := s.knobs.CutAfter
	s.mu.Unlock()
	if x == nil || x.id != id || r.Header.Get("Authorization") != "" {
		return &problem{http.StatusUnauthorized, "unauthorized", "the token opens nothing"}
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return nil // it was answered
	}
	defer ws.Close()
	if cut > 0 {
		defer time.AfterFunc(cut, func() { _ = ws.NetConn().Close() }).Stop()
	}
	var start struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Env     []string `json:"env"`
		Cwd     string   `json:"cwd"`
		Cols    uint16   `json:"cols"`
		Rows    uint16   `json:"rows"`
	}
	if err := ws.ReadJSON(&start); err != nil || start.Type != "start" || start.Command == "" || start.Cols == 0 || start.Rows == 0 {
		_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "start first"), time.Now().Add(time.Second))
		return nil
	}
	cmd := x.m.Command(context.Background(), append([]string{start.Command}, start.Args...), start.Env, start.Cwd)
	cmd.SysProcAttr = nil
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: start.Cols, Rows: start.Rows})
	if err != nil {
		return nil
	}
	ended := make(chan struct{})
	go func() { // ends with the program
		defer close(ended)
		b := make([]byte, 32<<10)
		for {
			n, err := tty.Read(b)
			if n > 0 && ws.WriteMessage(websocket.BinaryMessage, b[:n]) != nil {
				return
			}
			if err != nil {
				err := cmd.Wait()
				code := 0
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					code = exit.ExitCode()
				}
				_ = ws.WriteJSON(map[string]any{"type": "exit", "code": code})
				_ = ws.Close()
				return
			}
		}
	}()
	for {
		kind, m, err := ws.ReadMessage()
		if err != nil {
			break
		}
		if kind == websocket.BinaryMessage {
			if _, err := tty.Write(m); err != nil {
				break
			}
		}
	}
	_ = hostedtest.KillGroup(cmd)
	_ = tty.Close()
	<-ended
	return nil
}
