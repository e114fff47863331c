//go:build failpoints || race

package failpoint

import (
	"os"
	"syscall"
)

// Env names the variable that says at which point the program kills itself.
const Env = "PARAWORK_KILL_AT"

var at = Point(os.Getenv(Env))

// Reach kills the program, as kill -9 does, when p is the point asked for.
func Reach(p Point) {
	if at == "" || p != at {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // not one step further
}
