package e2b

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
)

// notPublic are addresses that are nobody's on the internet: no sandbox reaches them, whatever its rules say. The service denies most of
// them by itself; a server of one's own may not.
var notPublic = []string{"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"}

// everywhere is what names can be allowed in front of.
const everywhere = "0.0.0.0/0"

// rules are a network in E2B's form: whether there is any, and what is allowed and denied. E2B compares names with what a connection says
// about itself, the Host of HTTP or the SNI of TLS; E2B cannot restrict a name to a port.
func rules(n executors.Network) (internet *bool, e egress) {
	switch n.Mode {
	case executors.NetworkNone:
		no := false
		return &no, egress{}
	case executors.NetworkAllow:
		e.DenyOut = []string{everywhere}
		for _, line := range n.Allow {
			if host, ok := allowed(line); ok {
				e.AllowOut = append(e.AllowOut, host)
			}
		}
		return nil, e
	}
	return nil, egress{DenyOut: notPublic}
}

// allowed reads one line of a list: a name, perhaps with *. before it or a port behind it, or an address or a range. What is not public
// is left out.
func allowed(line string) (string, bool) {
	host := line
	if p, err := netip.ParsePrefix(line); err == nil {
		return line, public(p.Addr())
	}
	if a, err := netip.ParseAddr(line); err == nil {
		return line, public(a)
	}
	if i := strings.LastIndexByte(line, ':'); i > 0 {
		host = strings.Trim(line[:i], "[]")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return host, public(a)
	}
	return host, host != ""
}

func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(a.Unmap())
}

// NetworkChanged has a sandbox reach what n says from now on, also where that cannot be said to E2B at once: it is tried again until it is
// done, and before a sandbox that is paused goes on. A sandbox this process has nothing to do with is none of its business.
func (e *Executor) NetworkChanged(sandboxID string, n executors.Network) {
	s := e.known(sandboxID)
	if s == nil {
		return
	}
	s.mu.Lock()
	same := s.want == nil && s.reaches != nil && equal(*s.reaches, n)
	if !same {
		s.want = &n
	}
	paused := s.paused
	s.mu.Unlock()
	if same || paused {
		return
	}
	e.later(func(ctx context.Context) {
		for wait := time.Second; ; wait *= 2 {
			err := s.settleNetwork(ctx)
			if err == nil {
				return
			}
			e.cfg.Log.Warn("what a sandbox may reach could not be changed yet", "sandbox_id", sandboxID, "error", err)
			if sleep(ctx, wait) != nil {
				return // the next extension of its lease tries again
			}
		}
	})
}

func equal(a, b executors.Network) bool { return a.Mode == b.Mode && slices.Equal(a.Allow, b.Allow) }

// settleNetwork tells E2B what the sandbox is to reach, where that is news.
func (s *sandbox) settleNetwork(ctx context.Context) error {
	s.mu.Lock()
	want, paused := s.want, s.paused
	s.mu.Unlock()
	if want == nil || paused {
		return nil
	}
	a, err := s.e.account(ctx)
	if err != nil {
		return err
	}
	internet, egress := rules(*want)
	if internet != nil { // the call that changes rules knows no other "none"
		egress.DenyOut = []string{everywhere}
	}
	if err := a.plane.reach(ctx, s.record().Sandbox, egress); err != nil {
		return fmt.Errorf("setting what the sandbox reaches: %w", inWords(err, a.set, 0, 0))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reaches = want
	if s.want == want {
		s.want = nil
	}
	return nil
}

// setNetwork says so at once.
func (s *sandbox) setNetwork(ctx context.Context, n executors.Network) error {
	s.mu.Lock()
	s.want = &n
	s.mu.Unlock()
	return s.settleNetwork(ctx)
}
