//go:build linux || darwin

package docker

import (
	"context"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

// missing says what a container's image lacks of what Parawork needs in it, "" for nothing.
func missing(ctx context.Context, c *client.Client, processID string) (string, error) {
	p, err := c.Start(ctx, guest.ProcessSpec{ID: processID, Argv: []string{"/bin/sh", "-c", "command -v git >/dev/null || exit 9"}})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Remove(ctx, processID) }() // it has ended, or is removed with the container
	if p, err = c.Wait(ctx, processID); err != nil {
		return "", err
	}
	switch {
	case p.ExitCode == nil:
		return "shell (/bin/sh)", nil
	case *p.ExitCode == 9:
		return "git", nil
	case *p.ExitCode != 0:
		return "shell (/bin/sh) that works", nil
	}
	return "", nil
}
