package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/internal/wsstream"
)

// how a service's WebSockets are treated.
var how = wsstream.Config{Ping: 12 * time.Second, Quiet: 45 * time.Second, Piece: 64 << 10, Limit: 4 << 20}

// errQuiet says that nothing at all came for long.
var errQuiet = errors.New("nothing came through the connection to the sandbox")

// Socket is a WebSocket that carries the input and output of a program as binary messages. It is read by one goroutine at a time.
type Socket struct {
	ws *wsstream.Conn
	// output takes what is output out of a binary message; a text message says how the program stands. An error holds once the output was read.
	output func(kind int, message []byte) (out []byte, err error)

	rest []byte
	over error // why nothing follows rest
	once sync.Once
	then func() // after the end
}

// OpenSocket makes a WebSocket of an answered upgrade. output reads its messages; then, if given, is called once when it has been closed.
func OpenSocket(ctx context.Context, d *websocket.Dialer, url string, header http.Header, output func(int, []byte) ([]byte, error), then func()) (*Socket, *http.Response, error) {
	ws, resp, err := d.DialContext(ctx, url, header)
	if err != nil {
		return nil, resp, err
	}
	return &Socket{ws: wsstream.New(ws, how), output: output, then: then}, resp, nil
}

// Read reads what the program writes.
func (s *Socket) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.over != nil {
			return 0, s.over
		}
		kind, r, err := s.ws.Next()
		var m []byte
		if err == nil {
			m, err = io.ReadAll(r)
		}
		if err != nil {
			var timeout interface{ Timeout() bool }
			switch {
			case errors.As(err, &timeout) && timeout.Timeout():
				return 0, errQuiet
			case errors.Is(err, io.EOF):
				return 0, io.EOF
			}
			return 0, &lostError{err}
		}
		s.rest, s.over = s.output(kind, m)
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Write writes to the program.
func (s *Socket) Write(b []byte) (int, error) {
	n, err := s.ws.Write(b)
	return n, unsent(err)
}

// Say sends a text message.
func (s *Socket) Say(text []byte) error { return unsent(s.ws.WriteText(text)) }

func unsent(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing to the sandbox: %w", &lostError{err})
}

// Close cuts the connection.
func (s *Socket) Close() error {
	s.once.Do(func() {
		_ = s.ws.Close()
		if s.then != nil {
			s.then()
		}
	})
	return nil
}
