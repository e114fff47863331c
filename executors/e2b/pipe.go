package e2b

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/guest/bridge"
)

const (
	// maxSend is how much one SendInput carries: each costs a round trip.
	maxSend = 256 << 10
	// quietCut is how long a stream may be silent although envd pings: then it is cut.
	quietCut = 3 * pingSeconds * time.Second
	// streamProof is how long a server may take to pass on the first piece of a streamed request, the first time one is sent to it.
	streamProof = 5 * time.Second
)

// errQuiet says that nothing at all came for long.
var errQuiet = errors.New("the guest in the sandbox does not answer")

// inputWay is how a server is written to: some proxies hold a streamed request back until its end.
type inputWay struct{ known, single atomic.Bool }

// pipe is a pipe to the guest: the input and output of a small process in the sandbox, which is joined to the guest's socket. It is read
// by one goroutine at a time.
type pipe struct {
	envd *envd
	down *process
	box  *outbox

	rest  []byte // read and not yet asked for
	buf   []byte
	said  tail // what the process wrote of itself
	quiet *time.Timer

	ended  func(pid uint32) // told once, when the pipe has ended; 0 = nothing was started
	cancel context.CancelFunc
	once   sync.Once
	mu     sync.Mutex
	err    error
	work   sync.WaitGroup
}

// openPipe starts the process and waits until it has reached the guest.
func openPipe(ctx context.Context, d *envd, way *inputWay, start startRequest, within time.Duration, ended func(pid uint32)) (*pipe, error) {
	// The streams outlive the question; until it is answered they end with it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	down, err := d.start(life, start)
	if err != nil {
		cancel()
		ended(0)
		return nil, causeOf(ctx, err)
	}
	p := &pipe{envd: d, down: down, box: newOutbox(), ended: ended, cancel: cancel}
	p.quiet = time.AfterFunc(time.Hour, func() { p.fail(errQuiet) })
	p.quiet.Reset(within)
	if err := p.greeting(bridge.Reached); err != nil {
		p.fail(err)
		return nil, causeOf(ctx, p.why(err))
	}
	if _, err := p.box.write([]byte(bridge.Begin)); err != nil {
		return nil, causeOf(ctx, p.why(err))
	}
	single := way.single.Load()
	p.work.Go(func() { p.fail(p.send(life, single)) })
	if !single && !way.known.Load() {
		p.quiet.Reset(streamProof)
	}
	if err := p.greeting(bridge.Begun); err != nil {
		p.fail(err)
		if !single && !way.known.Load() && ctx.Err() == nil {
			way.single.Store(true) // the next pipe to this server is written to in single pieces
		}
		return nil, causeOf(ctx, p.why(err))
	}
	way.known.Store(true)
	p.quiet.Reset(quietCut)
	return p, nil
}

// greeting reads a line the process writes of itself.
func (p *pipe) greeting(want string) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(reader{p}, got); err != nil {
		return err
	}
	if string(got) != want {
		return errors.New("what answers in the sandbox is not the guest's bridge")
	}
	return nil
}

// reader reads a pipe without taking its pauses for life.
type reader struct{ p *pipe }

func (r reader) Read(b []byte) (int, error) { return r.p.read(b, false) }

// Read reads what the guest says.
func (p *pipe) Read(b []byte) (int, error) { return p.read(b, true) }

func (p *pipe) read(b []byte, settled bool) (int, error) {
	for len(p.rest) == 0 {
		m, err := p.down.next()
		if err == nil {
			p.rest, err = p.output(m)
		}
		if err != nil {
			p.fail(err)
			return 0, p.why(err)
		}
		if settled {
			p.quiet.Reset(quietCut)
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

var stdoutKey = []byte(`"stdout"`)

// output returns what the process wrote, nothing for other events, and an error when it has ended.
func (p *pipe) output(m []byte) ([]byte, error) {
	// Nearly all messages are {"event":{"data":{"stdout":"..."}}}, with spaces or without: they are not parsed whole.
	if i := bytes.Index(m[:min(len(m), 64)], stdoutKey); i >= 0 {
		rest := bytes.TrimLeft(m[i+len(stdoutKey):], ": ")
		if len(rest) > 0 && rest[0] == '"' {
			if end := bytes.IndexByte(rest[1:], '"'); end >= 0 {
				text := rest[1 : 1+end]
				if n := base64.StdEncoding.DecodedLen(len(text)); cap(p.buf) < n {
					p.buf = make([]byte, n)
				}
				n, err := base64.StdEncoding.Decode(p.buf[:cap(p.buf)], text)
				if err != nil {
					return nil, fmt.Errorf("envd's stream cannot be read: %w", err)
				}
				return p.buf[:n], nil
			}
		}
	}
	var e event
	if err := json.Unmarshal(m, &e); err != nil {
		return nil, fmt.Errorf("envd's stream cannot be read: %w", err)
	}
	switch {
	case e.Event.Data != nil: // a helper before the bridge may warn of something: what is meant is known at its end
		p.said.add(e.Event.Data.Stderr)
		return e.Event.Data.Stdout, nil
	case e.Event.End != nil:
		if err := e.ending(&p.said); err != nil {
			return nil, fmt.Errorf("the guest's bridge: %w", err)
		}
		return nil, io.EOF
	}
	return nil, nil
}

// Write hands p over to be sent: it waits only where much is on its way already.
func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.box.write(b)
	if err != nil {
		return n, p.why(err)
	}
	return n, nil
}

// Close ends the pipe, and the process in the sandbox.
func (p *pipe) Close() error {
	p.fail(io.ErrClosedPipe)
	p.work.Wait()
	return nil
}

// fail ends the pipe. The first reason stays.
func (p *pipe) fail(err error) {
	err = cmp.Or(err, io.EOF)
	p.once.Do(func() {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		p.quiet.Stop()
		p.box.close(err)
		p.cancel()
		p.down.cancel()
		p.ended(p.down.pid)
	})
}

// why is the reason the pipe ended for, which may not be what was met.
func (p *pipe) why(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	return err
}

// send carries what is written to the process until the pipe ends.
func (p *pipe) send(ctx context.Context, single bool) error {
	if single {
		return p.sendPieces(ctx)
	}
	body := newInputStream(p.box, p.down.pid)
	req, err := p.envd.request(ctx, http.MethodPost, "/process.Process/StreamInput", sandboxUser, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	req.Header.Set("Keepalive-Ping-Interval", strconv.Itoa(pingSeconds))
	untouched := len(body.frame)
	req.GetBody = func() (io.ReadCloser, error) { // a connection that had been closed while nobody looked
		if len(body.frame) != untouched {
			return nil, errors.New("part of it was sent")
		}
		return body, nil
	}
	resp, err := p.envd.http.Do(req)
	if err != nil {
		return fmt.Errorf("writing to the sandbox: %w", lost(ctx, err))
	}
	s := &stream{body: resp.Body, cancel: func() {}, ctx: ctx}
	defer s.close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return envdRefusal(resp.StatusCode, b)
	}
	for { // it answers only when it takes no more
		if _, err := s.next(); err != nil {
			if err == io.EOF {
				err = errors.New("envd takes no more input")
			}
			return err
		}
	}
}

// sendPieces asks envd once for each piece: what servers take that pass no streamed request on.
func (p *pipe) sendPieces(ctx context.Context) error {
	var piece []byte
	for {
		var err error
		if piece, err = p.box.take(piece[:0], maxSend, nil); err != nil {
			return err
		}
		if err := p.envd.sendInput(ctx, p.down.pid, piece); err != nil {
			return err
		}
	}
}

// appendStart says whose input a stream is.
func appendStart(b []byte, pid uint32) []byte {
	return fmt.Appendf(b, `{"start":{"process":{"pid":%d}}}`, pid)
}
