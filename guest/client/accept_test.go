package client_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/guest"
)

// offers makes the guest offer connections to the tools that begin with an opening.
func (g *liar) offers(opening string) *atomic.Int64 {
	var times atomic.Int64
	g.mux.HandleFunc("POST "+guest.ToolsPath, func(w http.ResponseWriter, r *http.Request) {
		times.Add(1)
		_ = http.NewResponseController(w).Flush()
		if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
			return
		}
		if _, err := io.WriteString(w, opening); err != nil || opening == "" {
			return
		}
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body) // until the host closes
	})
	return &times
}

func TestOpeningsOfToolsAreChecked(t *testing.T) {
	t.Parallel()
	for what, opening := range map[string]string{
		"no JSON":           "hello\n",
		"no process":        `{"use":"mcp"}` + "\n",
		"no process's name": `{"process":"../a","use":"mcp"}` + "\n",
		"no use":            `{"process":"a"}` + "\n",
		"unknown use":       `{"process":"a","use":"shell"}` + "\n",
		"without end":       strings.Repeat(" ", 1<<20),
	} {
		g := newLiar(t, goodHello)
		times := g.offers(opening)
		_, _, err := g.client(t, true).AcceptTools(within(t), "h")
		refused(t, what, err)
		if n := times.Load(); n != 1 {
			t.Errorf("%s: asked %d times", what, n)
		}
	}
	// Programs may leave before they are accepted, but not for ever.
	g := newLiar(t, goodHello)
	times := g.offers("")
	if _, _, err := g.client(t, true).AcceptTools(within(t), "h"); err == nil || times.Load() != guest.MaxToolConns {
		t.Errorf("asked %d times: %v", times.Load(), err)
	}

	g = newLiar(t, goodHello)
	g.offers(`{"process":"a","use":"mcp"}` + "\nfirst\n")
	conn, opening, err := g.client(t, true).AcceptTools(within(t), "h")
	if err != nil || opening != (guest.ToolOpening{Process: "a", Use: guest.UseMCP}) {
		t.Fatalf("%+v, %v", opening, err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "first\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = conn.Close()
}
