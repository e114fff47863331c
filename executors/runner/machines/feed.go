package machines

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Limits of a machine's events: the size of a line, lines in a time, and how often it may change its description of itself. The server
// disconnects a machine that sends more.
const (
	maxLine     = maxHello + 4<<10 // bytes
	lineBurst   = 200
	linesEvery  = 100 * time.Millisecond
	byteBurst   = 8 << 20
	bytesSecond = 64 << 10
	helloEvery  = 10 * time.Second // shortest time between two writes of a changed hello
	loadEvery   = 10 * time.Second // shortest time between two publications of a changed load
)

// feed reads the events of one connection. One goroutine uses it.
type feed struct {
	service *Service
	entry   *entry
	live    *live
	link    *tunnel.Link
	alive   func() // called at each sign of life

	body  io.ReadCloser
	lines *bufio.Reader
	said  bucket // lines
	bytes bucket
}

// open requests the machine's events, and returns the first: its description of itself.
func (f *feed) open(ctx context.Context) (wire.Hello, error) {
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/v1/events"}, Header: http.Header{}}).WithContext(ctx)
	resp, err := f.link.RoundTrip(req)
	if err != nil {
		return wire.Hello{}, err
	}
	f.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		return wire.Hello{}, refuse("it answers %d to the request for its events", resp.StatusCode)
	}
	f.lines = bufio.NewReaderSize(resp.Body, 4<<10)
	ev, err := f.next()
	if err != nil {
		return wire.Hello{}, err
	}
	if ev.Type != wire.EventHello || ev.Hello == nil {
		return wire.Hello{}, refuse("it does not begin with its description of itself")
	}
	return checkHello(*ev.Hello, f.service.cfg.Programs)
}

// read takes events until there are no more.
func (f *feed) read(ctx context.Context) error {
	defer f.body.Close()
	for {
		ev, err := f.next()
		if err != nil {
			return err
		}
		if err := f.take(ctx, ev); err != nil {
			return err
		}
	}
}

// next reads one line, within the bounds.
func (f *feed) next() (wire.Event, error) {
	var ev wire.Event
	line, err := readLine(f.lines, maxLine)
	if err != nil {
		return ev, err
	}
	f.alive()
	now := f.service.cfg.Now()
	if !f.said.spend(now, 1, lineBurst, linesEvery) || !f.bytes.spend(now, float64(len(line)), byteBurst, time.Second/bytesSecond) {
		return ev, fault.New(fault.RateLimited, "runner_rate_limited", "The machine sends more than the server accepts.")
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		return ev, fault.Wrap(err, fault.Invalid, "runner_hello_invalid", "The machine sent something that is not an event.")
	}
	return ev, nil
}

// readLine reads up to and including the next newline, at most most bytes.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, fault.New(fault.TooLarge, "runner_rate_limited", "The machine sent a line of more than %d KiB.", most>>10)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// spend takes n from a budget that refills at a rate; false when it is too small.
func (b *bucket) spend(now time.Time, n, burst float64, every time.Duration) bool {
	if !b.at.IsZero() {
		b.used = max(0, b.used-float64(now.Sub(b.at))/float64(every))
	}
	b.at = now
	b.used += n
	return b.used <= burst
}

// take handles an event. Unknown types are from a newer machine and change nothing.
func (f *feed) take(ctx context.Context, ev wire.Event) error {
	switch {
	case ev.Type == wire.EventLoad && ev.Load != nil:
		f.load(ctx, checkLoad(*ev.Load))
	case ev.Type == wire.EventHello && ev.Hello != nil:
		h, err := checkHello(*ev.Hello, f.service.cfg.Programs)
		if err != nil {
			return err
		}
		f.hello(ctx, h)
	case ev.Type == wire.EventQuestion && ev.Question != nil:
		if q, ok := checkQuestion(*ev.Question, f.service.now()); ok {
			f.question(ctx, q)
		}
	case ev.Type == wire.EventSandbox && ev.Sandbox != nil:
		if b, ok := checkSandbox(*ev.Sandbox); ok {
			f.forward(wire.Event{Type: ev.Type, Sandbox: &b})
		}
	case ev.Type == wire.EventLeaving:
		f.leaving(ctx, words(ev.Reason, maxSentence), ev.Remove)
	default:
		f.service.cfg.Log.DebugContext(ctx, "a machine sent an unknown event", "runner_id", f.live.conn.RunnerID, "type", words(ev.Type, 40))
	}
	return nil
}

// load records a heartbeat. Browsers read again when it differs visibly.
func (f *feed) load(ctx context.Context, l wire.Load) {
	s, now := f.service, f.service.now()
	s.mu.Lock()
	was := f.entry.m.Hello.Load
	mine := f.entry.live == f.live
	if mine {
		f.entry.m.Hello.Load, f.entry.m.SeenAt = l, now
		f.live.unstored = true
	}
	differs := was.Sandboxes != l.Sandboxes || was.WaitingAnswer != l.WaitingAnswer || math.Abs(was.CPU-l.CPU) >= 0.05 ||
		apart(was.MemoryUsedMB, l.MemoryUsedMB) || apart(was.DiskFreeMB, l.DiskFreeMB)
	f.live.unsaid = f.live.unsaid || differs
	say := mine && f.live.unsaid && now-f.live.published >= loadEvery.Milliseconds()-1000 // heartbeats come as often, and jitter
	if say {
		f.live.published, f.live.unsaid = now, false
	}
	m := f.entry.show()
	s.mu.Unlock()
	if say {
		s.publish(ctx, m)
	}
}

// apart reports whether two sizes in MB differ visibly: by a twentieth, and by 64.
func apart(a, b int64) bool {
	d := a - b
	if d < 0 {
		d = -d
	}
	return d >= 64 && d >= max(a, b)/20
}

// hello records a changed description of a machine.
func (f *feed) hello(ctx context.Context, h wire.Hello) {
	s, now := f.service, f.service.now()
	s.mu.Lock()
	if f.entry.live != f.live {
		s.mu.Unlock()
		return
	}
	f.entry.m.Hello, f.entry.m.Version, f.entry.m.Protocol, f.entry.m.SeenAt = h, h.Build, h.Version, now
	f.live.unstored = true
	store := now-f.live.stored >= helloEvery.Milliseconds()
	s.mu.Unlock()
	if store {
		s.storeSeen(ctx, f.entry)
	}
	s.notify(ctx, f.entry)
}

// question records what the machine's owner is asked, or has answered.
func (f *feed) question(ctx context.Context, q wire.Question) {
	s := f.service
	s.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(f.live.questions), func(o wire.Question) bool { return o.ID == q.ID })
	if q.Answer == "" && len(all) < maxQuestions {
		all = append(all, q)
	}
	f.live.questions = all
	s.mu.Unlock()
	s.notify(ctx, f.entry)
}

// leaving records that the machine leaves on purpose. Without anything to sync it is offline at once.
func (f *feed) leaving(ctx context.Context, reason string, remove bool) {
	s := f.service
	reason = cmp.Or(reason, "It was stopped on the machine.")
	s.mu.Lock()
	f.live.goodbye, f.live.leaving = reason, true
	s.mu.Unlock()
	f.forward(wire.Event{Type: wire.EventLeaving, Reason: reason, Remove: remove})
	if remove {
		s.notify(ctx, f.entry)
		return
	}
	f.link.Close(reason)
}

// forward passes on an event about a machine's sandboxes.
func (f *feed) forward(ev wire.Event) {
	s := f.service
	s.mu.Lock()
	m, mine := f.entry.show(), f.entry.live == f.live
	s.mu.Unlock()
	if !mine {
		return
	}
	s.hooksMu.Lock()
	hooks := s.onEvent
	s.hooksMu.Unlock()
	for _, fn := range hooks {
		fn(m, ev)
	}
}
