package daemon

import (
	"fmt"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
)

// openTerminal opens a PTY of the given size. Our end waits in the runtime's poller, so that it can be read and closed without
// holding a thread.
func openTerminal(size guest.Size) (term, tty *os.File, err error) {
	p, tty, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	fd, err := unix.FcntlInt(p.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = tty.Close()
		return nil, nil, fmt.Errorf("preparing the terminal: %w", err)
	}
	term = os.NewFile(uintptr(fd), "terminal")
	utf8Input(tty)
	if err := setSize(term, size); err != nil {
		_ = term.Close()
		_ = tty.Close()
		return nil, nil, err
	}
	return term, tty, nil
}

// setSize sets the size of a terminal; the kernel sends SIGWINCH.
func setSize(term *os.File, size guest.Size) error {
	rc, err := term.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = rc.Control(func(fd uintptr) {
		serr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	if err == nil && serr != nil {
		err = fmt.Errorf("setting the terminal's size: %w", serr)
	}
	return err
}
