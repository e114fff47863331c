package daemon

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// read reads what is there from a non-blocking file (O_NONBLOCK). It bypasses the runtime's scheduler: a terminal's read lets the
// kernel's worker deliver more, often for longer than the 20 microseconds after which the runtime would replace this thread by
// another, and that costs a third of the time of reading a fast program's output.
func read(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
