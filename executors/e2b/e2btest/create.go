package e2btest

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest/envd"
)

// Network is what a sandbox reaches, as it was asked for.
type Network struct {
	AllowPublicTraffic *bool          `json:"allowPublicTraffic,omitempty"`
	AllowOut           []string       `json:"allowOut,omitempty"`
	DenyOut            []string       `json:"denyOut,omitempty"`
	EgressProxy        map[string]any `json:"egressProxy,omitempty"`
	MaskRequestHost    string         `json:"maskRequestHost,omitempty"`
	Rules              map[string]any `json:"rules,omitempty"`
}

type resumeMode struct {
	Enabled bool `json:"enabled"`
}

// newSandbox is the body of POST /v2/sandboxes.
type newSandbox struct {
	TemplateID          string            `json:"templateID"`
	Timeout             *int32            `json:"timeout"`
	AutoPause           bool              `json:"autoPause"`
	AutoPauseMemory     *bool             `json:"autoPauseMemory"`
	AutoResume          *resumeMode       `json:"autoResume"`
	AllowInternetAccess *bool             `json:"allow_internet_access"`
	Network             *Network          `json:"network"`
	Metadata            map[string]string `json:"metadata"`
	EnvVars             map[string]string `json:"envVars"`
	MCP                 map[string]any    `json:"mcp"`
	IAM                 map[string]any    `json:"iam"`
	VolumeMounts        []any             `json:"volumeMounts"`
}

// newSandboxV1 is the body of POST /sandboxes.
type newSandboxV1 struct {
	newSandbox
	Secure bool `json:"secure"`
}

// sandboxAnswer is what creating and connecting tell.
type sandboxAnswer struct {
	TemplateID  string  `json:"templateID"`
	SandboxID   string  `json:"sandboxID"`
	Alias       string  `json:"alias,omitempty"`
	ClientID    string  `json:"clientID"`
	EnvdVersion string  `json:"envdVersion"`
	Token       string  `json:"envdAccessToken,omitempty"`
	Traffic     *string `json:"trafficAccessToken"`
	Domain      *string `json:"domain"`
}

const clientID = "6532622b"

func (s *Server) describe(b *sandbox) sandboxAnswer {
	a := sandboxAnswer{TemplateID: b.template.id, SandboxID: b.id, Alias: b.template.Name, ClientID: clientID, EnvdVersion: envd.Version, Token: b.token}
	if b.traffic != "" {
		a.Traffic = &b.traffic
	}
	if s.cfg.Domain != "" {
		a.Domain = &s.cfg.Domain
	}
	return a
}

func (s *Server) createV2(c *call) error {
	var in newSandbox
	if err := c.decode(&in, false); err != nil {
		return err
	}
	return s.create(c, in, true, 300)
}

func (s *Server) createV1(c *call) error {
	var in newSandboxV1
	if err := c.decode(&in, false); err != nil {
		return err
	}
	return s.create(c, in.newSandbox, in.Secure, 15)
}

// timeout checks how long somebody wants a sandbox to live.
func (s *Server) timeout(n *int32, std int32, least int32) (time.Duration, error) {
	if n == nil {
		n = &std
	}
	d := time.Duration(*n) * time.Second
	switch {
	case *n < least:
		return 0, refuse(http.StatusBadRequest, "Timeout must be at least %d seconds", least)
	case d > s.cfg.Plan.MaxRun:
		return 0, refuse(http.StatusBadRequest, "Timeout cannot be greater than %s hours", hours(s.cfg.Plan.MaxRun))
	}
	return d, nil
}

func hours(d time.Duration) string { return strconv.FormatFloat(d.Hours(), 'g', 3, 64) }

func (s *Server) create(c *call, in newSandbox, secure bool, std int32) error {
	if in.TemplateID == "" {
		return invalid(`request body has an error: doesn't match schema: Error at "/templateID": property "templateID" is missing`)
	}
	t, err := s.findTemplate(in.TemplateID)
	if err != nil {
		return err
	}
	timeout, err := s.timeout(in.Timeout, std, 1)
	if err != nil {
		return err
	}
	memory := in.AutoPauseMemory == nil || *in.AutoPauseMemory
	switch {
	case !memory && !in.AutoPause:
		return refuse(http.StatusBadRequest, "autoPauseMemory needs autoPause")
	case !memory && in.AutoResume != nil && in.AutoResume.Enabled:
		return refuse(http.StatusBadRequest, "autoResume is not possible without memory")
	case len(in.MCP) > 0 || len(in.IAM) > 0 || len(in.VolumeMounts) > 0:
		return refuse(http.StatusForbidden, "this feature is not enabled for your team")
	}
	if in.Network != nil {
		if err := in.Network.check(secure); err != nil {
			return err
		}
	}
	for k := range in.EnvVars {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return refuse(http.StatusBadRequest, "invalid environment variable name %q", k)
		}
	}
	b := &sandbox{id: "i" + randomID(20), template: t, metadata: in.Metadata, envVars: in.EnvVars, secure: secure, timeout: timeout, autoPause: in.AutoPause,
		autoPauseMemory: memory, autoResume: in.AutoResume != nil && in.AutoResume.Enabled, network: in.Network, internet: in.AllowInternetAccess,
		state: running, changing: "created", conns: map[*joined]struct{}{}}
	if secure {
		b.token = "ea_" + randomHex(24)
	}
	if in.Network != nil && in.Network.AllowPublicTraffic != nil && !*in.Network.AllowPublicTraffic {
		b.traffic = "ta_" + randomHex(24)
	}
	if err := s.admit(c, b); err != nil {
		return err
	}
	ctx, cancel := background() // whoever asked may have left: it is made all the same
	defer cancel()
	m, err := s.boot(ctx, b)
	s.mu.Lock()
	b.changing = ""
	if err != nil {
		delete(s.boxes, b.id)
		s.mu.Unlock()
		s.clear(b)
		return &apiError{Code: http.StatusInternalServerError, Message: "Failed to place sandbox: " + err.Error(), ErrorCode: "sandbox_create_failed"}
	}
	b.machine = m
	b.startedAt = s.nowLocked()
	b.endAt = b.startedAt.Add(timeout)
	s.mu.Unlock()
	s.wg.Go(func() { s.guard(b, m) })
	s.kick()
	return c.answer(http.StatusCreated, s.describe(b))
}

// admit counts a sandbox among those of the team, when it may have one more.
func (s *Server) admit(c *call, b *sandbox) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return refuse(http.StatusServiceUnavailable, "the server is being stopped")
	}
	if n := s.cfg.Plan.PerSecond; n > 0 && c != nil {
		now := time.Now()
		for len(s.created) > 0 && now.Sub(s.created[0]) >= time.Second {
			s.created = s.created[1:]
		}
		if len(s.created) >= n {
			c.w.Header().Set("Retry-After", "1")
			c.w.Header().Set("RateLimit-Limit", strconv.Itoa(n))
			c.w.Header().Set("RateLimit-Remaining", "0")
			c.w.Header().Set("RateLimit-Reset", "1")
			return refuse(http.StatusTooManyRequests, "Rate limit exceeded")
		}
		s.created = append(s.created, now)
	}
	n := 0
	for _, other := range s.boxes {
		if other != b && other.occupies() {
			n++
		}
	}
	if n >= s.cfg.Plan.Concurrent {
		return refuse(http.StatusTooManyRequests, "you have reached the maximum number of concurrent E2B sandboxes (%d). If you need more, please contact us", s.cfg.Plan.Concurrent)
	}
	b.startedAt = s.nowLocked()
	b.endAt = b.startedAt.Add(time.Duration(math.MaxInt32) * time.Second) // its time begins when it runs
	s.boxes[b.id] = b
	return nil
}

// check refuses rules the service would not take.
func (n *Network) check(secure bool) error {
	if n.AllowPublicTraffic != nil && !*n.AllowPublicTraffic && !secure {
		return refuse(http.StatusBadRequest, "you can restrict public traffic only to secure sandboxes")
	}
	if len(n.EgressProxy) > 0 || len(n.Rules) > 0 {
		return refuse(http.StatusForbidden, "this feature is not enabled for your team")
	}
	all := false
	for _, d := range n.DenyOut {
		if !isAddress(d) {
			return refuse(http.StatusBadRequest, "invalid denied CIDR %s", d)
		}
		all = all || d == "0.0.0.0/0"
	}
	for _, a := range n.AllowOut {
		if isAddress(a) {
			continue
		}
		if !isDomain(a) {
			return refuse(http.StatusBadRequest, "invalid allowed domain %q", a)
		}
		if !all {
			return refuse(http.StatusBadRequest, "when specifying allowed domains in allow out, you must include '0.0.0.0/0' in deny out to block all other traffic")
		}
	}
	return nil
}

func isAddress(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

func isDomain(s string) bool {
	s = strings.TrimPrefix(s, "*.")
	if s == "" || len(s) > 253 || strings.ContainsAny(s, ":/*@ ") {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
		for _, r := range strings.ToLower(label) {
			if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
				return false
			}
		}
	}
	return true
}
