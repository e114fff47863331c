package fromconfig

import (
	"net"
	"net/netip"
	"strings"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/server/rest"
)

// CallRates are the limits of config.json as the server takes them.
func CallRates(r config.RateLimits) map[rest.Cost]rest.Rate {
	out := map[rest.Cost]rest.Rate{}
	if r.Enabled {
		for name, rate := range r.ByName() {
			out[rest.Cost(name)] = rest.Rate{User: rate.User, Team: rate.Team}
		}
	}
	return out
}

// LoopbackOnly reports whether an address to listen on is this machine's alone.
func LoopbackOnly(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
