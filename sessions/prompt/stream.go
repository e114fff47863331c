package prompt

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/signals"
)

const (
	inputPiece = 64 << 10 // bytes of one numbered frame
	inputTries = 5

	// The most that may be in flight to the guest when a pipe is cut, with a margin.
	keepBytes  = 512 << 10
	keepFrames = 16 << 10
	keepFor    = 30 * time.Second
)

// stream sends input to the process: one numbered stream per session, opened at the first key. A sent frame may still be in
// flight when the pipe is cut, so the newest ones are retained for a while; after a cut those the guest has not received are sent
// again. The guest ignores a number it has seen: nothing is typed twice.
type stream struct {
	turn   chan struct{} // holds one token: its owner may use the other fields
	seq    uint64        // of the newest frame; 0: unknown
	in     *client.Input
	kept   []frame
	bytes  int // in kept
	keptAt time.Time
	forget *time.Timer

	pasting bool // a bracketed paste was begun and not ended
}

type frame struct {
	seq uint64
	p   []byte
}

func newStream() stream {
	t := stream{turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	return t
}

// Close ends the stream. What was sent still arrives.
func (s *Session) Close() { s.stream.close() }

func (t *stream) close() {
	select {
	case <-t.turn:
		t.drop()
		if t.forget != nil {
			t.forget.Stop()
		}
		t.kept, t.bytes = nil, 0
		t.turn <- struct{}{}
	default: // somebody is writing: the stream ends with the process or the server
	}
}

func (t *stream) drop() {
	if t.in != nil {
		_ = t.in.Close()
		t.in = nil
	}
}

func (t *stream) keep(p []byte) frame {
	t.seq++
	f := frame{t.seq, append([]byte(nil), p...)}
	t.kept = append(t.kept, f)
	t.bytes += len(p)
	for len(t.kept) > 1 && (t.bytes-len(t.kept[0].p) > keepBytes || len(t.kept) > keepFrames) {
		t.bytes -= len(t.kept[0].p)
		t.kept[0].p = nil
		t.kept = t.kept[1:]
	}
	t.keptAt = time.Now()
	return f
}

// Send types p. Several callers take turns; each p arrives in one piece.
func (s *Session) Send(ctx context.Context, p []byte) error {
	t := &s.stream
	if err := s.waitTurn(ctx); err != nil {
		return err
	}
	defer func() { t.turn <- struct{}{} }()
	t.watchPaste(p)
	return s.sendNow(ctx, p)
}

// sendNow types p; the caller has the turn.
func (s *Session) sendNow(ctx context.Context, p []byte) error {
	if t := &s.stream; t.forget == nil {
		t.forget = s.queue.cfg.Tasks.After(keepFor, s.forgetTyped)
	}
	for len(p) > 0 {
		n := min(len(p), inputPiece)
		if err := s.sendPiece(ctx, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (s *Session) sendPiece(ctx context.Context, p []byte) error {
	t := &s.stream
	var f frame
	var last error
	for try := range inputTries {
		if try > 0 && !tasks.Sleep(ctx, 50*time.Millisecond<<try) {
			return ctx.Err()
		}
		sent := uint64(0) // the newest frame sent again
		if t.in == nil {
			var err error
			if sent, err = s.open(ctx); err != nil {
				if fault.CodeOf(err) == "workspace_paused" { // it just fell asleep: typing wakes it
					if err := s.host.Awake(ctx); err != nil {
						return err
					}
					last = err
					continue
				}
				if code := fault.KindOf(err); code == fault.NotFound || code == fault.Gone || code == fault.Conflict {
					return err
				}
				last = err
				continue
			}
		}
		if f.seq == 0 {
			f = t.keep(p)
		}
		if f.seq <= sent {
			return nil
		}
		if last = s.write(ctx, f); last == nil {
			return nil
		}
		t.drop()
	}
	if f.seq != 0 {
		// It was in flight when the pipe was cut. Whether it arrived is known once the sandbox is reached again: it is then sent
		// again unless it did. Reporting a failure now would make people type it twice.
		return nil
	}
	return fault.Wrap(last, fault.Unavailable, "session_unreachable", "What you typed did not reach the session: its sandbox cannot be reached now. Try again once it can.")
}

// open opens the stream and sends again what the guest has not received. It returns the newest number the guest has or is sent.
func (s *Session) open(ctx context.Context) (newest uint64, err error) {
	t := &s.stream
	g, err := s.host.Guest()
	if err != nil {
		return 0, err
	}
	in, err := g.Input(s.queue.cfg.Context, s.about.ID)
	if err != nil {
		return 0, err
	}
	t.in = in
	t.seq = max(t.seq, in.Last)
	newest = in.Last
	for _, f := range t.kept {
		if f.seq <= in.Last {
			continue
		}
		if err := s.write(ctx, f); err != nil {
			t.drop()
			return 0, err
		}
		newest = f.seq
	}
	return newest, nil
}

// write writes one frame. It waits while the program does not read, but not longer than ctx.
func (s *Session) write(ctx context.Context, f frame) error {
	in := s.stream.in
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { _ = in.Close() })()
	}
	err := in.Write(f.seq, f.p)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Repair sends again, after a cut, what may have been in flight.
func (s *Session) Repair(ctx context.Context) {
	t := &s.stream
	if s.waitTurn(ctx) != nil {
		return
	}
	defer func() { t.turn <- struct{}{} }()
	if len(t.kept) == 0 {
		return
	}
	t.drop()
	if _, err := s.open(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.queue.cfg.Log.Debug("input could not be continued after a cut", "session_id", s.about.ID, "error", err)
	}
}

// waitTurn takes the turn.
func (s *Session) waitTurn(ctx context.Context) error {
	select {
	case <-s.stream.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forgetTyped drops frames that have certainly arrived: some time after they were written to a working stream.
func (s *Session) forgetTyped() {
	t := &s.stream
	select {
	case <-t.turn:
	default:
		t.forget.Reset(keepFor)
		return
	}
	defer func() { t.turn <- struct{}{} }()
	if rest := keepFor - time.Since(t.keptAt); rest > 0 {
		t.forget.Reset(rest)
		return
	}
	if t.in == nil && !s.ended() { // cut, and not reconnected yet
		t.forget.Reset(keepFor)
		return
	}
	t.kept, t.bytes, t.forget = nil, 0, nil
}

// pasteHold is how long an answer of the terminal waits for the end of a paste.
const pasteHold = time.Second

// Answer types an answer of the terminal: between two inputs of a person, not in the middle of a paste.
func (s *Session) Answer(ctx context.Context, p []byte) error {
	for began := time.Now(); ; {
		if err := s.waitTurn(ctx); err != nil {
			return err
		}
		if !s.stream.pasting || time.Since(began) >= pasteHold {
			defer func() { s.stream.turn <- struct{}{} }()
			return s.sendNow(ctx, p)
		}
		s.stream.turn <- struct{}{}
		if !tasks.Sleep(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}

var (
	pasteBegins = []byte("\x1b[200~")
	pasteEnds   = []byte("\x1b[201~")
)

// watchPaste records whether the typed input leaves a paste open: long ones come in several pieces.
func (t *stream) watchPaste(p []byte) {
	if bytes.IndexByte(p, signals.Esc) < 0 {
		return
	}
	if begin, end := bytes.LastIndex(p, pasteBegins), bytes.LastIndex(p, pasteEnds); begin != end {
		t.pasting = begin > end
	}
}
