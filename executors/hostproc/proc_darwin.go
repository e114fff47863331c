package hostproc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// stateZombie is the kernel's SZOMB (sys/proc.h).
const stateZombie = 5

// readProc reads one process; os.ErrNotExist when there is none.
func readProc(pid int) (Proc, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid { // the kernel reports nothing at all for a missing process
		return Proc{}, os.ErrNotExist
	}
	return fromKernel(k), nil
}

func fromKernel(k *unix.KinfoProc) Proc {
	t := k.Proc.P_starttime
	return Proc{pid: int(k.Proc.P_pid), ppid: int(k.Eproc.Ppid), start: uint64(t.Sec)*1e6 + uint64(t.Usec), zombie: k.Proc.P_stat == stateZombie}
}

func bootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return id, nil
}

// table reads the whole process table.
func table() map[int]Proc {
	out := make(map[int]Proc)
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return out
	}
	for i := range all {
		p := fromKernel(&all[i])
		out[p.pid] = p
	}
	return out
}

// arguments returns the arguments a process was started with.
func arguments(pid int) ([]string, error) {
	args, _, err := started(pid)
	return args, err
}

// environ returns the environment a process was started with. The kernel hides that of the system's own programs.
func environ(pid int) ([]string, error) {
	_, env, err := started(pid)
	return env, err
}

func started(pid int) (args, env []string, err error) {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil, nil, err
	}
	return parseStarted(b)
}
