// Package choice decides where workspaces may live: which executors exist, what each can do and costs now, what teams and the instance
// allow, and
// what Auto means. It knows nothing about live sandboxes.
//
// Goroutines: one for each executor that is being asked for its capabilities, which ends with the executor's answer; Close waits for them.
// Locks: Chooser.mu guards which executors were asked, a probe's mu the answer of one; neither is held during a call to an executor, a store
// or a
// price.
package choice

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/internal/tasks"
)

// Config configures a Chooser.
type Config struct {
	Executors *executors.Registry
	Order     []executors.Kind   // what Auto tries, strongest first; default: the order of Executors
	Default   executors.Kind     // the executor of a workspace when nobody names one; "" = Auto
	Fixed     bool               // every workspace gets Default: nobody may choose
	Weakest   executors.Boundary // the weakest boundary of the instance, whatever teams decide
	Policies  Policies           // reads the teams' policies; optional
	// People reads what a person may and wants in a team; optional.
	People func(ctx context.Context, teamID, userID string) (Person, error)
	Teams  func(context.Context) (int, error) // counts the teams: with more than one, Auto uses no executor without a boundary; optional

	// Alone reports whether the instance has one person and nobody said a default place: see Chooser.Alone; optional.
	Alone func(context.Context) (bool, error)

	ProbeFresh   time.Duration    // how long an executor's capabilities stay fresh; default 30 s
	ProbeTimeout time.Duration    // how long an executor may take to answer; default 5 s
	Price        metering.Pricing // the executors' prices; default: what they report themselves
	// Sizes returns an executor's sizes, marked for a user of a team ("" = the server); optional.
	Sizes func(ctx context.Context, teamID, userID string, c executors.Capabilities) ([]executors.Size, error)
	// Usual returns the limits of a sandbox without limits of its own, by which an executor without sizes is priced; optional.
	Usual     func(ctx context.Context, k executors.Kind) executors.Limits
	IdleAfter func(executors.Kind, executors.Purpose) time.Duration // how long a sandbox may be idle, for Options; optional
	Fallback  func(context.Context, executors.Kind) bool            // whether an executor of this server may stand in for the kind; optional
	Rules     func() Rules                                          // the operator's current rules; default: always Default and Fixed
	Now       func() time.Time
	Log       *slog.Logger
}

func (c *Config) validate() error {
	if c.Executors == nil {
		return errors.New("choice: a Chooser needs Executors")
	}
	if c.Rules == nil {
		rules := Rules{Default: c.Default, Fixed: c.Fixed}
		c.Rules = func() Rules { return rules }
	}
	if c.ProbeFresh <= 0 {
		c.ProbeFresh = 30 * time.Second
	}
	if c.ProbeTimeout <= 0 {
		c.ProbeTimeout = 5 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if len(c.Order) == 0 {
		for _, e := range c.Executors.Own() {
			c.Order = append(c.Order, e.Kind())
		}
	}
	return nil
}

// Chooser chooses executors for workspaces. Safe for concurrent use.
type Chooser struct {
	cfg Config

	mu     sync.Mutex
	probes map[executors.Kind]*probe // of executors that were asked

	work tasks.Group // calls to executors
}

// New makes a Chooser. It starts nothing and panics on a Config without Executors.
func New(cfg Config) *Chooser {
	if err := cfg.validate(); err != nil {
		panic(err)
	}
	ch := &Chooser{cfg: cfg, probes: make(map[executors.Kind]*probe)}
	return ch
}

// Close waits for the calls under way. From then on it asks no executor.
func (ch *Chooser) Close() { ch.work.Close() }

func (ch *Chooser) now() int64 { return ch.cfg.Now().UnixMilli() }
