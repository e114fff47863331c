package gate

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/hostname"
	"github.com/parawork/parawork/internal/proxycopy"
)

// reach connects to a host, or returns why not: refused where it is not allowed, which it reports.
func (b *box) reach(ctx context.Context, host string, port int) (proxycopy.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.g.cfg.DialIn)
	defer cancel()
	why := b.judge(ctx, host, port)
	if why == "" {
		conn, err := b.dial(ctx, host, port)
		if err == nil {
			b.reached(host, port)
			return conn, nil
		}
		r, is := errors.AsType[refused](err)
		if !is {
			return nil, err
		}
		why = r.Reason
	}
	b.refuse(host, port, why)
	return nil, refused{b.refusal(host, port, why)}
}

// dial connects to a host whose name is allowed.
func (b *box) dial(ctx context.Context, host string, port int) (proxycopy.Conn, error) {
	proxy, err := b.upstream("https", host, port)
	if err != nil {
		return nil, err
	}
	addrs, err := b.addresses(ctx, host, port)
	if proxy != nil {
		if inside(err) {
			return nil, err
		}
		return throughProxy(ctx, proxy, hostname.Join(host, port))
	}
	if err != nil {
		return nil, err
	}
	return b.race(ctx, addrs)
}

// upstream returns the server's own proxy for a host, nil where there is none.
func (b *box) upstream(scheme, host string, port int) (*url.URL, error) {
	if b.g.cfg.Upstream == nil {
		return nil, nil
	}
	proxy, err := b.g.cfg.Upstream(&url.URL{Scheme: scheme, Host: hostname.Join(host, port)})
	if err != nil {
		return nil, &upstreamError{cause: err}
	}
	return proxy, nil
}

// inside reports whether the addresses of a host are known to be internal. A proxy resolves names itself, and often only the proxy can; but
// the gate does not ask the proxy for internal addresses.
func inside(err error) bool {
	r, is := errors.AsType[refused](err)
	return is && r.Reason == executors.PrivateAddress
}

// addresses resolves a host and drops addresses that may not be dialed.
func (b *box) addresses(ctx context.Context, host string, port int) ([]netip.AddrPort, error) {
	var found []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		found = []netip.Addr{ip}
	} else if found, err = b.lookUp(ctx, host); err != nil || len(found) == 0 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, refused{b.refusal(host, port, executors.Unresolved)}
	}
	var out []netip.AddrPort
	for _, ip := range found {
		ap := netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(port))
		if b.g.guard.Check(ap) == nil {
			out = append(out, ap)
		}
	}
	if len(out) == 0 {
		return nil, refused{b.refusal(host, port, executors.PrivateAddress)}
	}
	return out, nil
}

// lookUpIn is how long a name server may take.
const lookUpIn = 10 * time.Second

// lookUp resolves a name, with a limit on concurrent lookups.
func (b *box) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	for _, turns := range []chan struct{}{b.lookups, b.g.lookups} {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpIn)
	defer cancel()
	return b.g.cfg.Resolve(ctx, name)
}

// resolve asks the system's resolver. A name with dots is absolute, not relative to one of the server's own domains.
func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// stagger is how long an address may take before the next one is tried in parallel.
const stagger = 250 * time.Millisecond

// maxAddrs limits how many addresses of a host are tried.
const maxAddrs = 16

// race dials the addresses in order, starting the next one when one fails or takes long, and returns the first connection made.
func (b *box) race(ctx context.Context, addrs []netip.AddrPort) (proxycopy.Conn, error) {
	addrs = alternate(addrs)
	addrs = addrs[:min(len(addrs), maxAddrs)]
	var dialing sync.WaitGroup
	defer dialing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		conn net.Conn
		err  error
	}
	ends := make(chan end)
	dial := func(to netip.AddrPort) {
		conn, err := b.g.cfg.Dial(ctx, to)
		select {
		case ends <- end{conn, err}:
		case <-ctx.Done(): // another was first
			if err == nil {
				_ = conn.Close()
			}
		}
	}
	next, running := 0, 0
	start := func() {
		to := addrs[next]
		next++
		running++
		dialing.Go(func() { dial(to) })
	}
	start()
	late := time.NewTimer(stagger)
	defer late.Stop()
	var first error
	for {
		select {
		case e := <-ends:
			running--
			if e.err == nil {
				conn, ok := e.conn.(proxycopy.Conn)
				if !ok {
					_ = e.conn.Close()
					return nil, errors.New("gate: a connection without two directions")
				}
				return conn, nil
			}
			first = cmp.Or(first, e.err)
			if next < len(addrs) {
				start()
				late.Reset(stagger)
			} else if running == 0 {
				return nil, first
			}
		case <-late.C:
			if next < len(addrs) {
				start()
				late.Reset(stagger)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// alternate interleaves the address families, beginning with that of the first address.
func alternate(addrs []netip.AddrPort) []netip.AddrPort {
	var same, other []netip.AddrPort
	for _, a := range addrs {
		if a.Addr().Is4() == addrs[0].Addr().Is4() {
			same = append(same, a)
		} else {
			other = append(other, a)
		}
	}
	out := make([]netip.AddrPort, 0, len(addrs))
	for i := range max(len(same), len(other)) {
		if i < len(same) {
			out = append(out, same[i])
		}
		if i < len(other) {
			out = append(out, other[i])
		}
	}
	return out
}
