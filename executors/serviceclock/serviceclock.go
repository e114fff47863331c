// Package serviceclock translates times of a service's clock into times of this server's: the two may differ by minutes, and what a sandbox
// costs and when its lease ends are measured by this server's. How far they differ is learned from the Date of the service's answers.
package serviceclock

import (
	"net/http"
	"sync/atomic"
	"time"
)

// sure is the least difference that counts: Date has whole seconds, and answers take a moment.
const sure = 3 * time.Second

// Clock is a service's clock as its answers show it. The zero value is one that agrees with ours. Safe for concurrent use.
type Clock struct{ ahead atomic.Int64 } // of ours, ns

// Heard learns from an answer to a question that was sent at one time and answered at another, by our clock.
func (c *Clock) Heard(h http.Header, sent, answered time.Time) {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		c.Told(at.Add(time.Second/2), sent, answered)
	}
}

// Told learns from the time that an answer states.
func (c *Clock) Told(at, sent, answered time.Time) {
	if answered.Before(sent) {
		return
	}
	ahead := at.Sub(sent.Add(answered.Sub(sent) / 2))
	if ahead.Abs() < sure+answered.Sub(sent)/2 {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

// Ours is a time of the service's in ours, ms UTC; 0 stays 0.
func (c *Clock) Ours(ms int64) int64 {
	if c == nil || ms == 0 {
		return ms
	}
	return ms - time.Duration(c.ahead.Load()).Milliseconds()
}

// Do sends a request and learns from its answer.
func (c *Clock) Do(client *http.Client, req *http.Request, now func() time.Time) (*http.Response, error) {
	sent := now()
	resp, err := client.Do(req)
	if err == nil {
		c.Heard(resp.Header, sent, now())
	}
	return resp, err
}
