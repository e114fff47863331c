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

// ProbeResult is the result of testing an account.
type ProbeResult string

// The values of ProbeResult.
const (
	ProbeOK          ProbeResult = "ok"          // the key was accepted, or a login exists
	ProbeRefused     ProbeResult = "refused"     // the key was rejected, or there is no login
	ProbeUnreachable ProbeResult = "unreachable" // nobody answers at the address, or the server may not connect to it
	ProbeUnclear     ProbeResult = "unclear"     // somebody answers, but not about the key
	ProbeUntestable  ProbeResult = "untestable"  // only a paid request would show
)

// Probe is the result of testing an account, with a sentence for people.
type Probe struct {
	Result ProbeResult
	Detail string
}

// A prober is an adapter that knows a free request of its model's API that shows whether a key is valid. It returns nil when
// there is none for this key.
type prober interface {
	probe(ctx context.Context, a Account) (*http.Request, error)
}

// Test tests an account without spending anything: a key by listing the available models, a login by checking that one is stored.
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
		return Probe{}, fault.Wrap(err, fault.Invalid, "invalid_base_url", "The address of this account cannot be used: enter it again.")
	}
	if req == nil {
		return Probe{ProbeUntestable, "A key of this kind cannot be tested without spending. Start a session to see."}, nil
	}
	return ask(r.cfg.Client, req), nil
}

// ask sends the request; it uses and shows nothing of the answer but its status.
func ask(client *http.Client, req *http.Request) Probe {
	host := req.URL.Host
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, egress.ErrRefused):
		return Probe{ProbeUnreachable, "The server does not connect to " + host + ": it is in the server's own network. An operator can allow it with outgoing.allow in config.json. Sessions may reach it regardless."}
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
		return Probe{ProbeRefused, host + " rejected the key. Enter it again, or create a new one there."}
	case code == http.StatusTooManyRequests || code == http.StatusPaymentRequired:
		return Probe{ProbeRefused, host + " knows the key, but does not serve it now: its limit or its credit is used up."}
	case code == http.StatusBadRequest && strings.Contains(host, "googleapis.com"):
		return Probe{ProbeRefused, host + " rejected the key. Enter it again, or create a new one there."}
	}
	return Probe{ProbeUnclear, host + " answers (" + resp.Status[:min(len(resp.Status), 60)] + "), but does not say whether the key is valid. Start a session to see."}
}

// testLogin checks whether a login is stored, without reading it.
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
		return Probe{ProbeOK, "A login is stored."}, nil
	case a.Kind == ExistingLogin:
		return Probe{ProbeRefused, "There is no login of " + f.name + " to copy: log in as the server's own user first."}, nil
	}
	return Probe{ProbeRefused, "Nobody has logged in with this account yet: start a session and log in inside the terminal."}, nil
}
