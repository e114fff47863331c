package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Quiet is a time of the day in which nothing new starts. It may span midnight: then Days are those it begins on.
type Quiet struct {
	Days []string `json:"days"` // mon, tue, ...; none = each day
	From string   `json:"from"` // 22:00, in the machine's time zone
	To   string   `json:"to"`   // 07:00; the same as From = the whole day

	from, to int // minutes since midnight
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

const day = 24 * 60

func (q *Quiet) complete() error {
	var err error
	if q.from, err = minutes(q.From); err == nil {
		q.to, err = minutes(q.To)
	}
	if err != nil {
		return err
	}
	for i, d := range q.Days {
		q.Days[i] = strings.ToLower(d)
		if !slices.Contains(weekdays, q.Days[i]) {
			return fmt.Errorf("%q must be one of mon, tue, wed, thu, fri, sat and sun", d)
		}
	}
	return nil
}

func minutes(text string) (int, error) {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%q must be a time such as 22:00", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// ends returns when the quiet time that holds at now ends; false when none holds. Local clock time counts, also on days when the clock
// changes.
func (q *Quiet) ends(now time.Time) (time.Time, bool) {
	length := cmp.Or((q.to-q.from+day)%day, day)
	minute := now.Hour()*60 + now.Minute()
	for back := range 2 { // it may have begun yesterday
		began := now.AddDate(0, 0, -back)
		if len(q.Days) > 0 && !slices.Contains(q.Days, weekdays[began.Weekday()]) {
			continue
		}
		if since := minute + back*day - q.from; since >= 0 && since < length {
			y, m, d := began.Date()
			return time.Date(y, m, d, 0, q.from+length, 0, 0, now.Location()), true
		}
	}
	return time.Time{}, false
}

// Quiet returns until when nothing new starts; false when now is not in quiet hours.
func (p Policy) Quiet(now time.Time) (until time.Time, quiet bool) {
	for again := true; again; { // one may be followed directly by the next
		again = false
		at := now
		if quiet {
			at = until
		}
		for i := range p.QuietHours {
			if end, ok := p.QuietHours[i].ends(at); ok && end.After(at) && end.Sub(now) <= 8*day*time.Minute {
				until, quiet, again = end, true, true
				break
			}
		}
	}
	return until, quiet
}

// QuietWords formats the quiet hours for people: "22:00-07:00 on mon, tue; 00:00-00:00", "" without any.
func (p Policy) QuietWords() string {
	out := make([]string, 0, len(p.QuietHours))
	for _, q := range p.QuietHours {
		text := q.From + "-" + q.To
		if q.from == q.to {
			text = "all day"
		}
		if len(q.Days) > 0 {
			text += " on " + strings.Join(q.Days, ", ")
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// ParseQuiet parses quiet hours as people write them: "22:00-07:00".
func ParseQuiet(text string) (Quiet, error) {
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		return Quiet{}, errors.New("write quiet hours as 22:00-07:00")
	}
	q := Quiet{Days: []string{}, From: strings.TrimSpace(from), To: strings.TrimSpace(to)}
	return q, q.complete()
}
