package gate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/internal/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a gate with an internet of its own: names and addresses, behind which there is one server that tells what it was asked.
type world struct {
	t    *testing.T
	g    *gate.Gate
	cfg  gate.Config
	far  *httptest.Server // what answers at every public address
	stop func()

	mu      sync.Mutex
	names   map[string][]string // addresses of names; a name that is resolved again gives the first away
	lookups []string
	dialed  []string
	refused []executors.Refusal
	reached []string
}

func newWorld(t *testing.T, repair ...func(*gate.Config)) *world {
	t.Helper()
	w := &world{t: t, names: map[string][]string{"public.example": {"93.184.216.34"}, "api.public.example": {"93.184.216.35"}, "other.example": {"93.184.216.36"}}}
	w.far = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			for {
				if _, err := io.WriteString(rw, "drip "); err != nil {
					return
				}
				_ = http.NewResponseController(rw).Flush()
				select {
				case <-time.After(5 * time.Millisecond): // a page that does not end
				case <-r.Context().Done():
					return
				}
			}
		}
		_, _ = fmt.Fprintf(rw, "%s %s%s", r.Method, r.Host, r.URL.Path)
		for name := range r.Header {
			if strings.HasPrefix(name, "Proxy") || strings.HasPrefix(name, "X-Forwarded") {
				_, _ = fmt.Fprintf(rw, " leaked %s", name)
			}
		}
	}))
	t.Cleanup(w.far.Close)
	dir, err := os.MkdirTemp("", "gates")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.cfg = gate.Config{Dir: filepath.Join(dir, "gates"), Own: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("93.184.216.99")} },
		Resolve: w.resolve, Dial: w.dial, Refused: func(r executors.Refusal) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, r)
		}, Reached: func(r executors.Reach) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reached = append(w.reached, fmt.Sprintf("%s %s:%d", r.WorkspaceID, r.Host, r.Port))
		}}
	for _, fn := range repair {
		fn(&w.cfg)
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start makes the gate of a new server.
func (w *world) start() {
	w.t.Helper()
	g, err := gate.New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.g = g
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.stop = func() { cancel(); <-done }
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, name)
	all := w.names[name]
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if name == "rebind.example" { // the first answer once, the second ever after
		w.names[name] = all[len(all)-1:]
		all = all[:1]
	}
	var out []netip.Addr
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, to.String())
	w.mu.Unlock()
	switch to.Addr().String() {
	case "93.184.216.41":
		return nil, errors.New("connection refused")
	case "93.184.216.42":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", w.far.Listener.Addr().String())
}

// open opens the gate of a sandbox.
func (w *world) open(sandbox string, n executors.Network) string {
	w.t.Helper()
	dir, err := w.g.Open(w.t.Context(), executors.Ticket{SandboxID: sandbox, WorkspaceID: "ws_" + sandbox, TeamID: "team_1", Network: n})
	if err != nil {
		w.t.Fatal(err)
	}
	return dir
}

func socket(dir string) string { return filepath.Join(dir, "egress") }

// knock opens a connection to a gate.
func (w *world) knock(dir string) net.Conn {
	w.t.Helper()
	c, err := net.Dial("unix", socket(dir))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// connect asks for a tunnel. The connection is usable when the answer is 200.
func (w *world) connect(dir, target string) (net.Conn, int, string) {
	w.t.Helper()
	c := w.knock(dir)
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target); err != nil {
		w.t.Fatal(err)
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		w.t.Fatalf("%s: %v", target, err)
	}
	if resp.StatusCode == http.StatusOK {
		return tunnel{c, r}, 200, ""
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return c, resp.StatusCode, resp.Status + "\n" + string(b)
}

// tunnel is a connection some of whose bytes were read with the head before it.
type tunnel struct {
	net.Conn
	r io.Reader
}

func (t tunnel) Read(b []byte) (int, error) { return t.r.Read(b) }

// client fetches pages through a gate as programs do.
func (w *world) client(dir string) *http.Client {
	t := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "gate"}), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket(dir))
	}}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func (w *world) get(c *http.Client, address string) (int, string) {
	w.t.Helper()
	resp, err := c.Get(address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (w *world) reported() []executors.Refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refused)
}

func (w *world) asked() (lookups, dialed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lookups), slices.Clone(w.dialed)
}

var open = executors.Network{Mode: executors.NetworkOpen}

func allow(names ...string) executors.Network {
	return executors.Network{Mode: executors.NetworkAllow, Allow: names}
}

func TestPublicHostsAreReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.open("sbx_1", open)
	c, code, words := w.connect(dir, "PUBLIC.example.:443")
	if code != 200 {
		t.Fatalf("%d %s", code, words)
	}
	if _, err := io.WriteString(c, "GET /tunnel HTTP/1.0\r\nHost: public.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "GET public.example/tunnel") {
		t.Errorf("%q, %v", b, err)
	}
	client := w.client(dir)
	if code, body := w.get(client, "http://public.example/page"); code != 200 || body != "GET public.example/page" {
		t.Errorf("%d %q", code, body)
	}
	if _, code, _ := w.connect(dir, "93.184.216.50:22"); code != 200 {
		t.Errorf("an address: %d", code)
	}
	if _, dialed := w.asked(); !slices.Equal(dialed, []string{"93.184.216.34:443", "93.184.216.34:80", "93.184.216.50:22"}) {
		t.Errorf("dialed %q", dialed)
	}
	if got := w.reported(); len(got) != 0 {
		t.Errorf("refused: %v", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.reached, []string{"ws_sbx_1 public.example:443", "ws_sbx_1 public.example:80", "ws_sbx_1 93.184.216.50:22"}) {
		t.Errorf("reached: %q", w.reached)
	}
}

func TestNothingInsideIsReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, addr := range map[string]string{"localhost": "127.0.0.1", "inside.example": "10.1.2.3", "meta.example": "169.254.169.254", "azure.example": "168.63.129.16",
		"ali.example": "100.100.100.200", "aws6.example": "fd00:ec2::254", "nat.example": "64:ff9b::7f00:1", "six.example": "2002:7f00:1::1", "teredo.example": "2001::1",
		"mapped.example": "::ffff:127.0.0.1", "own.example": "93.184.216.99", "many.example": "224.0.0.1", "zero.example": "0.0.0.0"} {
		w.names[name] = []string{addr}
	}
	w.names["mixed.example"] = []string{"10.0.0.1", "93.184.216.34", "::1"}
	for _, n := range []executors.Network{open, allow(append(slices.Collect(keys(w.names)), "127.0.0.1", "10.0.0.1:443", "::1")...)} {
		dir := w.open("sbx_"+string(n.Mode), n)
		for name := range w.names {
			if strings.HasPrefix(name, "public") || strings.HasSuffix(name, "public.example") || name == "other.example" || name == "mixed.example" {
				continue
			}
			if _, code, words := w.connect(dir, name+":443"); code != 403 || !strings.Contains(words, "private network") {
				t.Errorf("%s %s: %d %s", n.Mode, name, code, words)
			}
			if code, _ := w.get(w.client(dir), "http://"+name+"/"); code != 403 {
				t.Errorf("%s http://%s: %d", n.Mode, name, code)
			}
		}
		for _, addr := range []string{"127.0.0.1:443", "[::1]:443", "10.0.0.1:443", "[::ffff:7f00:1]:443"} {
			if _, code, words := w.connect(dir, addr); code != 403 {
				t.Errorf("%s %s: %d %s", n.Mode, addr, code, words)
			}
		}
		if _, code, words := w.connect(dir, "mixed.example:443"); code != 200 {
			t.Errorf("a host with a public address: %d %s", code, words)
		}
	}
	if _, dialed := w.asked(); !slices.Equal(dialed, []string{"93.184.216.34:443", "93.184.216.34:443"}) {
		t.Errorf("dialed %q", dialed)
	}
	for _, r := range w.reported() {
		if r.Reason != executors.PrivateAddress || r.TeamID != "team_1" {
			t.Errorf("%+v", r)
		}
	}
}

func keys(m map[string][]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestNumbersInDisguise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.open("sbx_1", open)
	for _, target := range []string{"2130706433:80", "0x7f000001:80", "0177.0.0.1:80", "127.1:80", "127.0.0.1.:80", "user@public.example:80", "public.example", "public.example:",
		"public.example:0", "public.example:99999", "[::1%25lo]:80", "[public.example]:80", strings.Repeat("a", 10_000) + ":80", strings.Repeat("a.", 2000) + "example:80"} {
		if _, code, words := w.connect(dir, target); code != 400 {
			t.Errorf("%.50s: %d %s", target, code, words)
		}
	}
	if lookups, dialed := w.asked(); len(lookups)+len(dialed) != 0 {
		t.Errorf("asked for %q, dialed %q", lookups, dialed)
	}
}

// A name that is not allowed is not even asked for: a name server is a way out too.
func TestTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.open("sbx_1", allow("public.example", "*.public.example", "other.example:8443"))
	for target, want := range map[string]int{"public.example:443": 200, "public.example:80": 200, "public.example:22": 200, "public.example:25": 403, "public.example:8080": 403,
		"api.public.example:443": 200, "other.example:8443": 200, "other.example:443": 403, "secret.evil.example:443": 403, "publicxexample:443": 403, "93.184.216.34:443": 403} {
		if _, code, words := w.connect(dir, target); code != want {
			t.Errorf("%s: %d %s", target, code, words)
		}
	}
	lookups, _ := w.asked()
	for _, name := range lookups {
		if name != "public.example" && name != "api.public.example" && name != "other.example" {
			t.Errorf("%s was asked for", name)
		}
	}
	reasons := map[string]executors.RefusalReason{}
	for _, r := range w.reported() {
		reasons[fmt.Sprintf("%s:%d", r.Host, r.Port)] = r.Reason
	}
	if reasons["secret.evil.example:443"] != executors.NotListed || reasons["public.example:8080"] != executors.BadPort || reasons["other.example:443"] != executors.BadPort || len(reasons) != 6 {
		t.Errorf("%v", reasons)
	}
}

func TestNoNetworkMeansNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, mode := range []executors.NetworkMode{executors.NetworkNone, "", "sometimes"} {
		dir := w.open("sbx_x"+string(mode), executors.Network{Mode: mode, Allow: []string{"public.example"}})
		if _, code, words := w.connect(dir, "public.example:443"); code != 403 || !strings.Contains(words, "no network") {
			t.Errorf("%q: %d %s", mode, code, words)
		}
	}
	if lookups, dialed := w.asked(); len(lookups)+len(dialed) != 0 {
		t.Errorf("asked for %q, dialed %q", lookups, dialed)
	}
}

// The name's server says a public address first and one inside later: what was judged is what is dialed.
func TestANameThatChangesItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.names["rebind.example"] = []string{"93.184.216.34", "127.0.0.1"}
	dir := w.open("sbx_1", open)
	if _, code, words := w.connect(dir, "rebind.example:80"); code != 200 {
		t.Fatalf("%d %s", code, words)
	}
	if _, code, _ := w.connect(dir, "rebind.example:80"); code != 403 {
		t.Fatalf("the second time: %d", code)
	}
	lookups, dialed := w.asked()
	if len(lookups) != 2 || !slices.Equal(dialed, []string{"93.184.216.34:80"}) {
		t.Errorf("asked for %q, dialed %q", lookups, dialed)
	}
}

func TestAddressesAreTriedInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.names["some.example"] = []string{"93.184.216.41", "93.184.216.42", "2606:4700::1"}
	w.names["dead.example"] = []string{"93.184.216.41"}
	dir := w.open("sbx_1", open)
	if _, code, words := w.connect(dir, "some.example:443"); code != 200 {
		t.Fatalf("%d %s", code, words)
	}
	if _, dialed := w.asked(); !slices.Equal(dialed, []string{"93.184.216.41:443", "[2606:4700::1]:443"}) {
		t.Errorf("dialed %q", dialed)
	}
	if _, code, words := w.connect(dir, "dead.example:443"); code != 502 || !strings.Contains(words, "could not be reached") {
		t.Errorf("%d %s", code, words)
	}
	if _, code, words := w.connect(dir, "nowhere.example:443"); code != 502 || !strings.Contains(words, "could not be resolved") {
		t.Errorf("%d %s", code, words)
	}
	if got := w.reported(); len(got) != 1 || got[0].Reason != executors.Unresolved {
		t.Errorf("%v", got)
	}
}

func TestWhatAnOperatorAllows(t *testing.T) {
	t.Parallel()
	var own []egress.Exception
	for _, s := range []string{"127.0.0.1:11434", "10.0.0.0/8"} {
		e, err := egress.ParseException(s)
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, e)
	}
	w := newWorld(t, func(c *gate.Config) { c.Allow = own })
	dir := w.open("sbx_1", open)
	for target, want := range map[string]int{"127.0.0.1:11434": 200, "127.0.0.1:11435": 403, "10.9.9.9:5432": 200, "192.168.0.1:80": 403} {
		if _, code, words := w.connect(dir, target); code != want {
			t.Errorf("%s: %d %s", target, code, words)
		}
	}
	listed := w.open("sbx_2", allow("public.example"))
	if _, code, _ := w.connect(listed, "127.0.0.1:11434"); code != 403 {
		t.Errorf("what an operator allows still needs to be on the list: %d", code)
	}
	c := w.knock(dir)
	_, _ = io.WriteString(c, "GET /v1/forwards HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(c); !strings.Contains(string(b), `{"ports":[11434]}`) {
		t.Errorf("%s", b)
	}
}
