package daemon

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/bytelog"
)

// Reasons for which a process ended, as in guest.Process.
const (
	reasonExit    = "exit"
	reasonSignal  = "signal"
	reasonTimeout = "timeout"
	reasonStopped = "stopped"
	reasonLost    = "lost"
)

const (
	// drainQuiet is how long the outputs of an ended program must be quiet before the guest stops waiting for processes that
	// still hold them open.
	drainQuiet = 150 * time.Millisecond
	// drainMax is the longest it waits for them, quiet or not.
	drainMax = 2 * time.Second
	// timeoutGrace is the time between TERM and KILL for a process whose time is up.
	timeoutGrace = 2 * time.Second
)

// process is one process of the sandbox, running or ended.
type process struct {
	d    *Daemon
	id   string
	logs map[guest.Stream]*bytelog.Log // fixed once ready

	helper bool // fixed once ready

	ready chan struct{} // closed when the start has succeeded or failed

	cmd   *exec.Cmd
	term  *os.File // our end of the PTY, nil without one
	in    *input   // nil: accepts no input
	pumps []*pump

	exited chan struct{} // closed when the program has ended; its output may not be complete yet
	done   chan struct{} // closed when it has ended and its output is complete

	mu     sync.Mutex
	info   guest.Process
	reason string // why we are ending it, "" when we are not
}

func newProcess(d *Daemon, id string) *process {
	return &process{d: d, id: id, logs: make(map[guest.Stream]*bytelog.Log), ready: make(chan struct{}),
		exited: make(chan struct{}), done: make(chan struct{}),
		info: guest.Process{ID: id, State: guest.Running, StartedAt: d.cfg.Now().UnixMilli()}}
}

// snapshot is the process's current state.
func (p *process) snapshot() guest.Process {
	p.mu.Lock()
	info := p.info
	p.mu.Unlock()
	info.Ends = maps.Clone(info.Ends)
	if info.Ends == nil {
		info.Ends = make(map[guest.Stream]int64, len(p.logs))
	}
	for s, l := range p.logs {
		_, info.Ends[s] = l.Bounds()
	}
	return info
}

// outputs are its logs, none while it is being started.
func (p *process) outputs() map[guest.Stream]*bytelog.Log {
	select {
	case <-p.ready:
		return p.logs
	default:
		return nil
	}
}

// isHelper reports whether it only serves others, false while it is being started.
func (p *process) isHelper() bool {
	select {
	case <-p.ready:
		return p.helper
	default:
		return false
	}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// because records why the process is being ended; the first reason applies.
func (p *process) because(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" && !p.hasExited() {
		p.reason = reason
	}
}

// watch waits for the program's end, then for the rest of its output, and records how it ended.
func (p *process) watch(timeout time.Duration) {
	var timer *time.Timer
	if timeout > 0 {
		timer = time.AfterFunc(timeout, p.timeUp)
	}
	_ = p.cmd.Wait() // ProcessState has the result
	ended := p.d.cfg.Now()
	p.d.tree.led(p.cmd.Process.Pid)
	close(p.exited)
	p.d.tokens.forget(p.id)
	if timer != nil {
		timer.Stop()
	}
	p.drain()
	if p.in != nil {
		p.in.close()
	}
	if p.term != nil {
		_ = p.term.Close()
	}
	for _, l := range p.logs {
		l.Finish()
		l.ReleaseMemory()
	}
	p.conclude(ended)
}

// timeUp ends the process because it reached its time limit.
func (p *process) timeUp() {
	p.because(reasonTimeout)
	p.d.tree.end(p.owns, timeoutGrace)
}

// owns reports whether m belongs to this process.
func (p *process) owns(m member) bool { return m.owner == p.id }

// conclude publishes how the process ended, after recording it.
func (p *process) conclude(ended time.Time) {
	p.mu.Lock()
	p.info.State, p.info.EndedAt = guest.Exited, ended.UnixMilli()
	ws, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ws.Signaled():
		p.info.Signal, p.info.Reason = unix.SignalName(ws.Signal()), reasonSignal
	default:
		code := ws.ExitStatus()
		p.info.ExitCode, p.info.Reason = &code, reasonExit
	}
	if p.reason != "" {
		p.info.Reason = p.reason
	}
	p.mu.Unlock()
	sync := p.writeRecord()
	close(p.done)
	sync()
}

// drain waits until the outputs of the ended program have been read to their end. Remaining processes may hold them open: then it
// waits until they are quiet, or a bounded time.
func (p *process) drain() {
	deadline := time.NewTimer(drainMax)
	defer deadline.Stop()
	tick := time.NewTicker(drainQuiet / 5)
	defer tick.Stop()
	quietSince, seen := time.Now(), p.moved()
	for _, pu := range p.pumps {
	wait:
		for {
			select {
			case <-pu.ended:
				break wait
			case <-deadline.C:
				p.cut()
				return
			case <-tick.C:
				if now := p.moved(); now != seen || p.unread() {
					quietSince, seen = time.Now(), now
				} else if time.Since(quietSince) >= drainQuiet {
					p.cut()
					return
				}
			}
		}
	}
}

// moved counts the bytes read from the outputs so far.
func (p *process) moved() (n int64) {
	for _, pu := range p.pumps {
		n += pu.read.Load()
	}
	return n
}

// unread reports whether an output has bytes that no pump has read yet: on a busy machine a program's last output is there for
// longer than any quiet period.
func (p *process) unread() bool {
	for _, pu := range p.pumps {
		if pu.waiting() {
			return true
		}
	}
	return false
}

// cut stops reading outputs that other processes still hold open. A terminal is closed for them, as when its window is closed;
// the pipes of a command are read and discarded, so that what it left running in the background can continue.
func (p *process) cut() {
	for _, pu := range p.pumps {
		pu.discard.Store(true)
	}
	if p.term != nil {
		_ = p.term.SetReadDeadline(time.Unix(1, 0))
		for _, pu := range p.pumps {
			<-pu.ended
		}
	}
}

// resize sets the size of the process's terminal; the kernel notifies the program.
func (p *process) resize(size guest.Size) error {
	if p.term == nil {
		return errNoTerminal
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info.Size == size || p.hasExited() {
		return nil
	}
	if err := setSize(p.term, size); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		return err
	}
	p.info.Size = size
	return nil
}
