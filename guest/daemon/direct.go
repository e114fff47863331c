package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/parawork/parawork/guest"
)

// Each of a terminal's two directions may use a separate pipe, taken over from HTTP/1.1 by an upgrade. HTTP/2 passes every frame
// through three goroutines at either end, which is nothing for throughput but much for a keystroke: its echo through the guest
// was measured at 215 microseconds on the common pipe and at 150 on separate pipes, where the PTY alone took 60 and a round trip
// through a bare socket 50 to 60.

// wantsDirect reports whether the host requests the pipe itself.
func wantsDirect(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Header.Get("Upgrade") == guest.UpgradeStream
}

// direct takes over the pipe, sends the header, and closes the pipe when the request's context ends.
func direct(w http.ResponseWriter, r *http.Request, header, value string) (net.Conn, *bufio.Reader, func(), error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("taking over the pipe: %w", err)
	}
	stop := context.AfterFunc(r.Context(), func() { _ = conn.Close() })
	done := func() {
		stop()
		_ = conn.Close()
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n",
		guest.UpgradeStream, header, value)
	if err != nil {
		done()
		return nil, nil, nil, errHijacked
	}
	return conn, rw.Reader, done, nil
}

// bridge receives a stream's bytes: one batch at a time, with room for a frame's header before it.
type bridge interface {
	send(framed []byte) error // the bridge may use framed[:guest.FrameHeader]
	flush() error             // deliver now what was sent
	end() error               // the stream is complete
}

// directBridge sends frames: u32 length and bytes; length 0 is the stream's end.
type directBridge struct{ conn net.Conn }

func (o directBridge) send(framed []byte) error {
	binary.BigEndian.PutUint32(framed, uint32(len(framed)-guest.FrameHeader))
	_, err := o.conn.Write(framed)
	return err
}

func (o directBridge) flush() error { return nil }

func (o directBridge) end() error {
	_, err := o.conn.Write(make([]byte, guest.FrameHeader))
	return err
}

// sharedBridge sends the bytes as the body of an answer.
type sharedBridge struct {
	w  io.Writer
	rc *http.ResponseController
}

func (o sharedBridge) send(framed []byte) error {
	_, err := o.w.Write(framed[guest.FrameHeader:])
	return err
}

func (o sharedBridge) flush() error { return o.rc.Flush() }

func (o sharedBridge) end() error { return nil }
