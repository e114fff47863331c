// Package envd speaks to a sandbox with nothing but the calls of E2B and its daemon: the baseline for workspaces in such sandboxes.
package envd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

// Box is a sandbox.
type Box struct {
	s         *e2btest.Server
	id, token string
}

// New makes a sandbox. Kill it.
func New(s *e2btest.Server) (*Box, error) {
	var made struct{ SandboxID, EnvdAccessToken string }
	b := &Box{s: s}
	err := b.api("POST", "/v2/sandboxes", `{"templateID":"parawork-base","timeout":600}`, &made)
	b.id, b.token = made.SandboxID, made.EnvdAccessToken
	return b, err
}

func (b *Box) api(method, path, body string, into any) error {
	req, err := http.NewRequest(method, b.s.APIURL()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", b.s.Key())
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// Kill ends the sandbox.
func (b *Box) Kill() error { return b.api("DELETE", "/sandboxes/"+b.id, "", nil) }

// request to envd.
func (b *Box) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.s.SandboxURL()+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("E2b-Sandbox-Id", b.id)
	req.Header.Set("E2b-Sandbox-Port", "49983")
	req.Header.Set("X-Access-Token", b.token)
	req.Header.Set("Connect-Protocol-Version", "1")
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

func (b *Box) rpc(method string, in any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := b.request(context.Background(), "POST", "/process.Process/"+method, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", method, resp.Status, text)
	}
	return err
}

func envelope(in any) ([]byte, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 5, 5+len(text))
	binary.BigEndian.PutUint32(out[1:], uint32(len(text)))
	return append(out, text...), nil
}

// Process is a process of a bare sandbox and its stream.
type Process struct {
	b      *Box
	pid    int
	body   io.ReadCloser
	cancel context.CancelFunc
}

type event struct {
	Start *struct{ Pid int }
	Data  *struct{ Stdout, Pty []byte }
	End   *struct{ ExitCode int }
}

// Start begins a program under a PTY.
func (b *Box) Start(argv ...string) (*Process, error) {
	return b.begin(map[string]any{"process": map[string]any{"cmd": argv[0], "args": argv[1:]}, "pty": map[string]any{"size": map[string]any{"cols": 120, "rows": 32}}})
}

func (b *Box) begin(in map[string]any) (*Process, error) {
	msg, err := envelope(in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := b.request(ctx, "POST", "/process.Process/Start", bytes.NewReader(msg))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	p := &Process{b: b, body: resp.Body, cancel: cancel}
	e, err := p.next()
	if err == nil && e.Start == nil {
		err = errors.New("a process did not begin with its start")
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	p.pid = e.Start.Pid
	return p, nil
}

func (p *Process) next() (event, error) {
	var head [5]byte
	if _, err := io.ReadFull(p.body, head[:]); err != nil {
		return event{}, err
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(p.body, text); err != nil {
		return event{}, err
	}
	if head[0] != 0 {
		return event{}, fmt.Errorf("the stream has ended: %s", text)
	}
	var m struct{ Event event }
	return m.Event, json.Unmarshal(text, &m)
}

// Read returns the next output.
func (p *Process) Read() ([]byte, error) {
	for {
		e, err := p.next()
		if err != nil {
			return nil, err
		}
		if e.Data != nil {
			return append(e.Data.Stdout, e.Data.Pty...), nil
		}
		if e.End != nil {
			return nil, errors.New("the process has ended")
		}
	}
}

// Ready waits for the R that says that the program reads.
func (p *Process) Ready() error {
	got, err := p.Read()
	if err == nil && string(got) != "R" {
		err = fmt.Errorf("the child said %q instead of R", got)
	}
	return err
}

// Close kills the process.
func (p *Process) Close() {
	_ = p.b.rpc("SendSignal", map[string]any{"process": map[string]any{"pid": p.pid}, "signal": "SIGNAL_SIGKILL"})
	p.cancel()
	_ = p.body.Close()
}

// input opens one stream of input into the process, as our pipe does.
func (p *Process) input() (*input, error) {
	r, w := io.Pipe()
	req, err := p.b.request(context.Background(), "POST", "/process.Process/StreamInput", r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	go func() { // ends with the input
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	in := &input{w}
	return in, in.send(map[string]any{"start": map[string]any{"process": map[string]any{"pid": p.pid}}})
}

// input is a stream of input into a process.
type input struct{ *io.PipeWriter }

func (in *input) send(message map[string]any) error {
	msg, err := envelope(message)
	if err == nil {
		_, err = in.PipeWriter.Write(msg)
	}
	return err
}

// Write types.
func (in *input) Write(b []byte) (int, error) {
	return len(b), in.send(map[string]any{"data": map[string]any{"input": map[string]any{"pty": base64.StdEncoding.EncodeToString(b)}}})
}

// pipe is a process's input and output.
type pipe struct {
	*input
	p    *Process
	rest []byte
}

// Pipe starts a program whose input and output it is, by way of a terminal that changes nothing.
func (b *Box) Pipe(argv ...string) (io.ReadWriteCloser, error) {
	argv = append([]string{"/bin/sh", "-c", `stty raw -echo; exec "$@"`, "pipe"}, argv...)
	p, err := b.Start(argv...)
	if err != nil { // the connection that it was sent on may have been closed just then
		p, err = b.Start(argv...)
	}
	if err != nil {
		return nil, err
	}
	in, err := p.input()
	if err != nil {
		p.Close()
		return nil, err
	}
	return &pipe{input: in, p: p}, nil
}

// Read reads what the program writes.
func (p *pipe) Read(b []byte) (n int, err error) {
	for len(p.rest) == 0 && err == nil {
		p.rest, err = p.p.Read()
	}
	n = copy(b, p.rest)
	p.rest = p.rest[n:]
	if n > 0 {
		err = nil
	}
	return n, err
}

// Close kills the program.
func (p *pipe) Close() error {
	p.p.Close()
	return p.input.Close()
}

// Keystrokes measures n echoes of one byte each, typed into one stream as our pipe does.
func (p *Process) Keystrokes(n int) ([]time.Duration, error) {
	if err := p.Ready(); err != nil {
		return nil, err
	}
	w, err := p.input()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	took := make([]time.Duration, 0, n)
	for i := range n {
		key := []byte{byte('a' + i%26)}
		t0 := time.Now()
		if _, err := w.Write(key); err != nil {
			return nil, err
		}
		got, err := p.Read()
		if err != nil {
			return nil, err
		}
		if string(got) != string(key) {
			return nil, fmt.Errorf("typed %q, got %q", key, got)
		}
		took = append(took, time.Since(t0))
		time.Sleep(time.Millisecond)
	}
	slices.Sort(took)
	return took, nil
}

// Push is how many bytes a second go into a process through one stream of input.
func (b *Box) Push(size int64) (float64, error) {
	p, err := b.begin(map[string]any{"process": map[string]any{"cmd": "/bin/sh", "args": []string{"-c", fmt.Sprintf("head -c %d > /home/user/pushed; echo done", size)}}})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	r, w := io.Pipe()
	req, err := b.request(context.Background(), "POST", "/process.Process/StreamInput", r)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	began := time.Now()
	go func() {
		msg, err := envelope(map[string]any{"start": map[string]any{"process": map[string]any{"pid": p.pid}}})
		if err == nil {
			_, err = w.Write(msg)
		}
		buf := bytes.Repeat([]byte("What is sent does not matter. "), 10_000)
		for off := int64(0); err == nil && off < size; off += int64(len(buf)) {
			piece := buf[:min(int64(len(buf)), size-off)]
			if msg, err = envelope(map[string]any{"data": map[string]any{"input": map[string]any{"stdin": piece}}}); err == nil {
				_, err = w.Write(msg)
			}
		}
		_ = w.CloseWithError(err)
	}()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := p.Read(); err != nil {
		return 0, err
	}
	return float64(size) / time.Since(began).Seconds(), nil
}

// Changes is the 95th percentile of what a written file takes to be read with a watch and a download.
func (b *Box) Changes(n int) (time.Duration, error) {
	msg, err := envelope(map[string]any{"path": "/home/user", "recursive": true})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := b.request(ctx, "POST", "/filesystem.Filesystem/WatchDir", bytes.NewReader(msg))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	events := &Process{b: b, body: resp.Body}
	if _, err := events.next(); err != nil { // its start
		return 0, err
	}
	var took []time.Duration
	for i := range n {
		began := time.Now()
		p, err := b.begin(map[string]any{"process": map[string]any{"cmd": "/bin/sh", "args": []string{"-c", fmt.Sprintf("date > /home/user/pace%d", i)}}})
		if err != nil {
			return 0, err
		}
		for seen := false; !seen; {
			var head [5]byte
			if _, err := io.ReadFull(events.body, head[:]); err != nil {
				return 0, err
			}
			text := make([]byte, binary.BigEndian.Uint32(head[1:]))
			if _, err := io.ReadFull(events.body, text); err != nil {
				return 0, err
			}
			seen = bytes.Contains(text, []byte(fmt.Sprintf(`"name":"pace%d","type":"EVENT_TYPE_WRITE"`, i)))
		}
		get, err := b.request(ctx, "GET", fmt.Sprintf("/files?path=pace%d", i), nil)
		if err != nil {
			return 0, err
		}
		got, err := http.DefaultClient.Do(get)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
		took = append(took, time.Since(began))
		p.Close()
	}
	slices.Sort(took)
	return took[len(took)*95/100], nil
}
