package e2btest

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// States of a sandbox, as the API says them.
const (
	running = "running"
	paused  = "paused"
)

// sandbox is one of the team's. The server's mu guards what changes.
type sandbox struct {
	id              string
	template        *Template
	metadata        map[string]string
	envVars         map[string]string
	secure          bool
	token, traffic  string
	timeout         time.Duration // it was made with
	autoPause       bool
	autoPauseMemory bool
	autoResume      bool

	network   *Network
	internet  *bool
	state     string
	changing  string // what is being done to it: created, paused, resumed, killed
	startedAt time.Time
	endAt     time.Time
	memory    bool // what was paused can go on where it was
	machine   *machine
	conns     map[*joined]struct{}
	stalled   chan struct{} // nil = bytes move; closed when they move again
}

// occupies reports whether it counts as one that runs.
func (b *sandbox) occupies() bool { return b.state == running || b.changing == "resumed" }

var sandboxID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)?$`)

// find returns the sandbox a path names.
func (s *Server) find(name string) (*sandbox, error) {
	if !sandboxID.MatchString(name) {
		return nil, refuse(http.StatusBadRequest, "Invalid sandbox ID")
	}
	name, _, _ = strings.Cut(name, "-")
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.boxes[name]
	if !ok || b.changing == "created" {
		return nil, missing(name)
	}
	return b, nil
}

func missing(id string) error {
	return refuse(http.StatusNotFound, "Sandbox %q doesn't exist or you don't have access to it", id)
}

// turn takes a sandbox from one state for doing something to it. The caller sets changing to "" again.
func (s *Server) turn(b *sandbox, from, doing string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boxes[b.id] != b {
		return missing(b.id)
	}
	if b.changing != "" {
		return refuse(http.StatusConflict, "sandbox is being %s", b.changing)
	}
	if from != "" && b.state != from {
		if b.state == paused {
			return refuse(http.StatusConflict, "sandbox '%s' is already paused", b.id)
		}
		return refuse(http.StatusConflict, "sandbox '%s' is already running", b.id)
	}
	b.changing = doing
	return nil
}

// pause suspends a sandbox: it cuts all connections and freezes the processes. Without memory they end, and the disk stays.
func (s *Server) pause(b *sandbox, memory bool) error {
	if err := s.turn(b, running, "paused"); err != nil {
		return err
	}
	s.cut(b)
	var err error
	s.mu.Lock()
	m := b.machine
	s.mu.Unlock()
	if memory {
		err = m.freeze(true)
	} else {
		m.kill()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.changing = ""
	if err != nil {
		return err
	}
	b.state, b.memory = paused, memory
	b.endAt = s.nowLocked()
	return nil
}

// resume lets a paused sandbox go on, in a new run.
func (s *Server) resume(b *sandbox, timeout time.Duration) error {
	if err := s.turn(b, paused, "resumed"); err != nil {
		return err
	}
	done := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.changing = ""
	}
	s.mu.Lock()
	n := 0
	for _, other := range s.boxes {
		if other != b && other.occupies() {
			n++
		}
	}
	limit, memory, m := s.cfg.Plan.Concurrent, b.memory, b.machine
	s.mu.Unlock()
	if n >= limit {
		done()
		return refuse(http.StatusTooManyRequests, "you have reached the maximum number of concurrent E2B sandboxes (%d). If you need more, please contact us", limit)
	}
	var err error
	if memory {
		err = m.freeze(false)
	} else {
		ctx, cancel := background()
		defer cancel()
		_ = os.RemoveAll(filepath.Join(s.dir, b.id, "root", "run"))
		_ = os.MkdirAll(filepath.Join(s.dir, b.id, "root", "run"), 0o755)
		m, err = s.boot(ctx, b)
	}
	if err != nil {
		done()
		return &apiError{Code: http.StatusInternalServerError, Message: "Failed to place sandbox: " + err.Error(), ErrorCode: "sandbox_create_failed"}
	}
	s.mu.Lock()
	b.changing, b.state = "", running
	b.startedAt = s.nowLocked()
	b.endAt = b.startedAt.Add(timeout)
	fresh := b.machine != m
	b.machine = m
	s.mu.Unlock()
	if fresh {
		s.wg.Go(func() { s.guard(b, m) })
	}
	s.kick()
	return nil
}

// guard notices that a machine has ended by itself: the sandbox is then gone.
func (s *Server) guard(b *sandbox, m *machine) {
	<-m.done
	s.mu.Lock()
	mine := s.boxes[b.id] == b && b.machine == m && b.changing == "" && b.state == running
	s.mu.Unlock()
	if mine {
		s.end(b)
	}
}

// end ends a sandbox for good, whatever it is doing.
func (s *Server) end(b *sandbox) {
	s.mu.Lock()
	if s.boxes[b.id] != b {
		s.mu.Unlock()
		return
	}
	b.changing = "killed"
	m := b.machine
	s.mu.Unlock()
	s.cut(b)
	if m != nil {
		m.kill()
	}
	s.clear(b)
	s.mu.Lock()
	delete(s.boxes, b.id)
	s.mu.Unlock()
}

// clear removes the files of a sandbox.
func (s *Server) clear(b *sandbox) {
	if m := b.machine; m != nil {
		<-m.done
	}
	_ = os.RemoveAll(filepath.Join(s.dir, b.id))
}
