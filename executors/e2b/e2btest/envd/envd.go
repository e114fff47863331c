// Package envd is the part of the fake of E2B that runs inside a sandbox: what the real service calls envd. It starts real processes and
// PTYs, serves files and answers in the protocol of the real one, in JSON: what the real one refuses, it refuses. It is strict beyond that
// in one point: a field it does not know is refused, where the real one would silently do something else than was meant.
//
// What it knows of the real one was read from its public source (github.com/e2b-dev/infra, packages/envd, as of August 2026).
package envd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Version is the envd this one claims to be.
const Version = "0.6.13"

// Descriptors that a sandbox's envd inherits: where it serves, and where connections to ports of the sandbox come in.
const (
	ServeFD = 3
	PortsFD = 4
)

// Limits of the stored log.
const (
	logEntries  = 4000
	logEntryMax = 4 << 10 // bytes
)

// Init is the body of POST /init, which only the orchestrator sends.
type Init struct {
	AccessToken    string            `json:"accessToken,omitempty"`
	EnvVars        map[string]string `json:"envVars,omitempty"`
	DefaultUser    string            `json:"defaultUser,omitempty"`
	DefaultWorkdir string            `json:"defaultWorkdir,omitempty"`
	OneUser        bool              `json:"oneUser,omitempty"` // of this fake: everybody is the user it runs as
	MemoryMB       int64             `json:"memoryMB,omitempty"`
	CPUCount       int               `json:"cpuCount,omitempty"`
}

// LogEntry is a line of envd's own log, which whoever has the API key can read.
type LogEntry struct {
	Timestamp time.Time         `json:"timestamp"`
	Level     string            `json:"level"`
	Message   string            `json:"message"`
	Fields    map[string]string `json:"fields"`
}

type server struct {
	mu       sync.Mutex
	init     Init
	inited   bool
	diskFull bool
	log      []LogEntry
	procs    map[uint32]*process
	over     map[uint32]*process // that ended in the last retainedFor
	watchers map[string]*watcher
	lastID   int
}

// Main serves until the process is ended. It is what the program of a sandbox calls.
func Main() error {
	l, err := net.FileListener(os.NewFile(ServeFD, "serve"))
	if err != nil {
		return fmt.Errorf("taking over the listener: %w", err)
	}
	ports, err := net.FileListener(os.NewFile(PortsFD, "ports"))
	if err != nil {
		return fmt.Errorf("taking over the listener of ports: %w", err)
	}
	go servePorts(ports)
	s := &server{procs: map[uint32]*process{}, over: map[uint32]*process{}, watchers: map[string]*watcher{}}
	handler := s.handler()
	if other, err := real(handler); err != nil {
		return err
	} else if other != nil {
		handler = other
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, IdleTimeout: 640 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}
	return srv.Serve(l)
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	s.processRoutes(mux)
	s.filesystemRoutes(mux)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /envs", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.envs()) })
	mux.HandleFunc("GET /files", s.download)
	mux.HandleFunc("POST /files", s.upload)
	mux.HandleFunc("POST /files/compose", s.compose)
	mux.HandleFunc("POST /init", s.handleInit)
	mux.HandleFunc("GET /fake/log", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.entries()) })
	mux.HandleFunc("POST /fake/disk", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.diskFull = r.URL.Query().Get("full") == "true"
		w.WriteHeader(http.StatusNoContent)
	})
	return s.authorized(mux)
}

// open are the calls that need no token here: health is public, files check a signature instead, and what only the orchestrator may say
// does not come through the proxy.
func open(r *http.Request) bool {
	switch r.Method + " " + r.URL.Path {
	case "GET /health", "GET /files", "POST /files", "POST /init", "GET /fake/log", "POST /fake/disk":
		return true
	}
	return false
}

func (s *server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := s.token(); want != "" && !open(r) && r.Header.Get("X-Access-Token") != want {
			jsonError(w, http.StatusUnauthorized, "unauthorized access, please provide a valid access token or method signing if supported")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.init.AccessToken
}

func (s *server) envs() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.init.EnvVars)
	if out == nil {
		out = map[string]string{}
	}
	return out
}

func (s *server) handleInit(w http.ResponseWriter, r *http.Request) {
	var in Init
	d := json.NewDecoder(io.LimitReader(r.Body, 16<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		jsonError(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inited && in.AccessToken != s.init.AccessToken {
		jsonError(w, http.StatusUnauthorized, "access token is already set")
		return
	}
	if in.EnvVars == nil {
		in.EnvVars = s.init.EnvVars
	}
	s.init, s.inited = in, true
	w.WriteHeader(http.StatusNoContent)
}

// note keeps a line in envd's own log.
func (s *server) note(message string, fields map[string]string) {
	for k, v := range fields {
		if len(v) > logEntryMax {
			fields[k] = v[:logEntryMax]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) >= logEntries {
		s.log = append(s.log[:0], s.log[logEntries/2:]...)
	}
	s.log = append(s.log, LogEntry{Timestamp: time.Now().UTC(), Level: "info", Message: message, Fields: fields})
}

func (s *server) entries() []LogEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]LogEntry{}, s.log...)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func jsonError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"code": status, "message": message})
}

// servePorts joins each connection with the port of the sandbox that its first two bytes name; a byte 1 answers that it is open.
func servePorts(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var head [2]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			var d net.Dialer
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			to, err := d.DialContext(ctx, "tcp", fmt.Sprintf("localhost:%d", int(head[0])<<8|int(head[1])))
			cancel()
			if err != nil {
				_, _ = c.Write([]byte{0})
				return
			}
			defer to.Close()
			if _, err := c.Write([]byte{1}); err != nil {
				return
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(to, c)
				closeWrite(to)
			}()
			_, _ = io.Copy(c, to)
			closeWrite(c)
			<-done
		}()
	}
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
}
