package daemon

import "golang.org/x/sys/unix"

// read reads what is there from a non-blocking file (O_NONBLOCK).
func read(fd int, p []byte) (int, error) { return unix.Read(fd, p) }
