//go:build linux

package main

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errno is the kernel's number of an error, EIO of any other.
func errno(err error) syscall.Errno {
	var n syscall.Errno
	if err == nil {
		return 0
	}
	if errors.As(err, &n) {
		return n
	}
	return syscall.EIO
}

// calls would widen an agent's access. Arguments rejected for themselves (EFAULT, EINVAL, EBADF) prove nothing: each call is made so that
// only missing rights, or a filter, stop it.
var calls = map[string]func() syscall.Errno{
	"unshare-user":  func() syscall.Errno { return errno(unix.Unshare(unix.CLONE_NEWUSER)) },
	"unshare-mount": func() syscall.Errno { return errno(unix.Unshare(unix.CLONE_NEWNS)) },
	"unshare-net":   func() syscall.Errno { return errno(unix.Unshare(unix.CLONE_NEWNET)) },
	"setns": func() syscall.Errno {
		fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
		if err != nil {
			return errno(err)
		}
		return errno(unix.Setns(fd, 0))
	},
	"mount":      func() syscall.Errno { return errno(unix.Mount("none", "/tmp", "tmpfs", 0, "")) },
	"bind-mount": func() syscall.Errno { return errno(unix.Mount("/usr", "/tmp", "", unix.MS_BIND, "")) },
	"remount":    func() syscall.Errno { return errno(unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "")) },
	"umount":     func() syscall.Errno { return errno(unix.Unmount("/proc", unix.MNT_DETACH)) },
	"fsopen":     func() syscall.Errno { _, err := unix.Fsopen("tmpfs", 0); return errno(err) },
	"open_tree": func() syscall.Errno {
		_, err := unix.OpenTree(unix.AT_FDCWD, "/usr", unix.OPEN_TREE_CLONE)
		return errno(err)
	},
	"pivot_root": func() syscall.Errno { return errno(unix.PivotRoot("/", "/")) },
	"chroot":     func() syscall.Errno { return errno(unix.Chroot("/")) },
	"mknod":      func() syscall.Errno { return errno(unix.Mknod("dev-mem", unix.S_IFCHR|0o600, 1<<8|1)) },
	"bpf": func() syscall.Errno {
		attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1} // an array map
		return raw(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	},
	"perf_event_open": func() syscall.Errno {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return errno(err)
	},
	"userfaultfd": func() syscall.Errno { return raw(unix.SYS_USERFAULTFD, 0) },
	"keyctl": func() syscall.Errno {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return errno(err)
	},
	"add_key": func() syscall.Errno {
		_, err := unix.AddKey("user", "parawork", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return errno(err)
	},
	"io_uring_setup": func() syscall.Errno {
		var params [120]byte
		return raw(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)))
	},
	"open_by_handle_at": func() syscall.Errno {
		h, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, "/usr", 0)
		_ = mount
		if err != nil {
			return errno(err)
		}
		fd, err := unix.Open("/usr", unix.O_RDONLY, 0)
		if err != nil {
			return errno(err)
		}
		_, err = unix.OpenByHandleAt(fd, h, unix.O_RDONLY)
		return errno(err)
	},
	"init_module": func() syscall.Errno { return errno(unix.InitModule([]byte("x"), "")) },
	"kexec_load":  func() syscall.Errno { return raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0) },
	"reboot":      func() syscall.Errno { return errno(unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF)) },
	"swapoff":     func() syscall.Errno { return raw(unix.SYS_SWAPOFF, 0) },
	"settimeofday": func() syscall.Errno {
		var tv unix.Timeval
		_ = unix.Gettimeofday(&tv)
		return errno(unix.Settimeofday(&tv))
	},
	"sethostname": func() syscall.Errno { return errno(unix.Sethostname([]byte("owned"))) },
	"syslog": func() syscall.Errno {
		_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 64))
		return errno(err)
	},
	"acct":        func() syscall.Errno { return errno(unix.Acct("")) },
	"quotactl":    func() syscall.Errno { return raw(unix.SYS_QUOTACTL, 0x800001<<8, 0, 0, 0) },
	"setuid-root": func() syscall.Errno { return raw(unix.SYS_SETUID, 0) },
	"setgid-root": func() syscall.Errno { return raw(unix.SYS_SETGID, 0) },
	"tiocsti": func() syscall.Errno {
		f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return errno(err)
		}
		defer f.Close()
		c := byte('#')
		return raw(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	},
	"nice": func() syscall.Errno { return errno(unix.Setpriority(unix.PRIO_PROCESS, 0, -10)) },
	"realtime": func() syscall.Errno {
		p := int32(50)
		return raw(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&p)))
	},
	"rlimit": func() syscall.Errno {
		return errno(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}))
	},
}
