package cdp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/tools/browser/cdp"
)

// pipe is a browser that says what it is given, and reads nothing while it is stuck.
type pipe struct {
	says  chan string
	stuck chan struct{}
}

func (p pipe) Receive() ([]byte, error) {
	select {
	case m := <-p.says:
		return []byte(m), nil
	case <-p.stuck:
		return nil, errors.New("closed")
	}
}

func (p pipe) Send([]byte) error {
	<-p.stuck
	return errors.New("closed")
}

func (p pipe) Close() { close(p.stuck) }

// serve runs a connection to a stuck browser. Its end is waited for.
func serve(t *testing.T, handle func(cdp.Event)) (*cdp.Conn, pipe) {
	t.Helper()
	p := pipe{make(chan string), make(chan struct{})}
	c := cdp.New(p, handle)
	done := make(chan struct{})
	go func() {
		_ = c.Run()
		close(done)
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c, p
}

func TestLongSessionIDsAreIgnored(t *testing.T) {
	events := make(chan cdp.Event, 10)
	_, p := serve(t, func(e cdp.Event) { events <- e })
	for _, session := range []string{strings.Repeat("x", 129), strings.Repeat("y", 1<<20), "good"} {
		p.says <- fmt.Sprintf(`{"sessionId": %q, "method": "Page.loaded"}`, session)
	}
	if e := <-events; e.Session != "good" {
		t.Errorf("an event of session %.10q", e.Session)
	}
}

// A picture is read the same whether Chromium writes it as it does, or in another form.
func TestPictures(t *testing.T) {
	events := make(chan cdp.Event, 10)
	_, p := serve(t, func(e cdp.Event) { events <- e })
	for _, m := range []string{
		`{"method":"Page.screencastFrame","params":{"data":"AAEC","sessionId":7},"sessionId":"S"}`,
		`{"sessionId":"S","method":"Page.screencastFrame","params":{"sessionId":7,"data":"AAEC"}}`,
		`{"method":"Page.screencastFrame","params":{"data":"AA\u0045C","sessionId":7},"sessionId":"S"}`,
	} {
		p.says <- m
		e := <-events
		var got struct {
			Data      []byte
			SessionID int
		}
		if !e.Into(&got) || got.SessionID != 7 || e.Session != "S" {
			t.Fatalf("%s: %+v", m, e)
		}
		if e.Picture != nil {
			got.Data = e.Picture
		}
		if string(got.Data) != "\x00\x01\x02" {
			t.Errorf("%s: the picture is %q", m, got.Data)
		}
	}
	for _, m := range []string{`{"method":"Page.screencastFrame","params":{"data":"AAEC`, `{"method":"Page.screencastFrame","params":{"data":"AAEC"`} {
		p.says <- m // cut: ignored
	}
	p.says <- `{"method":"Page.loaded"}`
	if e := <-events; e.Method != "Page.loaded" {
		t.Errorf("a message that was cut: %+v", e)
	}
}

// A browser that reads nothing ends the connection before much is kept for it.
func TestStuckBrowserEndsTheConnection(t *testing.T) {
	c, _ := serve(t, func(cdp.Event) {})
	text := strings.Repeat("x", 1<<20)
	posted := 0
	for c.Post("s", "Input.insertText", map[string]string{"text": text}) {
		posted++
	}
	if posted > 33 {
		t.Errorf("%d MiB were kept", posted)
	}
	<-c.Done()
	if err := c.Call(t.Context(), "s", "Page.enable", nil, nil); !errors.Is(err, cdp.ErrClosed) {
		t.Error(err)
	}
}
