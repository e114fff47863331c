package agents

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// ProbeResult is what trying an account came to.
type ProbeResult string

// The results of trying an account.
const (
	ProbeOK          ProbeResult = "ok"          // the key was accepted, or a login is kept
	ProbeRefused     ProbeResult = "refused"     // the key was not accepted, or there is no login
	ProbeUnreachable ProbeResult = "unreachable" // nobody answers at the address, or it may not be asked
	ProbeUnclear     ProbeResult = "unclear"     // somebody answers, but not about the key
	ProbeUntestable  ProbeResult = "untestable"  // it cannot be told without spending
)

// Probe is what trying an account came to, with a sentence for people.
type Probe struct {
	Result ProbeResult
	Detail string
}

// A prober is an adapter that knows a request of its model's API which tells whether a key is good and costs nothing. Nil: there
// is none for this key.
type prober interface {
	probe(ctx context.Context, a Account) (*http.Request, error)
}

// Test tries an account without spending anything: a key by listing the models there are, a login by looking whether one is kept.
func (r *Registry) Test(ctx context.Context, name, userID string, a Account) (Probe, error) {
	adapter, ok := r.adapters[name]
	if !ok {
		return Probe{}, r.AccountCheck(name)
	}
	if a.Kind != APIKey {
		return r.testLogin(adapter.facts(), userID, a)
	}
	p, ok := adapter.(prober)
	if !ok || r.cfg.Client == nil {
		return Probe{ProbeUntestable, "Parawork knows no request of " + r.Name(name) + " that tells whether a key is good. Start a session to see."}, nil
	}
	req, err := p.probe(ctx, a)
	if err != nil {
		return Probe{}, fault.Wrap(err, fault.Invalid, "invalid_base_url", "The address of this account cannot be asked: enter it again.")
	}
	if req == nil {
		return Probe{ProbeUntestable, "A key of this kind cannot be tried without spending. Start a session to see."}, nil
	}
	return ask(r.cfg.Client, req), nil
}

// ask sends the request; nothing of the answer but its status is used or shown.
func ask(client *http.Client, req *http.Request) Probe {
	host := req.URL.Host
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, egress.ErrRefused):
		return Probe{ProbeUnreachable, "The server does not ask " + host + ": it lies in the server's own network. An operator can allow it with outgoing.allow in config.json. Sessions may reach it all the same."}
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return Probe{ProbeUnreachable, host + " did not answer in time."}
	case err != nil:
		return Probe{ProbeUnreachable, host + " cannot be reached from the server."}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return Probe{ProbeOK, host + " accepted the key."}
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return Probe{ProbeRefused, host + " refused the key. Enter it again, or make a new one there."}
	case code == http.StatusTooManyRequests || code == http.StatusPaymentRequired:
		return Probe{ProbeRefused, host + " knows the key, but lets it do nothing now: its limit or its credit is used up."}
	case code == http.StatusBadRequest && strings.Contains(host, "googleapis.com"):
		return Probe{ProbeRefused, host + " refused the key. Enter it again, or make a new one there."}
	}
	return Probe{ProbeUnclear, host + " answers (" + resp.Status[:min(len(resp.Status), 60)] + "), but does not say whether the key is good. Start a session to see."}
}

// testLogin looks whether a login is kept, without reading it.
func (r *Registry) testLogin(f facts, userID string, a Account) (Probe, error) {
	if f.login == "" {
		return Probe{ProbeUntestable, "Whether " + f.name + " is logged in is seen in a session only."}, nil
	}
	path := filepath.Join(r.cfg.UserHome, f.login)
	if a.Kind != ExistingLogin {
		h, done, err := r.homeHere(userID)
		if err != nil {
			return Probe{}, err
		}
		defer done()
		if h, err = r.accountHome(h, a, f, false); err != nil {
			return Probe{}, err
		}
		path = h.abs(f.login)
	}
	st, err := os.Stat(path)
	switch {
	case err == nil && st.Mode().IsRegular() && st.Size() > 0:
		return Probe{ProbeOK, "A login is kept."}, nil
	case a.Kind == ExistingLogin:
		return Probe{ProbeRefused, "There is no login of " + f.name + " to copy: log in as the server's own user first."}, nil
	}
	return Probe{ProbeRefused, "Nobody has logged in with this account yet: start a session and log in inside the terminal."}, nil
}
