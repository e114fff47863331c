package changes

import (
	"context"
	"time"

	"github.com/parawork/parawork/guest"
)

// Watch passes the changes against base to send until ctx ends or send fails: first what differs from version since (a Reset with
// everything when since is unknown, an empty set when nothing differs), then each difference as it appears. A large set comes in
// several records, all but the last with More; a version is complete with its last record. send is never called concurrently for
// one Watch, and a slow send delays only its own Watch.
func (p *Poller) Watch(ctx context.Context, base string, since uint64, send func(guest.ChangeSet) error) error {
	t, err := p.tracker(base)
	if err != nil {
		return err
	}
	defer p.release(t)
	p.attach()
	defer p.detach()

	sent := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		version, polled, wake := t.current()
		if polled && (!sent || version != since) {
			for _, set := range t.delta(since) {
				if err := ctx.Err(); err != nil {
					return context.Cause(ctx)
				}
				if err := send(set); err != nil {
					return err
				}
				version = set.Version
			}
			since, sent = version, true
			continue
		}
		if wait := time.Until(t.due()); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-wake:
			case <-timer.C:
			}
			continue
		}
		before := p.pollsBegun()
		if err := p.poll(ctx, t, before, false); err != nil {
			return err
		}
		p.follow(ctx, t)
	}
}
