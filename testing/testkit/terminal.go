package testkit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Terminal is a viewer of the terminal socket. It keeps every byte and complains about gaps and repeats.
type Terminal struct {
	conn *websocket.Conn

	mu     sync.Mutex
	from   int64 // offset of the first byte kept; -1 until one came
	bytes  []byte
	snap   []byte // the screen it began with, nil without one
	states []map[string]any
	size   [2]uint16
	exit   map[string]any
	err    error
	grown  chan struct{}
	noAck  bool
}

// Attach opens the terminal of a session. query such as "from=0&role=viewer".
func (h *Instance) Attach(sessionID, query string) *Terminal {
	h.t.Helper()
	t, resp, err := h.TryAttach(sessionID, query, nil)
	if err != nil {
		h.t.Fatalf("attaching: %v %v", err, resp)
	}
	h.t.Cleanup(t.Close)
	return t
}

// TryAttach opens a terminal with further headers.
func (c *Client) TryAttach(sessionID, query string, header http.Header) (*Terminal, *http.Response, error) {
	hdr := http.Header{}
	if c.Token != "" {
		hdr.Set("Authorization", "Bearer "+c.Token)
	}
	for k, v := range header {
		hdr[k] = v
	}
	conn, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(c.URL, "http")+"/api/v1/sessions/"+sessionID+"/terminal?"+query, hdr)
	if err != nil {
		return nil, resp, err
	}
	t := &Terminal{conn: conn, from: -1, grown: make(chan struct{}), noAck: strings.Contains(query, "noack")}
	go t.read()
	return t, resp, nil
}

func (t *Terminal) read() {
	for {
		_, p, err := t.conn.ReadMessage()
		t.mu.Lock()
		if err == nil {
			err = t.take(p)
		}
		end := t.from + int64(len(t.bytes))
		if err != nil {
			t.err = err
		}
		close(t.grown)
		t.grown = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			return
		}
		if p[0] == 0 && !t.noAck {
			ack := binary.BigEndian.AppendUint64([]byte{2}, uint64(end))
			t.mu.Lock()
			_ = t.conn.WriteMessage(websocket.BinaryMessage, ack) // the next read reports a closed socket
			t.mu.Unlock()
		}
	}
}

func (t *Terminal) take(p []byte) error {
	if len(p) == 0 {
		return errors.New("an empty frame")
	}
	switch p[0] {
	case 0:
		off := int64(binary.BigEndian.Uint64(p[1:]))
		if t.from < 0 {
			t.from = off
		}
		if want := t.from + int64(len(t.bytes)); off != want {
			return fmt.Errorf("output at %d, want %d", off, want)
		}
		t.bytes = append(t.bytes, p[9:]...)
	case 1:
		if t.from >= 0 || t.size[0] == 0 {
			return errors.New("a screen that does not come first, after the size")
		}
		t.from, t.snap = int64(binary.BigEndian.Uint64(p[1:])), append([]byte{}, p[9:]...)
	case 2:
		t.size = [2]uint16{binary.BigEndian.Uint16(p[1:]), binary.BigEndian.Uint16(p[3:])}
	case 3:
		var s map[string]any
		if err := json.Unmarshal(p[1:], &s); err != nil {
			return fmt.Errorf("state frame %q: %w", p, err)
		}
		t.states = append(t.states, s)
	case 4:
		return json.Unmarshal(p[1:], &t.exit)
	case 5:
		return fmt.Errorf("error frame: %s", p[1:])
	}
	return nil
}

// Type sends input.
func (t *Terminal) Type(text string) error { return t.send(append([]byte{0}, text...)) }

// Wish asks for a size.
func (t *Terminal) Wish(cols, rows uint16) error {
	return t.send(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{1}, cols), rows))
}

// TakeSize becomes the size owner.
func (t *Terminal) TakeSize() error { return t.send([]byte{4}) }

func (t *Terminal) send(p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conn.WriteMessage(websocket.BinaryMessage, p)
}

// Close drops the connection.
func (t *Terminal) Close() { _ = t.conn.Close() }

// Bytes are what came so far, and the offset of the first.
func (t *Terminal) Bytes() (from int64, b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from, append([]byte(nil), t.bytes...)
}

// End is the offset behind the last byte that came.
func (t *Terminal) End() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from + int64(len(t.bytes))
}

// Screen is the screen the viewer began with, nil for one that was given bytes from the beginning.
func (t *Terminal) Screen() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snap
}

// Size is the last size told.
func (t *Terminal) Size() [2]uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// Err is why the socket ended, nil while it lives.
func (t *Terminal) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Exit is the exit frame, nil before it came.
func (t *Terminal) Exit() map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exit
}

// Until waits until cond holds of the terminal; cond runs without the lock, after each frame.
func (t *Terminal) Until(what string, cond func() bool) error {
	deadline := time.After(Deadline)
	for {
		t.mu.Lock()
		grown, err := t.grown, t.err // read before cond: what came before the end counts
		t.mu.Unlock()
		if cond() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the socket ended before: %s: %w", what, err)
		}
		select {
		case <-grown:
		case <-deadline:
			_, b := t.Bytes()
			return fmt.Errorf("waited %s for: %s; %d bytes came, the last: %q", Deadline, what, len(b), tail(b, 300))
		}
	}
}

// See waits until the output holds text.
func (t *Terminal) See(text string) error {
	return t.Until(fmt.Sprintf("output holds %q", text), func() bool {
		_, b := t.Bytes()
		return strings.Contains(string(b), text)
	})
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
