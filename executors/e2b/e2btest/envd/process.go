package envd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// Messages of process.Process, as in its JSON.
type (
	ptySize struct {
		Cols uint16 `json:"cols"`
		Rows uint16 `json:"rows"`
	}
	ptySpec struct {
		Size *ptySize `json:"size"`
	}
	processConfig struct {
		Cmd  string            `json:"cmd,omitempty"`
		Args []string          `json:"args,omitempty"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  *string           `json:"cwd,omitempty"`
	}
	startRequest struct {
		Process *processConfig `json:"process"`
		Pty     *ptySpec       `json:"pty"`
		Tag     *string        `json:"tag"`
		Stdin   *bool          `json:"stdin"`
	}
	processInfo struct {
		Config *processConfig `json:"config,omitempty"`
		Pid    uint32         `json:"pid,omitempty"`
		Tag    *string        `json:"tag,omitempty"`
	}
	data struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		Pty    []byte `json:"pty,omitempty"`
	}
	ending struct {
		ExitCode int32   `json:"exitCode,omitempty"`
		Exited   bool    `json:"exited,omitempty"`
		Status   string  `json:"status,omitempty"`
		Error    *string `json:"error,omitempty"`
	}
	started struct {
		Pid uint32 `json:"pid,omitempty"`
	}
	event struct {
		Start     *started  `json:"start,omitempty"`
		Data      *data     `json:"data,omitempty"`
		End       *ending   `json:"end,omitempty"`
		Keepalive *struct{} `json:"keepalive,omitempty"`
	}
	eventMessage struct {
		Event event `json:"event"`
	}
)

// Sizes of the pieces output is read in, in bytes.
const (
	pipePiece = 32 << 10
	ptyPiece  = 16 << 10
)

// process is one that runs, whether somebody watches it or not.
type process struct {
	config *processConfig
	tag    *string
	pid    uint32
	cmd    *exec.Cmd
	tty    *os.File
	out    *fan
	ended  chan struct{}
	end    *ending

	inMu  sync.Mutex
	stdin *os.File

	drop func() // what is still in its pipes is not waited for
}

// wrapper is the shell line everything is started by, which resets the priorities that envd itself has. A program that is not there is no
// refused start, therefore: the shell, or a helper, says so on stderr and ends with 127; with 126 where it cannot be run.
func wrapper() string {
	line := "echo 100 > /proc/$$/oom_score_adj; exec " // the real one does not go on where that fails, which only happens outside its machines
	for _, helper := range [][]string{{"ionice", "-c", "2", "-n", "4"}, {"nice", "-n", "0"}} {
		if path, err := exec.LookPath(helper[0]); err == nil {
			line += strings.Join(append([]string{path}, helper[1:]...), " ") + " "
		}
	}
	return line + `"$@"`
}

// newProcess starts one. Its output is not lost to who listens from the beginning. A deadline > 0 ends it then.
func (s *server) newProcess(u *account, in *startRequest, deadline time.Duration, watch func(*process) *listener) (*process, *listener, error) {
	if in.Process == nil {
		in.Process = &processConfig{}
	}
	cwd := ""
	if in.Process.Cwd != nil {
		cwd = *in.Process.Cwd
	}
	dir, err := u.resolve(cwd)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil, refuse("invalid_argument", "cwd '%s' does not exist", dir)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if deadline > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), deadline)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", wrapper(), "--", in.Process.Cmd}, in.Process.Args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.home, "USER=" + u.name, "LOGNAME=" + u.name}
	for k, v := range s.envs() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	for k, v := range in.Process.Envs {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if !u.same {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid), Groups: []uint32{uint32(u.gid)}}
	}
	outCtx, drop := context.WithCancel(ctx)
	p := &process{config: in.Process, tag: in.Tag, cmd: cmd, out: newFan(), ended: make(chan struct{}), drop: drop}
	l := watch(p)
	readers, err := p.begin(in)
	if err != nil {
		cancel()
		close(p.out.source)
		p.out.leave(l)
		return nil, nil, refuse("invalid_argument", "error starting process '%s': %v", strings.Join(append([]string{in.Process.Cmd}, in.Process.Args...), " "), err)
	}
	p.pid = uint32(cmd.Process.Pid)
	s.mu.Lock()
	s.procs[p.pid] = p
	delete(s.over, p.pid) // of another one
	s.mu.Unlock()
	go func() {
		readers()
		drop()
		close(p.out.source)
	}()
	go func() {
		defer cancel()
		<-outCtx.Done() // while anybody holds its output open, it has not ended
		err := cmd.Wait()
		if p.tty != nil {
			_ = p.tty.Close()
		}
		_ = p.closeStdin()
		st := cmd.ProcessState
		p.end = &ending{ExitCode: int32(st.ExitCode()), Exited: st.Exited(), Status: st.String()}
		if err != nil {
			text := err.Error()
			p.end.Error = &text
		}
		close(p.ended)
		s.retire(p)
		s.note(fmt.Sprintf("Process with pid %d ended", p.pid), map[string]string{"event_type": "process_end"})
	}()
	return p, l, nil
}

// begin starts the program and returns what reads its output until there is none.
func (p *process) begin(in *startRequest) (readers func(), err error) {
	if in.Pty != nil {
		size := in.Pty.Size
		if size == nil {
			size = &ptySize{}
		}
		p.tty, err = pty.StartWithSize(p.cmd, &pty.Winsize{Cols: size.Cols, Rows: size.Rows})
		if err != nil {
			return nil, err
		}
		return func() { p.read(p.tty, ptyPiece, func(b []byte) *data { return &data{Pty: b} }) }, nil
	}
	var spent []*os.File // ends that are the child's
	defer func() {
		for _, f := range spent {
			_ = f.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	outR, outW := pipe()
	errR, errW := pipe()
	inR, inW := pipe()
	if err != nil {
		return nil, err
	}
	spent = append(spent, outW, errW, inR)
	p.cmd.Stdout, p.cmd.Stderr = outW, errW
	if in.Stdin == nil || *in.Stdin {
		p.cmd.Stdin, p.stdin = inR, inW
	} else {
		spent = append(spent, inW)
	}
	if err := p.cmd.Start(); err != nil {
		_, _ = outR.Close(), errR.Close()
		if p.stdin != nil {
			spent = append(spent, inW)
			p.stdin = nil
		}
		return nil, err
	}
	return func() {
		var wg sync.WaitGroup
		wg.Go(func() { p.read(outR, pipePiece, func(b []byte) *data { return &data{Stdout: b} }) })
		wg.Go(func() { p.read(errR, pipePiece, func(b []byte) *data { return &data{Stderr: b} }) })
		stop := make(chan struct{})
		go func() {
			select {
			case <-p.ended: // killed: what others still hold open is not read any more
				_, _ = outR.Close(), errR.Close()
			case <-stop:
			}
		}()
		wg.Wait()
		close(stop)
		_, _ = outR.Close(), errR.Close()
	}, nil
}

func (p *process) read(f *os.File, piece int, as func([]byte) *data) {
	for {
		buf := make([]byte, piece)
		n, err := f.Read(buf)
		if n > 0 {
			p.out.source <- as(buf[:n])
		}
		if err != nil {
			return // io.EOF, or EIO at the end of a terminal
		}
	}
}

// write takes input: bytes for a pipe or for a terminal, never the other's.
func (p *process) write(in *processInput) error {
	switch {
	case in == nil || (in.Stdin == nil) == (in.Pty == nil):
		return refuse("unimplemented", "invalid input type")
	case in.Pty != nil && p.tty == nil:
		return refuse("internal", "error writing to tty: tty not assigned to process — input should be written to the stdin, not the tty")
	case in.Pty != nil:
		if _, err := p.tty.Write(*in.Pty); err != nil {
			return refuse("internal", "error writing to tty: %v", err)
		}
		return nil
	case p.tty != nil:
		return refuse("internal", "error writing to stdin: tty assigned to process — input should be written to the pty, not the stdin")
	}
	p.inMu.Lock()
	defer p.inMu.Unlock()
	if p.stdin == nil {
		return refuse("internal", "error writing to stdin: stdin not enabled or closed")
	}
	if _, err := p.stdin.Write(*in.Stdin); err != nil {
		return refuse("internal", "error writing to stdin: error writing to stdin of process '%d': %v", p.pid, err)
	}
	return nil
}

func (p *process) closeStdin() error {
	p.inMu.Lock()
	defer p.inMu.Unlock()
	if p.stdin == nil {
		return nil
	}
	err := p.stdin.Close()
	p.stdin = nil
	return err
}
