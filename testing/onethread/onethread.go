// Package onethread starts processes that must not outlive the test which started them.
package onethread

import (
	"os/exec"
	"runtime"
)

// Launcher starts processes from one thread that lives until Close. The kernel ends a process with a parent-death signal (bubblewrap's
// --die-with-parent) when the thread that started it ends, and Go ends threads at will. Safe for concurrent use until Close.
type Launcher struct {
	jobs chan func()
	done chan struct{}
}

// New starts the thread.
func New() *Launcher {
	l := &Launcher{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for job := range l.jobs {
			job()
		}
	}()
	return l
}

// Start starts a command.
func (l *Launcher) Start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	l.jobs <- func() { done <- cmd.Start() }
	return <-done
}

// Close ends the thread. Nothing may be started after it.
func (l *Launcher) Close() {
	close(l.jobs)
	<-l.done
}
