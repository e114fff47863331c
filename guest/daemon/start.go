package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/fault"
)

// startFailed begins the reason of a process that could not be started.
const startFailed = "start_failed: "

var (
	errEnding     = fault.New(fault.Unavailable, "sandbox_ending", "The sandbox is ending: nothing can be started in it any more.")
	errNoTerminal = fault.New(fault.Conflict, "no_terminal", "The process has no terminal.")
)

// start starts a process, or returns the one that was started with this ID before. A program that cannot be run is not an error:
// its process has ended, with the cause in its reason.
func (d *Daemon) start(spec guest.ProcessSpec) (*process, error) {
	if err := checkSpec(&spec); err != nil {
		return nil, err
	}
	p, first, err := d.admit(spec.ID)
	if err != nil {
		return nil, err
	}
	if !first {
		<-p.ready
		return p, nil
	}
	defer close(p.ready)
	p.helper = spec.Helper
	if err := p.launch(spec); err != nil {
		p.fail(err)
		return p, nil
	}
	return p, nil
}

// admit registers a process, or finds it.
func (d *Daemon) admit(id string) (p *process, first bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.procs[id]; p != nil {
		return p, false, nil
	}
	if d.ending {
		return nil, false, errEnding
	}
	live := 0
	for _, p := range d.procs {
		if p.running() {
			live++
		}
	}
	if live >= guest.MaxProcesses {
		return nil, false, fault.New(fault.TooLarge, "too_many_processes",
			"%d processes are already running in this sandbox. Stop some first.", live)
	}
	d.forgetOld()
	p = newProcess(d, id)
	d.procs[id] = p
	return p, true, nil
}

func checkSpec(spec *guest.ProcessSpec) error {
	if err := guest.CheckID(spec.ID); err != nil {
		return fault.Wrap(err, fault.Invalid, "invalid_process_id", "The process ID is invalid: %v.", err)
	}
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return fault.New(fault.Invalid, "invalid_argv", "The command is empty.")
	}
	total := 0
	for _, a := range spec.Argv {
		if total += len(a) + 1; total > guest.MaxArgv || strings.IndexByte(a, 0) >= 0 {
			return fault.New(fault.Invalid, "invalid_argv", "The arguments contain a NUL byte or are longer than %d bytes.", guest.MaxArgv)
		}
	}
	total = 0
	for k, v := range spec.Env {
		total += len(k) + len(v) + 2
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 || total > guest.MaxEnv {
			return fault.New(fault.Invalid, "invalid_env", "An environment variable has an invalid name or a NUL byte, or all are longer than %d bytes.", guest.MaxEnv)
		}
	}
	if len(spec.Cwd) > guest.MaxPath || strings.IndexByte(spec.Cwd, 0) >= 0 {
		return fault.New(fault.Invalid, "invalid_cwd", "The folder to start in is invalid.")
	}
	if spec.TimeoutMs < 0 || spec.MaxLog < 0 {
		return fault.New(fault.Invalid, "invalid_limit", "A limit is negative.")
	}
	if spec.Tty && (spec.Size.Cols == 0 || spec.Size.Rows == 0) {
		spec.Size = guest.Size{Cols: 80, Rows: 24}
	}
	return nil
}

// fail ends a process that could not be started.
func (p *process) fail(err error) {
	p.d.tokens.forget(p.id)
	p.mu.Lock()
	p.info.State, p.info.EndedAt = guest.Exited, p.d.cfg.Now().UnixMilli()
	p.info.Reason = startFailed + limit(plainWords(err), 1000)
	p.mu.Unlock()
	for _, l := range p.logs {
		l.Finish()
	}
	sync := p.writeRecord()
	close(p.exited)
	close(p.done)
	sync()
}

// plainWords omits details that only a programmer needs.
func plainWords(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && pe.Op == "fork/exec" {
		return fmt.Sprintf("%s: %v", pe.Path, pe.Err)
	}
	return err.Error()
}

func limit(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "?")
}

// launch starts the program with its terminal or pipes, and the goroutines that follow it.
func (p *process) launch(spec guest.ProcessSpec) error {
	if err := os.MkdirAll(guest.ProcessDir(p.d.cfg.Dir, p.id), 0o700); err != nil {
		p.d.cfg.Log.Warn("process folder could not be created", "process_id", p.id, "error", err)
	}
	cmd, err := p.d.command(spec)
	if err != nil {
		return err
	}
	p.cmd = cmd
	connect := p.connectPipes
	if spec.Tty {
		connect = p.connectTerminal
	}
	theirs, err := connect(spec)
	if err != nil {
		return err
	}
	// Between the fork and the registration of the process, its end must not be taken for an orphan's.
	p.d.spawn.RLock()
	err = cmd.Start()
	if err == nil {
		p.mu.Lock()
		p.info.Pid = cmd.Process.Pid
		p.mu.Unlock()
		if err := giveWay(cmd.Process.Pid); err != nil {
			p.d.cfg.Log.Debug("the kernel's preference to kill a process before its guest could not be set", "process_id", p.id, "error", err)
		}
		p.d.tree.lead(cmd.Process.Pid, p.id)
	}
	p.d.spawn.RUnlock()
	for _, f := range theirs {
		_ = f.Close() // the child has its own
	}
	if err != nil {
		p.disconnect()
		return err
	}
	p.writeRecord()()
	p.d.mu.Lock()
	for _, pu := range p.pumps {
		p.d.pumps[pu] = true
	}
	p.d.mu.Unlock()
	for _, pu := range p.pumps {
		p.d.work.Go(pu.run)
	}
	p.d.work.Go(func() { p.watch(time.Duration(spec.TimeoutMs) * time.Millisecond) })
	return nil
}

// command builds what is run, where and with which environment. It begins a new session.
func (d *Daemon) command(spec guest.ProcessSpec) (*exec.Cmd, error) {
	dir := spec.Cwd
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(d.cfg.Root, dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the folder %q to start in does not exist", dir)
	}
	env := d.environ(spec, dir)
	path, err := d.cfg.Self, error(nil)
	if spec.Argv[0] != guest.Self || path == "" {
		path, err = lookPath(spec.Argv[0], env)
	}
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: spec.Argv, Env: env, Dir: dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}, nil
}

// connectTerminal gives the process a PTY that has its size before the program begins.
func (p *process) connectTerminal(spec guest.ProcessSpec) (theirs []*os.File, err error) {
	term, tty, err := openTerminal(spec.Size)
	if err != nil {
		return nil, fmt.Errorf("opening a terminal: %w", err)
	}
	p.term = term
	p.mu.Lock()
	p.info.Size = spec.Size
	p.mu.Unlock()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr.Setctty, p.cmd.SysProcAttr.Ctty = true, 0
	p.in = newInput(term)
	if err := p.follow(guest.Terminal, term, spec); err != nil {
		_ = tty.Close()
		p.disconnect()
		return nil, err
	}
	return []*os.File{tty}, nil
}

// connectPipes gives the process a pipe for each output, and one for input if requested; otherwise its input is empty.
func (p *process) connectPipes(spec guest.ProcessSpec) (theirs []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range theirs {
				_ = f.Close()
			}
			p.disconnect()
		}
	}()
	for _, s := range []guest.Stream{guest.Stdout, guest.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("creating a pipe: %w", err)
		}
		theirs = append(theirs, w)
		if s == guest.Stdout {
			p.cmd.Stdout = w
		} else {
			p.cmd.Stderr = w
		}
		if err := p.follow(s, r, spec); err != nil {
			_ = r.Close()
			return theirs, err
		}
	}
	if !spec.Stdin {
		return theirs, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return theirs, fmt.Errorf("creating a pipe: %w", err)
	}
	theirs = append(theirs, r)
	p.cmd.Stdin = r
	p.in = newInput(w)
	p.in.owns = true
	return theirs, nil
}

// follow creates the log of an output and the pump that fills it. A log that cannot be stored on disk is stored in memory.
func (p *process) follow(s guest.Stream, f *os.File, spec guest.ProcessSpec) error {
	cfg := p.d.logConfig(spec, s)
	l, err := bytelog.Open(cfg)
	if err != nil {
		p.d.cfg.Log.Warn("output is stored in memory only", "process_id", p.id, "error", err)
		cfg.Dir = ""
		if l, err = bytelog.Open(cfg); err != nil {
			return err
		}
	}
	p.logs[s] = l
	p.pumps = append(p.pumps, newPump(p, f, l, cfg.MaxBytes))
	return nil
}

// disconnect closes our ends after a failed start.
func (p *process) disconnect() {
	for _, pu := range p.pumps {
		_ = pu.file.Close()
	}
	if p.in != nil {
		p.in.close()
	}
	p.pumps, p.in, p.term = nil, nil, nil
}
