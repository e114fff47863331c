package command

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Recover handles the commands that were open when the server stopped: it follows background commands that still run, and ends the others
// and closes their records with the reason. Call it after the Manager's Recover.
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

// Run drops old records from time to time until ctx is done. It returns when all followers of commands have ended; the commands themselves
// go on in their guests.
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

// sweep drops records that are old enough and handles open commands whose sandbox could not be reached before.
func (c *Commands) sweep(ctx context.Context) {
	n, err := c.cfg.Store.DropCommands(ctx, c.cfg.Now().Add(-c.cfg.Keep).UnixMilli())
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("old commands could not be dropped", "error", err)
	}
	if n > 0 {
		c.cfg.Log.Info("old commands dropped", "count", n)
	}
	if err := c.Recover(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("the open commands could not be handled", "error", err)
	}
}

// reopen handles one open command that nothing in this process drives.
func (c *Commands) reopen(cmd Command) {
	place, live := c.cfg.Places.Live(cmd.WorkspaceID)
	here := live && place.SandboxID == cmd.SandboxID
	if !here && cmd.SandboxID != "" && c.cfg.Places.MayReturn(cmd.WorkspaceID, cmd.SandboxID) {
		return // its sandbox cannot be reached yet: the next sweep tries again
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
			if err != nil { // its output cannot be masked: it goes on unread, and the next sweep tries again
				c.cfg.Log.Warn("a command is not followed: its secrets cannot be read", "command_id", cmd.ID, "error", err)
				c.forget(r)
				return
			}
			r.mask(given.Masks)
		}
		close(r.started)
		ctx, cancel := context.WithCancel(c.life)
		defer cancel()
		// The guest enforces the timeout; the host's own timer starts again with the longest time a command may take.
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
