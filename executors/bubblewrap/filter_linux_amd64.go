package bubblewrap

import "golang.org/x/sys/unix"

const (
	nativeArch   = unix.AUDIT_ARCH_X86_64
	otherNumbers = 0x40000000 // x32: the same calls by other numbers
)

// forbiddenHere are calls that only this architecture has.
var forbiddenHere = []call{
	{"iopl", unix.SYS_IOPL}, {"ioperm", unix.SYS_IOPERM}, {"modify_ldt", unix.SYS_MODIFY_LDT}, {"uselib", unix.SYS_USELIB},
	{"ustat", unix.SYS_USTAT}, {"sysfs", unix.SYS_SYSFS}, {"_sysctl", unix.SYS__SYSCTL},
}
