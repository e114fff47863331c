package hosted

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
)

// Private are addresses that are nobody's on the internet: no sandbox reaches them, where a service can deny that.
var Private = []string{"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"}

// Allowed are the names, and the addresses and ranges, that a network's list lets through, for services that take no port of a name. What is not
// public is left out.
func Allowed(n executors.Network) (names, addresses []string) {
	for _, line := range n.Allow {
		if p, err := netip.ParsePrefix(line); err == nil {
			if public(p.Addr()) {
				addresses = append(addresses, p.String())
			}
			continue
		}
		host := line
		if _, err := netip.ParseAddr(line); err != nil {
			if i := strings.LastIndexByte(line, ':'); i > 0 {
				host = strings.Trim(line[:i], "[]")
			}
		}
		if a, err := netip.ParseAddr(host); err == nil {
			if public(a) {
				addresses = append(addresses, a.String())
			}
		} else if host != "" {
			names = append(names, host)
		}
	}
	slices.Sort(names)
	slices.Sort(addresses)
	return slices.Compact(names), slices.Compact(addresses)
}

func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(a.Unmap())
}
