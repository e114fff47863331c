package e2btest

import (
	"net/http"
	"time"
)

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

// connect extends a running sandbox, and wakes a suspended one.
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
		return c.answer(http.StatusOK, s.describe(b))
	}
	if err := s.resume(b, d); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, s.describe(b))
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
	return c.answer(http.StatusCreated, s.describe(b))
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
