package daemon

import (
	"os"
	"strconv"
)

// firstToGo is added to the kernel's preference for killing a process when memory runs out.
const firstToGo = "500"

// giveWay makes the kernel kill a process, and all it starts, before the guest, and before the server, when memory runs out: a
// guest that survives can report how the process ended.
func giveWay(pid int) error {
	f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(firstToGo)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
