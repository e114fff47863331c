package daemon

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processTable reads the whole process table. It lacks CPU times, memory and sessions: macOS gives the first two only to the
// owner's tools, and sessions are derived from parents and the process group.
func processTable() map[int]proc {
	out := make(map[int]proc)
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return out
	}
	for i := range all {
		p := fromKinfo(&all[i])
		out[p.pid] = p
	}
	return out
}

// zombie is the kernel's SZOMB.
const zombie = 5

func fromKinfo(k *unix.KinfoProc) proc {
	t := k.Proc.P_starttime
	return proc{pid: int(k.Proc.P_pid), ppid: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid), session: int(k.Eproc.Pgid), foreground: int(k.Eproc.Tpgid),
		comm:  unix.ByteSliceToString(k.Proc.P_comm[:]),
		start: uint64(t.Sec)*1e6 + uint64(t.Usec), zombie: k.Proc.P_stat == zombie}
}

// age is how long ago p was started.
func (p proc) age() time.Duration { return max(0, time.Since(time.UnixMicro(int64(p.start)))) }

// name is the process's own name.
func (p proc) name() string { return p.comm }

// readProc reads one process.
func readProc(pid int) (proc, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return proc{}, err
	}
	if int(k.Proc.P_pid) != pid {
		return proc{}, fmt.Errorf("no process %d", pid)
	}
	return fromKinfo(k), nil
}

// environMarks cannot be read without the owner's tools.
func environMarks(int) (sandbox, process string) { return "", "" }

// ignores cannot be determined either: shells are sent HUP in any case.
func ignores(int, syscall.Signal) bool { return true }

// bootID distinguishes this run of the machine from others.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
