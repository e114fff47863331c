package serviceclock

import (
	"net/http"
	"testing"
	"time"
)

func TestTimesOfAServiceAreOurs(t *testing.T) {
	at := time.Date(2026, 3, 4, 15, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ahead, took time.Duration
		off         time.Duration // what may be left of the difference
	}{{0, 0, 0}, {2 * time.Second, 0, 2 * time.Second}, {time.Hour, time.Second, time.Second}, {-20 * time.Minute, 0, time.Second}, {4 * time.Second, 6 * time.Second, 4 * time.Second}} {
		var k Clock
		k.Heard(http.Header{"Date": {at.Add(c.ahead + c.took/2).Format(http.TimeFormat)}}, at, at.Add(c.took))
		if got := time.UnixMilli(k.Ours(at.Add(c.ahead).UnixMilli())).Sub(at).Abs(); got > c.off {
			t.Errorf("%+v: off by %s", c, got)
		}
	}
	var k Clock
	k.Heard(http.Header{"Date": {"yesterday"}}, at, at)
	if k.Ours(5) != 5 || k.Ours(0) != 0 || (*Clock)(nil).Ours(7) != 7 {
		t.Error("without a Date times are as they are")
	}
}
