package e2btest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/testing/onethread"
)

// Config of a server. Its zero value is a team on the Pro plan whose sandboxes reach no network.
type Config struct {
	Key         string     // "" = a new one
	Plan        Plan       // zero fields = those of Pro
	Templates   []Template // nil = base and parawork-base
	Domain      string     // named in answers, as clusters of one's own do; "" = null
	Old         bool       // the server knows only version 1 of its API
	HostNetwork bool       // sandboxes share this machine's network; else each has a loopback of its own and nothing more
	Show        []string   // files and folders of this machine that all sandboxes see at the same path, read-only
	Program     string     // what runs in sandboxes; "" = ./cmd, built here
	Dir         string     // where sandboxes' trees are made; "" = a new folder, removed at Close
	Skew        time.Duration
}

// Plan is what a team may do.
type Plan struct {
	MaxRun     time.Duration // of one run between two pauses; Pro: 24 h, Hobby: 1 h
	Concurrent int           // running at once; Pro: 100, Hobby: 20
	PerSecond  int           // creations; 0 = not limited, Pro: 5, Hobby: 1
	MaxCPUs    int           // of a template
	MaxMemory  int           // MiB
}

// Template is what sandboxes are made from.
type Template struct {
	Name     string // an alias; its id is made up
	Tags     []string
	CPUs     int
	MemoryMB int
	Show     []string // as Config.Show, in this template's sandboxes
	Foreign  bool     // another team's, not public
	Start    []string // a command each sandbox finds running, as root

	id    string
	layer string // folder whose contents are copied into each sandbox
}

// Server is a stand-in for E2B.
type Server struct {
	cfg        Config
	key        string
	dir        string
	ownDir     bool
	tree       *cgroup.Tree
	program    string
	launcher   *onethread.Launcher
	api, proxy *http.Server
	apiURL     string
	sandboxURL string

	mu        sync.Mutex
	skew      time.Duration // the service's clock, ahead of this machine's
	kicked    chan struct{} // the clock or an end has changed
	boxes     map[string]*sandbox
	templates []*Template
	builds    map[string]*build
	uploads   map[string]string // files for builds, by hash
	faults    []*Fault
	old       bool
	slow      time.Duration
	cuts      *cutting
	created   []time.Time
	requests  []Request
	starts    []Start
	buildFail string
	closed    bool
	traffic   atomic.Int64
	wg        sync.WaitGroup
	stop      chan struct{}
}

// New starts a server that lives as long as the test. It skips the test where sandboxes cannot be made on this machine.
func New(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := Open(cfg)
	if errors.Is(err, ErrNoSandboxes) {
		t.Skipf("no sandboxes of a stand-in for E2B can be made here: %v", err)
	}
	if err != nil {
		t.Fatalf("starting a stand-in for E2B: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Open starts a server outside of a test. Close it.
func Open(cfg Config) (*Server, error) {
	if err := probe(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, key: cfg.Key, dir: cfg.Dir, program: cfg.Program, old: cfg.Old, skew: cfg.Skew,
		kicked: make(chan struct{}, 1), boxes: map[string]*sandbox{}, builds: map[string]*build{}, uploads: map[string]string{}, stop: make(chan struct{})}
	if s.key == "" {
		s.key = "e2b_" + randomHex(20)
	}
	s.cfg.Plan = cfg.Plan.filled()
	if s.program == "" {
		p, err := buildProgram()
		if err != nil {
			return nil, err
		}
		s.program = p
	}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "e2b-")
		if err != nil {
			return nil, err
		}
		s.dir, s.ownDir = dir, true
	}
	if len(s.cfg.Templates) == 0 {
		s.cfg.Templates = []Template{{Name: "base", CPUs: 2, MemoryMB: 512}, {Name: "parawork-base", CPUs: 2, MemoryMB: 2048}}
	}
	for _, t := range s.cfg.Templates {
		t.id = "t" + randomID(19)
		s.templates = append(s.templates, &t)
	}
	tree, err := cgroup.Open("e2btest-" + filepath.Base(s.dir) + "-" + randomID(6))
	if err == nil && tree.Support().Freeze {
		s.tree = tree
	}
	s.launcher = onethread.New()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	quiet := log.New(io.Discard, "", 0)
	s.api = &http.Server{Handler: s.control(), Protocols: protocols, ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	s.proxy = &http.Server{Handler: http.HandlerFunc(s.serveProxy), Protocols: protocols, ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	for _, one := range []struct {
		srv *http.Server
		url *string
	}{{s.api, &s.apiURL}, {s.proxy, &s.sandboxURL}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.Close()
			return nil, err
		}
		*one.url = "http://" + l.Addr().String()
		s.wg.Go(func() { _ = one.srv.Serve(&meteredListener{l, &s.traffic}) })
	}
	s.wg.Go(s.keepTime)
	return s, nil
}

func (p Plan) filled() Plan {
	p.MaxRun = cmp.Or(p.MaxRun, 24*time.Hour)
	p.Concurrent = cmp.Or(p.Concurrent, 100)
	p.MaxCPUs = cmp.Or(p.MaxCPUs, 8)
	p.MaxMemory = cmp.Or(p.MaxMemory, 8192)
	return p
}

// APIURL is where the control plane answers.
func (s *Server) APIURL() string { return s.apiURL }

// SandboxURL is where sandboxes answer, each named by the headers E2b-Sandbox-Id and E2b-Sandbox-Port, or by the host.
func (s *Server) SandboxURL() string { return s.sandboxURL }

// Key is the API key of the team.
func (s *Server) Key() string { return s.key }

// Close ends every sandbox and the server.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.stop)
	all := slices.Collect(maps.Values(s.boxes))
	s.mu.Unlock()
	_ = s.api.Close()
	_ = s.proxy.Close()
	var wg sync.WaitGroup
	for _, b := range all {
		wg.Go(func() { s.end(b) })
	}
	wg.Wait()
	s.wg.Wait()
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.boxes)) // those that were being made
	s.mu.Unlock()
	for _, b := range left {
		s.end(b)
	}
	s.launcher.Close()
	if s.tree != nil {
		s.tree.Clear()
	}
	for _, dir := range s.uploads {
		_ = os.Remove(dir)
	}
	if s.ownDir {
		_ = os.RemoveAll(s.dir)
	}
}

// now is the service's own time.
func (s *Server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nowLocked()
}

func (s *Server) nowLocked() time.Time { return time.Now().Add(s.skew).UTC() }

// kick has keepTime look again.
func (s *Server) kick() {
	tasks.Wake(s.kicked)
}

// keepTime ends, or pauses, sandboxes whose time is up.
func (s *Server) keepTime() {
	for {
		s.mu.Lock()
		now := s.nowLocked()
		var due []*sandbox
		next := time.Hour
		for _, b := range s.boxes {
			if b.state != running || b.changing != "" {
				continue
			}
			if left := b.endAt.Sub(now); left > 0 {
				next = min(next, left)
				continue
			}
			due = append(due, b)
		}
		s.mu.Unlock()
		for _, b := range due {
			s.timeUp(b)
		}
		timer := time.NewTimer(next)
		select {
		case <-s.stop:
			timer.Stop()
			return
		case <-s.kicked:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// timeUp is what happens to a sandbox whose time is up.
func (s *Server) timeUp(b *sandbox) {
	if b.autoPause {
		_ = s.pause(b, b.autoPauseMemory)
		return
	}
	s.end(b)
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

const idLetters = "abcdefghijklmnopqrstuvwxyz0123456789"

func randomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = idLetters[int(b[i])%len(idLetters)]
	}
	return string(b)
}

// background is for what goes on although its caller has left.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}
