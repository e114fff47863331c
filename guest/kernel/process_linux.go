package kernel

import (
	"fmt"
	"os"
	"syscall"
)

// preferToKill has the kernel of the system end this process first when memory runs out. Errors do not matter: the guest set the same less strictly.
func preferToKill(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0)
}

// ownSession starts the interpreter in a session of its own, and ends it when the supervisor is killed.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
