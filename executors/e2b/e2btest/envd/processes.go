package envd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/creack/pty"
)

type (
	selector struct {
		Pid *uint32 `json:"pid"`
		Tag *string `json:"tag"`
	}
	byProcess struct {
		Process *selector `json:"process"`
	}
	updateRequest struct {
		Process *selector `json:"process"`
		Pty     *ptySpec  `json:"pty"`
	}
	processInput struct {
		Stdin *[]byte `json:"stdin"`
		Pty   *[]byte `json:"pty"`
	}
	inputRequest struct {
		Process *selector     `json:"process"`
		Input   *processInput `json:"input"`
	}
	streamInputRequest struct {
		Start     *byProcess `json:"start"`
		Data      *inputData `json:"data"`
		Keepalive *struct{}  `json:"keepalive"`
	}
	inputData struct {
		Input *processInput `json:"input"`
	}
	signalRequest struct {
		Process *selector       `json:"process"`
		Signal  json.RawMessage `json:"signal"`
	}
	empty struct{}
)

func (s *server) processRoutes(mux *http.ServeMux) {
	const service = "process.Process/"
	unary(mux, s, service+"List", s.list)
	unary(mux, s, service+"Update", s.update)
	unary(mux, s, service+"SendInput", s.sendInput)
	unary(mux, s, service+"SendSignal", s.sendSignal)
	unary(mux, s, service+"CloseStdin", s.closeStdin)
	serverStream(mux, s, service+"Start", s.start)
	serverStream(mux, s, service+"Connect", s.connect)
	clientStream(mux, s, service+"StreamInput", s.streamInput)
}

// find returns the process a call means. Tags are looked for as the real one does it: not reliably, as soon as there is another process.
func (s *server) find(sel *selector) (*process, error) {
	switch {
	case sel == nil || sel.Pid == nil && sel.Tag == nil:
		return nil, refuse("unimplemented", "invalid input type <nil>")
	case sel.Pid != nil && sel.Tag != nil:
		return nil, refuse("invalid_argument", "unmarshal message: oneof process.ProcessSelector.selector is already set")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sel.Pid != nil {
		p, ok := s.procs[*sel.Pid]
		if !ok {
			return nil, refuse("not_found", "process with pid %d not found", *sel.Pid)
		}
		return p, nil
	}
	for _, p := range s.procs {
		if p.tag == nil {
			continue
		}
		if *p.tag == *sel.Tag {
			return p, nil
		}
		break
	}
	return nil, refuse("not_found", "process with tag %s not found", *sel.Tag)
}

// ended returns a process that ended a moment ago.
func (s *server) ended(sel *selector) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sel == nil {
		return nil
	}
	for _, p := range s.over {
		if sel.Pid != nil && p.pid == *sel.Pid || sel.Tag != nil && p.tag != nil && *p.tag == *sel.Tag {
			return p
		}
	}
	return nil
}

func (s *server) list(_ context.Context, _ *account, _ *empty) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []processInfo
	for _, p := range s.procs {
		out = append(out, processInfo{p.config, p.pid, p.tag})
	}
	return struct {
		Processes []processInfo `json:"processes,omitempty"`
	}{out}, nil
}

// keepalive is how often a stream that has nothing to say says so. The real one dies of an interval that is not positive.
func keepalive(r *http.Request) time.Duration {
	h := r.Header.Get("Keepalive-Ping-Interval")
	if h == "" {
		return 90 * time.Second
	}
	n, err := strconv.Atoi(h)
	if err != nil {
		return 90 * time.Second
	}
	if n <= 0 {
		os.Exit(2) // as the real one: a ticker of no interval panics outside of any recovery
	}
	return time.Duration(n) * time.Second
}

func (s *server) start(ctx context.Context, r *http.Request, u *account, in *startRequest, deadline time.Duration, out *stream) error {
	if b, err := json.Marshal(in); err == nil {
		s.note("Initialized startCmd", map[string]string{"request": string(b), "user": u.name})
	}
	p, l, err := s.newProcess(u, in, deadline, func(p *process) *listener { return p.out.listen() })
	if err != nil {
		return err
	}
	defer p.out.leave(l)
	return follow(ctx, r, p, l, out)
}

// retainedFor is how long whoever connects to a process that has ended is still told how it did.
const retainedFor = 30 * time.Second

// retire takes a process that has ended off the list.
func (s *server) retire(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.procs[p.pid] != p {
		return
	}
	delete(s.procs, p.pid)
	s.over[p.pid] = p
	time.AfterFunc(retainedFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.over[p.pid] == p {
			delete(s.over, p.pid)
		}
	})
}

func (s *server) connect(ctx context.Context, r *http.Request, _ *account, in *byProcess, _ time.Duration, out *stream) error {
	p, err := s.find(in.Process)
	if err != nil {
		if ended := s.ended(in.Process); ended != nil {
			if err := out.send(eventMessage{event{Start: &started{ended.pid}}}); err != nil {
				return err
			}
			return out.send(eventMessage{event{End: ended.end}})
		}
		return err
	}
	l := p.out.listen()
	defer p.out.leave(l)
	return follow(ctx, r, p, l, out)
}

// follow reports a process's events until it ends or the caller leaves, which the process survives.
func follow(ctx context.Context, r *http.Request, p *process, l *listener, out *stream) error {
	if err := out.send(eventMessage{event{Start: &started{p.pid}}}); err != nil {
		return err
	}
	every := keepalive(r)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-tick.C:
			if err := out.send(eventMessage{event{Keepalive: &struct{}{}}}); err != nil {
				return err
			}
		case <-ctx.Done():
			return refuse("canceled", "%v", ctx.Err())
		case d, ok := <-l.c:
			if !ok {
				open = false
				break
			}
			if err := out.send(eventMessage{event{Data: d}}); err != nil {
				return err
			}
			tick.Reset(every)
		}
	}
	select {
	case <-ctx.Done():
		return refuse("canceled", "%v", ctx.Err())
	case <-p.ended:
		return out.send(eventMessage{event{End: p.end}})
	}
}

func (s *server) update(_ context.Context, _ *account, in *updateRequest) (any, error) {
	p, err := s.find(in.Process)
	if err != nil {
		return nil, err
	}
	if in.Pty != nil && in.Pty.Size != nil {
		if p.tty == nil {
			return nil, refuse("internal", "error resizing tty: tty not assigned to process")
		}
		if err := pty.Setsize(p.tty, &pty.Winsize{Cols: in.Pty.Size.Cols, Rows: in.Pty.Size.Rows}); err != nil {
			return nil, refuse("internal", "error resizing tty: %v", err)
		}
	}
	return empty{}, nil
}

// noteInput keeps what is typed in the log, as the real one does.
func (s *server) noteInput(p *process, in *processInput) {
	if in == nil {
		return
	}
	fields := map[string]string{"pid": strconv.Itoa(int(p.pid))}
	for name, b := range map[string]*[]byte{"stdin": in.Stdin, "pty": in.Pty} {
		if b != nil {
			fields[name] = base64.StdEncoding.EncodeToString((*b)[:min(len(*b), logEntryMax/2)])
		}
	}
	s.note("Streaming input to process", fields)
}

func (s *server) sendInput(_ context.Context, _ *account, in *inputRequest) (any, error) {
	p, err := s.find(in.Process)
	if err != nil {
		return nil, err
	}
	s.noteInput(p, in.Input)
	if err := p.write(in.Input); err != nil {
		return nil, err
	}
	return empty{}, nil
}

func (s *server) streamInput(_ context.Context, _ *account, next func() ([]byte, error)) (any, error) {
	var p *process
	for {
		b, err := next()
		if errors.Is(err, io.EOF) {
			return empty{}, nil
		}
		if err != nil {
			return nil, err
		}
		var in streamInputRequest
		if err := decode(b, &in); err != nil {
			return nil, err
		}
		given := 0
		for _, there := range []bool{in.Start != nil, in.Data != nil, in.Keepalive != nil} {
			if there {
				given++
			}
		}
		switch {
		case given > 1:
			return nil, refuse("invalid_argument", "unmarshal message: oneof process.StreamInputRequest.event is already set")
		case in.Start != nil:
			if p, err = s.find(in.Start.Process); err != nil {
				return nil, err
			}
		case in.Data != nil && p == nil:
			return nil, refuse("internal", "input before the process was named")
		case in.Data != nil:
			s.noteInput(p, in.Data.Input)
			if err := p.write(in.Data.Input); err != nil {
				return nil, err
			}
		case in.Keepalive == nil:
			return nil, refuse("unimplemented", "invalid event type <nil>")
		}
	}
}

func (s *server) sendSignal(_ context.Context, _ *account, in *signalRequest) (any, error) {
	p, err := s.find(in.Process)
	if err != nil {
		return nil, err
	}
	var sig syscall.Signal
	switch string(in.Signal) {
	case `"SIGNAL_SIGKILL"`, "9":
		sig = syscall.SIGKILL
	case `"SIGNAL_SIGTERM"`, "15":
		sig = syscall.SIGTERM
	case `"SIGNAL_UNSPECIFIED"`, "0", "":
		return nil, refuse("unimplemented", "invalid signal: SIGNAL_UNSPECIFIED")
	default:
		return nil, refuse("invalid_argument", "unmarshal message: invalid value for enum field signal: %s", in.Signal)
	}
	p.drop() // what it has printed and nobody has read yet is not waited for
	if err := p.cmd.Process.Signal(sig); err != nil {
		return nil, refuse("internal", "error sending signal: %v", err)
	}
	return empty{}, nil
}

func (s *server) closeStdin(_ context.Context, _ *account, in *byProcess) (any, error) {
	p, err := s.find(in.Process)
	if err != nil {
		return nil, err
	}
	if p.tty != nil {
		return nil, refuse("unknown", "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) instead")
	}
	if err := p.closeStdin(); err != nil {
		return nil, refuse("unknown", "error closing stdin: %v", err)
	}
	return empty{}, nil
}
