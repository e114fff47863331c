package command

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Recover takes up the commands that were open when the server stopped: background commands that run on are followed
// again, the others are ended and closed with the reason. It comes after the Manager's Recover.
func (c *Commands) Recover(ctx context.Context) error {
	open, err := c.cfg.Store.OpenCommands(ctx)
	if err != nil {
		return fmt.Errorf("reading the open commands: %w", err)
	}
	for _, cmd := range open {
		c.reopen(cmd)
	}
	return nil
}

// Run drops old records from time to time until ctx is done. It returns when everything that followed commands has ended;
// the commands themselves go on in their guests.
func (c *Commands) Run(ctx context.Context) error {
	for {
		c.sweep(ctx)
		select {
		case <-ctx.Done():
			c.end()
			c.work.Close()
			return nil
		case <-c.cfg.After(c.cfg.SweepEvery):
		}
	}
}

// sweep drops the records that were kept long enough and takes up open commands whose sandbox could not be reached before.
func (c *Commands) sweep(ctx context.Context) {
	n, err := c.cfg.Store.DropCommands(ctx, c.cfg.Now().Add(-c.cfg.Keep).UnixMilli())
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("old commands could not be dropped", "error", err)
	}
	if n > 0 {
		c.cfg.Log.Info("old commands dropped", "count", n)
	}
	if err := c.Recover(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("open commands could not be taken up", "error", err)
	}
}

// reopen takes up one open command nobody in this process drives.
func (c *Commands) reopen(cmd Command) {
	place, live := c.cfg.Places.Live(cmd.WorkspaceID)
	here := live && place.SandboxID == cmd.SandboxID
	if !here && cmd.SandboxID != "" && c.cfg.Places.MayReturn(cmd.WorkspaceID, cmd.SandboxID) {
		return // its sandbox cannot be reached yet: the next sweep looks again
	}
	r := newRunning(cmd, nil)
	c.mu.Lock()
	if c.live[cmd.ID] != nil || c.life.Err() != nil {
		c.mu.Unlock()
		return
	}
	c.live[cmd.ID] = r
	c.mu.Unlock()
	if !c.work.Go(func() { c.resume(r, cmd, place, here) }) {
		c.forget(r)
	}
}

func (c *Commands) resume(r *running, cmd Command, place *executors.Place, here bool) {
	if here && cmd.Background && cmd.State == Executing {
		if c.cfg.Secrets != nil {
			given, err := c.cfg.Secrets(c.life, cmd)
			if err != nil { // what it prints cannot be masked: it goes on unheard, and is asked for again with the next sweep
				c.cfg.Log.Warn("a command is not followed: its secrets cannot be read", "command_id", cmd.ID, "error", err)
				c.forget(r)
				return
			}
			r.mask(given.Masks)
		}
		close(r.started)
		ctx, cancel := context.WithCancel(c.life)
		defer cancel()
		// The guest keeps the timeout; the host's own watch starts anew with the longest a command may take.
		c.follow(ctx, r, place, executors.MaxTimeout)
		return
	}
	reason := "The server stopped while this command ran."
	switch {
	case cmd.State == Pending && cmd.SandboxID == "":
		reason = "The server stopped before this command was started."
	case !here:
		reason = "The server stopped while this command ran, and its sandbox no longer exists."
	}
	// The row names its sandbox only once the command runs; a process may have been started a moment before that.
	if place != nil {
		c.discard(place, cmd.ID)
	}
	c.conclude(r, noProcess, fault.New(fault.Unavailable, "server_stopped", "%s", reason))
}
