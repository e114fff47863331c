package program

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// OwnGroup makes a program the leader of a process group. The kernel kills it when the thread that started it ends.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// starter is the thread that starts programs: they end with it, so it lasts as long as this program.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range work {
			do()
		}
	}()
	return work
})

// StartAlong starts a program that ends with this one, at the latest.
func StartAlong(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}
