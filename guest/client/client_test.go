package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const goodHello = `{"version":1,"build":"x","sandbox_id":"sbx","root":"/w","os":"linux","arch":"amd64","pid":1}`

// liar is a guest that says what a test wants it to.
type liar struct {
	mux   *http.ServeMux
	dials atomic.Int64
	conns sync.Map
	serve chan net.Conn
}

func newLiar(t *testing.T, hello string) *liar {
	t.Helper()
	g := &liar{mux: http.NewServeMux(), serve: make(chan net.Conn)}
	g.mux.HandleFunc("GET /v1/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, hello) })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true)
	srv := &http.Server{Handler: g.mux, Protocols: protocols}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(g) }()
	t.Cleanup(func() {
		_ = srv.Close()
		g.cut()
		<-done
	})
	return g
}

func (g *liar) Accept() (net.Conn, error) {
	conn, ok := <-g.serve
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (g *liar) Close() error   { close(g.serve); return nil }
func (g *liar) Addr() net.Addr { return &net.UnixAddr{} }

// dial gives a bare pipe: no addresses, no deadlines.
func (g *liar) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	g.dials.Add(1)
	ours, theirs := net.Pipe()
	g.conns.Store(theirs, true)
	select {
	case g.serve <- theirs:
		return struct{ io.ReadWriteCloser }{ours}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *liar) cut() {
	g.conns.Range(func(k, _ any) bool { _ = k.(net.Conn).Close(); g.conns.Delete(k); return true })
}

func (g *liar) client(t *testing.T, one bool) *client.Client {
	c := client.New(client.Config{Dial: g.dial, Token: "t", SandboxID: "sbx", OnePipe: one})
	t.Cleanup(c.Close)
	return c
}

func (g *liar) says(pattern, body string) {
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// refused checks that a lie was noticed.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s was believed", what)
	} else if !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Unsupported) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestHelloIsChecked(t *testing.T) {
	t.Parallel()
	for what, hello := range map[string]string{
		"an old version":   strings.Replace(goodHello, `"version":1`, `"version":-1`, 1),
		"a new version":    strings.Replace(goodHello, `"version":1`, `"version":99`, 1),
		"another sandbox":  strings.Replace(goodHello, `"sbx"`, `"other"`, 1),
		"a relative root":  strings.Replace(goodHello, `"/w"`, `"w"`, 1),
		"no JSON":          "hello",
		"an endless hello": `{"build":"` + strings.Repeat("x", guest.MaxJSON) + `"}`,
		"a long build":     strings.Replace(goodHello, `"x"`, `"`+strings.Repeat("x", 300)+`"`, 1),
	} {
		g := newLiar(t, hello)
		_, err := g.client(t, false).Hello(within(t))
		refused(t, what, err)
		_, err = g.client(t, false).Output(within(t), "p", guest.Terminal, 0)
		refused(t, what, err)
	}
}

func TestProcessesAreChecked(t *testing.T) {
	t.Parallel()
	for what, body := range map[string]string{
		"another process":  `{"id":"q","state":"running"}`,
		"an unknown state": `{"id":"p","state":"flying"}`,
		"a negative end":   `{"id":"p","state":"running","ends":{"stdout":-1}}`,
		"an unknown end":   `{"id":"p","state":"running","ends":{"x":1}}`,
		"a negative pid":   `{"id":"p","state":"running","pid":-5}`,
		"long words":       `{"id":"p","state":"exited","reason":"` + strings.Repeat("x", 5000) + `"}`,
		"too much":         `{"id":"p","state":"exited","signal":"` + strings.Repeat("x", guest.MaxJSON) + `"}`,
	} {
		g := newLiar(t, goodHello)
		g.says("GET /v1/processes/p", body)
		g.says("GET /v1/processes", `{"items":[`+body+`]}`)
		c := g.client(t, false)
		_, err := c.Process(within(t), "p")
		refused(t, what, err)
		if what != "another process" {
			_, err = c.Processes(within(t))
			refused(t, what, err)
		}
	}
	g := newLiar(t, goodHello)
	g.says("GET /v1/processes/p", `{"id":"p","state":"exited","reason":"start_failed: \u001b[31mred\nline"}`)
	if p, err := g.client(t, false).Process(within(t), "p"); err != nil || p.Reason != "start_failed:  [31mred line" {
		t.Errorf("reason %q, %v", p.Reason, err)
	}
	for _, id := range []string{"", "..", "a/b", "a?b"} {
		if _, err := g.client(t, false).Process(within(t), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestErrorsAreChecked(t *testing.T) {
	t.Parallel()
	g := newLiar(t, goodHello)
	var status int
	var body string
	g.mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	c := g.client(t, false)
	ask := func(s int, b string) error {
		status, body = s, b
		_, err := c.Stats(within(t))
		return err
	}
	if err := ask(409, `{"kind":"conflict","code":"busy","message":"It is \u0007busy."}`); fault.CodeOf(err) != "busy" || err.Error() != "It is  busy." {
		t.Errorf("%v", err)
	}
	// A guest does not decide who is signed in, or whose money is used up.
	for _, b := range []string{`{"kind":"unauthorized","code":"x","message":"m"}`, `{"kind":"quota","code":"x","message":"m"}`,
		`{"kind":"conflict","code":"DROP TABLE","message":"m"}`, `{"kind":"conflict","code":"x"}`} {
		if err := ask(409, b); err == nil || fault.KindOf(err) != fault.Internal {
			t.Errorf("%s: %v", b, err)
		}
	}
	refused(t, "an error without words", ask(500, "oops"))
	refused(t, "not being known", ask(401, `{"kind":"unauthorized","code":"x","message":"m"}`))
	for _, b := range []string{`{"cpu_ms":-1}`, `{"ports":[0]}`, `{"ports":[70000]}`} {
		refused(t, b, ask(200, b))
	}
}

func direct(w http.ResponseWriter, offset string, frames ...[]byte) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n", guest.UpgradeStream, guest.HeaderOffset, offset)
	for _, f := range frames {
		_, _ = conn.Write(f)
	}
}

func frame(n uint32, p string) []byte { return append(binary.BigEndian.AppendUint32(nil, n), p...) }

func TestOutputIsChecked(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{false, true} {
		for what, offset := range map[string]string{"an offset before": "9", "a negative one": "-1", "no number": "x", "none": "", "a huge one": "9223372036854775807"} {
			g := newLiar(t, goodHello)
			g.mux.HandleFunc("GET /v1/processes/p/output/terminal", func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == 1 {
					direct(w, offset)
					return
				}
				w.Header().Set(guest.HeaderOffset, offset)
			})
			_, err := g.client(t, one).Output(within(t), "p", guest.Terminal, 10)
			refused(t, what, err)
		}
	}
	for what, frames := range map[string][][]byte{
		"a huge frame":       {frame(guest.MaxFrame+1, "x")},
		"a frame cut off":    {frame(5, "ab")},
		"a cut between":      {frame(2, "ab")},
		"half a frame's end": {frame(2, "ab"), {0, 0}},
	} {
		g := newLiar(t, goodHello)
		g.mux.HandleFunc("GET /v1/processes/p/output/terminal", func(w http.ResponseWriter, _ *http.Request) { direct(w, "12", frames...) })
		o, err := g.client(t, false).Output(within(t), "p", guest.Terminal, 10)
		if err != nil || o.From != 12 {
			t.Fatalf("%s: %v", what, err)
		}
		_, err = io.ReadAll(o)
		refused(t, what, err)
		_ = o.Close()
	}
	g := newLiar(t, goodHello)
	g.mux.HandleFunc("GET /v1/processes/p/output/terminal", func(w http.ResponseWriter, _ *http.Request) {
		direct(w, "0", frame(2, "ab"), frame(1, "c"), frame(0, ""))
	})
	g.mux.HandleFunc("GET /v1/processes/q/output/terminal", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n")
		for {
			if _, err := io.WriteString(conn, "X: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	})
	c := g.client(t, false)
	o, err := c.Output(within(t), "p", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(o); err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	_ = o.Close()
	_, err = c.Output(within(t), "q", guest.Terminal, 0)
	refused(t, "an endless head", err)
}

func TestFilesAreChecked(t *testing.T) {
	t.Parallel()
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	for what, info := range map[string]string{
		"another path":   `{"path":"g","type":"file","size":5,"hash":"` + sum + `"}`,
		"a path outside": `{"path":"../f","type":"file","size":5,"hash":"` + sum + `"}`,
		"no hash":        `{"path":"f","type":"file","size":5}`,
		"another hash":   `{"path":"f","type":"file","size":5,"hash":"` + strings.Repeat("0", 64) + `"}`,
		"a folder":       `{"path":"f","type":"dir","size":5,"hash":"` + sum + `"}`,
		"a smaller size": `{"path":"f","type":"file","size":4,"hash":"` + sum + `"}`,
		"a larger size":  `{"path":"f","type":"file","size":6,"hash":"` + sum + `"}`,
		"a setuid mode":  `{"path":"f","type":"file","size":5,"mode":40000,"hash":"` + sum + `"}`,
		"no JSON":        `f`,
	} {
		g := newLiar(t, goodHello)
		g.mux.HandleFunc("GET /v1/files", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(guest.HeaderFile, info)
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "hello")
		})
		g.says("PUT /v1/files", info)
		c := g.client(t, false)
		r, _, err := c.ReadFile(within(t), "f")
		if err == nil {
			_, err = io.ReadAll(r)
			_ = r.Close()
		}
		refused(t, "reading "+what, err)
		if strings.Contains(what, "hash") {
			_, err = c.WriteFile(within(t), "f", strings.NewReader("hello"), client.WriteOptions{})
			refused(t, "writing "+what, err)
		}
	}
	g := newLiar(t, goodHello)
	if _, err := g.client(t, false).Stat(within(t), "../x"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a path outside was asked for: %v", err)
	}
}

func TestChangesAreChecked(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]string{
		"another base":      `{"base":"other"}`,
		"a path outside":    `{"base":"b","upserts":[{"path":"../x"}]}`,
		"an absolute one":   `{"base":"b","removes":["/etc/passwd"]}`,
		"an old path":       `{"base":"b","upserts":[{"path":"x","old_path":".."}]}`,
		"a negative figure": `{"base":"b","upserts":[{"path":"x","additions":-1}]}`,
		"no hash":           `{"base":"b","upserts":[{"path":"x","hash":"../../x"}]}`,
		"no JSON":           `{`,
	} {
		g := newLiar(t, goodHello)
		g.mux.HandleFunc("GET /v1/changes/watch", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(guest.AppendRecord(nil, []byte(set))) })
		g.says("POST /v1/changes/poll", set)
		c := g.client(t, false)
		w, err := c.Watch(within(t), "b", 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Next()
		refused(t, "watching "+what, err)
		_ = w.Close()
		_, err = c.PollNow(within(t), "b")
		refused(t, "polling "+what, err)
	}
	g := newLiar(t, goodHello)
	g.mux.HandleFunc("GET /v1/changes/watch", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0xff, 0xff, 0xff}) })
	w, err := g.client(t, false).Watch(within(t), "b", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = w.Next()
	refused(t, "a record of 4 GiB", err)
}

func TestOnePipeIsDialledOnceAndAgainAfterACut(t *testing.T) {
	t.Parallel()
	g := newLiar(t, goodHello)
	g.says("GET /v1/stats", `{}`)
	c := g.client(t, false)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.Stats(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := g.dials.Load(); n != 1 {
		t.Errorf("dialled %d times", n)
	}
	g.cut()
	for range 3 {
		if _, err := c.Stats(within(t)); err != nil {
			t.Errorf("after a cut: %v", err)
		}
	}
	if n := g.dials.Load(); n != 2 {
		t.Errorf("dialled %d times", n)
	}
	c.Close()
	if _, err := c.Stats(within(t)); fault.CodeOf(err) != "guest_closed" {
		t.Errorf("after Close: %v", err)
	}
}

func TestDialFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	c := client.New(client.Config{Dial: func(context.Context) (io.ReadWriteCloser, error) { return nil, broken }, Token: "t"})
	defer c.Close()
	_, err := c.Hello(within(t))
	if !errors.Is(err, broken) || fault.CodeOf(err) != "guest_unreachable" {
		t.Errorf("%v", err)
	}
}

// A guest that accepts and says nothing does not hold anybody longer than their context.
func TestSilentGuest(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends when the pipe is closed
	c := client.New(client.Config{Dial: func(context.Context) (io.ReadWriteCloser, error) { return ours, nil }, Token: "t"})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Hello(ctx); err == nil {
		t.Error("no error")
	}
}

// The end that was asked for cuts the pipe, perhaps before its answer is through: the order was taken all the same.
func TestShutdownMayCutThePipe(t *testing.T) {
	g := newLiar(t, goodHello)
	g.mux.HandleFunc("POST /v1/shutdown", func(http.ResponseWriter, *http.Request) {
		g.cut()
		panic(http.ErrAbortHandler)
	})
	c := g.client(t, true)
	if _, err := c.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(within(t)); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// A guest that ends at once takes its sandbox along, so that no pipe is left to ask it again.
func TestShutdownMayEndTheSandboxAtOnce(t *testing.T) {
	t.Parallel()
	g := newLiar(t, goodHello)
	var over atomic.Bool
	g.mux.HandleFunc("POST /v1/shutdown", func(http.ResponseWriter, *http.Request) {
		over.Store(true)
		g.cut()
		panic(http.ErrAbortHandler)
	})
	c := client.New(client.Config{Token: "t", SandboxID: "sbx", Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		if over.Load() {
			return nil, errors.New("container not found")
		}
		return g.dial(ctx)
	}})
	t.Cleanup(c.Close)
	if _, err := c.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(within(t)); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := c.Shutdown(within(t)); fault.CodeOf(err) != "guest_unreachable" {
		t.Errorf("Shutdown of a guest that no pipe has reached: %v", err)
	}
}

// On a machine a guard stands between: its connection lives on when the guest's is cut, and only the stream breaks off.
func TestShutdownMayBreakTheStreamOff(t *testing.T) {
	t.Parallel()
	g := newLiar(t, goodHello)
	g.mux.HandleFunc("POST /v1/shutdown", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c := g.client(t, true)
	if err := c.Shutdown(within(t)); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// hasty is a pipe whose other end answers and hangs up before a write to it is known to have ended.
type hasty struct{ io.ReadWriteCloser }

func (h hasty) Write(p []byte) (int, error) {
	n, _ := h.ReadWriteCloser.Write(p)
	return n, net.ErrClosed
}

// A stream that is over at once is read, whatever became of the pipe meanwhile.
func TestShortStream(t *testing.T) {
	t.Parallel()
	g := newLiar(t, goodHello)
	g.mux.HandleFunc("GET /v1/processes/p_1/output/stdout", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: 0\r\n\r\n\x00\x00\x00\x02hi\x00\x00\x00\x00", guest.UpgradeStream, guest.HeaderOffset)
	})
	dials := 0
	c := client.New(client.Config{Token: "t", SandboxID: "sbx", Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		pipe, err := g.dial(ctx)
		if dials++; dials == 1 {
			return pipe, err // the common one
		}
		return hasty{pipe}, err
	}})
	t.Cleanup(c.Close)
	out, err := c.Output(within(t), "p_1", guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if b, err := io.ReadAll(out); err != nil || string(b) != "hi" {
		t.Errorf("read %q, %v", b, err)
	}
}
