package e2btest

import (
	"net"
	"sync/atomic"
)

// Traffic is how many bytes have come and gone over all connections to the server, headers and all.
func (s *Server) Traffic() int64 { return s.traffic.Load() }

// meteredListener counts the bytes of its connections.
type meteredListener struct {
	net.Listener
	sum *atomic.Int64
}

func (l *meteredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &meteredConn{c, l.sum}, nil
}

type meteredConn struct {
	net.Conn
	sum *atomic.Int64
}

func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.sum.Add(int64(n))
	return n, err
}

func (c *meteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sum.Add(int64(n))
	return n, err
}

func (c *meteredConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}
