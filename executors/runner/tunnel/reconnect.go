package tunnel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Delays between attempts to connect.
const (
	firstWait = 500 * time.Millisecond
	maxWait   = 30 * time.Second
	// steady is how long a connection must have lived for the next attempt to count as the first again.
	steady = 30 * time.Second
)

// State is the state of a machine's connection.
type State struct {
	Connected bool
	Since     time.Time // when that began
	Reason    string    // why it is not connected, in words; "" before the first attempt
	Next      time.Time // time of the next try, zero while it is connected or connecting
}

// KeepConfig configures how a machine stays connected. Dial and Handler are required.
type KeepConfig struct {
	Dial    DialConfig
	Handler http.Handler                               // handles the server's requests, see Serve
	Changed func(State)                                // called with every change, in order, by one goroutine; optional
	Rand    func() float64                             // in [0, 1), for the jitter; nil = math/rand
	Sleep   func(ctx context.Context, d time.Duration) // nil = time passes
}

// Keep stays connected until ctx ends: it connects, serves, and reconnects, forever. It returns ctx's error or, when the server has said
// that trying again is useless, a fault with wire.CodeRevoked or wire.CodeReplaced.
func Keep(ctx context.Context, cfg KeepConfig) error {
	if cfg.Changed == nil {
		cfg.Changed = func(State) {}
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	if cfg.Dial.Now == nil {
		cfg.Dial.Now = time.Now
	}
	log := cfg.Dial.Log
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	now := cfg.Dial.Now
	since := now()
	for failed := 0; ; failed++ {
		c, err := Dial(ctx, cfg.Dial)
		if err == nil {
			began := now()
			log.Info("connected to the server", "server", cfg.Dial.URL)
			cfg.Changed(State{Connected: true, Since: began})
			err = Serve(ctx, c, cfg.Handler)
			since = now()
			if since.Sub(began) >= steady {
				failed = 0
			}
		}
		if ctx.Err() != nil {
			cfg.Changed(State{Since: since, Reason: "This machine's program was ended."})
			return context.Cause(ctx)
		}
		reason := clean(err.Error())
		if code := fault.CodeOf(err); code == wire.CodeRevoked || code == wire.CodeReplaced {
			log.Error("the server disconnected this machine", "reason", reason)
			cfg.Changed(State{Since: since, Reason: reason})
			return err
		}
		wait := backoff(failed, cfg.Rand())
		log.Warn("not connected to the server", "reason", reason, "again in", wait.Round(time.Millisecond), "cause", cause(err))
		cfg.Changed(State{Since: since, Reason: reason, Next: now().Add(wait)})
		cfg.Sleep(ctx, wait)
	}
}

// backoff returns the delay after so many consecutive failures: doubled each time, half of it random, so that machines whose server restarts
// do not all reconnect at once.
func backoff(failed int, chance float64) time.Duration {
	d := maxWait
	if failed < 6 {
		d = min(d, firstWait<<failed)
	}
	return d/2 + time.Duration(chance*float64(d/2))
}

func cause(err error) error {
	if u := errors.Unwrap(err); u != nil {
		return u
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
