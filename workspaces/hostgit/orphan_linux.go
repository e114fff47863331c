package hostgit

import "syscall"

// session is how git is started: in a session of its own, without a terminal to prompt on, as one group to kill. A passing one
// ends when the server is killed, by the signal on which git removes its lock files: going on, it would write into what the next
// start cleans up. The others go on to their end, since half of a merge or of moved refs is what must not be.
func session(passing bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if passing {
		attr.Pdeathsig = syscall.SIGTERM
	}
	return attr
}
