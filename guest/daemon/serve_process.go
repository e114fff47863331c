package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/fault"
)

// process finds the process a request names, once its start is over.
func (d *Daemon) process(r *http.Request) (*process, error) {
	d.mu.Lock()
	p := d.procs[r.PathValue("id")]
	d.mu.Unlock()
	if p == nil {
		return nil, fault.New(fault.NotFound, "process_not_found", "The sandbox has no such process.")
	}
	select {
	case <-p.ready:
		return p, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

func (d *Daemon) serveStart(w http.ResponseWriter, r *http.Request) error {
	var spec guest.ProcessSpec
	if err := body(w, r, &spec); err != nil {
		return err
	}
	p, err := d.start(spec)
	if err != nil {
		return err
	}
	if spec.SettleMs > 0 {
		t := time.NewTimer(time.Duration(min(spec.SettleMs, guest.MaxSettle)) * time.Millisecond)
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
		case <-r.Context().Done():
		}
	}
	info := p.snapshot()
	if spec.SettleMs > 0 && info.State == guest.Exited {
		info.Early = p.early()
	}
	answer(w, http.StatusOK, info)
	return nil
}

// early is the whole output of an ended process, nil when it is long, still incomplete, or partly dropped.
func (p *process) early() map[guest.Stream][]byte {
	out := map[guest.Stream][]byte{}
	for s, l := range p.logs {
		b, err := whole(l)
		if err != nil || s == guest.Terminal {
			return nil
		}
		out[s] = b
	}
	return out
}

var errNotWhole = errors.New("not all of it is stored, or it is too long")

// whole reads a finished log that is short.
func whole(l *bytelog.Log) ([]byte, error) {
	first, end := l.Bounds()
	if first != 0 || end > guest.MaxEarly {
		return nil, errNotWhole
	}
	b := make([]byte, 0, end)
	for {
		if len(b) == cap(b) { // one byte more than there is shows its end
			b = append(b, 0)[:len(b)]
		}
		n, from, err := l.ReadAt(b[len(b):cap(b)], int64(len(b)))
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil || n == 0 || from != int64(len(b)) {
			return nil, errNotWhole
		}
		b = b[:len(b)+n]
	}
}

func (d *Daemon) serveProcesses(w http.ResponseWriter, _ *http.Request) error {
	d.mu.Lock()
	procs := d.list()
	d.mu.Unlock()
	var out guest.List[guest.Process]
	for _, p := range procs {
		select {
		case <-p.ready:
			out.Items = append(out.Items, p.snapshot())
		default:
		}
	}
	slices.SortFunc(out.Items, func(a, b guest.Process) int { return strings.Compare(a.ID, b.ID) })
	answer(w, http.StatusOK, out)
	return nil
}

func (d *Daemon) serveProcess(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, p.snapshot())
	return nil
}

func (d *Daemon) serveWait(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	answer(w, http.StatusOK, p.snapshot())
	return nil
}

func (d *Daemon) serveRemove(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	if p.running() {
		return fault.New(fault.Conflict, "process_running", "The process is still running. Stop it first.")
	}
	d.mu.Lock()
	if d.procs[p.id] == p {
		d.forget(p)
	}
	d.mu.Unlock()
	return done(w)
}

// serveInput takes numbered frames until the host ends the stream or opens another. The answer's header holds the newest frame
// received, so that a host knows after a cut what to send again.
func (d *Daemon) serveInput(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	if p.in == nil {
		return fault.New(fault.Conflict, "no_input", "The process accepts no input.")
	}
	ctx, stop, last := p.in.begin(r.Context())
	defer stop()
	taken := strconv.FormatUint(last, 10)
	if wantsDirect(r) {
		conn, frames, hangUp, err := direct(w, r, guest.HeaderInputSeq, taken)
		if err != nil {
			return err
		}
		defer hangUp()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_ = p.in.takeAll(ctx, frames) // a cut pipe needs no further report
		return errHijacked
	}
	w.Header().Set(guest.HeaderInputSeq, taken)
	if err := offer.Begin(w); err != nil {
		return errCut
	}
	if p.in.takeAll(ctx, r.Body) != nil {
		return errCut
	}
	return nil
}

func (d *Daemon) serveCloseStdin(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	if p.in != nil {
		if !p.in.owns {
			return fault.New(fault.Conflict, "has_terminal", "The process has a terminal: its input cannot be closed.")
		}
		after, err := strconv.ParseUint(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
		if err != nil {
			return fault.New(fault.Invalid, "invalid_after", "after is not the number of a frame.")
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), inputMissing, errInputMissing)
		defer cancel()
		if err := p.in.end(ctx, after); err != nil {
			return err
		}
	}
	return done(w)
}

// inputMissing is how long closing an input waits for frames that are still on their way, on another stream.
const inputMissing = 10 * time.Second

var errInputMissing = fault.New(fault.Conflict, "input_missing", "Input that was sent before has not arrived. Send it again.")

func (d *Daemon) serveAck(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	var ack guest.Ack
	if err := body(w, r, &ack); err != nil {
		return err
	}
	l := p.logs[ack.Stream]
	if l == nil {
		return errNoStream
	}
	if _, end := l.Bounds(); ack.Offset < 0 || ack.Offset > end {
		return fault.New(fault.Invalid, "offset_beyond_end", "Offset %d is beyond the end of the output, %d.", ack.Offset, end)
	}
	l.DropBefore(ack.Offset)
	for _, pu := range p.pumps {
		if pu.log == l {
			pu.acked(ack)
		}
	}
	return done(w)
}

func (d *Daemon) serveResize(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	var size guest.Size
	if err := body(w, r, &size); err != nil {
		return err
	}
	if size.Cols == 0 || size.Rows == 0 {
		return fault.New(fault.Invalid, "invalid_size", "A terminal must have at least one column and one row.")
	}
	if err := p.resize(size); err != nil {
		return err
	}
	return done(w)
}

// signals are those a host may send.
var signals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR1,
	syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGWINCH}

func signalByName(name string) (syscall.Signal, error) {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	for _, s := range signals {
		if unix.SignalName(s) == name {
			return s, nil
		}
	}
	return 0, fault.New(fault.Invalid, "invalid_signal", "%q is not a signal that can be sent.", name)
}

func (d *Daemon) serveSignal(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	var req guest.SignalRequest
	if err := body(w, r, &req); err != nil {
		return err
	}
	sig, err := signalByName(req.Signal)
	if err != nil {
		return err
	}
	if d.tree.signalAll(p.owns, sig) == 0 {
		return fault.New(fault.Conflict, "process_ended", "The process has ended.")
	}
	return done(w)
}

// maxGrace bounds the time a host may set between TERM and KILL.
const maxGrace = 10 * time.Minute

// serveStop ends the process and everything it started, and answers when all of it is gone. It continues when the host hangs up.
func (d *Daemon) serveStop(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	var req guest.StopRequest
	if err := body(w, r, &req); err != nil {
		return err
	}
	grace := min(max(time.Duration(req.GraceMs)*time.Millisecond, 0), maxGrace)
	p.because(reasonStopped)
	if !d.tree.end(p.owns, grace) {
		return fault.New(fault.Internal, "process_will_not_end", "The process could not be killed.")
	}
	select {
	case <-p.done:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	answer(w, http.StatusOK, p.snapshot())
	return nil
}
