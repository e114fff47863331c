package triggers

import (
	"strings"
	"time"

	"github.com/netresearch/go-cron"
	"github.com/parawork/parawork/internal/fault"
)

// clock says when a schedule is due.
type clock struct {
	schedule cron.Schedule
	at       *time.Location
	// once: the hours are named, so a local time that comes twice when clocks are put back is meant once. Where each hour is meant, both are.
	once bool
}

var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func (t Trigger) clock() (clock, error) {
	zone := t.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return clock{}, fault.New(fault.Invalid, "invalid_automation", "%.50q is no time zone. Name one such as Europe/Berlin.", t.TimeZone).With("field", "trigger.time_zone")
	}
	text := strings.TrimSpace(t.Cron)
	bad := func(why string) error {
		return fault.New(fault.Invalid, "invalid_automation", "%.100q is no schedule: %s. Write five fields, such as 0 9 * * 1-5 for nine o'clock from Monday to Friday.", t.Cron, why).
			With("field", "trigger.cron")
	}
	if text == "" {
		return clock{}, bad("it is empty")
	}
	if strings.HasPrefix(text, "@every") || strings.HasPrefix(text, "@reboot") || strings.Contains(text, "TZ=") {
		return clock{}, bad("it names no times of the day")
	}
	schedule, err := parser.Parse(text)
	if err != nil {
		return clock{}, bad(err.Error())
	}
	fields := strings.Fields(text)
	c := clock{schedule, at, text != "@hourly" && (len(fields) < 2 || !strings.Contains(fields[1], "*"))}
	if c.after(time.Now()).IsZero() {
		return clock{}, bad("no such day comes within five years")
	}
	return c, nil
}

// after returns the next time that is due after t; zero when there is none. A local time that clocks skip when they are put forward comes as
// soon as they have been.
func (c clock) after(t time.Time) time.Time {
	next := c.schedule.Next(t.In(c.at))
	for c.once && !next.IsZero() && c.repeats(next) {
		next = c.schedule.Next(next)
	}
	return next
}

// repeats reports whether the same local time was an hour before, on the summer side of clocks that were put back.
func (c clock) repeats(t time.Time) bool {
	const wall = "2006-01-02 15:04"
	for _, shift := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} {
		if t.Add(-shift).In(c.at).Format(wall) == t.Format(wall) {
			return true
		}
	}
	return false
}

// Times returns the next n times of a schedule after t, in ms.
func (t Trigger) Times(after time.Time, n int) ([]int64, error) {
	c, err := t.clock()
	if err != nil {
		return nil, err
	}
	out := make([]int64, 0, n)
	for len(out) < n {
		if after = c.after(after); after.IsZero() {
			break
		}
		out = append(out, after.UnixMilli())
	}
	return out, nil
}
