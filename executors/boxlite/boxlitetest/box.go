package boxlitetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/hosted/hostedtest"
)

// box is one box.
type box struct {
	id, name string
	equipped bool // its image has the guest
	asked    CreateBoxRequest
	root     string
	created  time.Time

	mu         sync.Mutex
	status     string
	m          *hostedtest.Machine
	executions map[string]*execution
}

// boxInfo is the document's Box.
type boxInfo struct {
	ID         string            `json:"box_id"`
	Name       string            `json:"name"`
	Status     string            `json:"status"`
	CreatedAt  time.Time         `json:"created_at"`
	UpdatedAt  time.Time         `json:"updated_at"`
	Pid        *int              `json:"pid"`
	Image      string            `json:"image"`
	CPUs       int               `json:"cpus"`
	MemoryMiB  int               `json:"memory_mib"`
	Labels     map[string]string `json:"labels"`
	AutoStop   int               `json:"auto_stop"`
	AutoDelete int               `json:"auto_delete"`
	AutoResume bool              `json:"auto_resume"`
}

func newBox(id string, c CreateBoxRequest, dir string) *box {
	return &box{id: id, name: c.Name, asked: c, root: filepath.Join(dir, id), created: time.Now(), status: "configured", executions: make(map[string]*execution)}
}

func or(v *int, otherwise int) int {
	if v == nil {
		return otherwise
	}
	return *v
}

func (b *box) info() boxInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return boxInfo{ID: b.id, Name: b.name, Status: b.status, CreatedAt: b.created, UpdatedAt: b.created, Image: b.asked.Image, CPUs: or(b.asked.CPUs, 2),
		MemoryMiB: or(b.asked.MemoryMiB, 512), Labels: map[string]string{}, AutoStop: or(b.asked.AutoStop, 900), AutoDelete: or(b.asked.AutoDelete, 0),
		AutoResume: b.asked.AutoResume == nil || *b.asked.AutoResume}
}

func (b *box) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m != nil {
		return nil
	}
	m, err := hostedtest.Boot(b.root, b.equipped)
	if err != nil {
		return err
	}
	b.m, b.status = m, "running"
	return nil
}

// stop ends everything in the box; the disk stays.
func (b *box) stop() {
	b.mu.Lock()
	m, all := b.m, b.executions
	b.m, b.executions = nil, make(map[string]*execution)
	if m != nil {
		b.status = "stopped"
	}
	b.mu.Unlock()
	if m != nil {
		m.Kill()
	}
	for _, x := range all {
		x.kill()
	}
}

func (b *box) running() (*hostedtest.Machine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		return nil, conflict("box is %s", b.status)
	}
	return b.m, nil
}

func (b *box) execution(id string) *execution {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.executions[id]
}

func (b *box) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.executions, id)
}

// An execution's output is kept this far: for who attaches late, and for who reads slowly. The rest is lost, without a word.
const (
	backlog     = 256 << 10
	maxMessages = 256
)

// execution is one program in a box.
type execution struct {
	id    string
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu       sync.Mutex
	changed  chan struct{} // closed and made anew with each change
	output   [][]byte      // messages so far: a channel and bytes
	first    int           // how many of them were forgotten
	size     int
	attached bool
	done     bool
	code     int
}

type execRequest struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Timeout *float64          `json:"timeout_seconds"`
	WorkDir string            `json:"working_dir"`
	Tty     bool              `json:"tty"`
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request, b *box) error {
	if err := only(r.URL.Query()); err != nil {
		return err
	}
	var in execRequest
	if err := take(r, &in); err != nil {
		return err
	}
	if in.Command == "" || in.Timeout != nil && *in.Timeout < 0.1 || in.Tty {
		return invalid("command %q", in.Command)
	}
	if err := b.start(); err != nil { // the box is started where it does not run
		return err
	}
	m, err := b.running()
	if err != nil {
		return err
	}
	running := 0
	b.mu.Lock()
	for _, x := range b.executions {
		if !x.ended() {
			running++
		}
	}
	b.mu.Unlock()
	if running >= MaxExecutions {
		return &problem{status: http.StatusConflict, kind: "ResourceExhaustedError", code: "resource_exhausted", message: "resource exhausted: too many executions"}
	}
	dir := in.WorkDir
	if dir == "" {
		dir = "/"
	}
	env := []string{}
	for k, v := range in.Env {
		env = append(env, k+"="+v)
	}
	x := &execution{id: random("exec-"), changed: make(chan struct{})}
	x.cmd = m.Command(context.Background(), append([]string{in.Command}, in.Args...), env, dir)
	if x.stdin, err = x.cmd.StdinPipe(); err != nil {
		return err
	}
	x.cmd.Stdout, x.cmd.Stderr = stream{x, 1}, stream{x, 2}
	x.cmd.WaitDelay = time.Second // what outlives the program may hold its output open
	if err := x.cmd.Start(); err != nil {
		return &problem{status: http.StatusBadRequest, kind: "ExecutionError", code: "execution_failed", message: err.Error()}
	}
	b.mu.Lock()
	b.executions[x.id] = x
	b.mu.Unlock()
	go func() { // ends with the program
		err := x.cmd.Wait()
		code := x.cmd.ProcessState.ExitCode()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && code < 0 {
			code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
		x.change(func() { x.done, x.code = true, code })
	}()
	w.Header().Set("Location", r.URL.Path+"utions/"+x.id)
	return answer(w, http.StatusCreated, map[string]string{"execution_id": x.id})
}

// stream is one output of an execution.
type stream struct {
	x       *execution
	channel byte
}

func (s stream) Write(p []byte) (int, error) {
	s.x.change(func() {
		s.x.output = append(s.x.output, append([]byte{s.channel}, p...))
		for s.x.size += len(p); s.x.size > backlog || len(s.x.output) > maxMessages; s.x.first++ {
			s.x.size -= len(s.x.output[0]) - 1
			s.x.output = s.x.output[1:]
		}
	})
	return len(p), nil
}

func (x *execution) change(do func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	do()
	close(x.changed)
	x.changed = make(chan struct{})
}

func (x *execution) ended() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.done
}

func (x *execution) kill() { _ = hostedtest.KillGroup(x.cmd) }

func (x *execution) info() any {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[string]any{"execution_id": x.id, "status": "running"}
	if x.done {
		out["status"], out["exit_code"] = "completed", x.code
	}
	return out
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request, x *execution) error {
	if err := only(r.URL.Query(), "stdin"); err != nil {
		return err
	}
	x.mu.Lock()
	taken := x.attached
	x.attached = true
	x.mu.Unlock()
	if taken {
		return conflict("execution %s already has an attached client", x.id)
	}
	defer x.change(func() { x.attached = false })
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return nil // it was answered
	}
	defer ws.Close()
	s.mu.Lock()
	cut := s.knobs.CutAfter
	s.mu.Unlock()
	if cut > 0 {
		defer time.AfterFunc(cut, func() { _ = ws.NetConn().Close() }).Stop()
	}
	gone := make(chan struct{})
	go func() { // ends with the connection
		defer close(gone)
		x.input(ws)
	}()
	x.mu.Lock()
	sent := x.first
	x.mu.Unlock()
	for {
		x.mu.Lock()
		sent = max(sent, x.first)
		next, done, changed := x.output[sent-x.first:], x.done, x.changed
		sent += len(next)
		x.mu.Unlock()
		for _, m := range next {
			if err := ws.WriteMessage(websocket.BinaryMessage, m); err != nil {
				return nil
			}
		}
		if len(next) > 0 {
			continue
		}
		if done {
			_ = ws.WriteJSON(map[string]any{"type": "exit", "exit_code": x.code})
			_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			return nil
		}
		select {
		case <-changed:
		case <-gone:
			return nil
		}
	}
}

// input takes what a client sends.
func (x *execution) input(ws *websocket.Conn) {
	for {
		kind, m, err := ws.ReadMessage()
		if err != nil {
			return
		}
		if kind == websocket.BinaryMessage {
			_, _ = x.stdin.Write(m)
			continue
		}
		var t struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(m, &t) == nil && t.Type == "stdin_eof" {
			_ = x.stdin.Close()
		}
	}
}
