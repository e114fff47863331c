package tunnel

import (
	"crypto/tls"
	"net"

	"golang.org/x/sys/unix"
)

// tune keeps the kernel's send queue short: a keystroke cannot overtake what is in that queue, so that streams wait here, where they take
// turns. Bytes in flight do not count, so throughput is unaffected. On a kernel without the option it changes nothing.
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
