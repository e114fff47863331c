package stripe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	sdk "github.com/stripe/stripe-go/v76"
	portal "github.com/stripe/stripe-go/v76/billingportal/session"
	"github.com/stripe/stripe-go/v76/charge"
	checkout "github.com/stripe/stripe-go/v76/checkout/session"
	"github.com/stripe/stripe-go/v76/customer"
	"github.com/stripe/stripe-go/v76/dispute"
	"github.com/stripe/stripe-go/v76/event"
	"github.com/stripe/stripe-go/v76/invoice"
	"github.com/stripe/stripe-go/v76/radar/earlyfraudwarning"
	"github.com/stripe/stripe-go/v76/subscription"
	"github.com/stripe/stripe-go/v76/subscriptionitem"

	"github.com/parawork/parawork/internal/fault"
)

// calls are the parts of the payment service's API that are used, each with our key and backend: nothing global, and nothing of the
// library linked that is not needed.
type calls struct {
	backend sdk.Backend
	key     string

	customers     customer.Client
	checkouts     checkout.Client
	portals       portal.Client
	subscriptions subscription.Client
	items         subscriptionitem.Client
	invoices      invoice.Client
	events        event.Client
	charges       charge.Client
	disputes      dispute.Client
	warnings      earlyfraudwarning.Client
}

func newCalls(cfg Config) *calls {
	b := backend(cfg)
	k := cfg.SecretKey
	return &calls{backend: b, key: k, customers: customer.Client{B: b, Key: k}, checkouts: checkout.Client{B: b, Key: k}, portals: portal.Client{B: b, Key: k},
		subscriptions: subscription.Client{B: b, Key: k}, items: subscriptionitem.Client{B: b, Key: k}, invoices: invoice.Client{B: b, Key: k},
		events: event.Client{B: b, Key: k}, charges: charge.Client{B: b, Key: k}, disputes: dispute.Client{B: b, Key: k}, warnings: earlyfraudwarning.Client{B: b, Key: k}}
}

// backend is the way to the service: bounded in time, without telemetry, following no redirect with the key. The library tries again by
// itself where the service cannot have acted, or by the same idempotency key; its pauses ignore the context, so it does so once.
func backend(cfg Config) sdk.Backend {
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 8, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second}
	}
	bc := &sdk.BackendConfig{HTTPClient: &http.Client{Timeout: timeout, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the payment service redirects, which is not followed")
	}}, EnableTelemetry: sdk.Bool(false), MaxNetworkRetries: sdk.Int64(1), LeveledLogger: quiet{cfg.Log}}
	if cfg.APIBase != "" {
		bc.URL = sdk.String(cfg.APIBase)
	}
	return sdk.GetBackendWithConfig(sdk.APIBackend, bc)
}

// quiet takes the library's log lines down to debug: what went wrong is returned to us, and logged once, where it is known what for.
type quiet struct{ log *slog.Logger }

func (q quiet) Debugf(string, ...any)        {}
func (q quiet) Infof(string, ...any)         {}
func (q quiet) Warnf(f string, args ...any)  { q.log.Debug("stripe: " + fmt.Sprintf(f, args...)) }
func (q quiet) Errorf(f string, args ...any) { q.log.Debug("stripe: " + fmt.Sprintf(f, args...)) }

// params are those of one call.
func params(ctx context.Context) sdk.Params { return sdk.Params{Context: ctx} }

// keyedParams are those of a call that changes something: the key makes a repetition count once, also after a crash.
func keyedParams(ctx context.Context, key string) sdk.Params {
	return sdk.Params{Context: ctx, IdempotencyKey: sdk.String(key)}
}

// listParams are those of a list: pages of 100, as many as there are.
func listParams(ctx context.Context) sdk.ListParams {
	return sdk.ListParams{Context: ctx, Limit: sdk.Int64(100)}
}

// errorOf is the service's own error in err; nil when there is none.
func errorOf(err error) *sdk.Error {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// missing reports whether the service says that there is no such thing.
func missing(err error) bool {
	e := errorOf(err)
	return e != nil && (e.HTTPStatusCode == http.StatusNotFound || e.Code == sdk.ErrorCodeResourceMissing)
}

// settled reports whether the refusal is permanent: the service would refuse the same call again.
func settled(err error) bool {
	e := errorOf(err)
	if e == nil || e.Code == sdk.ErrorCodeLockTimeout || e.Code == sdk.ErrorCodeRateLimit {
		return false
	}
	switch e.HTTPStatusCode {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return false
}

// stored reports whether the service answered 5xx: the service stores such an answer under its idempotency key and repeats it.
func stored(err error) bool {
	e := errorOf(err)
	return e != nil && e.HTTPStatusCode >= 500
}

// wordsOf says what the service answered, for logs and operators: never the key, nor what was sent.
func wordsOf(err error) string {
	e := errorOf(err)
	if e == nil {
		var n net.Error
		if errors.As(err, &n) && n.Timeout() {
			return "no answer in time"
		}
		return "it cannot be reached"
	}
	s := fmt.Sprintf("HTTP %d", e.HTTPStatusCode)
	if e.Code != "" {
		s += ", " + string(e.Code)
	} else if e.Type != "" {
		s += ", " + string(e.Type)
	}
	if e.Param != "" {
		s += ", parameter " + e.Param
	}
	if e.RequestID != "" {
		s += ", request " + e.RequestID
	}
	return s
}

// asked turns an error of the service into one for the user who waits for the call.
func (s *Service) asked(what string, err error) error {
	if err == nil {
		return nil
	}
	if e := errorOf(err); e != nil && (e.HTTPStatusCode == http.StatusUnauthorized || e.HTTPStatusCode == http.StatusForbidden) {
		s.cfg.Log.Error("payment service refused the key", "doing", what, "answer", wordsOf(err), "hint", "look at billing.stripe.secretKey")
		return fault.Wrap(err, fault.Unavailable, "payments_misconfigured", "The payment service refuses this server's key. Tell an operator.")
	}
	s.cfg.Log.Warn("payment service not reached", "doing", what, "answer", wordsOf(err))
	if e := errorOf(err); e != nil && e.HTTPStatusCode < 500 && e.HTTPStatusCode != http.StatusTooManyRequests {
		return fault.Wrap(err, fault.Unavailable, "payments_refused", "The payment service refused this. An operator finds the reason in the server's log.")
	}
	return fault.Wrap(err, fault.Unavailable, "payments_unavailable", "The payment service does not answer now. Try again in a few minutes; nothing was charged.")
}

// errOff is what payment answers on a server without a key.
var errOff = fault.New(fault.Unavailable, "payments_off", "This server takes no payments. Ask an operator for another plan.")
