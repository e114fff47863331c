package tunnel_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long a test waits for what must happen.
const limit = 60 * time.Second

type keys struct {
	server, machine ed25519.PrivateKey
}

func newKeys(t testing.TB) keys {
	t.Helper()
	var k keys
	var err error
	if _, k.server, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	if _, k.machine, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	return k
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// door is a server that machines connect to.
type door struct {
	keys   keys
	links  chan *tunnel.Link
	errs   chan error
	timing tunnel.Timing
}

func newDoor(k keys) *door {
	return &door{keys: k, links: make(chan *tunnel.Link, 10), errs: make(chan error, 10)}
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != wire.ConnectPath {
		http.NotFound(w, r)
		return
	}
	auth := r.Header.Get("Authorization")
	c, err := wire.ReadCall(auth)
	if err == nil {
		err = c.Check(public(d.keys.machine), time.Now())
	}
	if err != nil {
		wire.SignRefusal(w.Header(), d.keys.server, auth, fault.CodeOf(err))
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"code":"`+fault.CodeOf(err)+`","message":"No more."}`)
		return
	}
	l, err := tunnel.Accept(w, r, tunnel.AcceptConfig{ServerKey: d.keys.server, MachineKey: public(d.keys.machine), Timing: d.timing})
	if err != nil {
		d.errs <- err
		return
	}
	d.links <- l
	<-l.Done()
}

func (d *door) link(t *testing.T) *tunnel.Link {
	t.Helper()
	select {
	case l := <-d.links:
		return l
	case err := <-d.errs:
		t.Fatalf("accepting: %v", err)
	case <-time.After(limit):
		t.Fatal("the machine does not connect")
	}
	return nil
}

func (d *door) dial(url string) tunnel.DialConfig {
	return tunnel.DialConfig{URL: url, RunnerID: "rn_1", Key: d.keys.machine, ServerKey: public(d.keys.server), Timing: d.timing}
}

// machine is what the tests' machines answer.
func machine() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/hello", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello "+r.URL.RawQuery) })
	mux.HandleFunc("POST /v1/sum", func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		_, _ = io.Copy(h, r.Body)
		_, _ = io.WriteString(w, hex.EncodeToString(h.Sum(nil)))
	})
	mux.HandleFunc("POST /v1/no", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(wire.Status(fault.Forbidden))
		_, _ = io.WriteString(w, `{"kind":"forbidden","code":"`+wire.CodeOutside+`","message":"Not that folder."}`)
	})
	mux.HandleFunc("POST /v1/echo", func(w http.ResponseWriter, r *http.Request) {
		c, err := tunnel.Conn(w, r)
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
	})
	mux.HandleFunc("POST /v1/flood", func(w http.ResponseWriter, r *http.Request) {
		c, err := tunnel.Conn(w, r)
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 64<<10)
		for err == nil {
			_, err = c.Write(b)
		}
	})
	mux.HandleFunc("POST /v1/stuck", func(w http.ResponseWriter, r *http.Request) {
		if _, err := tunnel.Conn(w, r); err == nil {
			<-r.Context().Done()
		}
	})
	return mux
}

// pair is a server and a machine that are connected until the test ends.
func pair(t *testing.T) *tunnel.Link {
	t.Helper()
	d := newDoor(newKeys(t))
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	c, err := tunnel.Dial(t.Context(), d.dial(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = tunnel.Serve(ctx, c, machine()) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return d.link(t)
}

func ask(t *testing.T, l *tunnel.Link, method, path string, body io.Reader) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheServerAsksAndTheMachineAnswers(t *testing.T) {
	t.Parallel()
	l := pair(t)
	if got := ask(t, l, "GET", "/v1/hello?a=1", nil); got != "hello a=1" {
		t.Errorf("got %q", got)
	}
	b := make([]byte, 20<<20)
	_, _ = rand.Read(b)
	sum := sha256.Sum256(b)
	if got := ask(t, l, "POST", "/v1/sum", bytes.NewReader(b)); got != hex.EncodeToString(sum[:]) {
		t.Error("20 MB arrived changed")
	}
}

func TestStreamsCarryBothWays(t *testing.T) {
	t.Parallel()
	l := pair(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			c, err := l.Stream(t.Context(), "/v1/echo", nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			sent := make([]byte, 2<<20)
			_, _ = rand.Read(sent)
			var up sync.WaitGroup
			up.Go(func() {
				for rest := sent; len(rest) > 0; {
					n := min(len(rest), 1+len(rest)/7)
					if _, err := c.Write(rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
				if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			got, err := io.ReadAll(c)
			up.Wait()
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
	}
	all.Wait()
}

// What a Write has returned from arrives although Close follows at once.
func TestNothingWrittenIsLostAtTheEnd(t *testing.T) {
	t.Parallel()
	d := newDoor(newKeys(t))
	srv := httptest.NewServer(d)
	defer srv.Close()
	got := make(chan int, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/count", func(w http.ResponseWriter, r *http.Request) {
		c, err := tunnel.Conn(w, r)
		if err != nil {
			return
		}
		n, _ := io.Copy(io.Discard, c)
		got <- int(n)
	})
	c, err := tunnel.Dial(t.Context(), d.dial(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = tunnel.Serve(ctx, c, mux) })
	defer work.Wait()
	defer cancel()
	l := d.link(t)
	for i := range 20 {
		s, err := l.Stream(t.Context(), "/v1/count", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := 1000*i + 1
		if _, err := s.Write(make([]byte, want)); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		select {
		case n := <-got:
			if n != want {
				t.Fatalf("%d of %d bytes arrived", n, want)
			}
		case <-time.After(limit):
			t.Fatal("the stream does not end")
		}
	}
}

func TestRefusalsOfStreamsKeepTheirCode(t *testing.T) {
	t.Parallel()
	l := pair(t)
	_, err := l.Stream(t.Context(), "/v1/no", nil)
	if fault.CodeOf(err) != wire.CodeOutside || fault.KindOf(err) != fault.Forbidden {
		t.Errorf("got %v", err)
	}
	_, err = l.Stream(t.Context(), "/v1/nowhere", nil)
	if fault.CodeOf(err) != wire.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// A flood that nobody reads, and streams whose programs take nothing, hold up no other stream.
func TestStreamsDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	l := pair(t)
	for range 20 {
		c, err := l.Stream(t.Context(), "/v1/flood", nil) // never read
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := l.Stream(t.Context(), "/v1/stuck", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var up sync.WaitGroup
		defer up.Wait()
		defer s.Close()
		up.Go(func() { _, _ = s.Write(make([]byte, 2<<20)) }) // the machine's program reads none of it
	}
	c, err := l.Stream(t.Context(), "/v1/echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 1)
	for range 100 {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
	}
	big := bytes.Repeat([]byte("x"), 4<<20)
	sum := sha256.Sum256(big)
	if got := ask(t, l, "POST", "/v1/sum", bytes.NewReader(big)); got != hex.EncodeToString(sum[:]) {
		t.Error("an upload beside stuck streams arrived changed")
	}
}

func TestEachEndMustHaveItsKey(t *testing.T) {
	t.Parallel()
	k, other := newKeys(t), newKeys(t)
	d := newDoor(k)
	srv := httptest.NewServer(d)
	defer srv.Close()

	cfg := d.dial(srv.URL)
	cfg.ServerKey = public(other.server)
	if _, err := tunnel.Dial(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "differs from that of the server") {
		t.Errorf("a strange server was believed: %v", err)
	}
	if err := <-d.errs; err == nil {
		t.Error("the server did not notice")
	}

	cfg = d.dial(srv.URL)
	cfg.Key = other.machine
	_, err := tunnel.Dial(t.Context(), cfg)
	if fault.CodeOf(err) != wire.CodeRevoked {
		t.Errorf("a strange machine was let in, or does not know that it is of no use: %v", err)
	}
}

// Somebody between who says that the machine was revoked is not believed.
func TestOnlyTheServerSendsAMachineAwayForGood(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	d := newDoor(k)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"code":"runner_revoked","message":"Go away."}`)
	}))
	defer srv.Close()
	_, err := tunnel.Dial(t.Context(), d.dial(srv.URL))
	if err == nil || fault.CodeOf(err) == wire.CodeRevoked || err.Error() != "Go away." {
		t.Errorf("got %v", err)
	}
}

func TestAMachineLearnsWhyItIsDisconnected(t *testing.T) {
	t.Parallel()
	for reason, code := range map[string]string{tunnel.ReasonRevoked: wire.CodeRevoked, tunnel.ReasonReplaced: wire.CodeReplaced, "The server ends.": ""} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			d := newDoor(newKeys(t))
			srv := httptest.NewServer(d)
			defer srv.Close()
			c, err := tunnel.Dial(t.Context(), d.dial(srv.URL))
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- tunnel.Serve(context.Background(), c, machine()) }()
			l := d.link(t)
			if l.Reason() != "" {
				t.Errorf("it lives, but ended because %q", l.Reason())
			}
			l.Close(reason)
			select {
			case err = <-served:
			case <-time.After(limit):
				t.Fatal("the machine serves on")
			}
			if err == nil || err.Error() != reason || fault.CodeOf(err) != code {
				t.Errorf("got %v, code %q", err, fault.CodeOf(err))
			}
			<-l.Done()
			if l.Reason() != reason {
				t.Errorf("the server remembers %q", l.Reason())
			}
			req, _ := http.NewRequest("GET", "/v1/hello", nil)
			if _, err := l.RoundTrip(req); fault.CodeOf(err) != wire.CodeOffline {
				t.Errorf("asking an ended link: %v", err)
			}
		})
	}
}

func TestTheServerHearsWhenTheMachineGoes(t *testing.T) {
	t.Parallel()
	d := newDoor(newKeys(t))
	srv := httptest.NewServer(d)
	defer srv.Close()
	c, err := tunnel.Dial(t.Context(), d.dial(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	served := make(chan error, 1)
	go func() { served <- tunnel.Serve(ctx, c, machine()) }()
	l := d.link(t)
	s, err := l.Stream(t.Context(), "/v1/echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	over := errors.New("it is over")
	cancel(over)
	if err := <-served; !errors.Is(err, over) {
		t.Errorf("serving ended with %v", err)
	}
	if _, err := s.Read(make([]byte, 1)); fault.CodeOf(err) != wire.CodeOffline {
		t.Errorf("a stream of a link that ended: %v", err)
	}
	<-l.Done()
	if !strings.Contains(l.Reason(), "closed") && !strings.Contains(l.Reason(), "cut") {
		t.Errorf("reason %q", l.Reason())
	}
}

func TestOpeningAStreamEndsWithItsContext(t *testing.T) {
	t.Parallel()
	d := newDoor(newKeys(t))
	srv := httptest.NewServer(d)
	defer srv.Close()
	c, err := tunnel.Dial(t.Context(), d.dial(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	here := make(chan bool)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		served <- tunnel.Serve(ctx, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(here)
			<-r.Context().Done() // answers nothing
		}))
	}()
	l := d.link(t)
	open, stop := context.WithCancelCause(context.Background())
	late := errors.New("late")
	go func() { <-here; stop(late) }()
	if _, err := l.Stream(open, "/v1/echo", nil); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
	cancel()
	<-served
}

func TestForeignRequestsAreNoMachines(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	for name, h := range map[string]http.Header{
		"no socket":      {},
		"other protocol": {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"chat"}},
		"a page":         {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {wire.Subprotocol}, "Origin": {"https://evil.example"}},
	} {
		r := httptest.NewRequest("GET", wire.ConnectPath, nil)
		r.Header = h
		w := httptest.NewRecorder()
		_, err := tunnel.Accept(w, r, tunnel.AcceptConfig{ServerKey: k.server, MachineKey: public(k.machine)})
		if _, ok := errors.AsType[*fault.Error](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddressesOfServers(t *testing.T) {
	t.Parallel()
	d := newDoor(newKeys(t))
	asked := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.URL.Path; w.WriteHeader(302) }))
	defer srv.Close()
	for _, wrong := range []string{"", "parawork.example.com", "ftp://x", "https://u:p@x"} {
		if _, err := tunnel.Dial(t.Context(), d.dial(wrong)); fault.CodeOf(err) != "runner_server" {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	_, err := tunnel.Dial(t.Context(), d.dial(srv.URL+"/below/"))
	if err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("got %v", err)
	}
	if p := <-asked; p != "/below"+wire.ConnectPath {
		t.Errorf("asked for %s", p)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	if _, err := tunnel.Dial(t.Context(), d.dial("http://"+nobody.Addr().String())); err == nil || !strings.Contains(err.Error(), "Nobody answers") {
		t.Errorf("got %v", err)
	}
}
