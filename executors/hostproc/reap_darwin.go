package hostproc

import "os/exec"

// Reap waits for a child.
func Reap(cmd *exec.Cmd) { _, _ = cmd.Process.Wait() } // how it ended is told by its record and its log
