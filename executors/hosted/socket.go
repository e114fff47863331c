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
)

const (
	// pingEvery keeps what is between from closing a quiet connection.
	pingEvery = 12 * time.Second
	// quietCut is how long a connection may be silent although it is pinged: then it is cut.
	quietCut = 45 * time.Second
	// writeWithin is how long one message may take to be taken.
	writeWithin = 30 * time.Second
	// maxMessage is how much one message carries.
	maxMessage = 64 << 10
)

// errQuiet says that nothing at all came for long.
var errQuiet = errors.New("nothing came through the connection to the sandbox")

// Socket is a WebSocket that carries the input and output of a program as binary messages. It is read by one goroutine at a time.
type Socket struct {
	ws *websocket.Conn
	// output takes what is output out of a binary message; a text message says how the program stands. An error holds once the output was read.
	output func(kind int, message []byte) (out []byte, err error)

	rest []byte
	over error      // why nothing follows rest
	mu   sync.Mutex // of what is written
	once sync.Once
	stop chan struct{}
	done sync.WaitGroup
	then func() // after the end
}

// OpenSocket makes a WebSocket of an answered upgrade. output reads its messages; then, if given, is called once when it has been closed.
func OpenSocket(ctx context.Context, d *websocket.Dialer, url string, header http.Header, output func(int, []byte) ([]byte, error), then func()) (*Socket, *http.Response, error) {
	ws, resp, err := d.DialContext(ctx, url, header)
	if err != nil {
		return nil, resp, err
	}
	s := &Socket{ws: ws, output: output, stop: make(chan struct{}), then: then}
	ws.SetReadLimit(4 << 20)
	heard := func() { _ = ws.SetReadDeadline(time.Now().Add(quietCut)) }
	heard()
	ws.SetPongHandler(func(string) error { heard(); return nil })
	usual := ws.PingHandler()
	ws.SetPingHandler(func(data string) error { heard(); return usual(data) })
	s.done.Go(s.ping)
	return s, resp, nil
}

func (s *Socket) ping() {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			if err := s.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeWithin)); err != nil {
				return // reading fails, too
			}
		}
	}
}

// Read reads what the program writes.
func (s *Socket) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.over != nil {
			return 0, s.over
		}
		kind, m, err := s.ws.ReadMessage()
		if err != nil {
			var timeout interface{ Timeout() bool }
			switch {
			case errors.As(err, &timeout) && timeout.Timeout():
				return 0, errQuiet
			case websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway):
				return 0, io.EOF
			}
			return 0, &lostError{err}
		}
		_ = s.ws.SetReadDeadline(time.Now().Add(quietCut))
		s.rest, s.over = s.output(kind, m)
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Write writes to the program.
func (s *Socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := 0
	for sent < len(b) {
		n := min(len(b)-sent, maxMessage)
		if err := s.send(websocket.BinaryMessage, b[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// Say sends a text message.
func (s *Socket) Say(text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(websocket.TextMessage, text)
}

func (s *Socket) send(kind int, b []byte) error {
	_ = s.ws.SetWriteDeadline(time.Now().Add(writeWithin))
	if err := s.ws.WriteMessage(kind, b); err != nil {
		return fmt.Errorf("writing to the sandbox: %w", &lostError{err})
	}
	return nil
}

// Close cuts the connection.
func (s *Socket) Close() error {
	s.once.Do(func() {
		close(s.stop)
		_ = s.ws.Close()
		s.done.Wait()
		if s.then != nil {
			s.then()
		}
	})
	return nil
}
