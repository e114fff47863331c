package client_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

// signing is a pipe that signs what goes over it with its own number.
type signing struct {
	io.ReadWriteCloser
	n int
}

func (p signing) Sign(r *http.Request, body []byte) error {
	text := "stream"
	if body != nil {
		text = string(body)
	}
	r.Header.Set("Signature", strings.Join([]string{strconv.Itoa(p.n), r.Method, r.URL.RequestURI(), text}, " "))
	return nil
}

// What changes something is signed for the pipe it goes over, anew when it is sent again; nothing else is.
func TestSigner(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	g := newLiar(t, goodHello)
	var mu sync.Mutex
	var got []string
	note := func(answer string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			got = append(got, r.Header.Get("Signature"))
			mu.Unlock()
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, answer)
		}
	}
	g.mux.HandleFunc("GET /v1/stats", note(`{}`))
	g.mux.HandleFunc("POST /v1/processes/p_1/ack", note(""))
	g.mux.HandleFunc("POST /v1/processes/p_1/signal", note(""))
	g.mux.HandleFunc("DELETE /v1/processes/p_1", note(""))
	g.mux.HandleFunc("POST /v1/processes/p_1/input", note("", guest.HeaderInputSeq, "0"))
	dials := 0
	c := client.New(client.Config{Token: "t", SandboxID: "sbx", OnePipe: true, Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		rwc, err := g.dial(ctx)
		mu.Lock()
		defer mu.Unlock()
		dials++
		return signing{rwc, dials}, err
	}})
	t.Cleanup(c.Close)
	if _, err := c.Stats(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Ack(ctx, "p_1", guest.Stdout, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(ctx, "p_1", "INT"); err != nil {
		t.Fatal(err)
	}
	in, err := c.Input(ctx, "p_1")
	if err == nil {
		err = in.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	g.cut()
	if err := c.Remove(ctx, "p_1"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"", "", `1 POST /v1/processes/p_1/signal {"signal":"INT"}`, "1 POST /v1/processes/p_1/input stream", "2 DELETE /v1/processes/p_1 "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
