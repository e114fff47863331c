// Package pg carries events between the processes that share one PostgreSQL, through LISTEN and NOTIFY. What one process
// publishes reaches its own receivers at once and those of the others a moment later.
//
// Nothing here may stop or slow a publisher: when the connection is cut or a queue is full, every process gets a Resync event
// and reads again.
//
// Goroutines: two while Run runs, owned by it.
package pg

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/parawork/parawork/internal/events"
)

// channel is the name NOTIFY uses.
const channel = "parawork_events"

// Limits.
const (
	queueSize  = 2048
	maxPayload = 7900 // bytes; PostgreSQL takes less than 8000
)

// Config configures a Line.
type Config struct {
	URL string      // of the database
	Bus *events.Bus // the process's own
	Log *slog.Logger
	// Retry is the longest pause between attempts to connect again; 0 = 10 s.
	Retry time.Duration
}

// Line connects a process's bus with those of the others. Safe for concurrent use.
type Line struct {
	cfg    Config
	origin string // of this process, to recognize its own messages
	queue  chan events.Event
	lost   atomic.Bool // something could not be sent: the others must read again
	ready  chan struct{}
	once   sync.Once
}

var _ events.Publisher = (*Line)(nil)

// message is the payload of a notification.
type message struct {
	Origin string       `json:"o"`
	Team   string       `json:"t,omitempty"`
	Lost   bool         `json:"l,omitempty"`
	Event  events.Event `json:"e"`
}

// New returns a Line. It starts nothing: until Run, events reach this process only.
func New(cfg Config) *Line {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Retry <= 0 {
		cfg.Retry = 10 * time.Second
	}
	return &Line{cfg: cfg, origin: rand.Text(), queue: make(chan events.Event, queueSize), ready: make(chan struct{})}
}

// Publish passes e to the process's own receivers and queues it for the others. It never blocks.
func (l *Line) Publish(ctx context.Context, e events.Event) {
	l.cfg.Bus.Publish(ctx, e)
	select {
	case l.queue <- e:
	default:
		l.lost.Store(true)
	}
}

// Ready is closed once the line listens for the first time.
func (l *Line) Ready() <-chan struct{} { return l.ready }

// Run carries events until ctx ends, and reconnects whenever the connection is cut.
func (l *Line) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.keep(ctx, "listening for events", l.listen) })
	g.Go(func() error { return l.keep(ctx, "sending events", l.send) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// keep runs f on a connection of its own, again and again, until ctx ends.
func (l *Line) keep(ctx context.Context, what string, f func(ctx context.Context, c *pgx.Conn, up func()) error) error {
	pause := 100 * time.Millisecond
	for {
		err := l.with(ctx, func(c *pgx.Conn) error { return f(ctx, c, func() { pause = 100 * time.Millisecond }) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.cfg.Log.WarnContext(ctx, "the event connection was cut", "doing", what, "error", err, "retry_ms", pause.Milliseconds())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, l.cfg.Retry)
	}
}

func (l *Line) with(ctx context.Context, f func(c *pgx.Conn) error) error {
	dial, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	c, err := pgx.Connect(dial, l.cfg.URL)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		c.Close(bye)
	}()
	return f(c)
}

// listen passes the other processes' events to the bus.
func (l *Line) listen(ctx context.Context, c *pgx.Conn, up func()) error {
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	up()
	first := false
	l.once.Do(func() { first = true; close(l.ready) })
	if !first {
		l.cfg.Bus.Lost() // events sent while the connection was cut are unknown
	}
	for {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("waiting: %w", err)
		}
		var m message
		if err := json.Unmarshal([]byte(n.Payload), &m); err != nil {
			l.cfg.Bus.Lost() // from another version: something happened
			continue
		}
		switch {
		case m.Origin == l.origin:
		case m.Lost:
			l.cfg.Bus.Lost()
		default:
			m.Event.TeamID, m.Event.Seq = m.Team, 0
			l.cfg.Bus.Publish(ctx, m.Event)
		}
	}
}

// send sends the other processes what this one published.
func (l *Line) send(ctx context.Context, c *pgx.Conn, up func()) error {
	up()
	for {
		if l.lost.Swap(false) {
			if err := l.notify(ctx, c, message{Origin: l.origin, Lost: true}); err != nil {
				l.lost.Store(true)
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-l.queue:
			if err := l.notify(ctx, c, message{Origin: l.origin, Team: e.TeamID, Event: e}); err != nil {
				l.lost.Store(true) // it may or may not have arrived
				return err
			}
		}
	}
}

func (l *Line) notify(ctx context.Context, c *pgx.Conn, m message) error {
	b, err := json.Marshal(m)
	if err != nil || len(b) > maxPayload {
		l.lost.Store(true)
		return nil
	}
	if _, err := c.Exec(ctx, "SELECT pg_notify($1, $2)", channel, string(b)); err != nil {
		return fmt.Errorf("notifying: %w", err)
	}
	return nil
}
