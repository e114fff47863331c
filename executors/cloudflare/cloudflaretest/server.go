// Package cloudflaretest is a strict stand-in for our worker at Cloudflare and for the containers it begins, over real HTTP and WebSockets, with real
// processes. Its routes are those of executors/cloudflare/worker, and it refuses what that refuses: names that were used, leases that are too long,
// keys. A container ends with its lease and on demand, and nothing of it is left. In each container our program attends, as in the real one.
package cloudflaretest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/hosted/hostedtest"
	"github.com/parawork/parawork/guest/attend"
	"github.com/parawork/parawork/internal/sockpath"
)

// Knobs are what goes wrong.
type Knobs struct {
	LoseCreates int           // so many containers are begun whose beginning is not answered
	NoContainer bool          // a container is begun, and nothing ever attends in it
	CutAfter    time.Duration // each pipe is cut after this
	Version     int           // of the worker; 0 = this
	Down        bool
}

// Server is the stand-in.
type Server struct {
	http *httptest.Server
	dir  string
	key  string

	mu    sync.Mutex
	all   map[string]*container
	used  map[string]bool
	knobs Knobs
}

type container struct {
	name  string
	began time.Time
	ended time.Time
	lease *time.Timer
	until time.Time
	m     *hostedtest.Machine
	cmd   *exec.Cmd
	net   bool
}

// New starts a stand-in that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	hostedtest.Need(t)
	s := &Server{dir: t.TempDir(), key: random("key"), all: make(map[string]*container), used: make(map[string]bool)}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.Evict()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Dir is the folder with the disks of everything it runs.
func (s *Server) Dir() string { return s.dir }

// URL is the worker's address, and Key its key.
func (s *Server) URL() string { return s.http.URL }

// Key is the worker's key.
func (s *Server) Key() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key
}

// SetKey has it take another key alone.
func (s *Server) SetKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// Set changes what goes wrong.
func (s *Server) Set(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = k
}

// Names are the names that are in use.
func (s *Server) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Internet reports whether a container reaches the internet.
func (s *Server) Internet(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name] != nil && s.all[name].net
}

// Evict ends all containers, as Cloudflare does when it moves them.
func (s *Server) Evict() {
	s.mu.Lock()
	var all []*container
	for _, c := range s.all {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		s.end(c)
	}
}

// end ends a container; nothing of it is left.
func (s *Server) end(c *container) {
	s.mu.Lock()
	runs := c.ended.IsZero()
	if runs {
		c.ended = time.Now()
	}
	s.mu.Unlock()
	if runs {
		c.lease.Stop()
		c.m.Kill()
		_ = os.RemoveAll(c.m.Root)
	}
}

func random(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

type problem struct {
	status        int
	code, message string
}

func (p *problem) Error() string { return p.message }

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
		p = &problem{http.StatusInternalServerError, "internal", err.Error()}
	}
	answer(w, p.status, map[string]any{"error": map[string]string{"code": p.code, "message": p.message}})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func take(r *http.Request, into any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &problem{http.StatusBadRequest, "invalid", err.Error()}
	}
	return nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

const maxLease = 3600

func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	knobs := s.knobs
	s.mu.Unlock()
	if knobs.Down {
		return &problem{http.StatusInternalServerError, "", "Worker threw exception"}
	}
	if r.Header.Get("Authorization") != "Bearer "+s.Key() {
		return &problem{http.StatusUnauthorized, "unauthenticated", "the key is not taken"}
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	notFound := &problem{http.StatusNotFound, "not_found", "there is no such route"}
	if r.URL.Path == "/v1/about" && r.Method == http.MethodGet {
		answer(w, http.StatusOK, map[string]int{"version": max(1, knobs.Version)})
		return nil
	}
	if len(parts) < 2 || parts[0] != "v1" || parts[1] != "sandboxes" || len(parts) > 4 {
		return notFound
	}
	if len(parts) == 2 {
		switch r.Method {
		case http.MethodGet:
			s.list(w, r.URL.Query().Get("prefix"))
			return nil
		case http.MethodPost:
			return s.begin(w, r)
		}
		return notFound
	}
	s.mu.Lock()
	c := s.all[parts[2]]
	s.mu.Unlock()
	if c == nil {
		return &problem{http.StatusNotFound, "not_found", "there is no such sandbox"}
	}
	switch {
	case len(parts) == 3 && r.Method == http.MethodGet:
		answer(w, http.StatusOK, s.describe(c))
		return nil
	case len(parts) == 3 && r.Method == http.MethodDelete:
		s.end(c)
		s.mu.Lock()
		delete(s.all, c.name)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return nil
	case len(parts) == 4 && parts[3] == "lease" && r.Method == http.MethodPost:
		var in struct {
			Seconds int `json:"seconds"`
		}
		if err := take(r, &in); err != nil || in.Seconds < 1 || in.Seconds > maxLease {
			return &problem{http.StatusBadRequest, "invalid", fmt.Sprint("seconds must be 1 to ", maxLease)}
		}
		if s.over(c) {
			return &problem{http.StatusGone, "ended", "the container has ended, and all in it"}
		}
		s.mu.Lock()
		if until := time.Now().Add(time.Duration(in.Seconds) * time.Second); until.After(c.until) {
			c.until = until
			c.lease.Reset(time.Until(until))
		}
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return nil
	case len(parts) == 4 && parts[3] == "pipe" && websocket.IsWebSocketUpgrade(r):
		return s.pipe(w, r, c, knobs.CutAfter)
	}
	return notFound
}

func (s *Server) over(c *container) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !c.ended.IsZero()
}

func (s *Server) describe(c *container) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := map[string]any{"name": c.name, "state": "running", "began": c.began.UnixMilli(), "ended": 0}
	if !c.ended.IsZero() {
		v["state"], v["ended"] = "ended", c.ended.UnixMilli()
	}
	return v
}

func (s *Server) list(w http.ResponseWriter, prefix string) {
	s.mu.Lock()
	var all []*container
	for _, c := range s.all {
		if strings.HasPrefix(c.name, prefix) {
			all = append(all, c)
		}
	}
	s.mu.Unlock()
	out := []any{}
	for _, c := range all {
		out = append(out, s.describe(c))
	}
	answer(w, http.StatusOK, map[string]any{"sandboxes": out})
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Name     string `json:"name"`
		Secret   string `json:"secret"`
		Internet *bool  `json:"internet"`
		Lease    int    `json:"lease"`
	}
	if err := take(r, &in); err != nil {
		return err
	}
	if !nameForm.MatchString(in.Name) || len(in.Secret) < 32 || in.Internet == nil || in.Lease < 1 || in.Lease > maxLease {
		return &problem{http.StatusBadRequest, "invalid", "name, secret, internet and lease are required"}
	}
	s.mu.Lock()
	used, knobs := s.used[in.Name], s.knobs
	s.used[in.Name] = true
	s.mu.Unlock()
	if used {
		return &problem{http.StatusConflict, "already_exists", "a name is used once"}
	}
	m, err := hostedtest.Boot(filepath.Join(s.dir, in.Name), true)
	if err != nil {
		return err
	}
	c := &container{name: in.Name, began: time.Now(), until: time.Now().Add(time.Duration(in.Lease) * time.Second), m: m, net: *in.Internet}
	c.lease = time.AfterFunc(time.Until(c.until), func() { s.end(c) })
	if !knobs.NoContainer {
		program, err := hostedtest.GuestInside()
		if err != nil {
			return err
		}
		c.cmd = m.Command(context.Background(), []string{program, "attend", "--listen", "unix:" + socket}, []string{attend.SecretEnv + "=" + in.Secret}, "/")
		if err := c.cmd.Start(); err != nil {
			return err
		}
		go func() { _ = c.cmd.Wait() }() // ends with the container
	}
	s.mu.Lock()
	s.all[in.Name] = c
	lost := s.knobs.LoseCreates > 0
	if lost {
		s.knobs.LoseCreates--
	}
	s.mu.Unlock()
	if lost {
		return errLost
	}
	answer(w, http.StatusCreated, s.describe(c))
	return nil
}

// socket is in the place of the container's port: its network is its own.
const socket = "/run/attend.sock"

func (s *Server) pipe(w http.ResponseWriter, r *http.Request, c *container, cut time.Duration) error {
	if s.over(c) {
		return &problem{http.StatusGone, "ended", "the container has ended, and all in it"}
	}
	var conn net.Conn
	short, done, err := sockpath.Short(filepath.Join(c.m.Root, filepath.Dir(socket)), filepath.Base(socket))
	if err != nil {
		return err
	}
	defer done()
	for tries := 0; ; tries++ {
		if conn, err = net.Dial("unix", short); err == nil {
			break
		}
		if tries >= 200 {
			return &problem{http.StatusServiceUnavailable, "not_ready", "nothing attends in the container"}
		}
		time.Sleep(5 * time.Millisecond) // it has only just begun
	}
	defer conn.Close()
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return nil // it was answered
	}
	defer ws.Close()
	if cut > 0 {
		defer time.AfterFunc(cut, func() { _ = ws.NetConn().Close() }).Stop()
	}
	gone := make(chan struct{})
	go func() { // ends with the connection
		defer close(gone)
		b := make([]byte, 3000) // other borders than those of frames
		for {
			n, err := conn.Read(b)
			if n > 0 && ws.WriteMessage(websocket.BinaryMessage, b[:n]) != nil {
				return
			}
			if err != nil { // what goes the other way goes on until the client has left
				_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
				time.AfterFunc(time.Second, func() { _ = ws.Close() })
				return
			}
		}
	}()
	for {
		kind, m, err := ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			break
		}
		if _, err := conn.Write(m); err != nil {
			break
		}
	}
	_ = conn.Close()
	<-gone
	return nil
}
