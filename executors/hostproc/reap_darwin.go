package hostproc

import "os/exec"

// Reap waits for a child.
func Reap(cmd *exec.Cmd) { _, _ = cmd.Process.Wait() } // its record and its log say how it ended
