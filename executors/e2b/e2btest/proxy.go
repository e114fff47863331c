package e2btest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// proxyError is how the proxy refuses.
type proxyError struct {
	SandboxID string `json:"sandboxId,omitempty"`
	Message   string `json:"message"`
	Code      int    `json:"code"`
	Port      int    `json:"port,omitempty"`
}

// joined is one request that is passed on to a sandbox.
type joined struct {
	cancel  context.CancelFunc
	mu      sync.Mutex
	left    int64 // bytes until it is cut; < 0 = never
	stalled func() <-chan struct{}
	ctx     context.Context
}

// take says how many of n bytes may still pass.
func (j *joined) take(n int) (int, bool) {
	if c := j.stalled(); c != nil {
		select {
		case <-c:
		case <-j.ctx.Done():
			return 0, true
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left < 0 {
		return n, false
	}
	if int64(n) <= j.left {
		j.left -= int64(n)
		return n, false
	}
	n = int(j.left)
	j.left = 0
	j.cancel()
	return n, true
}

var errCut = errors.New("the stream was cut")

// counted is a body that is cut when its request is.
type counted struct {
	io.ReadCloser
	j    *joined
	keep *bytes.Buffer // nil = nothing is kept of it
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if n > 0 {
		var cut bool
		if n, cut = c.j.take(n); cut {
			return n, errCut
		}
		if c.keep != nil && c.keep.Len() < keptBody {
			c.keep.Write(b[:min(n, keptBody-c.keep.Len())])
		}
	}
	return n, err
}

var (
	label    = regexp.MustCompile(`^(\d+)-([a-z0-9]+)$`)
	hidden   = regexp.MustCompile(`^/(init|freeze|unfreeze|collapse|fsfreeze|fsthaw|upgrade)(/|$)|^/fake/`)
	maxPorts = 65535
)

// address finds out which sandbox and port a request means.
func address(r *http.Request) (id string, port int, err *proxyError) {
	host := r.Host
	if h, _, e := net.SplitHostPort(host); e == nil {
		host = h
	}
	host = strings.ToLower(host)
	_, ipErr := netip.ParseAddr(strings.Trim(host, "[]"))
	if ipErr == nil || host == "localhost" || strings.HasPrefix(host, "sandbox.") {
		for _, name := range []string{"E2b-Sandbox-Id", "E2b-Sandbox-Port"} {
			if r.Header.Get(name) == "" {
				return "", 0, &proxyError{Message: "missing header: " + name, Code: http.StatusBadRequest}
			}
		}
		id = r.Header.Get("E2b-Sandbox-Id")
		port, e := strconv.Atoi(r.Header.Get("E2b-Sandbox-Port"))
		if e != nil || port < 1 || port > maxPorts {
			return "", 0, &proxyError{Message: "Invalid sandbox port", Code: http.StatusBadRequest}
		}
		if !sandboxID.MatchString(id) {
			return "", 0, &proxyError{Message: "Invalid sandbox ID", Code: http.StatusBadRequest}
		}
		id, _, _ = strings.Cut(id, "-")
		return id, port, nil
	}
	first, _, ok := strings.Cut(host, ".")
	if !ok || !strings.Contains(first, "-") {
		return "", 0, &proxyError{Message: "Invalid host", Code: http.StatusBadRequest}
	}
	m := label.FindStringSubmatch(first)
	if m == nil {
		if _, e := strconv.Atoi(strings.SplitN(first, "-", 2)[0]); e != nil {
			return "", 0, &proxyError{Message: "Invalid sandbox port", Code: http.StatusBadRequest}
		}
		return "", 0, &proxyError{Message: "Invalid sandbox ID", Code: http.StatusBadRequest}
	}
	port, e := strconv.Atoi(m[1])
	if e != nil || port < 1 || port > maxPorts {
		return "", 0, &proxyError{Message: "Invalid sandbox port", Code: http.StatusBadRequest}
	}
	return m[2], port, nil
}

// serveProxy is what stands before all sandboxes.
func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request) {
	seen := &watched{ResponseWriter: w}
	id, port, refused := address(r)
	var kept *bytes.Buffer
	defer func() {
		var body []byte
		if kept != nil {
			body = kept.Bytes()
		}
		s.record("sandbox", r, body, id, seen.status)
	}()
	if refused != nil {
		sayProxy(seen, refused)
		return
	}
	switch fault, err := s.struck(r); {
	case err != nil:
		var e *apiError
		if errors.As(err, &e) {
			for k, v := range fault.header() {
				seen.Header().Set(k, v)
			}
			sayProxy(seen, &proxyError{SandboxID: id, Message: e.Message, Code: e.Code})
		}
		return
	case fault != nil && fault.Lose:
		panic(http.ErrAbortHandler)
	}
	b, m, refused := s.reach(id, port, r)
	if refused != nil {
		sayProxy(seen, refused)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	j := &joined{cancel: cancel, ctx: ctx, left: -1, stalled: func() <-chan struct{} {
		s.mu.Lock()
		defer s.mu.Unlock()
		return b.stalled
	}}
	s.mu.Lock()
	if s.boxes[id] != b || b.machine != m || b.state != running || b.changing != "" {
		s.mu.Unlock()
		sayProxy(seen, &proxyError{SandboxID: id, Message: "The sandbox was not found", Code: http.StatusBadGateway})
		return
	}
	j.left = s.cuts.budget(id)
	b.conns[j] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(b.conns, j)
	}()
	if port == envdPort && (r.URL.Path == "/process.Process/Start" || r.URL.Path == "/process.Process/Connect" || r.Header.Get("Content-Type") == "application/json") {
		kept = &bytes.Buffer{}
	}
	out := r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = &counted{ReadCloser: r.Body, j: j, keep: kept}
	}
	_ = http.NewResponseController(w).EnableFullDuplex()
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     m.transport(port),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: "sandbox"})
			p.Out.Host = p.In.Host
			p.Out.Header.Del("E2b-Traffic-Access-Token")
		},
		ModifyResponse: func(res *http.Response) error {
			if port == envdPort && r.URL.Path == "/process.Process/Start" {
				s.recordStart(id, r, kept.Bytes())
			}
			if res.StatusCode != http.StatusSwitchingProtocols {
				res.Body = &counted{ReadCloser: res.Body, j: j}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, errClosedPort) {
				sayProxy(w, &proxyError{SandboxID: id, Message: "The sandbox is running but port is not open", Code: http.StatusBadGateway, Port: port})
				return
			}
			panic(http.ErrAbortHandler) // it was cut
		},
		ErrorLog: s.proxy.ErrorLog,
	}
	proxy.ServeHTTP(seen, out)
}

func sayProxy(w http.ResponseWriter, e *proxyError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(e)
}

// reach finds the running machine of a sandbox, waking it where it was asked to wake by itself.
func (s *Server) reach(id string, port int, r *http.Request) (*sandbox, *machine, *proxyError) {
	gone := &proxyError{SandboxID: id, Message: "The sandbox was not found", Code: http.StatusBadGateway}
	s.mu.Lock()
	b, ok := s.boxes[id]
	if !ok || b.changing == "created" || b.changing == "killed" {
		s.mu.Unlock()
		return nil, nil, gone
	}
	state, changing, wakes, m := b.state, b.changing, b.autoResume && b.memory, b.machine
	s.mu.Unlock()
	if changing != "" {
		return nil, nil, &proxyError{SandboxID: id, Message: "The sandbox is still transitioning", Code: http.StatusConflict}
	}
	trusted := port == envdPort && (b.token == "" || r.Header.Get("X-Access-Token") == b.token) ||
		port != envdPort && (b.traffic == "" || r.Header.Get("E2b-Traffic-Access-Token") == b.traffic)
	if state == paused {
		switch {
		case !wakes:
			return nil, nil, gone
		case !trusted:
			return nil, nil, &proxyError{SandboxID: id, Message: "The sandbox can't be resumed with the credentials provided", Code: http.StatusForbidden}
		}
		if err := s.resume(b, min(max(b.timeout, 300e9), s.cfg.Plan.MaxRun)); err != nil {
			return nil, nil, &proxyError{SandboxID: id, Message: err.Error(), Code: http.StatusConflict}
		}
		s.mu.Lock()
		m = b.machine
		s.mu.Unlock()
	}
	if port == envdPort {
		if hidden.MatchString(r.URL.Path) {
			return nil, nil, &proxyError{SandboxID: id, Message: "Not found", Code: http.StatusNotFound}
		}
		return b, m, nil
	}
	if !trusted {
		return nil, nil, &proxyError{SandboxID: id, Message: "The traffic access token is missing or invalid", Code: http.StatusForbidden}
	}
	return b, m, nil
}

var errClosedPort = errors.New("the port is not open")

// transport leads to envd, or to a port of the sandbox.
func (m *machine) transport(port int) http.RoundTripper {
	if port == envdPort {
		return m.client.Transport
	}
	return &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", m.ports)
		if err != nil {
			return nil, err
		}
		head := []byte{byte(port >> 8), byte(port)}
		if _, err := c.Write(head); err != nil {
			_ = c.Close()
			return nil, err
		}
		if _, err := io.ReadFull(c, head[:1]); err != nil || head[0] != 1 {
			_ = c.Close()
			return nil, fmt.Errorf("%w: %d", errClosedPort, port)
		}
		return c, nil
	}}
}

// cut ends all requests that are on their way to a sandbox.
func (s *Server) cut(b *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j := range b.conns {
		j.cancel()
	}
}
