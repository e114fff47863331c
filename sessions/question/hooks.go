package question

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
)

const (
	hookAnswerIn = 15 * time.Second // for an answer on its way to the agent's hook
	hookRate     = 100              // hooks per second of one sandbox that are processed
	maxCalls     = 4 * guest.MaxHooksOpen
	overSoon     = 700 * time.Millisecond // for the report of a hook that ran in parallel with the agent
)

// listener takes the hooks of one sandbox for all its sessions, as long as one of them runs.
type listener struct {
	board                  *Board
	workspaceID, sandboxID string
	refs                   int // guarded by board.mu
	cancel                 context.CancelFunc

	mu     sync.Mutex
	synced bool
	calls  map[string]*hookCall // those that wait
}

// hookCall is a hook that waits for an answer.
type hookCall struct {
	guest.HookCall
	mu     sync.Mutex
	asks   []agents.Ask
	asked  []*pending      // one for each of asks so far
	given  []agents.Answer // one for each but the last
	over   bool
	before bool // it was passed to its session
}

// Subscribe listens to the hooks of the session's sandbox until unsubscribe is called: when the session has ended.
func (l *Questions) Subscribe() (unsubscribe func()) {
	b := l.board
	if !b.cfg.Agents.Hooks(l.about.Agent) {
		return func() {}
	}
	b.mu.Lock()
	e := b.listeners[l.about.SandboxID]
	fresh := e == nil
	if fresh {
		ctx, cancel := context.WithCancel(b.cfg.Context)
		e = &listener{board: b, workspaceID: l.about.WorkspaceID, sandboxID: l.about.SandboxID, cancel: cancel, calls: map[string]*hookCall{}}
		b.listeners[l.about.SandboxID] = e
		defer func() {
			if !b.cfg.Tasks.Go(func() { e.listen(ctx) }) {
				cancel()
			}
		}()
	}
	e.refs++
	b.mu.Unlock()
	if !fresh {
		e.joined(b.cfg.Context, l)
	}
	return e.leave
}

// leave ends the listener when the last of its sessions has ended.
func (e *listener) leave() {
	b := e.board
	b.mu.Lock()
	e.refs--
	last := e.refs == 0
	if last && b.listeners[e.sandboxID] == e {
		delete(b.listeners, e.sandboxID)
	}
	b.mu.Unlock()
	if last {
		e.cancel()
	}
}

// guest returns the sandbox's guest; false while it cannot be reached.
func (e *listener) guest() (*client.Client, bool) {
	p, ok := e.board.cfg.Live(e.workspaceID)
	if !ok || p.SandboxID != e.sandboxID {
		return nil, false
	}
	return p.Guest, true
}

// listen follows the hooks and reconnects after each cut. A guest that does not support hooks ends it.
func (e *listener) listen(ctx context.Context) {
	var since uint64
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		began := time.Now()
		if g, ok := e.guest(); ok {
			err := e.follow(ctx, g, &since)
			if ctx.Err() != nil {
				return
			}
			if kind := fault.KindOf(err); kind == fault.Unsupported || kind == fault.NotFound {
				return
			}
			e.board.cfg.Log.Debug("hooks were cut", "sandbox_id", e.sandboxID, "error", err)
			if p, ok := e.board.cfg.Live(e.workspaceID); ok && p.Asleep() {
				select {
				case <-p.Awake():
				case <-p.Done():
				case <-ctx.Done():
					return
				}
				wait = 50 * time.Millisecond
			}
		}
		if time.Since(began) > 5*time.Second {
			wait = 50 * time.Millisecond
		}
		if !tasks.Sleep(ctx, wait) {
			return
		}
	}
}

func (e *listener) follow(ctx context.Context, g *client.Client, since *uint64) error {
	h, err := g.Hooks(ctx, *since)
	if err != nil {
		return err
	}
	defer h.Close()
	named := map[string]bool{}
	pace := time.NewTicker(time.Second / hookRate)
	defer pace.Stop()
	for {
		r, err := h.Next()
		if err != nil {
			return err
		}
		switch {
		case r.Call != nil:
			*since = max(*since, r.Call.Seq)
			named[r.Call.ID] = true
			e.take(ctx, *r.Call)
		case r.Ended != "":
			e.ended(ctx, r.Ended)
		case r.Synced:
			e.sync(ctx, named)
		}
		select { // a guest that reports too much is read more slowly
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// session returns the live session a call belongs to, nil when there is none of this sandbox.
func (e *listener) session(c guest.HookCall) *Questions {
	l := e.board.cfg.Sessions.InMemory(c.Process)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.about.SandboxID != e.sandboxID || l.about.Agent != c.Agent || l.host.State().Ended() {
		return nil
	}
	return l
}

// take takes one call.
func (e *listener) take(ctx context.Context, c guest.HookCall) {
	call := &hookCall{HookCall: c}
	if c.Waits {
		e.mu.Lock()
		if old := e.calls[c.ID]; old != nil {
			call = old
		} else if len(e.calls) < maxCalls {
			e.calls[c.ID] = call
		}
		e.mu.Unlock()
	}
	if l := e.session(c); l != nil {
		e.hand(ctx, l, call)
	} else if c.Waits && e.board.cfg.Sessions.InMemory(c.Process) != nil { // not its agent, or not its sandbox: nobody will answer
		e.release(call)
	}
}

// hand passes a report of an agent's hook to its session.
func (e *listener) hand(ctx context.Context, l *Questions, call *hookCall) {
	call.mu.Lock()
	again := call.before
	call.before = true
	call.mu.Unlock()
	if again {
		return
	}
	ev := agents.HookEvent{At: time.UnixMilli(call.At), Waits: call.Waits, Raw: call.Event}
	h := e.board.cfg.Agents.Hook(call.Agent, ev)
	l.host.Noticed(h)
	l.hookReport(ctx, h)
	if !call.Waits {
		return
	}
	if len(h.Asks) == 0 {
		e.release(call)
		return
	}
	call.mu.Lock()
	call.asks = h.Asks
	call.mu.Unlock()
	e.openNext(ctx, l, call, h.Key)
}

// openNext opens the next of the call's questions.
func (e *listener) openNext(ctx context.Context, l *Questions, call *hookCall, key string) {
	call.mu.Lock()
	i := len(call.given)
	ask := call.asks[i]
	call.mu.Unlock()
	as := l.open(ctx, key+"#"+strconv.Itoa(i), AskedByHook, ask, func(ctx context.Context, _ accounts.Actor, a agents.Answer) error {
		return e.answer(ctx, l, call, key, a)
	})
	if as == nil {
		e.release(call)
		return
	}
	l.mu.Lock()
	as.free = func() { e.release(call) }
	l.mu.Unlock()
	call.mu.Lock()
	call.asked = append(call.asked, as)
	over := call.over
	call.mu.Unlock()
	if over { // it ended meanwhile
		l.withdraw(ctx, func(o *pending) bool { return o == as })
	}
}

// answer takes the answer to the call's newest question. The hook gets its output when all are answered.
func (e *listener) answer(ctx context.Context, l *Questions, call *hookCall, key string, a agents.Answer) error {
	call.mu.Lock()
	all := append(append([]agents.Answer(nil), call.given...), a)
	more := len(all) < len(call.asks)
	if more {
		call.given = all
	}
	call.mu.Unlock()
	if more {
		e.board.cfg.Tasks.Go(func() { e.openNext(e.board.cfg.Context, l, call, key) })
		return errHeld
	}
	out, err := e.board.cfg.Agents.HookReply(call.Agent, agents.HookEvent{Waits: true, Raw: call.Event}, all)
	if err != nil {
		return err
	}
	if err := e.send(ctx, call.ID, out); err != nil {
		return err
	}
	e.forget(call)
	call.mu.Lock()
	held := call.asked[:min(len(all)-1, len(call.asked))] // this one may not be recorded yet, when the answer was quick
	call.mu.Unlock()
	for _, as := range held {
		l.settleHeld(ctx, as)
	}
	return nil
}

// send sends an output to a hook and retries after cuts: the guest recognizes an answer it has already received.
func (e *listener) send(ctx context.Context, id string, out json.RawMessage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookAnswerIn)
	defer cancel()
	err := error(fault.New(fault.Unavailable, "sandbox_unreachable", "The session's sandbox cannot be reached now. Try again once it can."))
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		if g, ok := e.guest(); ok {
			if err = g.AnswerHook(ctx, id, out); fault.KindOf(err) != fault.Unavailable {
				return err
			}
		}
		if !tasks.Sleep(ctx, wait) {
			return err
		}
	}
}

// release lets the agent continue without a decision of ours: its dialog, if it has one, decides.
func (e *listener) release(call *hookCall) {
	if !e.forget(call) {
		return
	}
	e.board.cfg.Tasks.Go(func() {
		if err := e.send(e.board.cfg.Context, call.ID, nil); err != nil && !fault.Is(err, fault.Gone) {
			e.board.cfg.Log.Debug("hook not released", "sandbox_id", e.sandboxID, "error", err)
		}
	})
}

// forget ends a call; false when it had ended.
func (e *listener) forget(call *hookCall) bool {
	call.mu.Lock()
	first := !call.over
	call.over = true
	call.mu.Unlock()
	e.mu.Lock()
	if e.calls[call.ID] == call {
		delete(e.calls, call.ID)
	}
	e.mu.Unlock()
	return first
}

// ended records that a hook no longer waits: it was answered, or its agent gave it up.
func (e *listener) ended(ctx context.Context, id string) {
	e.mu.Lock()
	call := e.calls[id]
	e.mu.Unlock()
	if call == nil {
		return
	}
	e.forget(call)
	l := e.board.cfg.Sessions.InMemory(call.Process)
	if l == nil {
		return
	}
	call.mu.Lock()
	all := append([]*pending(nil), call.asked...)
	call.mu.Unlock()
	// Agents end a hook when its dialog was refused or the turn interrupted, and let it wait when the dialog was answered. Wait
	// for an answer in flight, and for a report about a dialog that was answered just before.
	e.board.cfg.Tasks.Go(func() {
		if tasks.Sleep(e.board.cfg.Context, overSoon) {
			l.closeQuestions(e.board.cfg.Context, func(as *pending) bool {
				if !slices.Contains(all, as) {
					return false
				}
				if as.there == "" && !as.shown.IsZero() && l.busy.began != as.busy.began {
					as.there = inTerminal
				}
				return true
			}, nil)
		}
	})
}

// sync ends the calls that were not named: the guest named all that wait.
func (e *listener) sync(ctx context.Context, named map[string]bool) {
	e.mu.Lock()
	e.synced = true
	var gone []string
	for id := range e.calls {
		if !named[id] {
			gone = append(gone, id)
		}
	}
	e.mu.Unlock()
	for _, id := range gone {
		e.ended(ctx, id)
	}
	for _, l := range e.board.cfg.Sessions.All() {
		if l.about.SandboxID == e.sandboxID {
			e.orphans(ctx, l)
		}
	}
}

// joined passes to a session what was reported before it was known.
func (e *listener) joined(ctx context.Context, l *Questions) {
	e.mu.Lock()
	synced := e.synced
	var mine []*hookCall
	for _, c := range e.calls {
		if c.Process == l.about.ID {
			mine = append(mine, c)
		}
	}
	e.mu.Unlock()
	for _, c := range mine {
		if e.session(c.HookCall) == l {
			e.hand(ctx, l, c)
		}
	}
	if synced {
		e.orphans(ctx, l)
	}
}

// orphans withdraws questions of an earlier server whose hooks are gone.
func (e *listener) orphans(ctx context.Context, l *Questions) {
	l.withdraw(ctx, func(as *pending) bool {
		return as.by == nil && as.q.Source == AskedByHook && !strings.HasPrefix(as.q.Key, onScreen)
	})
}

// errHeld reports that an answer is held until the others are given.
var errHeld = errors.New("held until the other questions are answered")
