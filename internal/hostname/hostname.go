// Package hostname normalizes host names for comparison, and matches them against lists. Each host has one form here: lower case, punycode,
// no trailing dot; an address in its canonical form, so that no octal, hexadecimal or short IPv4 and no zone passes for something else.
package hostname

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Max is the maximum length of a name in bytes.
const Max = 253

var errName = errors.New("is no valid host name")

// Normal normalizes host, a name or an address (IPv6 with or without brackets).
func Normal(host string) (string, error) {
	if host == "" || len(host) > 4*Max {
		return "", errName
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if a, err := netip.ParseAddr(inner); ok && err == nil && a.Zone() == "" && strings.Contains(inner, ":") {
			return a.Unmap().String(), nil
		}
		return "", errName
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", errName
		}
		return a.Unmap().String(), nil
	}
	name := strings.TrimSuffix(host, ".")
	if !ascii(name) {
		var err error
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return "", errName
		}
		name = strings.TrimSuffix(name, ".") // other scripts have dots of their own
	}
	name = strings.ToLower(name)
	if !plain(name) {
		return "", errName
	}
	return name, nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// plain reports whether a lower-case ASCII name is valid: labels of letters, digits, - and _ (used by services), the last of which is no
// number, because some programs take that for an IPv4 address.
func plain(name string) bool {
	if name == "" || len(name) > Max {
		return false
	}
	last := name
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
		last = label
	}
	return !number(last)
}

// number reports whether a label is a number as inet_aton reads it.
func number(label string) bool {
	if rest, hex := strings.CutPrefix(label, "0x"); hex {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// Split parses the "host:port" of a request, and normalizes the host.
func Split(hostport string) (host string, port int, err error) {
	i := strings.LastIndexByte(hostport, ':')
	if i < 0 || len(hostport) > 4*Max {
		return "", 0, errName
	}
	name := hostport[:i]
	if strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return "", 0, errName
	}
	if port, err = parsePort(hostport[i+1:]); err != nil {
		return "", 0, err
	}
	host, err = Normal(name)
	return host, port, err
}

func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return 0, errors.New("is no valid port")
	}
	return int(n), nil
}

// Join joins a normalized host and a port.
func Join(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// Pattern is one entry of a list: a name, an address, or "*.name" for all its subdomains, each with or without a port.
type Pattern struct {
	host string // after "*." where wild
	wild bool
	port int // 0 = the usual ones
}

// Parse parses an entry of a list.
func Parse(s string) (Pattern, error) {
	var p Pattern
	rest := strings.TrimSpace(s)
	if len(rest) > 4*Max {
		return p, fmt.Errorf("%.40q... is too long", s)
	}
	if strings.Contains(rest, "://") || strings.ContainsAny(rest, "/@?#") {
		return p, fmt.Errorf("%q: leave out all but the name of the host, such as example.com", s)
	}
	if rest == "*" {
		return p, errors.New(`"*" would be every host: set the mode to open instead`)
	}
	rest, p.wild = strings.CutPrefix(rest, "*.")
	name := rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && (strings.HasSuffix(rest[:i], "]") || strings.Count(rest, ":") == 1) {
		port, err := parsePort(rest[i+1:])
		if err != nil {
			return p, fmt.Errorf("%q: the port is a number from 1 to 65535", s)
		}
		name, p.port = rest[:i], port
	}
	host, err := Normal(name)
	if err != nil {
		return p, fmt.Errorf("%q is no name of a host such as example.com, *.example.com or example.com:8443", s)
	}
	_, noAddr := netip.ParseAddr(host)
	if p.wild && (noAddr == nil || !strings.Contains(host, ".")) {
		return p, fmt.Errorf("%q would be too many hosts: name at least two parts, such as *.example.com", s)
	}
	p.host = host
	return p, nil
}

// String returns the only form of the pattern.
func (p Pattern) String() string {
	s := p.host
	if p.port != 0 {
		s = Join(p.host, p.port)
	}
	if p.wild {
		s = "*." + s
	}
	return s
}

// Names reports whether the pattern matches a host, in the form Normal returns.
func (p Pattern) Names(host string) bool {
	if !p.wild {
		return host == p.host
	}
	_, noAddr := netip.ParseAddr(host)
	return noAddr != nil && strings.HasSuffix(host, "."+p.host)
}

// Covers reports whether the pattern matches every host that another one matches, whatever their ports.
func (p Pattern) Covers(q Pattern) bool {
	if !q.wild {
		return p.Names(q.host)
	}
	return p.wild && (p.host == q.host || p.Names(q.host))
}

// Port returns the only port the pattern matches, 0 = the usual ones.
func (p Pattern) Port() int { return p.port }
