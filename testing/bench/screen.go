package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/sessions/screen"
)

// screenAt attaches without an offset and returns, once the frame with the screen has come, its offset and size.
func (h *harness) screenAt(session string) (off int64, size int, err error) {
	conn, _, err := (&websocket.Dialer{ReadBufferSize: 64 << 10}).Dial("ws"+strings.TrimPrefix(h.url, "http")+"/api/v1/sessions/"+session+"/terminal?role=viewer",
		http.Header{"Authorization": {"Bearer " + h.token}})
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	for {
		_, p, err := conn.ReadMessage()
		if err != nil {
			return 0, 0, err
		}
		if p[0] == 1 {
			return int64(binary.BigEndian.Uint64(p[1:])), len(p), nil
		}
	}
}

// screens measures how soon somebody who comes sees the screen, beside reading the whole output as one had to without it.
func (b *bench) screens() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	n := int64(b.size(20<<20, 2<<20))
	want := patternHash(n)
	var after, burst, whole []float64
	for range b.size(5, 1) {
		s, err := h.newSession(b.self, "child-spew", fmt.Sprint(n))
		if err != nil {
			return err
		}
		c, err := dialHarness(h, s, "writer")
		if err != nil {
			return err
		}
		if err := c.ready(); err != nil {
			return err
		}
		if err := c.write([]byte("g")); err != nil {
			return err
		}
		sum := sha256.New()
		if err := c.drain(n, sum); err != nil {
			return err
		}
		if [32]byte(sum.Sum(nil)) != want {
			return fmt.Errorf("the bytes that arrived are not the bytes that were written")
		}
		// The burst is over: from now on until a screen with all of it.
		t0 := time.Now()
		for off := int64(0); off < n+1; {
			if off, _, err = h.screenAt(s); err != nil {
				return err
			}
		}
		burst = append(burst, ms(time.Since(t0)))
		_ = c.conn.Close()

		t0 = time.Now()
		if c, err = dialHarness(h, s, "viewer"); err != nil {
			return err
		}
		if err := c.drain(n+1, sha256.New()); err != nil {
			return err
		}
		whole = append(whole, ms(time.Since(t0)))
		_ = c.conn.Close()

		t0 = time.Now()
		if _, _, err := h.screenAt(s); err != nil {
			return err
		}
		after = append(after, ms(time.Since(t0)))
		_ = h.do("POST", "/sessions/"+s+"/stop", map[string]any{"grace_ms": 100}, nil)
	}
	mb := fmt.Sprintf("%d MB", n>>20)
	r := median(after) / median(whole)
	b.figure("screen after attach, history of "+mb+", ms", f1(median(after)), f1(median(whole)), r, "< 150 ms", median(after) < 150)
	r = median(burst) / median(whole)
	b.figure("screen right after a burst of "+mb+", ms", f1(median(burst)), f1(median(whole)), r, "< 500 ms", median(burst) < 500)

	scr := screen.New(screen.Config{Cols: 200, Rows: 60})
	for y := range 60 {
		fmt.Fprintf(scr, "\x1b[%d;1H", y+1)
		for x := range 200 {
			fmt.Fprintf(scr, "\x1b[38;2;%d;%d;%dm%c", x, y*4, (x*y)&255, 'a'+x%26)
		}
	}
	const rounds = 50
	var text []byte
	t0 := time.Now()
	for range rounds {
		text = scr.Snapshot(0)
	}
	encode := ms(time.Since(t0)) / rounds
	again := screen.New(screen.Config{Cols: 200, Rows: 60})
	t0 = time.Now()
	for range rounds {
		_, _ = again.Write(text)
	}
	decode := ms(time.Since(t0)) / rounds
	b.figure("snapshot of 200x60, a colour per cell, ms", fmt.Sprintf("%.2f", encode), fmt.Sprintf("%.2f", decode), encode/decode, "< 2 ms", encode < 2)
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
