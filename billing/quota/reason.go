package quota

import (
	"fmt"
	"time"

	"github.com/parawork/parawork/billing"
)

// reason is why a sandbox is suspended.
type reason struct {
	Scope, ScopeID string
	Words          string // a sentence
	EndsAt         int64  // when its grace ends, where it begins now
}

// levelReason is a level that is used up.
func levelReason(l Level, now int64) *reason {
	period, _, _ := billing.Month(now)
	month := monthName(period)
	var words string
	switch l.Scope {
	case ScopeUserHours:
		words = fmt.Sprintf("%s in paid places are used up in %s.", hoursWords(l.Limit), month)
	case ScopeTeamOverage:
		words = fmt.Sprintf("The team's budget and the %s beyond it are spent in %s.", billing.Dollars(l.Limit), month)
	default:
		words = fmt.Sprintf("The team's budget of %s is spent in %s.", billing.Dollars(l.Limit), month)
	}
	return &reason{Scope: l.Scope, ScopeID: l.ScopeID, Words: words, EndsAt: now + l.Grace.Milliseconds()}
}

func minutesReason(minutes int64) string {
	return "A sandbox may run for " + spanWords(time.Duration(minutes)*time.Minute) + " at a time here."
}

// graceWords write a grace for people.
func graceWords(d time.Duration) string {
	if d < time.Second {
		return "a moment"
	}
	return spanWords(d)
}

// spanWords write a time for people, in its largest whole unit.
func spanWords(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / u.of; n >= 1 && (d%u.of == 0 || u.of == time.Second) {
			if n == 1 {
				return "1 " + u.name
			}
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return "a moment"
}
