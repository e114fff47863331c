package e2b

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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

// exitError is how a process ended that did not end well. envd starts everything by way of a shell: a program that is not there is code 127,
// one that cannot be run 126.
type exitError struct {
	Code   int
	Status string // as envd words it, such as "exit status 3" or "signal: killed"; "" = it says nothing
	Said   string // what it wrote last
}

func (e *exitError) Error() string {
	how := cmp.Or(e.Status, fmt.Sprintf("exit status %d", e.Code))
	if e.Said == "" {
		return "it ended with " + how + " and wrote nothing"
	}
	return "it ended with " + how + ": " + e.Said
}

// maxTail is how much of what a process wrote is kept for the error, in bytes.
const maxTail = 2 << 10

// tail keeps the end of what a process writes.
type tail struct{ b []byte }

func (t *tail) add(b []byte) {
	t.b = append(t.b, b[max(0, len(b)-maxTail):]...)
	t.b = t.b[max(0, len(t.b)-maxTail):]
}

// String is the last of it as one bounded line.
func (t *tail) String() string {
	const shown = 300
	s := strings.TrimSpace(string(t.b))
	if len(s) > shown {
		s = "..." + s[len(s)-shown:]
	}
	return line(s, shown+3)
}

// ending is the end of a process as an error; nil = it ended well.
func (e *event) ending(said *tail) error {
	end := e.Event.End
	if end.ExitCode == 0 && end.Error == "" {
		return nil
	}
	return &exitError{Code: end.ExitCode, Status: line(end.Status, 80), Said: said.String()}
}

// wait reads until the process has ended; an end that is not good is an *exitError.
func (p *process) wait() error {
	var said tail
	for {
		m, err := p.next()
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(m, &e); err != nil {
			return fmt.Errorf("envd's answer cannot be read: %w", err)
		}
		if d := e.Event.Data; d != nil {
			said.add(d.Stdout)
			said.add(d.Stderr)
		}
		if e.Event.End != nil {
			return e.ending(&said)
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
	if isCode(err, "not_found") || isCode(err, "internal") && strings.Contains(err.Error(), "process already finished") {
		return nil // envd takes one that has just ended off its list a moment later
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
