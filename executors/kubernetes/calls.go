package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/guest/call"
	"github.com/parawork/parawork/guest/reversedial"
	"github.com/parawork/parawork/guest/seal"
)

// Where the settings name an address of this server, guests call it, and an exec only starts them: each exec is a connection through the API
// server and a kubelet, for as long as it lasts. A guest that does not call in time is reached by exec, and the place says why.

const (
	// sealWithin is how long the guest at the other end of a call may take to show that it is alive.
	sealWithin = 5 * time.Second
	// soonEnough is how long a guest that did not call in time is waited for from then on, until it calls.
	soonEnough = 50 * time.Millisecond
	// doubted is how long a guest is waited for in a cluster whose pods are known not to reach this server.
	doubted = 2 * time.Second
	// resolveWithin bounds asking for the addresses of a name.
	resolveWithin = 5 * time.Second
	maxAddresses  = 16
)

// calls are the ends at which a pod's guest calls.
type calls struct {
	pipes, ways *reversedial.Acceptor
	late        atomic.Bool // it did not call in time
}

func (k *calls) close() {
	k.pipes.Close()
	k.ways.Close()
}

// callsLocked returns where the sandbox's guest calls now; nil = it does not. s.mu is held.
func (s *sandbox) callsLocked() *calls {
	if s.rec.Calls == "" || s.rec.Paused || s.over != nil {
		return nil
	}
	if s.calls == nil {
		secret := call.Secret(s.token, s.rec.Calls)
		s.calls = &calls{pipes: reversedial.Open(nil, call.Of(secret, call.Pipe)), ways: reversedial.Open(nil, call.Of(secret, call.WayOut))}
	}
	return s.calls
}

func (s *sandbox) callsNow() *calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callsLocked()
}

// awaited returns where the guest calls; errNoCall = it is reached by exec.
func (s *sandbox) awaited() (*calls, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch k := s.callsLocked(); {
	case k != nil:
		return k, nil
	case s.over != nil:
		return nil, s.over
	case s.rec.Paused: // its pod may still end: nothing is started in it
		return nil, errAsleep
	}
	return nil, errNoCall
}

// expect has calls come from one pod and from none before it; "" = from none.
func (s *sandbox) expect(uid string) error {
	s.mu.Lock()
	old := s.calls
	if s.rec.Calls == uid {
		old = nil
	} else {
		s.calls = nil
	}
	s.mu.Unlock()
	if old != nil {
		old.close()
	}
	return s.keep(func(r *record) { r.Calls = uid })
}

// Called takes over the connection of somebody who says to be a sandbox's guest.
func (e *Executor) Called(sandboxID, purpose string, accept func() (net.Conn, error)) bool {
	var k *calls
	s := e.known(sandboxID)
	if s != nil {
		k = s.callsNow()
	}
	if k == nil {
		return false
	}
	conn, err := accept()
	if err != nil {
		e.cfg.Log.Debug("a guest could not call", "sandbox_id", s.id, "error", err)
		return true // it was answered
	}
	at := k.pipes
	if call.Purpose(purpose) == call.WayOut {
		at = k.ways
	}
	if err := at.Take(conn); err != nil {
		e.cfg.Log.Info("who called is not the guest of this sandbox's pod", "sandbox_id", s.id, "error", err)
		return true
	}
	k.late.Store(false)
	e.mu.Lock()
	c := e.now
	e.mu.Unlock()
	if c != nil {
		c.noteCalls("")
	}
	return true
}

// noteCalls keeps why pods cannot call this server; "" = they can.
func (c *cluster) noteCalls(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uncalled = why
}

// errNoCall says that a guest is to be reached by exec.
var errNoCall = errors.New("the guest has not called")

// take takes a connection that the guest has opened, sealed. When none is there in time the error is errNoCall, and it is found out why.
func (s *sandbox) take(ctx context.Context, c *cluster, of func(*calls) *reversedial.Acceptor) (net.Conn, error) {
	k, err := s.awaited()
	if err != nil {
		return nil, err
	}
	within := s.e.cfg.CallIn
	c.mu.Lock()
	if c.uncalled != "" {
		within = min(within, doubted)
	}
	c.mu.Unlock()
	if k.late.Load() {
		within = soonEnough
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errNoCall)
	defer cancel()
	for {
		raw, err := s.awaitCall(ctx, c, of(k))
		if err == nil {
			conn, serr := s.sealCall(ctx, raw)
			if serr == nil {
				return conn, nil
			}
			s.e.cfg.Log.Debug("a guest's connection could not be used", "sandbox_id", s.id, "error", serr)
			_ = raw.Close() // it had been cut without a word, perhaps: another is there, or comes
			if ctx.Err() == nil {
				continue
			}
			err = context.Cause(ctx)
		}
		if errors.Is(err, errNoCall) && !k.late.Swap(true) {
			s.e.later(func(ctx context.Context) { s.recall(ctx, c) })
		}
		return nil, err
	}
}

// lookEvery is how often it is looked whether the pod whose guest is awaited is still there.
const lookEvery = time.Second

// awaitCall waits for a connection of the guest, as long as its pod runs.
func (s *sandbox) awaitCall(ctx context.Context, c *cluster, at *reversedial.Acceptor) (net.Conn, error) {
	for {
		wctx, cancel := context.WithTimeout(ctx, lookEvery)
		raw, err := at.Dial(wctx)
		cancel()
		if err == nil || errors.Is(err, reversedial.ErrClosed) {
			return raw, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if p, err := c.pod(ctx, s.record().Pod); isStatus(err, http.StatusNotFound) || err == nil && p.phase() == "ended" {
			return nil, errPodEnded
		}
	}
}

var errPodEnded = &problem{reason: GuestFailed, said: "its pod has ended"}

func (s *sandbox) sealCall(ctx context.Context, raw net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealWithin) // one that is there is not given up for the last second
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	sealed, err := seal.Client(raw, s.token)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &calledConn{Conn: raw, sealed: sealed, s: s}, nil
}

// calledConn is a sealed connection that a guest has opened.
type calledConn struct {
	net.Conn
	sealed io.ReadWriter
	s      *sandbox
}

func (c *calledConn) Read(b []byte) (int, error)  { return c.sealed.Read(b) }
func (c *calledConn) Write(b []byte) (int, error) { return c.sealed.Write(b) }
func (c *calledConn) cut(error)                   { _ = c.Conn.Close() }

// Close cuts it.
func (c *calledConn) Close() error {
	c.s.mu.Lock()
	delete(c.s.open, c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}

// recaller says why the guest cannot call, and tells it where the server is now.
const recaller = `f=` + callFile + `
cat $f` + `.said 2>/dev/null
IFS= read -r l && [ -n "$l" ] && printf '%s\n' "$l" >$f.part && mv $f.part $f
`

// recall finds out why a guest has not called, and tells it where this server is: its address may have changed.
func (s *sandbox) recall(ctx context.Context, c *cluster) {
	host, herr := c.host(ctx)
	if herr == nil {
		if instance, err := s.e.ourInstance(); err == nil {
			herr = c.callPolicy(ctx, instance, host)
		}
	}
	said := ""
	if st, err := s.e.exec(c, s.record().Pod, "/bin/sh", "-c", recaller); err == nil {
		defer st.Close()
		defer context.AfterFunc(ctx, func() { st.cut(context.Cause(ctx)) })()
		in, _ := json.Marshal(host)
		if herr != nil {
			in = nil
		}
		if _, err := st.Write(append(in, '\n')); err == nil {
			b, _ := io.ReadAll(io.LimitReader(st, maxSaid))
			said = line(string(b), 300)
		}
	}
	if k := s.callsNow(); ctx.Err() != nil || k == nil || !k.late.Load() {
		return // it has called meanwhile, or nobody waits for it any more
	}
	if herr != nil {
		said = line(herr.Error(), 300)
	}
	said = cmp.Or(said, "its guest does not say why")
	c.noteCalls("Pods do not reach this server at " + c.set.CallAddress + ": " + said)
	s.e.cfg.Log.WarnContext(ctx, "a guest does not call this server and is reached by exec", "sandbox_id", s.id, "address", c.set.CallAddress, "reason", said)
}

// host is where guests call. Pods may ask nobody for names, so it has addresses.
func (c *cluster) host(ctx context.Context) (call.Host, error) {
	h := call.Host{URL: c.set.CallAddress}
	u, err := url.Parse(c.set.CallAddress)
	if err != nil {
		return h, err
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	var found []netip.Addr
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		found = []netip.Addr{ip}
	} else {
		ctx, cancel := context.WithTimeout(ctx, resolveWithin)
		defer cancel()
		if found, err = net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname()); err != nil {
			return h, &problem{reason: Refused, said: "the address that pods call cannot be found: " + err.Error(), cause: err}
		}
	}
	for i := range found {
		found[i] = found[i].Unmap().WithZone("")
	}
	slices.SortFunc(found, func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), a.Compare(b)) // IPv4 first
	})
	found = slices.Compact(found)
	for _, a := range found[:min(len(found), maxAddresses)] {
		h.Addresses = append(h.Addresses, net.JoinHostPort(a.String(), port))
	}
	return h, nil
}

// callPolicyName is the policy of one instance that lets its pods call it. Policies add up.
func callPolicyName(instance string) string {
	return policyName + "-call-" + instance[:min(len(instance), 12)]
}

// allowCall is that policy.
func (c *cluster) allowCall(instance string, h call.Host) (policy, error) {
	p := policy{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy",
		Metadata: meta{Name: callPolicyName(instance), Namespace: c.set.Namespace, Labels: map[string]string{labelManaged: managedBy, labelInstance: instance}},
		Spec:     policySpec{PolicyTypes: []string{"Egress"}}}
	p.Spec.PodSelector.MatchLabels = map[string]string{labelManaged: managedBy}
	if c.set.WarmPool == "" { // pods of a pool have no instance yet
		p.Spec.PodSelector.MatchLabels[labelInstance] = instance
	}
	for _, at := range h.Addresses {
		ap, err := netip.ParseAddrPort(at)
		if err != nil {
			return p, err
		}
		p.Spec.Egress = append(p.Spec.Egress, egressRule{
			To:    []peer{{IPBlock: &ipBlock{netip.PrefixFrom(ap.Addr(), ap.Addr().BitLen()).String()}}},
			Ports: []policyPort{{Protocol: "TCP", Port: int(ap.Port())}}})
	}
	return p, nil
}

// callPolicy makes that policy, or makes it anew where addresses have changed. Without an address it removes it.
func (c *cluster) callPolicy(ctx context.Context, instance string, h call.Host) error {
	want, err := c.allowCall(instance, h)
	if err != nil || !c.set.NetworkPolicy {
		return err
	}
	var have policy
	err = c.do(ctx, ask{method: http.MethodGet, path: c.policies(want.Metadata.Name), out: &have})
	switch {
	case isStatus(err, http.StatusNotFound):
	case err != nil:
		return fmt.Errorf("seeing that pods reach this server: %w", err)
	case have.Metadata.Labels[labelInstance] != instance:
		return &problem{reason: Refused, said: "the NetworkPolicy " + want.Metadata.Name + " of the namespace is not this server's: remove it and it is made again"}
	case len(h.Addresses) > 0 && reflect.DeepEqual(have.Spec, want.Spec):
		return nil
	default:
		if err := c.delete(ctx, c.policies(want.Metadata.Name), have.Metadata.UID, 0); err != nil {
			return fmt.Errorf("changing what pods reach: %w", err)
		}
	}
	if len(h.Addresses) == 0 {
		return nil
	}
	if err := c.do(ctx, ask{method: http.MethodPost, path: c.policies(""), in: want}); err != nil && !isStatus(err, http.StatusConflict) {
		return fmt.Errorf("letting pods reach this server: %w", err)
	}
	return nil
}
