package daemon

import (
	"os"

	"golang.org/x/sys/unix"
)

// utf8Input lets the terminal's own line editing erase whole characters. Without it only that editing is worse.
func utf8Input(tty *os.File) {
	t, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TIOCGETA)
	if err != nil {
		return
	}
	t.Iflag |= unix.IUTF8
	_ = unix.IoctlSetTermios(int(tty.Fd()), unix.TIOCSETA, t)
}
