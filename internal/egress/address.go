package egress

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// special are networks that net/netip counts as neither private nor loopback but that are not on the internet, and those through which IPv6
// embeds an IPv4 address (NAT64, 6to4, Teredo).
var special = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	"168.63.129.16/32") // a public address that on each Azure machine is its own host

// unicast is the allocated part of IPv6. All else is internal: NAT64 (64:ff9b::/96), embedded IPv4 (::/96, ::ffff:0:0:0/96), unique local,
// site local, discard, segment routing.
var unicast = netip.MustParsePrefix("2000::/3")

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, p := range all {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// Public reports whether ip is an address on the public internet.
func Public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.Is6() && !unicast.Contains(ip) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Exception is a network that may be reached although it is not public.
type Exception struct {
	Prefix netip.Prefix
	Port   uint16 // 0 = every port
}

// ParseException parses an address or a range, with or without a port: "10.0.0.0/8", "127.0.0.1:11434", "[::1]:11434".
func ParseException(s string) (Exception, error) {
	wrong := errors.New("must be an address or a range such as 10.0.0.0/8, with or without a port: 127.0.0.1:11434")
	if p, err := netip.ParsePrefix(s); err == nil {
		return Exception{Prefix: p.Masked()}, nil
	}
	rest, port := s, uint64(0)
	if i := strings.LastIndexByte(s, ':'); i >= 0 && (strings.HasSuffix(s[:i], "]") || strings.Count(s, ":") == 1) {
		var err error
		if port, err = strconv.ParseUint(s[i+1:], 10, 16); err != nil || port == 0 {
			return Exception{}, wrong
		}
		rest = s[:i]
	}
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		rest = strings.TrimSuffix(inner, "]")
	}
	if p, err := netip.ParsePrefix(rest); err == nil {
		return Exception{Prefix: p.Masked(), Port: uint16(port)}, nil
	}
	a, err := netip.ParseAddr(rest)
	if err != nil || a.Zone() != "" {
		return Exception{}, wrong
	}
	a = a.Unmap()
	return Exception{Prefix: netip.PrefixFrom(a, a.BitLen()), Port: uint16(port)}, nil
}

// Loopback returns the port of an exception that is one port of this machine's own loopback, 0 for any other.
func (e Exception) Loopback() int {
	if e.Prefix.IsSingleIP() && e.Prefix.Addr().IsLoopback() {
		return int(e.Port)
	}
	return 0
}

// Guard judges addresses right before they are dialed. The zero Guard allows the whole public internet.
type Guard struct {
	Allow []Exception
	// Own returns this machine's addresses, refused although some may be public, and although they are in an allowed range: allowing a
	// network does not mean the server in it. An exception for the address itself does. nil = not checked.
	Own func() []netip.Addr
}

// Check returns ErrRefused unless ap may be dialed.
func (g Guard) Check(ap netip.AddrPort) error {
	ip := ap.Addr().Unmap().WithZone("")
	to := netip.AddrPortFrom(ip, ap.Port())
	if g.Own != nil && slices.Contains(g.Own(), ip) {
		if !slices.ContainsFunc(g.Allow, func(e Exception) bool { return e.Prefix.IsSingleIP() && e.holds(to) }) {
			return ErrRefused
		}
		return nil
	}
	if !Public(ip) && !g.allows(to) {
		return ErrRefused
	}
	return nil
}

// allows reports whether an exception holds. Port 0 asks for the address alone.
func (g Guard) allows(ap netip.AddrPort) bool {
	return slices.ContainsFunc(g.Allow, func(e Exception) bool { return e.holds(ap) })
}

func (e Exception) holds(ap netip.AddrPort) bool {
	return e.Prefix.Contains(ap.Addr()) && (e.Port == 0 || ap.Port() == 0 || e.Port == ap.Port())
}

// Own returns this machine's addresses, looked up again every few seconds, because networks come and go. Safe for concurrent use.
type Own struct {
	mu    sync.Mutex
	addrs []netip.Addr
	at    time.Time
}

// ownFor is how long the list of addresses is cached.
const ownFor = 10 * time.Second

// Addrs returns the addresses.
func (o *Own) Addrs() []netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.at) < ownFor && o.addrs != nil {
		return o.addrs
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return o.addrs // what was known
	}
	out := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	o.addrs, o.at = out, time.Now()
	return out
}
