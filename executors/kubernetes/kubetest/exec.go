package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/gorilla/websocket"
)

// Channels of a WebSocket of v5.channel.k8s.io.
const (
	stdinChannel  = 0
	stdoutChannel = 1
	stderrChannel = 2
	errorChannel  = 3
	resizeChannel = 4
	closeChannel  = 255
)

// execOptions are how a program is to run in a container.
type execOptions struct {
	argv                       []string
	stdin, stdout, stderr, tty bool
}

// execStream is one that is open; cut ends its connection as a proxy would.
type execStream struct {
	cut     func()
	started time.Time
}

// exec runs a program in a container.
func (s *Server) exec(c *call) error {
	if c.Method != http.MethodGet && c.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "the server does not allow this method on the requested resource")
	}
	if c.fault != nil && c.fault.Lose {
		return nil
	}
	s.mu.Lock()
	o, p := s.store[key{"pods", c.ns, c.name}], s.pods[key{"pods", c.ns, c.name}]
	s.mu.Unlock()
	if o == nil {
		return c.res.missing(c.name)
	}
	q := c.URL.Query()
	opts := execOptions{argv: q["command"], stdin: isTrue(q.Get("stdin")), stdout: isTrue(q.Get("stdout")), stderr: isTrue(q.Get("stderr")), tty: isTrue(q.Get("tty"))}
	name := q.Get("container")
	if opts.tty {
		opts.stderr = false
	}
	node, _ := sub(clone(o.obj), "spec")["nodeName"].(string)
	all := as[pod](o.obj).Spec.Containers
	if name == "" && len(all) > 0 {
		name = all[0].Name
	}
	if !slices.ContainsFunc(all, func(one container) bool { return one.Name == name }) {
		return refuse(http.StatusBadRequest, "container %s is not valid for pod %s", name, c.name)
	}
	if node == "" {
		return refuse(http.StatusBadRequest, "pod %s does not have a host assigned", c.name)
	}
	b, why := s.runningBox(p, o.obj, name)
	s.mu.Lock()
	lost, noSockets := s.lost[node], s.noSockets
	s.mu.Unlock()
	switch {
	case lost:
		return refuse(http.StatusInternalServerError, "error dialing backend: dial tcp 192.0.2.10:10250: connect: no route to host")
	case !opts.stdin && !opts.stdout && !opts.stderr:
		why = &nodeError{http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr"}
	case len(opts.argv) == 0 && why == nil:
		why = &nodeError{http.StatusInternalServerError, "no command was given"}
	}
	switch upgrade := c.Header.Get("Upgrade"); {
	case strings.EqualFold(upgrade, "websocket"):
		if noSockets { // as a server, or a proxy before it, that knows SPDY alone
			return refuse(http.StatusForbidden, "pods %q is forbidden: upgrade to WebSocket is not supported", c.name)
		}
		if !slices.Contains(websocket.Subprotocols(c.Request), "v5.channel.k8s.io") {
			return refuse(http.StatusBadRequest, "this stand-in speaks v5.channel.k8s.io alone, not %v", websocket.Subprotocols(c.Request))
		}
		if why != nil && !s.cfg.Translates {
			return why.answer(c)
		}
		return s.execWebSocket(c, b, why, opts)
	case strings.EqualFold(upgrade, "SPDY/3.1"):
		if why != nil {
			return why.answer(c)
		}
		return s.execSPDY(c, b, opts)
	}
	return refuse(http.StatusBadRequest, "Upgrade request required")
}

// nodeError is what a kubelet says in place of a stream, as plain text.
type nodeError struct {
	code int
	text string
}

func (e *nodeError) answer(c *call) error {
	c.w.WriteHeader(e.code)
	_, err := io.WriteString(c.w, e.text)
	return err
}

func isTrue(s string) bool { return s == "true" || s == "1" }

// runningBox finds a container that runs, or says why there is none.
func (s *Server) runningBox(p *podRun, o object, name string) (*box, *nodeError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != nil && p.uid == metaOf(o)["uid"] {
		for _, c := range p.mains {
			if c.spec.Name == name && c.box != nil {
				return c.box, nil
			}
		}
	}
	return nil, &nodeError{http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name)}
}

// opened has knobs reach a stream until the function it returns is called.
func (s *Server) opened(cut func()) (closed func()) {
	st := &execStream{cut: cut, started: time.Now()}
	s.mu.Lock()
	s.streams[st] = struct{}{}
	every := s.cutEvery
	s.mu.Unlock()
	var t *time.Timer
	if every > 0 {
		t = time.AfterFunc(every, cut)
	}
	return func() {
		if t != nil {
			t.Stop()
		}
		s.mu.Lock()
		delete(s.streams, st)
		s.mu.Unlock()
	}
}

// cutStreams cuts every stream.
func (s *Server) cutStreams() {
	s.mu.Lock()
	var all []*execStream
	for st := range s.streams {
		all = append(all, st)
	}
	s.mu.Unlock()
	for _, st := range all {
		st.cut()
	}
}

// outcome is what a program's end is reported as.
func outcome(err error) object {
	if err == nil {
		return object{"metadata": object{}, "status": "Success"}
	}
	x, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return object{"metadata": object{}, "status": "Failure", "message": "error executing command in container: " + err.Error(), "reason": "InternalError", "code": 500,
			"details": object{"causes": []any{object{"message": err.Error()}}}}
	}
	code := exitCode(x.ProcessState)
	return object{"metadata": object{}, "status": "Failure", "message": fmt.Sprintf("command terminated with non-zero exit code: command terminated with exit code %d", code), "reason": "NonZeroExitCode",
		"details": object{"causes": []any{object{"reason": "ExitCode", "message": strconv.Itoa(code)}}}}
}

// program is one that runs in a container for an exec.
type program struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	tty     *os.File
	outputs sync.WaitGroup
}

// begin starts a program; each output is given to send until it ends. A cut stream does not end the program: its input ends.
func (b *box) begin(opts execOptions, send func(stderr bool, p []byte) error) (*program, error) {
	if filepath.IsAbs(opts.argv[0]) { // the runtime finds nothing to start; links lead within the container
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/root%s", b.pid, opts.argv[0])); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("failed to exec in container: %w", err)
		}
	}
	p := &program{cmd: b.command(context.Background(), opts.argv)} // ends with the container at the latest
	pass := func(stderr bool, r io.Reader) {
		p.outputs.Go(func() {
			buf := make([]byte, 32<<10)
			for broken := false; ; {
				n, err := r.Read(buf)
				if n > 0 && !broken { // what nobody takes any more is read all the same
					broken = send(stderr, buf[:n]) != nil
				}
				if err != nil {
					return
				}
			}
		})
	}
	if opts.tty {
		f, err := pty.Start(p.cmd)
		if err != nil {
			return nil, err
		}
		p.tty, p.in = f, f
		pass(false, f)
		return p, nil
	}
	// The pipes are files, so that Wait waits for the program alone: what it started may hold them.
	files := []*os.File{}
	closeAll := func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
	defer closeAll()
	if opts.stdin {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.cmd.Stdin, p.in, files = r, w, append(files, r)
	}
	var readers []func()
	for _, one := range []struct {
		wanted, stderr bool
		to             *io.Writer
	}{{opts.stdout, false, &p.cmd.Stdout}, {opts.stderr, true, &p.cmd.Stderr}} {
		if !one.wanted {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		*one.to, files = w, append(files, w)
		readers = append(readers, func() { pass(one.stderr, r) })
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for _, r := range readers {
		r()
	}
	return p, nil
}

// resize tells a program's terminal its size.
func (p *program) resize(cols, rows uint16) {
	if p.tty != nil {
		_ = pty.Setsize(p.tty, &pty.Winsize{Cols: cols, Rows: rows})
	}
}

func (p *program) closeInput() {
	if p.in != nil && p.tty == nil {
		_ = p.in.Close()
	}
}

// wait waits for a program's end and all it said.
func (p *program) wait() error {
	err := p.cmd.Wait()
	p.outputs.Wait()
	if p.tty != nil {
		_ = p.tty.Close()
	}
	return err
}

// execWebSocket speaks v5.channel.k8s.io.
func (s *Server) execWebSocket(c *call, b *box, why *nodeError, opts execOptions) error {
	up := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}, CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(c.w, c.Request, nil)
	if err != nil {
		return nil // it was answered
	}
	defer ws.Close()
	c.w.(*watched).status = http.StatusSwitchingProtocols
	cut := func() { _ = ws.NetConn().Close() }
	defer s.opened(cut)()
	var mu sync.Mutex
	write := func(channel byte, p []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return ws.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, p...))
	}
	if why != nil {
		st := refuse(http.StatusInternalServerError, "Internal error occurred: unable to upgrade connection: %s", why.text)
		return write(errorChannel, marshal(st.object()))
	}
	p, err := b.begin(opts, func(stderr bool, data []byte) error {
		if stderr {
			return write(stderrChannel, data)
		}
		return write(stdoutChannel, data)
	})
	if err != nil {
		return write(errorChannel, marshal(outcome(err)))
	}
	s.wg.Go(func() { // ends with the connection
		defer p.closeInput()
		for {
			kind, data, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if kind != websocket.BinaryMessage || len(data) == 0 {
				continue
			}
			switch data[0] {
			case stdinChannel:
				if p.in != nil {
					_, _ = p.in.Write(data[1:])
				}
			case closeChannel:
				if len(data) == 2 && data[1] == stdinChannel {
					p.closeInput()
				}
			case resizeChannel:
				var size struct{ Width, Height uint16 }
				_ = json.Unmarshal(data[1:], &size)
				p.resize(size.Width, size.Height)
			}
		}
	})
	err = p.wait()
	_ = write(errorChannel, marshal(outcome(err)))
	mu.Lock()
	_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	mu.Unlock()
	return nil
}

// podLog answers what a container said.
func (s *Server) podLog(c *call) error {
	s.mu.Lock()
	o, p := s.store[key{"pods", c.ns, c.name}], s.pods[key{"pods", c.ns, c.name}]
	s.mu.Unlock()
	if o == nil || p == nil {
		return c.res.missing(c.name)
	}
	name := c.URL.Query().Get("container")
	if name == "" {
		name = p.spec.Spec.Containers[0].Name
	}
	b, err := os.ReadFile(filepath.Join(p.dir(), name, "log"))
	if err != nil {
		return refuse(http.StatusBadRequest, "container %q in pod %q is waiting to start: ContainerCreating", name, c.name)
	}
	if n, err := strconv.Atoi(c.URL.Query().Get("tailLines")); err == nil {
		lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
		b = []byte(strings.Join(lines[max(0, len(lines)-n):], ""))
	}
	if n, err := strconv.Atoi(c.URL.Query().Get("limitBytes")); err == nil {
		b = b[:min(len(b), n)]
	}
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusOK)
	_, err = c.w.Write(b)
	return err
}

// evict deletes a pod as one who drains its node does.
func (s *Server) evict(c *call) error {
	var in eviction
	if err := c.decode("Eviction", "policy/v1", &in); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{"pods", c.ns, c.name}
	if s.store[k] == nil {
		return c.res.missing(c.name)
	}
	var grace *int64
	if in.DeleteOptions != nil {
		grace = in.DeleteOptions.GracePeriodSeconds
	}
	s.evictPod(k, grace)
	return c.answer(http.StatusCreated, object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success", "code": http.StatusCreated})
}

// evictPod marks and deletes a pod. The caller holds mu.
func (s *Server) evictPod(k key, grace *int64) {
	if p := s.pods[k]; p != nil {
		p.condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
		p.sync()
	}
	s.deletePod(k, grace)
}
