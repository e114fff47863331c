package tunnel

import (
	"crypto/tls"
	"net"

	"golang.org/x/sys/unix"
)

// tune keeps the queue in the kernel short: what is written there can not be overtaken by a keystroke any more, so that streams wait here,
// where they take turns. What is on its way does not count: throughput stays. A kernel without the option does what it always did.
func tune(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, notSentLow, unsentLow)
	})
}
