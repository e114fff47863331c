package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/parawork/parawork/guest/agentterm"
)

// runAgent is the terminal of the server's own agent.
func runAgent() error {
	spare()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	fd := int(os.Stdin.Fd())
	if old, err := term.MakeRaw(fd); err == nil {
		defer func() { _ = term.Restore(fd, old) }()
	}
	return agentterm.Run(ctx, agentterm.Config{Env: os.Getenv, In: os.Stdin, Out: os.Stdout, Cols: func() int {
		cols, _, err := term.GetSize(fd)
		if err != nil {
			return 80
		}
		return cols
	}})
}
