package wsstream_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/internal/wsstream"
)

// pair returns both ends of a WebSocket.
func pair(t *testing.T, here, there wsstream.Config) (a, b *wsstream.Conn) {
	t.Helper()
	accepted := make(chan *websocket.Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- ws
	}))
	t.Cleanup(s.Close)
	ws, _, err := websocket.DefaultDialer.Dial(strings.Replace(s.URL, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b = wsstream.New(ws, here), wsstream.New(<-accepted, there)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

// A stream is exact over messages of any size, outlives silence while it is pinged, and is cut when the other end says nothing any more.
func TestStream(t *testing.T) {
	t.Parallel()
	const quiet = 200 * time.Millisecond
	cfg := wsstream.Config{Quiet: quiet, Piece: 1000, Limit: 1 << 20}
	pinging := cfg
	pinging.Ping = quiet / 10
	a, b := pair(t, cfg, pinging)
	sent := bytes.Repeat([]byte("some bytes "), 10_000)
	go func() {
		_, _ = a.Write(sent)
		var one [1]byte
		_, _ = a.Read(one[:]) // answers pings
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	began := time.Now()
	if err := b.SetReadDeadline(began.Add(3 * quiet)); err != nil {
		t.Fatal(err)
	}
	var one [1]byte
	if _, err := b.Read(one[:]); !timedOut(err) || time.Since(began) < 2*quiet {
		t.Errorf("a quiet connection that is pinged: %v after %s", err, time.Since(began))
	}

	_, mute := pair(t, cfg, cfg)
	if _, err := mute.Read(one[:]); !timedOut(err) {
		t.Errorf("a connection whose other end says nothing: %v", err)
	}
}

func timedOut(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
