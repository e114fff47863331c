package quota

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/billing"
)

// Notify says through which channels people are notified of thresholds.
type Notify struct {
	App      bool // in the app, in timelines, and by push messages
	Mail     bool // owners and admins; of a user's own hours that user too
	Webhooks bool
}

// Level is how one limit stands.
type Level struct {
	Scope   string
	ScopeID string // of the user or team
	TeamID  string
	Used    int64 // nano-USD; of hours ms
	Limit   int64

	Thresholds  []int // percent; people are notified once of each
	Notify      Notify
	Grace       time.Duration // how long work goes on once it is reached
	ExhaustedAt int64         // when it is reached if all goes on as now, ms UTC; 0 = not this month, as far as one can see
	Goes        bool          // work goes on when it is reached: the team pays for more, up to another level
}

// reached reports whether nothing is left.
func (l Level) reached() bool { return l.Used >= l.Limit }

// percent is how much of it is used, rounded down; of nothing all is.
func (l Level) percent() int {
	switch {
	case l.Limit <= 0:
		return 100
	case l.Used <= 0:
		return 0
	case l.Used > (1<<63-1)/100:
		return int(min(l.Used/max(l.Limit/100, 1), 1<<30))
	}
	return int(min(l.Used*100/l.Limit, 1<<30))
}

// Crossing is a threshold that was passed: told once in its month, and again once the limit was raised in between.
type Crossing struct {
	Scope   string
	ScopeID string
	TeamID  string // "" = of the instance
	Period  string
	Percent int
	Used    int64 // nano-USD; of hours ms
	Limit   int64
	At      int64
}

// ID identifies the alert for its recipients: it differs when the alert is sent again.
func (a Crossing) ID() string {
	return fmt.Sprintf("alert-%s-%s-%s-%d-%d", a.Scope, a.ScopeID, a.Period, a.Percent, a.At)
}

// Words returns the texts for people: what was passed, and what it means for them.
func (a Crossing) Words() string {
	month := monthName(a.Period)
	switch a.Scope {
	case ScopeUserHours:
		used := fmt.Sprintf("%s of %s in paid places are used in %s", hoursWords(a.Used), hoursWords(a.Limit), month)
		if a.Percent >= 100 {
			return used + ". What runs there is paused after a short grace; nothing is lost. Work on this server goes on."
		}
		return fmt.Sprintf("%s (%d %%). At 100 %% what runs there is paused; nothing is lost.", used, a.Percent)
	case ScopeTeamOverage:
		used := fmt.Sprintf("%s of the %s that may be spent beyond the team's budget are spent in %s", billing.Dollars(a.Used), billing.Dollars(a.Limit), month)
		if a.Percent >= 100 {
			return used + ". What costs money is paused after a short grace; nothing is lost."
		}
		return fmt.Sprintf("%s (%d %%). At 100 %% what costs money is paused; nothing is lost.", used, a.Percent)
	}
	spent := fmt.Sprintf("%s of the team's budget of %s are spent in %s", billing.Dollars(a.Used), billing.Dollars(a.Limit), month)
	if a.Percent >= 100 {
		return spent + "."
	}
	return fmt.Sprintf("%s (%d %%).", spent, a.Percent)
}

// hoursWords writes a time for people: "7.5 hours".
func hoursWords(ms int64) string {
	tenths := (ms + 180_000) / 360_000
	if tenths == 10 {
		return "1 hour"
	}
	if tenths%10 == 0 {
		return fmt.Sprintf("%d hours", tenths/10)
	}
	return fmt.Sprintf("%d.%d hours", tenths/10, tenths%10)
}

// monthName is a period for people: "November".
func monthName(period string) string {
	t, err := time.Parse("2006-01", period)
	if err != nil {
		return "this month"
	}
	return t.Format("January")
}

// warn notifies people once of the highest threshold a level has passed. It records those below as passed too: nobody wants to read about 80 %
// after 90 %. When a limit was raised, warn forgets the thresholds that are no longer reached.
func (e *Enforcer) warn(ctx context.Context, l Level, now int64) error {
	period, _, _ := billing.Month(now)
	reached := 0
	used := l.percent()
	all := slices.Sorted(slices.Values(l.Thresholds))
	if !slices.Contains(all, 100) {
		all = append(all, 100) // people are always notified that work stops
	}
	for _, at := range all {
		if used >= at {
			reached = at
		}
	}
	key := l.Scope + "\x00" + l.ScopeID + "\x00" + l.TeamID
	seen := reported{period, reached, l.Limit}
	e.mu.Lock()
	same := e.reported[key] == seen
	e.mu.Unlock()
	if same {
		return nil
	}
	a := Crossing{Scope: l.Scope, ScopeID: l.ScopeID, TeamID: l.TeamID, Period: period, Percent: reached, Used: l.Used, Limit: l.Limit, At: now}
	fresh := false
	err := e.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		fresh = false
		if err := e.cfg.Store.DropAlerts(ctx, a); err != nil {
			return err
		}
		for _, at := range all {
			if at > reached {
				continue
			}
			one := a
			one.Percent = at
			first, err := e.cfg.Store.NoteAlert(ctx, one)
			if err != nil {
				return err
			}
			fresh = fresh || first && at == reached
		}
		if !fresh {
			return nil
		}
		// The notifications are queued in the same transaction: each is sent once, even if the server dies in between.
		return e.cfg.Notifier.Passed(ctx, a, l.Notify)
	})
	if err != nil {
		return fmt.Errorf("noting that %d %% of a limit (%s) are used: %w", reached, l.Scope, err)
	}
	e.mu.Lock()
	e.reported[key] = seen
	e.mu.Unlock()
	if fresh {
		e.cfg.Log.Info("limit threshold passed", "scope", l.Scope, "scope_id", l.ScopeID, "team_id", l.TeamID, "percent", reached, "used", l.Used, "limit", l.Limit)
		e.cfg.Notifier.Alerted(ctx, a)
	}
	return nil
}

// reported is what was looked up of a level last: the same needs no look into the storage.
type reported struct {
	period  string
	reached int
	limit   int64
}
