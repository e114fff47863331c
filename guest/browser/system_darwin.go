package browser

import (
	"os/exec"
	"syscall"
)

// applications are paths of Chromium that are in no PATH.
var applications = []string{
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startAlong(cmd *exec.Cmd) error { return cmd.Start() }

// userNamespaces reports true: Chromium's sandbox on macOS needs none.
func userNamespaces() bool { return true }
