package e2b

import (
	"context"
	"net/netip"
	"strings"

	"github.com/parawork/parawork/executors"
)

// notPublic are addresses that are nobody's on the internet: no sandbox reaches them, whatever its rules say. The service denies most of
// them by itself; a server of one's own may not.
var notPublic = []string{"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"}

// everywhere is what names can be allowed in front of.
const everywhere = "0.0.0.0/0"

// rules are a network as E2B takes it: whether there is any, and what is allowed and denied. Names are matched by E2B with what a
// connection says of itself, the Host of HTTP or the SNI of TLS; a port behind a name cannot be told it.
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

// SetNetwork has a running sandbox reach what n says from now on. A sandbox that is not this executor's, or not known to it now, is none
// of its business: what it is started or found with comes from its Spec.
func (e *Executor) SetNetwork(ctx context.Context, sandboxID string, n executors.Network) error {
	s := e.known(sandboxID)
	if s == nil {
		return nil
	}
	return s.setNetwork(ctx, n)
}

func (s *sandbox) setNetwork(ctx context.Context, n executors.Network) error {
	s.mu.Lock()
	if s.paused {
		s.want = &n
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	a, err := s.e.account(ctx)
	if err != nil {
		return err
	}
	internet, egress := rules(n)
	if internet != nil { // the call that changes rules has no word for "none" but to deny all
		egress.DenyOut = []string{everywhere}
	}
	return inWords(a.plane.reach(ctx, s.record().Sandbox, nil, egress), a.set, 0, 0)
}
