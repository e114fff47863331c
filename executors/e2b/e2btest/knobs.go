package e2btest

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is something that goes wrong.
type Fault struct {
	Match      string        // "POST /v2/sandboxes", with * for one element of a path; "" = every call of the control plane
	Sandboxes  bool          // it strikes requests to sandboxes instead
	Times      int           // how often; 0 = once, < 0 = until Heal
	Skip       int           // so many that match go well first
	Status     int           // what is answered; 0 with Lose or Delay
	RetryAfter int           // s; 0 = the header is not sent
	Message    string        // "" = what the service says with this status
	ErrorCode  string        // "" likewise
	Lose       bool          // the call is done and its answer lost; a request to a sandbox is not passed on at all
	Delay      time.Duration // the call waits so long before anything else
}

// Fail has calls go wrong from now on. Faults strike in the order they were asked for, one a call.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = cmp.Or(f.Times, 1)
	s.faults = append(s.faults, &f)
}

// LoseCreateAnswers makes the next n creations succeed without a response.
func (s *Server) LoseCreateAnswers(n int) {
	s.Fail(Fault{Match: "POST /v2/sandboxes", Times: n, Lose: true})
	s.Fail(Fault{Match: "POST /sandboxes", Times: n, Lose: true})
}

// Outage has everything answered with 503 until Heal.
func (s *Server) Outage() {
	s.Fail(Fault{Times: -1, Status: http.StatusServiceUnavailable})
	s.Fail(Fault{Times: -1, Status: http.StatusServiceUnavailable, Sandboxes: true})
}

// Heal ends all faults, cuts and slowness.
func (s *Server) Heal() {
	s.mu.Lock()
	s.faults, s.cuts, s.slow, s.buildFail = nil, nil, 0, ""
	var stalled []string
	for id, b := range s.boxes {
		if b.stalled != nil {
			stalled = append(stalled, id)
		}
	}
	s.mu.Unlock()
	for _, id := range stalled {
		s.Stall(id, false)
	}
}

// Slow has every call of the control plane wait first.
func (s *Server) Slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = d
}

// SetOld has the server know only version 1 of its API, or both.
func (s *Server) SetOld(old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = old
}

// SetKey gives the team another key: the old one is revoked.
func (s *Server) SetKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// SetPlan gives the team another plan.
func (s *Server) SetPlan(p Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Plan = p.filled()
}

func (f *Fault) header() map[string]string {
	if f == nil || f.RetryAfter == 0 {
		return nil
	}
	n := strconv.Itoa(f.RetryAfter)
	return map[string]string{"Retry-After": n, "RateLimit-Limit": "1", "RateLimit-Remaining": "0", "RateLimit-Reset": n}
}

func (f *Fault) hits(r *http.Request, proxy bool) bool {
	if f.Sandboxes != proxy {
		return false
	}
	if f.Match == "" {
		return true
	}
	method, pattern, ok := strings.Cut(f.Match, " ")
	if !ok {
		method, pattern = "", f.Match
	}
	fits, err := path.Match(pattern, r.URL.Path)
	return err == nil && fits && (method == "" || method == r.Method)
}

// struck returns the fault that strikes a call, and its refusal.
func (s *Server) struck(r *http.Request) (*Fault, error) {
	proxy := r.Context().Value(http.ServerContextKey) == s.proxy
	s.mu.Lock()
	slow := s.slow
	if proxy {
		slow = 0
	}
	var hit *Fault
	for i, f := range s.faults {
		if !f.hits(r, proxy) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		one := *f
		hit = &one
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		break
	}
	s.mu.Unlock()
	if hit != nil {
		slow += hit.Delay
	}
	if slow > 0 {
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		case <-s.stop:
		}
	}
	if hit == nil || hit.Status == 0 {
		return hit, nil
	}
	e := &apiError{Code: hit.Status, Message: hit.Message, ErrorCode: hit.ErrorCode}
	if e.Message == "" {
		switch hit.Status {
		case http.StatusTooManyRequests:
			e.Message = "Rate limit exceeded"
			if hit.RetryAfter == 0 {
				e.Message = "you have reached the maximum number of concurrent E2B sandboxes (" + strconv.Itoa(s.cfg.Plan.Concurrent) + ")"
			}
		case http.StatusServiceUnavailable:
			e.Message, e.ErrorCode = "Failed to place sandbox: no capacity is available right now", "sandbox_capacity_unavailable"
		case http.StatusGatewayTimeout:
			e.Message, e.ErrorCode = "Failed to place sandbox: timed out", "sandbox_placement_timeout"
		default:
			e.Message, e.ErrorCode = "something went wrong", "internal_server_error"
		}
	}
	if hit.ErrorCode != "" {
		e.ErrorCode = hit.ErrorCode
	}
	return hit, e
}

// cutting is how streams to sandboxes are cut at random.
type cutting struct {
	id       string
	from, to int64
	left     int
	rand     *rand.Rand
}

// budget is how many bytes the next stream may carry. The server's mu is held.
func (c *cutting) budget(id string) int64 {
	if c == nil || c.left == 0 || c.id != "" && c.id != id {
		return -1
	}
	if c.left > 0 {
		c.left--
	}
	return c.from + c.rand.Int64N(c.to-c.from+1)
}

// Cuts says how streams are cut.
type Cuts struct {
	Sandbox  string // "" = all
	From, To int64  // each request is cut after a number of bytes, in both directions together, between these
	Times    int    // how many; 0 = all until Heal
	Seed     uint64
}

// CutStreams cuts the requests that are on their way to a sandbox now ("" = to all), at once.
func (s *Server) CutStreams(id string) {
	s.mu.Lock()
	var all []*sandbox
	for _, b := range s.boxes {
		if id == "" || b.id == id {
			all = append(all, b)
		}
	}
	s.mu.Unlock()
	for _, b := range all {
		s.cut(b)
	}
}

// CutAtRandom has each new request to sandboxes cut after some bytes.
func (s *Server) CutAtRandom(c Cuts) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], c.Seed)
	left := cmp.Or(c.Times, -1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts = &cutting{id: c.Sandbox, from: c.From, to: max(c.From, c.To), left: left, rand: rand.New(rand.NewChaCha8(seed))}
}

// Stall has no byte move to or from a sandbox any more, while its connections stay open; or lets them move again.
func (s *Server) Stall(id string, still bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.boxes[id]
	if !ok || still == (b.stalled != nil) {
		return
	}
	if still {
		b.stalled = make(chan struct{})
		return
	}
	close(b.stalled)
	b.stalled = nil
}

// Crash has a sandbox end without a word, as a machine that dies.
func (s *Server) Crash(id string) {
	if b := s.box(id); b != nil {
		s.end(b)
	}
}

// Expire has the time of a sandbox be up now.
func (s *Server) Expire(id string) {
	if b := s.box(id); b != nil {
		s.mu.Lock()
		b.endAt = s.nowLocked()
		s.mu.Unlock()
		s.timeUp(b)
	}
}

// Pause pauses a sandbox as somebody else with the key would.
func (s *Server) Pause(id string) error {
	b := s.box(id)
	if b == nil {
		return missing(id)
	}
	return s.pause(b, true)
}

// FillDisk has a sandbox's disk be full for what is uploaded, or not any more.
func (s *Server) FillDisk(id string, full bool) error {
	b := s.box(id)
	if b == nil {
		return missing(id)
	}
	ctx, cancel := background()
	defer cancel()
	res, err := b.machine.call(ctx, http.MethodPost, "/fake/disk?full="+strconv.FormatBool(full), nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func (s *Server) box(id string) *sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxes[id]
}

// Advance moves the service's clock. What is due is done before it returns.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	s.skew += d
	now := s.nowLocked()
	var due []*sandbox
	for _, b := range s.boxes {
		if b.state == running && b.changing == "" && !b.endAt.After(now) {
			due = append(due, b)
		}
	}
	s.mu.Unlock()
	for _, b := range due {
		s.timeUp(b)
	}
	s.kick()
}

// Sandbox is one as tests see it.
type Sandbox struct {
	ID        string
	Template  string
	State     string // running or paused
	Metadata  map[string]string
	EnvVars   map[string]string
	StartedAt time.Time
	EndAt     time.Time
	Secure    bool
	AutoPause bool
	Network   *Network
	Internet  *bool
	Root      string // the folder on this machine that it sees as /
}

// All returns every sandbox there is, paused ones too, by id.
func (s *Server) All() []Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Sandbox
	for _, id := range slices.Sorted(maps.Keys(s.boxes)) {
		b := s.boxes[id]
		out = append(out, Sandbox{ID: id, Template: b.template.Name, State: b.state, Metadata: maps.Clone(b.metadata), EnvVars: maps.Clone(b.envVars),
			StartedAt: b.startedAt, EndAt: b.endAt, Secure: b.secure, AutoPause: b.autoPause, Network: b.network, Internet: b.internet,
			Root: path.Join(s.dir, id, "root")})
	}
	return out
}

// Alive returns the sandboxes that cost money now: at the end of a test there must be none.
func (s *Server) Alive() []Sandbox {
	return slices.DeleteFunc(s.All(), func(b Sandbox) bool { return b.State != running })
}

// Requests returns what the server was sent, the oldest first. Of many thousands the older ones are forgotten.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Start is a process somebody started in a sandbox. All of it is in the service's log.
type Start struct {
	Sandbox string
	User    string
	Cmd     string
	Args    []string
	Envs    map[string]string
	Cwd     string
	Tag     string
}

// Starts returns the processes that were started through the proxy: no secret may be in any of them.
func (s *Server) Starts() []Start {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.starts)
}

func (s *Server) recordStart(id string, r *http.Request, body []byte) {
	if len(body) < 5 {
		return
	}
	var in struct {
		Process struct {
			Cmd  string
			Args []string
			Envs map[string]string
			Cwd  string
		}
		Tag string
	}
	if json.Unmarshal(body[5:], &in) != nil {
		return
	}
	user, _, _ := r.BasicAuth()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, Start{id, user, in.Process.Cmd, in.Process.Args, in.Process.Envs, in.Process.Cwd, in.Tag})
}
