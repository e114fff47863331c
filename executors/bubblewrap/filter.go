//go:build linux && (amd64 || arm64)

package bubblewrap

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The system call filter of every process of a sandbox. It blocks calls that an agent's work does not need and that have been used to attack
// kernels. It is classic BPF: the kernel runs it on every call that it cannot decide once for all.

// Return values of the filter.
const (
	allow  = unix.SECCOMP_RET_ALLOW
	kill   = unix.SECCOMP_RET_KILL_PROCESS
	refuse = unix.SECCOMP_RET_ERRNO
)

// Where the kernel provides the call's number and arguments; of an argument, the lower half: the values judged here are 32 bits wide.
const (
	offNumber = 0
	offArch   = 4
)

func offArg(i uint32) uint32 { return 16 + 8*i }

// call is a system call by the name people know.
type call struct {
	name string
	nr   uint32
}

// forbidden are answered with EPERM.
var forbidden = append([]call{
	// another process's memory and threads
	{"ptrace", unix.SYS_PTRACE}, {"process_vm_readv", unix.SYS_PROCESS_VM_READV}, {"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV},
	{"kcmp", unix.SYS_KCMP}, {"pidfd_getfd", unix.SYS_PIDFD_GETFD}, {"process_madvise", unix.SYS_PROCESS_MADVISE},
	{"migrate_pages", unix.SYS_MIGRATE_PAGES}, {"move_pages", unix.SYS_MOVE_PAGES},
	// programmable engines inside the kernel
	{"bpf", unix.SYS_BPF}, {"perf_event_open", unix.SYS_PERF_EVENT_OPEN}, {"userfaultfd", unix.SYS_USERFAULTFD},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER}, {"io_uring_register", unix.SYS_IO_URING_REGISTER},
	{"fanotify_init", unix.SYS_FANOTIFY_INIT},
	// keys are not separated by namespaces
	{"keyctl", unix.SYS_KEYCTL}, {"add_key", unix.SYS_ADD_KEY}, {"request_key", unix.SYS_REQUEST_KEY},
	// namespaces and mounts
	{"unshare", unix.SYS_UNSHARE}, {"setns", unix.SYS_SETNS}, {"mount", unix.SYS_MOUNT}, {"umount2", unix.SYS_UMOUNT2},
	{"pivot_root", unix.SYS_PIVOT_ROOT}, {"chroot", unix.SYS_CHROOT}, {"move_mount", unix.SYS_MOVE_MOUNT}, {"open_tree", unix.SYS_OPEN_TREE},
	{"fsopen", unix.SYS_FSOPEN}, {"fsconfig", unix.SYS_FSCONFIG}, {"fsmount", unix.SYS_FSMOUNT}, {"fspick", unix.SYS_FSPICK},
	{"mount_setattr", unix.SYS_MOUNT_SETATTR}, {"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT}, {"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT},
	{"quotactl", unix.SYS_QUOTACTL}, {"quotactl_fd", unix.SYS_QUOTACTL_FD},
	// the machine itself
	{"kexec_load", unix.SYS_KEXEC_LOAD}, {"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD}, {"init_module", unix.SYS_INIT_MODULE},
	{"finit_module", unix.SYS_FINIT_MODULE}, {"delete_module", unix.SYS_DELETE_MODULE}, {"reboot", unix.SYS_REBOOT},
	{"swapon", unix.SYS_SWAPON}, {"swapoff", unix.SYS_SWAPOFF}, {"acct", unix.SYS_ACCT}, {"syslog", unix.SYS_SYSLOG},
	{"settimeofday", unix.SYS_SETTIMEOFDAY}, {"clock_settime", unix.SYS_CLOCK_SETTIME}, {"clock_adjtime", unix.SYS_CLOCK_ADJTIME},
	{"adjtimex", unix.SYS_ADJTIMEX}, {"sethostname", unix.SYS_SETHOSTNAME}, {"setdomainname", unix.SYS_SETDOMAINNAME},
	{"vhangup", unix.SYS_VHANGUP}, {"nfsservctl", unix.SYS_NFSSERVCTL}, {"lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE},
}, forbiddenHere...)

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// personalities that do not change which memory a program may execute: Linux, with 32-bit names, without address randomization (sanitizers
// ask for it), and the query.
var personalities = []uint32{0, 8, 0x20000, 0x20008, 0x40000, 0x40008, 0xffffffff}

// families are the socket families that are allowed; also netlink, for the list of network interfaces.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// terminalTricks are ioctls that inject input into a terminal.
var terminalTricks = []uint32{unix.TIOCSTI, tiocLinux}

const tiocLinux = 0x541c

// program is the filter under construction.
type program struct{ code []unix.SockFilter }

func (p *program) load(off uint32) {
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off})
}

func (p *program) ret(k uint32) {
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k})
}

// when returns k if the comparison holds; else it continues.
func (p *program) when(cmp uint16, with, k uint32) {
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | cmp | unix.BPF_K, Jf: 1, K: with})
	p.ret(k)
}

// call judges one system call by its arguments. Afterwards the number is no longer loaded, and need not be: body returns.
func (p *program) call(nr uint32, body func(*program)) {
	var inner program
	body(&inner)
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(inner.code)), K: nr})
	p.code = append(p.code, inner.code...)
}

// filter returns the filter in the form bwrap expects: the kernel's own structures, one after the other.
func filter() []byte {
	const no = refuse | uint32(unix.EPERM)
	var p program
	p.load(offArch)
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: nativeArch})
	p.ret(kill) // another architecture has other numbers
	p.load(offNumber)
	if otherNumbers > 0 {
		p.when(unix.BPF_JGE, otherNumbers, refuse|uint32(unix.ENOSYS))
	}
	for _, c := range forbidden {
		p.when(unix.BPF_JEQ, c.nr, no)
	}
	// Its flags are in memory, which a filter cannot read: programs fall back to clone.
	p.when(unix.BPF_JEQ, unix.SYS_CLONE3, refuse|uint32(unix.ENOSYS))
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(offArg(0))
		p.when(unix.BPF_JSET, newNamespaces, no)
		p.ret(allow)
	})
	p.call(unix.SYS_IOCTL, func(p *program) {
		p.load(offArg(1))
		for _, request := range terminalTricks {
			p.when(unix.BPF_JEQ, request, no)
		}
		p.ret(allow)
	})
	p.call(unix.SYS_PERSONALITY, func(p *program) {
		p.load(offArg(0))
		for _, persona := range personalities {
			p.when(unix.BPF_JEQ, persona, allow)
		}
		p.ret(no)
	})
	p.call(unix.SYS_SOCKET, func(p *program) {
		p.load(offArg(0))
		for _, family := range families {
			p.when(unix.BPF_JEQ, family, allow)
		}
		p.call(unix.AF_NETLINK, func(p *program) {
			p.load(offArg(2))
			p.when(unix.BPF_JEQ, unix.NETLINK_ROUTE, allow)
			p.ret(refuse | uint32(unix.EPROTONOSUPPORT))
		})
		p.ret(refuse | uint32(unix.EAFNOSUPPORT))
	})
	p.ret(allow)
	var out bytes.Buffer
	for _, ins := range p.code {
		out.Write([]byte{byte(ins.Code), byte(ins.Code >> 8), ins.Jt, ins.Jf})
		out.Write(binary.LittleEndian.AppendUint32(nil, ins.K)) // both architectures are little-endian
	}
	return out.Bytes()
}
