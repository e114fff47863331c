package machines_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

// limit is how long a test waits for what must happen.
const limit = 60 * time.Second

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// harness is the package over a real database, behind a real HTTP server.
type harness struct {
	t      *testing.T
	db     *store.DB
	people *testaccounts.Accounts
	bus    *events.Bus
	clock  *clock
	user   accounts.User
	team   accounts.Team
	*machines.Service
	url  string
	stop func()
}

// newHarness makes a harness; tune changes the configuration.
func newHarness(t *testing.T, db *store.DB, tune ...func(*machines.Config)) *harness {
	t.Helper()
	h := &harness{t: t, db: db, bus: events.New(), clock: &clock{}}
	h.user, h.team = storetest.Seed(t, db)
	h.people = testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db), Key: make([]byte, 32), Now: h.clock.Now,
		Changed: func(userID string) { h.Recheck(context.Background(), userID) }})
	h.Service = h.open(tune...)
	return h
}

// open starts the service, as a starting server does, until the test ends or stop is called.
func (h *harness) open(tune ...func(*machines.Config)) *machines.Service {
	h.t.Helper()
	cfg := machines.Config{Store: store.NewMachines(h.db), Accounts: h.people, Sealer: h.people, Events: h.bus, Enabled: true, Programs: []string{"claude", "codex"}, Now: h.clock.Now, Tick: 20 * time.Millisecond}
	for _, fn := range tune {
		fn(&cfg)
	}
	s := machines.New(cfg)
	if err := s.Recover(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Connect(w, r, "192.0.2.7"); err != nil {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"code": fault.CodeOf(err), "message": err.Error()})
		}
	}))
	h.url = web.URL
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			h.t.Errorf("Run: %v", err)
		}
	}()
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			<-done
			web.Close()
		})
	}
	h.t.Cleanup(h.stop)
	return s
}

// token makes a token of the harness's user.
func (h *harness) token(name string, reusable bool) (machines.Token, string) {
	h.t.Helper()
	t, text, err := h.NewToken(h.t.Context(), h.team.ID, h.user.ID, name, reusable)
	if err != nil {
		h.t.Fatal(err)
	}
	return t, text
}

// wait waits until ok holds.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// hello is what a well-behaved machine says of itself.
func hello() wire.Hello {
	return wire.Hello{Version: wire.Version, Build: "1.0", OS: "linux", Arch: "amd64", Release: "Debian GNU/Linux 13", Hostname: "laptop", Mode: wire.Docker, Available: true,
		Isolation: "A container", Boundary: "container", Image: "ubuntu:latest", Network: "host", Access: wire.Full, Share: machines.ShareOwner,
		Folders: []wire.Folder{{Path: "/home/ada/work", Name: "work", Access: wire.Ask, Git: true, Branch: "main"}}, CPUs: 8, MemoryMB: 16 << 10}
}

// device is a machine: its key, and what it says when it is asked for its events.
type device struct {
	h      *harness
	key    ed25519.PrivateKey
	id     string
	server ed25519.PublicKey
	said   wire.Enrolled
	raw    chan []byte                                  // lines to say
	ended  chan error                                   // why its connection ended
	first  []byte                                       // said first instead of a hello
	asked  func(w http.ResponseWriter, r *http.Request) // answers what is asked of its folders; set before it connects
}

func newDevice(h *harness) *device {
	h.t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return &device{h: h, key: key, raw: make(chan []byte, 1000), ended: make(chan error, 1)}
}

func (d *device) enrol(token, name string) error {
	got, err := d.h.Enrol(d.h.t.Context(), wire.Enrol{Token: token, Name: name, PublicKey: d.key.Public().(ed25519.PublicKey), Hello: hello()}, "192.0.2.7")
	if err == nil {
		d.id, d.server, d.said = got.RunnerID, got.ServerKey, got
	}
	return err
}

// connected is a machine that is enrolled and online.
func connected(h *harness, name string) *device {
	h.t.Helper()
	_, token := h.token(name, false)
	d := newDevice(h)
	if err := d.enrol(token, ""); err != nil {
		h.t.Fatal(err)
	}
	d.connect()
	d.online(true)
	return d
}

func (d *device) online(want bool) {
	d.h.t.Helper()
	wait(d.h.t, "online becomes as it should", func() bool { return d.seen().Online == want })
}

func (d *device) seen() machines.Machine {
	d.h.t.Helper()
	m, err := d.h.Known(d.h.t.Context(), d.id)
	if err != nil {
		d.h.t.Fatal(err)
	}
	return m
}

// dial opens the machine's connection.
func (d *device) dial(ctx context.Context) error {
	nc, err := tunnel.Dial(ctx, tunnel.DialConfig{URL: d.h.url, RunnerID: d.id, Key: d.key, ServerKey: d.server, Now: d.h.clock.Now})
	if err != nil {
		return err
	}
	go func() { d.ended <- tunnel.Serve(ctx, nc, http.HandlerFunc(d.serve)) }()
	return nil
}

// connect opens the connection, which ends with the test at the latest.
func (d *device) connect() {
	d.h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if err := d.dial(ctx); err != nil {
		cancel()
		d.h.t.Fatal(err)
	}
	ended := d.ended
	d.h.t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(limit):
			d.h.t.Error("the connection did not end")
		}
	})
}

// gone waits for the end of the connection and returns why it ended.
func (d *device) gone() error {
	d.h.t.Helper()
	select {
	case err := <-d.ended:
		d.ended <- err
		return err
	case <-time.After(limit):
		d.h.t.Fatal("the connection does not end")
		return nil
	}
}

func (d *device) serve(w http.ResponseWriter, r *http.Request) {
	if d.asked != nil && strings.HasPrefix(r.URL.Path, "/v1/folders") {
		d.asked(w, r)
		return
	}
	if r.URL.Path != "/v1/events" {
		http.NotFound(w, r)
		return
	}
	first := d.first
	if first == nil {
		hi := hello()
		first, _ = json.Marshal(wire.Event{Type: wire.EventHello, Hello: &hi})
		first = append(first, '\n')
	}
	rc := http.NewResponseController(w)
	_, _ = w.Write(first)
	_ = rc.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-d.raw:
			if _, err := w.Write(line); err != nil {
				return
			}
			_ = rc.Flush()
		}
	}
}

func (d *device) say(e wire.Event) {
	b, err := json.Marshal(e)
	if err != nil {
		d.h.t.Fatal(err)
	}
	d.raw <- append(b, '\n')
}

// history is why the machine's connections ended, newest first.
func (d *device) history() []string {
	d.h.t.Helper()
	all, _, err := d.h.History(d.h.t.Context(), d.id, machines.Page{})
	if err != nil {
		d.h.t.Fatal(err)
	}
	out := []string{}
	for _, c := range all {
		out = append(out, c.Reason)
	}
	return out
}

// member adds a user to the harness's team.
func (h *harness) member(role accounts.Role) accounts.User {
	h.t.Helper()
	u := accounts.User{ID: id.New("usr"), Name: "Bob", PasswordHash: "!", CreatedAt: 1}
	u.Email = u.ID + "@example.com"
	if ok, err := store.NewAccounts(h.db).InsertUser(h.t.Context(), u); err != nil || !ok {
		h.t.Fatal(ok, err)
	}
	if ok, err := store.NewAccounts(h.db).InsertMember(h.t.Context(), h.team.ID, u.ID, role, 1); err != nil || !ok {
		h.t.Fatal(ok, err)
	}
	return u
}
