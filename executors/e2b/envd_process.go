package e2b

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// processConfig says what to start. Nothing secret is ever in it: envd writes it into its log, arguments and environment alike.
type processConfig struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args,omitempty"`
	Envs map[string]string `json:"envs,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
}

type startRequest struct {
	Process processConfig `json:"process"`
	Stdin   bool          `json:"stdin"` // absent would mean true
}

type selector struct {
	Pid uint32 `json:"pid"` // tags are unreliable as selectors
}

// event is one message of a process's stream.
type event struct {
	Event struct {
		Start *struct {
			Pid uint32 `json:"pid"`
		} `json:"start"`
		Data *struct {
			Stdout []byte `json:"stdout"`
			Stderr []byte `json:"stderr"`
		} `json:"data"`
		End *struct {
			ExitCode int    `json:"exitCode"`
			Status   string `json:"status"`
			Error    string `json:"error"`
		} `json:"end"`
	} `json:"event"`
}

// startWithin is how long envd may take to start a process.
const startWithin = 30 * time.Second

// process is one that was started, and the stream of what it writes. It lives on when the stream ends.
type process struct {
	*stream
	pid uint32
}

// start starts a process, and waits until it is one.
func (d *envd) start(ctx context.Context, r startRequest) (*process, error) {
	s, err := d.open(ctx, "process.Process/Start", r)
	if err != nil {
		return nil, err
	}
	slow := time.AfterFunc(min(startWithin, d.set.RequestTimeout), s.close)
	defer slow.Stop()
	for {
		m, err := s.next()
		if err != nil {
			s.close()
			if errors.Is(err, io.EOF) {
				err = errors.New("envd ended the stream before the process had begun")
			}
			return nil, err
		}
		var e event
		if err := json.Unmarshal(m, &e); err != nil {
			s.close()
			return nil, fmt.Errorf("envd's answer (Start) cannot be read: %w", err)
		}
		if e.Event.Start != nil {
			return &process{s, e.Event.Start.Pid}, nil
		}
	}
}

// run runs a small tool to its end. Its output is part of the error when it fails.
func (d *envd) run(ctx context.Context, cmd string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.set.RequestTimeout, errSlow)
	defer cancel()
	p, err := d.start(ctx, startRequest{Process: processConfig{Cmd: cmd, Args: args}})
	if err != nil {
		return err
	}
	defer p.close()
	return p.wait()
}

// wait reads until the process has ended; an exit code other than 0 is an error with what it wrote last.
func (p *process) wait() error {
	var said bytes.Buffer
	for {
		m, err := p.next()
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(m, &e); err != nil {
			return fmt.Errorf("envd's answer cannot be read: %w", err)
		}
		if d := e.Event.Data; d != nil && said.Len() < 4<<10 {
			said.Write(d.Stdout)
			said.Write(d.Stderr)
		}
		if end := e.Event.End; end != nil {
			if end.ExitCode == 0 && end.Error == "" {
				return nil
			}
			return fmt.Errorf("it ended (%s): %s", or(line(end.Status, 80), fmt.Sprint(end.ExitCode)), line(said.String(), 300))
		}
	}
}

// kill ends a process at once. One that has ended already is no error.
func (d *envd) kill(ctx context.Context, pid uint32) error {
	return d.signal(ctx, pid, "SIGNAL_SIGKILL")
}

// term asks a process to end.
func (d *envd) term(ctx context.Context, pid uint32) error {
	return d.signal(ctx, pid, "SIGNAL_SIGTERM")
}

func (d *envd) signal(ctx context.Context, pid uint32, signal string) error {
	err := d.call(ctx, "process.Process/SendSignal", struct {
		Process selector `json:"process"`
		Signal  string   `json:"signal"`
	}{selector{pid}, signal}, nil)
	if isCode(err, "not_found") {
		return nil
	}
	return err
}

// running is a process that envd knows.
type running struct {
	Config processConfig `json:"config"`
	Pid    uint32        `json:"pid"`
}

// processes are those envd started and that have not ended.
func (d *envd) processes(ctx context.Context) ([]running, error) {
	var out struct {
		Processes []running `json:"processes"`
	}
	err := d.call(ctx, "process.Process/List", struct{}{}, &out)
	return out.Processes, err
}

// sendInput writes to a process, and waits until envd has it.
func (d *envd) sendInput(ctx context.Context, pid uint32, p []byte) error {
	b := make([]byte, 0, base64.StdEncoding.EncodedLen(len(p))+80)
	b = fmt.Appendf(b, `{"process":{"pid":%d},"input":{"stdin":"`, pid)
	b = base64.StdEncoding.AppendEncode(b, p)
	b = append(b, `"}}`...)
	return d.call(ctx, "process.Process/SendInput", json.RawMessage(b), nil)
}
