package browser

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// applications are paths of Chromium that are in no PATH.
var applications []string

// ownGroup makes Chromium the leader of a process group. The kernel kills it when the thread that started it ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startAlong starts a program that ends with this one, at the latest.
func startAlong(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal of a parent's death is sent when the thread ends: this one lasts as long as the program
		started <- cmd.Start()
		select {}
	}()
	return <-started
}

// userNamespaces reports whether this user may make user namespaces, from which Chromium builds its sandbox.
func userNamespaces() bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	cmd := exec.Command(self, "version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}}
	return cmd.Run() == nil
}
