package checkpoints

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions"
)

// maxHandover is the longest text a resumed session starts with, in characters.
const maxHandover = 12_000

// Handover returns what an agent must know to go on with a session whose conversation it cannot continue: what was done, the tasks'
// states, and what to do next; "" when nothing is known. It is the first prompt of the session that replaces it.
func (s *Service) Handover(ctx context.Context, old sessions.Session) (string, error) {
	c, err := s.cfg.Store.SessionCheckpoint(ctx, old.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	now, err := s.messages(ctx, old.ID) // the server's own record may have more than the checkpoint
	if err != nil {
		return "", err
	}
	if now.Items >= c.Messages.Items && len(now.Tail) > 0 {
		now := Checkpoint{TeamID: old.TeamID, Messages: now}
		if err := s.mask(ctx, &now); err != nil {
			return "", err
		}
		c.Messages = now.Messages
	}
	if c.NextStep == "" && len(c.Messages.Tail) == 0 {
		return "", nil
	}
	return c.handover(), nil
}

func (c Checkpoint) handover() string {
	var b strings.Builder
	b.WriteString("You take over work in this workspace from an earlier session whose conversation is not available here. The files are as they were left.\n")
	if c.ID != "" {
		fmt.Fprintf(&b, "Its last checkpoint is %s of %s.\n", c.ID, time.UnixMilli(c.At).UTC().Format("2006-01-02 15:04 UTC"))
	}
	if len(c.Messages.Tail) > 0 {
		b.WriteString("\nThe end of that conversation:\n")
		for _, m := range c.Messages.Tail {
			who := "Agent"
			if m.Role == "user" {
				who = "User"
			}
			fmt.Fprintf(&b, "%s: %s\n", who, m.Text)
		}
	}
	if open := c.openTasks(); open != "" {
		b.WriteString("\nTasks:\n" + open)
	}
	next := c.NextStep
	if next == "" {
		next = "Look at the state of the files, then continue with the user's last request above if it is not finished."
	}
	// The middle is cut where it is too long: what to do next must stay.
	tail := "\nWhat to do next: " + next + "\n"
	return safetext.Cut(b.String(), maxHandover-len([]rune(tail))) + tail
}

func (c Checkpoint) openTasks() string {
	var b strings.Builder
	for _, t := range c.Tasks {
		if t.Status != "closed" {
			fmt.Fprintf(&b, "- %s (%s): %s\n", t.ID, t.Status, t.Title)
		}
	}
	return safetext.Cut(b.String(), maxHandover/3)
}
