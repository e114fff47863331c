package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

const (
	hookReadIn    = 5 * time.Second // a hook sends its event at once
	hookTakeIn    = 5 * time.Second // and takes its answer at once
	keptHooks     = 256             // calls retained for a disconnected host
	keptHookBytes = 2 << 20         // of them
	hookBurst     = 200             // calls at once, and per second
)

// hooks accepts events of agents' hooks on a separate socket, and retains them for the host. A hook may wait for an answer: as
// long as it lives, whether the host is connected or not.
type hooks struct {
	d *Daemon
	l net.Listener // nil: none could be opened

	mu      sync.Mutex
	waiting map[string]*hookCall
	kept    []keptRecord // the newest records, oldest first
	bytes   int          // in kept
	taken   []*hookCall  // the last answered ones: a host that was cut off asks again
	seq     uint64       // of the newest record
	given   uint64       // the newest record a host received
	changed chan struct{}
	conns   int

	tokensLeft float64 // of the rate limit
	tokensAt   time.Time
}

type keptRecord struct {
	seq uint64
	raw []byte // a guest.HookRecord
}

// hookCall is a hook that waits.
type hookCall struct {
	guest.HookCall
	raw    []byte
	answer chan []byte // takes one answer, nil for no decision
	given  bool        // guarded by hooks.mu: out is its answer
	out    []byte
	taken  chan struct{} // closed when the hook has read it
	gone   chan struct{} // closed when it no longer waits
}

// newHooks opens the socket.
func newHooks(d *Daemon) *hooks {
	return &hooks{d: d, l: d.tokens.listen("hooks"), waiting: map[string]*hookCall{}, changed: make(chan struct{}), tokensLeft: hookBurst, tokensAt: d.cfg.Now()}
}

// address is the path of the socket, "" where there is none.
func (h *hooks) address() string {
	if h.l == nil {
		return ""
	}
	return h.l.Addr().String()
}

// serve accepts hooks until close.
func (h *hooks) serve() {
	if h.l == nil {
		return
	}
	for {
		conn, err := h.l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			h.d.cfg.Log.Warn("hook not accepted", "error", err)
			time.Sleep(50 * time.Millisecond) // out of descriptors: others may be closed
			continue
		}
		if !h.enter() {
			_ = conn.Close() // no decision
			continue
		}
		h.d.work.Go(func() {
			defer h.leave()
			defer conn.Close()
			h.take(conn)
		})
	}
}

func (h *hooks) close() {
	if h.l != nil {
		_ = h.l.Close()
	}
}

// enter limits connections: not too many at once, not too many a second.
func (h *hooks) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.d.cfg.Now()
	h.tokensLeft = min(hookBurst, h.tokensLeft+now.Sub(h.tokensAt).Seconds()*hookBurst)
	h.tokensAt = now
	if h.tokensLeft < 1 || h.conns >= 2*guest.MaxHooksOpen {
		return false
	}
	h.tokensLeft--
	h.conns++
	return true
}

func (h *hooks) leave() {
	h.mu.Lock()
	h.conns--
	h.mu.Unlock()
}

// forget ends the waiting hooks of an ended process, whose token is no longer valid.
func (h *hooks) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.waiting {
		if c.Process == id {
			c.give(nil)
		}
	}
}

// take reads one hook's event, and sends it its answer when it waits for one.
func (h *hooks) take(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(hookReadIn))
	var req guest.HookRequest
	if err := json.NewDecoder(io.LimitReader(conn, guest.MaxHookEvent)).Decode(&req); err != nil {
		return
	}
	if len(req.Agent) > 64 || len(req.Event) == 0 || bytes.TrimSpace(req.Event)[0] != '{' {
		return
	}
	c := h.call(req)
	if c == nil || !req.Waits {
		return
	}
	defer h.end(c)
	_ = conn.SetDeadline(time.Time{})
	// The hook sends nothing more except that it has passed on its answer; otherwise it has left.
	said := make(chan bool, 1)
	go func() { // ends with the connection
		n, _ := conn.Read(make([]byte, 1))
		said <- n == 1
		close(said)
	}()
	select {
	case out := <-c.answer:
		_ = conn.SetDeadline(time.Now().Add(hookTakeIn))
		if _, err := conn.Write(out); err == nil && conn.(*net.UnixConn).CloseWrite() == nil && <-said {
			close(c.taken)
			return
		}
	case <-said:
		return
	case <-h.d.over:
	}
	_ = conn.Close()
	<-said
}

// call records a hook; nil for a rejected one.
func (h *hooks) call(req guest.HookRequest) *hookCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	process, ok := h.d.tokens.process(req.Token) // under mu: forget finds what was admitted
	if !ok {
		return nil
	}
	if req.Waits && len(h.waiting) >= guest.MaxHooksOpen {
		return nil
	}
	c := &hookCall{HookCall: guest.HookCall{Seq: h.seq + 1, ID: "hook_" + rand.Text(), Process: process, Agent: req.Agent, Waits: req.Waits, At: req.At, Event: req.Event},
		answer: make(chan []byte, 1), taken: make(chan struct{}), gone: make(chan struct{})}
	raw, err := json.Marshal(guest.HookRecord{Call: &c.HookCall})
	if err != nil {
		return nil
	}
	c.raw = raw
	h.keep(raw)
	if req.Waits {
		h.waiting[c.ID] = c
	}
	return c
}

// end records that a hook no longer waits.
func (h *hooks) end(c *hookCall) {
	defer close(c.gone)
	raw, err := json.Marshal(guest.HookRecord{Ended: c.ID})
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, c.ID)
	c.raw, c.Event = nil, nil
	if c.given {
		if h.taken = append(h.taken, c); len(h.taken) > guest.MaxHooksOpen {
			h.taken = h.taken[1:]
		}
	}
	h.keep(raw)
}

// keep retains a record for the host. The caller holds mu.
func (h *hooks) keep(raw []byte) {
	h.seq++
	h.kept = append(h.kept, keptRecord{h.seq, raw})
	h.bytes += len(raw)
	for len(h.kept) > 1 && (len(h.kept) > keptHooks || h.bytes > keptHookBytes) {
		h.bytes -= len(h.kept[0].raw)
		h.kept[0].raw = nil
		h.kept = h.kept[1:]
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// follow sends the host every record after since, beginning with the calls that wait now. 0 begins after what any host has
// received.
func (h *hooks) follow(ctx context.Context, since uint64, send func(raw []byte) error) error {
	h.mu.Lock()
	if since == 0 || since > h.seq {
		since = h.given
	}
	begin := make([][]byte, 0, len(h.waiting)+1)
	for _, c := range h.waiting {
		begin = append(begin, c.raw)
	}
	h.mu.Unlock()
	synced, err := json.Marshal(guest.HookRecord{Synced: true})
	if err != nil {
		return err
	}
	for _, raw := range append(begin, synced) {
		if err := send(raw); err != nil {
			return err
		}
	}
	for {
		h.mu.Lock()
		var raw []byte
		for _, k := range h.kept {
			if k.seq > since {
				raw, since = k.raw, k.seq
				break
			}
		}
		changed := h.changed
		h.mu.Unlock()
		if raw == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			case <-h.d.over:
				return errCut
			}
		}
		if err := send(raw); err != nil {
			return err
		}
		h.mu.Lock()
		h.given = max(h.given, since)
		h.mu.Unlock()
	}
}

// answerHook gives a waiting hook its answer. It returns once the hook has taken it, or with fault.Gone when it never will.
func (h *hooks) answerHook(ctx context.Context, id string, out []byte) error {
	h.mu.Lock()
	c := h.waiting[id]
	for _, old := range h.taken {
		if old.ID == id {
			c = old
		}
	}
	ours := c != nil && (c.give(out) || bytes.Equal(c.out, out))
	h.mu.Unlock()
	if !ours {
		return errHookGone // or another answer was faster
	}
	select {
	case <-c.taken:
		return nil
	case <-c.gone:
		select {
		case <-c.taken:
			return nil
		default:
			return errHookGone
		}
	case <-ctx.Done():
		return fmt.Errorf("answering a hook: %w", ctx.Err())
	}
}

// give answers the call, once. The caller holds mu.
func (c *hookCall) give(out []byte) bool {
	if c.given {
		return false
	}
	c.given, c.out = true, out
	c.answer <- out
	return true
}

var errHookGone = fault.New(fault.Gone, "hook_gone", "The agent's hook no longer waits for an answer.")
