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

// pause has a sandbox stand still: all its connections are cut, its processes are frozen. Without memory they end, and the disk is kept.
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

func (s *Server) deleteSandbox(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	if err := s.turn(b, "", "killed"); err != nil {
		return err
	}
	s.end(b)
	return c.answer(http.StatusNoContent, nil)
}

// prolong sets when a sandbox ends, as far as its run may last. shorten = also to an earlier time.
func (s *Server) prolong(b *sandbox, d time.Duration, shorten bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boxes[b.id] != b || b.state != running {
		return missing(b.id)
	}
	if b.changing != "" {
		return refuse(http.StatusConflict, "sandbox is being %s", b.changing)
	}
	now := s.nowLocked()
	last := b.startedAt.Add(s.cfg.Plan.MaxRun)
	end := now.Add(d)
	if end.After(last) {
		if !now.Before(last) {
			return refuse(http.StatusBadRequest, "Max instance length exceeded")
		}
		end = last
	}
	if !shorten && end.Before(b.endAt) {
		return nil
	}
	b.endAt = end
	s.kick()
	return nil
}

func (s *Server) setTimeout(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	var in struct {
		Timeout *int32 `json:"timeout"`
	}
	if err := c.decode(&in, false); err != nil {
		return err
	}
	if in.Timeout == nil {
		return invalid(`request body has an error: doesn't match schema: Error at "/timeout": property "timeout" is missing`)
	}
	d, err := s.timeout(in.Timeout, 0, 0)
	if err != nil {
		return err
	}
	if err := s.prolong(b, d, true); err != nil {
		return err
	}
	return c.answer(http.StatusNoContent, nil)
}

func (s *Server) refresh(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	var in struct {
		Duration *int32 `json:"duration"`
	}
	if err := c.decode(&in, true); err != nil {
		return err
	}
	d := 15 * time.Second
	if in.Duration != nil {
		if *in.Duration < 0 || *in.Duration > 3600 {
			return invalid("request body has an error: number must be at most 3600")
		}
		d = max(d, time.Duration(*in.Duration)*time.Second)
	}
	if err := s.prolong(b, d, false); err != nil {
		return err
	}
	return c.answer(http.StatusNoContent, nil)
}

func (s *Server) pauseSandbox(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	var in struct {
		Memory *bool `json:"memory"`
	}
	if err := c.decode(&in, true); err != nil {
		return err
	}
	if err := s.pause(b, in.Memory == nil || *in.Memory); err != nil {
		return err
	}
	return c.answer(http.StatusNoContent, nil)
}

type connectRequest struct {
	Timeout *int32 `json:"timeout"`
	Memory  *bool  `json:"memory"`
}

func (s *Server) connectV2(c *call) error {
	var in connectRequest
	if err := c.decode(&in, true); err != nil {
		return err
	}
	return s.connect(c, in, 300)
}

func (s *Server) connectV1(c *call) error {
	var in connectRequest
	if err := c.decode(&in, false); err != nil {
		return err
	}
	if in.Timeout == nil {
		return invalid(`request body has an error: doesn't match schema: Error at "/timeout": property "timeout" is missing`)
	}
	return s.connect(c, in, 0)
}

// connect extends a sandbox that runs, and wakes one that stands still.
func (s *Server) connect(c *call, in connectRequest, std int32) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	d, err := s.timeout(in.Timeout, std, 1)
	if err != nil {
		return err
	}
	s.mu.Lock()
	state := b.state
	s.mu.Unlock()
	if state == running {
		if err := s.prolong(b, d, false); err != nil {
			return err
		}
		return c.answer(http.StatusOK, s.tell(b))
	}
	if err := s.resume(b, d); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, s.tell(b))
}

func (s *Server) resumeSandbox(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	var in struct {
		Timeout   *int32 `json:"timeout"`
		AutoPause *bool  `json:"autoPause"`
	}
	if err := c.decode(&in, true); err != nil {
		return err
	}
	d, err := s.timeout(in.Timeout, 15, 1)
	if err != nil {
		return err
	}
	if err := s.resume(b, d); err != nil {
		return err
	}
	if in.AutoPause != nil {
		s.mu.Lock()
		b.autoPause = *in.AutoPause
		s.mu.Unlock()
	}
	return c.answer(http.StatusCreated, s.tell(b))
}

func (s *Server) putNetwork(c *call) error {
	b, err := s.find(c.args[0])
	if err != nil {
		return err
	}
	var in struct {
		AllowOut            []string       `json:"allowOut"`
		DenyOut             []string       `json:"denyOut"`
		EgressProxy         map[string]any `json:"egressProxy"`
		Rules               map[string]any `json:"rules"`
		AllowInternetAccess *bool          `json:"allow_internet_access"`
	}
	if err := c.decode(&in, false); err != nil {
		return err
	}
	n := &Network{AllowOut: in.AllowOut, DenyOut: in.DenyOut, EgressProxy: in.EgressProxy, Rules: in.Rules}
	if err := n.check(b.secure); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boxes[b.id] != b || b.state != running {
		return missing(b.id)
	}
	if b.network != nil {
		n.AllowPublicTraffic = b.network.AllowPublicTraffic
	}
	b.network = n
	if in.AllowInternetAccess != nil {
		b.internet = in.AllowInternetAccess
	}
	return c.answer(http.StatusNoContent, nil)
}
