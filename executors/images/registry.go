package images

import (
	"context"
	"net"
	"net/netip"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// PublicRegistries returns a check that rejects registries in private networks, except those guard allows: the engine reaches them from this
// machine, bypassing every network policy. The engine itself reports a name without an address, because the engine may use a proxy. lookup
// finds addresses; nil = the system's.
func PublicRegistries(guard *egress.Guard, lookup func(ctx context.Context, host string) ([]netip.Addr, error)) func(ctx context.Context, registry string) error {
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return func(ctx context.Context, registry string) error {
		if registry == "" {
			return nil
		}
		host, port, err := net.SplitHostPort(registry)
		if err != nil {
			host, port = registry, "443"
		}
		ips, err := lookup(ctx, host)
		if err != nil {
			return nil
		}
		for _, ip := range ips {
			to, err := netip.ParseAddrPort(net.JoinHostPort(ip.Unmap().WithZone("").String(), port))
			if err == nil {
				err = guard.Check(to)
			}
			if err != nil {
				return fault.New(fault.Forbidden, "registry_not_allowed", "The registry %s is not on the public internet. Images from it may be used once an operator lists them in "+
					"sandboxing.docker.hostImages, or allows its address in outgoing.allow.", registry)
			}
		}
		return nil
	}
}
