// Package choice says where workspaces may live: which executors there are, what each can do and costs now, what teams and the instance allow, and
// what Auto means. It knows nothing of sandboxes that live.
//
// Goroutines: one for each executor that is being asked what it can do, which ends with the executor's answer; Close waits for them. Locks:
// Chooser.mu guards which executors were asked, a probe's mu what one answered; neither is held while an executor, a store or a price is asked.
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

// Config is what a Chooser is made of.
type Config struct {
	Executors *executors.Registry
	Order     []executors.Kind                   // what Auto tries, strongest first; default: the order of Executors
	Default   executors.Kind                     // what a workspace gets when nobody names a place; "" = Auto
	Fixed     bool                               // Default is what every workspace gets: nobody may choose
	Weakest   executors.Boundary                 // the weakest boundary of the instance, whatever teams say
	Policies  Policies                           // what teams say about their places; optional
	Teams     func(context.Context) (int, error) // how many teams there are: with more than one, Auto takes no place without a boundary; optional

	ProbeFresh   time.Duration    // how long what an executor says of itself is good for; default 30 s
	ProbeTimeout time.Duration    // how long an executor may take to say it; default 5 s
	Price        metering.Pricing // what places cost; default: what they say themselves
	// Sizes are those of a place, marked for a user of a team ("" = the server); optional.
	Sizes func(ctx context.Context, teamID, userID string, c executors.Capabilities) ([]executors.Size, error)
	// Usual are the limits of a sandbox for which nobody says otherwise, which a place without sizes is priced by; optional.
	Usual     func(ctx context.Context, k executors.Kind) executors.Limits
	IdleAfter func(executors.Kind, executors.Purpose) time.Duration // how long a sandbox may be idle, for Options; optional
	Fallback  func(context.Context, executors.Kind) bool            // whether a place of this server may stand in for the kind; optional
	Rules     func() Rules                                          // what operators say now; default: Default and Fixed, for good
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

	work tasks.Group // questions to executors
}

// New makes a Chooser. It starts nothing and panics on a Config without Executors.
func New(cfg Config) *Chooser {
	if err := cfg.validate(); err != nil {
		panic(err)
	}
	ch := &Chooser{cfg: cfg, probes: make(map[executors.Kind]*probe)}
	return ch
}

// Close waits for the questions that are under way. From then on no executor is asked.
func (ch *Chooser) Close() { ch.work.Close() }

func (ch *Chooser) now() int64 { return ch.cfg.Now().UnixMilli() }
