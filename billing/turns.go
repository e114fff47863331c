package billing

import (
	"context"
	"fmt"
	"sync"

	"github.com/parawork/parawork/internal/locks"
)

// turns order the writes for a sandbox: its segments are a chain, and the state of one in memory must be what was committed last. A writer
// for one sandbox waits only for other writers of that sandbox; a jump of the server's clock alone waits for all, as nothing may be written
// between the two times. The database ensures that a sandbox has one open segment at most, whichever processes write.
type turns struct {
	sandboxes locks.Keyed  // by sandbox id
	clockJump sync.RWMutex // held for reading by who writes
}

// enter returns the ledger's time for a write for a sandbox ("" = one that changes no chain), and prevents a jump of the clock until leave.
// When the server's clock is set forward, open segments end at the time before the jump and continue at the time after it.
func (l *Ledger) enter(ctx context.Context, sandboxID string) (now int64, leave func(), err error) {
	done := func() {}
	if sandboxID != "" {
		if done, err = l.turns.sandboxes.LockContext(ctx, sandboxID); err != nil {
			return 0, nil, fmt.Errorf("waiting for the turn of sandbox %s: %w", sandboxID, err)
		}
	}
	for {
		l.turns.clockJump.RLock()
		now, j, pending := l.clock.noticed()
		if j != nil && j.forward == 0 {
			l.cfg.Log.Warn("server's clock was set back: the ledger's clock stays ahead of it", "ahead_ms", j.ahead)
			if err := l.cfg.Store.SetAhead(ctx, j.ahead); err != nil {
				l.cfg.Log.Error("offset of the ledger's clock not stored", "error", err)
			}
		}
		if !pending {
			return now, func() { l.turns.clockJump.RUnlock(); done() }, nil
		}
		l.turns.clockJump.RUnlock()
		if err := l.writeLeaps(ctx); err != nil {
			done()
			return now, nil, fmt.Errorf("writing that the clock was put forward: %w", err)
		}
	}
}

// writeLeaps writes the jumps that are not written yet: one that could not be is tried again before anything else is written.
func (l *Ledger) writeLeaps(ctx context.Context) error {
	l.turns.clockJump.Lock()
	defer l.turns.clockJump.Unlock()
	for {
		next, any := l.clock.clockJump()
		if !any {
			return nil
		}
		l.cfg.Log.Warn("server's clock was set forward: running sandboxes are not charged for the jump", "ms", next[1]-next[0])
		if err := l.clockJump(ctx, next[0], next[1]); err != nil {
			return err
		}
		l.clock.written() // only the holder of turns.clockJump takes one out
	}
}
