package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/gorilla/websocket"
)

// childBridge is the baseline: one process, a PTY, gorilla/websocket, reads coalesced as far as they are there. No guest,
// no log, no offsets, no acknowledgements. `child-bridge ARGV...` serves one PTY to every client that connects; with more
// than one client each has a queue of its own, and the PTY waits for the slowest (a bridge that drops would not be one).
// BRIDGE_PLAIN makes it write each read as it is, as bridges commonly do.
func childBridge(argv []string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", ln.Addr())
	cmd := exec.Command(argv[0], argv[1:]...)
	ptmx, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 120, Rows: 32})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	clients := map[*bridgeClient]bool{}
	up := websocket.Upgrader{WriteBufferSize: 64 << 10, CheckOrigin: func(*http.Request) bool { return true }}
	started := sync.OnceFunc(func() { go bridgePump(ptmx, &mu, clients) })
	want := 1
	if v := os.Getenv("BRIDGE_CLIENTS"); v != "" {
		fmt.Sscan(v, &want)
	}
	return http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		c := &bridgeClient{conn: conn, queue: make(chan []byte, 16)}
		mu.Lock()
		clients[c] = true
		enough := len(clients) >= want
		mu.Unlock()
		go c.write()
		if enough {
			started()
		}
		for {
			_, p, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if _, err := ptmx.Write(p); err != nil {
				return
			}
		}
	}))
}

type bridgeClient struct {
	conn  *websocket.Conn
	queue chan []byte
}

func (c *bridgeClient) write() {
	for p := range c.queue {
		if c.conn.WriteMessage(websocket.BinaryMessage, p) != nil {
			return
		}
	}
}

// bridgePump reads the PTY and hands coalesced pieces to every client. One client is written to directly: the fastest way.
func bridgePump(ptmx *os.File, mu *sync.Mutex, clients map[*bridgeClient]bool) {
	pieces := make(chan []byte, 64)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 16<<10)
			n, err := ptmx.Read(buf)
			if n > 0 {
				pieces <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	plain := os.Getenv("BRIDGE_PLAIN") != ""
	for p := range pieces {
	coalesce:
		for !plain && len(p) < 64<<10 {
			select {
			case more, ok := <-pieces:
				if !ok {
					break coalesce
				}
				p = append(p, more...)
			default:
				break coalesce
			}
		}
		mu.Lock()
		for c := range clients {
			if len(clients) == 1 {
				_ = c.conn.WriteMessage(websocket.BinaryMessage, p)
			} else {
				c.queue <- p
			}
		}
		mu.Unlock()
	}
	time.Sleep(50 * time.Millisecond) // let the last frames leave before the process is ended
}
