package wire_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

func key(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func seen(t *testing.T, path string, c *clock) *wire.Seen {
	t.Helper()
	s, err := wire.OpenSeen(path, c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// sent is a request as the machine gets it.
func sent(t *testing.T, s wire.Signer, method, path string, body []byte) *http.Request {
	t.Helper()
	out := httptest.NewRequest(method, path, nil)
	if err := s.Sign(out, body); err != nil {
		t.Fatal(err)
	}
	in := httptest.NewRequest(method, path, nil)
	in.Header = out.Header
	return in
}

func TestACommandIsObeyedOnceAndAsItWasGiven(t *testing.T) {
	t.Parallel()
	k, c := key(t), &clock{noon}
	check := wire.Checker{Runner: "rn_1", ServerKey: public(k), Seen: seen(t, filepath.Join(t.TempDir(), "seen"), c), Now: c.now}
	sign := wire.Signer{Key: k, Runner: "rn_1", Now: c.now}
	body := []byte(`{"a":1}`)
	out := httptest.NewRequest("PUT", "/v1/x?b=2", nil)
	out = out.WithContext(wire.WithOrder(out.Context(), wire.Order{UserID: "us_1", User: "Ada", Purpose: strings.Repeat("long ", 100)}))
	if err := sign.Sign(out, body); err != nil {
		t.Fatal(err)
	}
	in := httptest.NewRequest("PUT", "/v1/x?b=2", nil)
	in.Header = out.Header
	cmd, err := check.Check(in, body)
	if err != nil || cmd.User != "Ada" || cmd.UserID != "us_1" || len(cmd.Purpose) != 200 || cmd.Until-cmd.At != wire.CommandLife.Milliseconds() {
		t.Fatalf("%+v, %v", cmd, err)
	}
	if _, err := check.Check(in, body); fault.CodeOf(err) != wire.CodeReplayed {
		t.Errorf("it was obeyed twice: %v", err)
	}
	if _, err := check.Check(sent(t, sign, "POST", "/v1/y", nil), nil); err != nil {
		t.Errorf("a stream: %v", err)
	}
	if _, err := check.Check(sent(t, sign, "DELETE", "/v1/y", []byte{}), []byte{}); err != nil {
		t.Errorf("without a body: %v", err)
	}
}

func TestForgedCommandsAreRefused(t *testing.T) {
	t.Parallel()
	k, other, c := key(t), key(t), &clock{noon}
	check := wire.Checker{Runner: "rn_1", ServerKey: public(k), Seen: seen(t, filepath.Join(t.TempDir(), "seen"), c), Now: c.now}
	good := wire.Signer{Key: k, Runner: "rn_1", Now: c.now}
	at := func(d time.Duration) wire.Signer {
		return wire.Signer{Key: k, Runner: "rn_1", Now: func() time.Time { return noon.Add(d) }}
	}
	body := []byte("body")
	tampered := sent(t, good, "PUT", "/v1/x", body)
	h := tampered.Header.Get(wire.CommandHeader)
	tampered.Header.Set(wire.CommandHeader, "e30"+h[3:])
	moved := sent(t, good, "PUT", "/v1/x", body)
	moved.RequestURI, moved.URL.Path = "/v1/z", "/v1/z"
	renamed := sent(t, good, "PUT", "/v1/x", body)
	renamed.Method = "POST"
	long := good
	long.Life = time.Hour
	for name, tt := range map[string]struct {
		req  *http.Request
		body []byte
	}{
		"none":                {httptest.NewRequest("PUT", "/v1/x", nil), body},
		"another key":         {sent(t, wire.Signer{Key: other, Runner: "rn_1", Now: c.now}, "PUT", "/v1/x", body), body},
		"another machine":     {sent(t, wire.Signer{Key: k, Runner: "rn_2", Now: c.now}, "PUT", "/v1/x", body), body},
		"tampered with":       {tampered, body},
		"another path":        {moved, body},
		"another method":      {renamed, body},
		"another body":        {sent(t, good, "PUT", "/v1/x", body), []byte("Body")},
		"no hash for a body":  {sent(t, good, "PUT", "/v1/x", nil), body},
		"a hash for a stream": {sent(t, good, "PUT", "/v1/x", body), nil},
		"late":                {sent(t, at(-wire.CommandLife-wire.MaxSkew-time.Second), "PUT", "/v1/x", body), body},
		"early":               {sent(t, at(wire.MaxSkew+time.Second), "PUT", "/v1/x", body), body},
		"valid for long":      {sent(t, long, "PUT", "/v1/x", body), body},
	} {
		if _, err := check.Check(tt.req, tt.body); fault.CodeOf(err) != wire.CodeForged {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, d := range []time.Duration{-wire.MaxSkew, wire.MaxSkew} {
		if _, err := check.Check(sent(t, at(d), "PUT", "/v1/x", body), body); err != nil {
			t.Errorf("a clock that is %s off: %v", d, err)
		}
	}
	// A signature over a command's words serves for nothing else, and the other way round.
	if _, err := wire.Open(strings.TrimPrefix(wire.CallHeader("rn_1", k, noon), wire.AuthScheme+" "), public(k)); err == nil {
		t.Error("a machine's call passed for a command")
	}
}

func TestReplaysAreRefusedByTheNextProgramToo(t *testing.T) {
	t.Parallel()
	path, c := filepath.Join(t.TempDir(), "seen"), &clock{noon}
	s := seen(t, path, c)
	cmd := wire.Command{ID: "0123456789012345678901", At: noon.UnixMilli(), Until: noon.Add(time.Minute).UnixMilli()}
	if err := s.Take(cmd); err != nil {
		t.Fatal(err)
	}
	// Not closed: its program was killed.
	again := seen(t, path, c)
	if err := again.Take(cmd); fault.CodeOf(err) != wire.CodeReplayed {
		t.Errorf("got %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := again.Take(wire.Command{ID: "another-command-of-today"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("taken after the end: %v", err)
	}
	// A file that cannot be read says nothing of what was had.
	if err := os.WriteFile(path, []byte("\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.at = noon.Add(time.Second)
	torn := seen(t, path, c)
	if err := torn.Take(cmd); fault.CodeOf(err) != wire.CodeReplayed {
		t.Errorf("got %v", err)
	}
	cmd.At = c.at.UnixMilli()
	if err := torn.Take(cmd); err != nil {
		t.Errorf("a new command: %v", err)
	}
}

func TestTheJournalDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	path, c := filepath.Join(t.TempDir(), "seen"), &clock{noon}
	s := seen(t, path, c)
	for i := range 30_000 {
		c.at = c.at.Add(time.Second)
		id := []byte("0000000000000000000000")
		for j, n := 0, i; n > 0; j, n = j+1, n/10 {
			id[j] += byte(n % 10)
		}
		if err := s.Take(wire.Command{ID: string(id), At: c.at.UnixMilli(), Until: c.at.Add(time.Minute).UnixMilli()}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 500<<10 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestCallsOfMachines(t *testing.T) {
	t.Parallel()
	k := key(t)
	head := wire.CallHeader("rn_1", k, noon)
	c, err := wire.ReadCall(head)
	if err != nil || c.ID != "rn_1" {
		t.Fatal(c, err)
	}
	if err := c.Check(public(k), noon.Add(time.Minute)); err != nil {
		t.Error(err)
	}
	if err := c.Check(public(key(t)), noon); fault.CodeOf(err) != wire.CodeRevoked {
		t.Errorf("another key: %v", err)
	}
	if err := c.Check(public(k), noon.Add(-time.Hour)); fault.CodeOf(err) != wire.CodeClock || !strings.Contains(err.Error(), "1h0m0s fast") {
		t.Errorf("a wrong clock: %v", err)
	}
	for _, wrong := range []string{"", "Bearer x", "Parawork-Runner", "Parawork-Runner a.b.c", "Parawork-Runner a.-1.AA", "Parawork-Runner a.01.AA", "Parawork-Runner a.1.!!"} {
		if _, err := wire.ReadCall(wrong); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	h := http.Header{}
	wire.SignRefusal(h, k, head, wire.CodeRevoked)
	if !wire.RefusalProven(h, public(k), head, wire.CodeRevoked) || wire.RefusalProven(h, public(k), head, wire.CodeReplaced) ||
		wire.RefusalProven(h, public(key(t)), head, wire.CodeRevoked) || wire.RefusalProven(h, public(k), head+"x", wire.CodeRevoked) {
		t.Error("a refusal proves too much or too little")
	}
}
