//go:build linux || darwin

package hostproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Guest says how to reach one guest.
type Guest struct {
	ID    string // of the sandbox
	Dir   string // its folder
	Token string
	Pid   int // the id it reports
	Now   func() time.Time
}

// Dial opens a pipe to it.
func (g Guest) Dial(ctx context.Context) (io.ReadWriteCloser, error) { return Dial(ctx, g.Dir) }

// Find greets a guest that was started before. ErrGone when another guest answers, or its socket is lost; any other error means that the
// state is unknown now.
func (g Guest) Find(ctx context.Context) error {
	// The identity is checked here and not by the client, because another guest's answer is a proof and not a failure.
	c := client.New(client.Config{Dial: g.Dial, Token: g.Token, Now: g.Now})
	defer c.Close()
	hello, err := c.Hello(ctx)
	switch {
	case fault.CodeOf(err) == "guest_unauthorized":
		return fmt.Errorf("another guest answers for sandbox %s: %w", g.ID, executors.ErrGone)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		// It runs but its socket is lost: nobody can reach it any more.
		return fmt.Errorf("the guest of sandbox %s has lost its socket (%w): %w", g.ID, err, executors.ErrGone)
	case err != nil:
		return fmt.Errorf("greeting sandbox %s: %w", g.ID, err)
	case hello.Pid != g.Pid:
		return fmt.Errorf("another guest answers for sandbox %s: %w", g.ID, executors.ErrGone)
	}
	return executors.CheckHello(hello, g.ID)
}

// Ready waits until a guest just started answers its first hello as itself. ended is closed when its process has ended.
func (g Guest) Ready(ctx context.Context, within time.Duration, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errors.New("the guest did not answer in time"))
	defer cancel()
	c := client.New(client.Config{Dial: g.Dial, Token: g.Token, SandboxID: g.ID, Now: g.Now})
	defer c.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		h, err := c.Hello(ctx)
		if err == nil {
			return executors.CheckHello(h, g.ID)
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("the guest ended at once: %s", Tail(g.Dir))
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
	}
}

// Shutdown asks the guest to end its processes and itself, and waits a limited time until gone returns true. It returns the guest's error,
// if any.
func (g Guest) Shutdown(ctx context.Context, grace time.Duration, gone func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*grace+time.Second)
	defer cancel()
	c := client.New(client.Config{Dial: g.Dial, Token: g.Token, SandboxID: g.ID, Now: g.Now})
	defer c.Close()
	if err := c.Shutdown(ctx); err != nil {
		return err
	}
	WaitGone(ctx, 2*grace, gone)
	return nil
}
