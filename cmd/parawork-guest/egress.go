package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/parawork/parawork/guest/relay"
)

// egress lets the sandbox's programs out while the guest serves.
type egress struct {
	url   string // what the proxy variables say, "" without a way out
	close func() // ends it and waits
}

// runEgress lets out what runs in the same network, until its standard input ends: whoever started it is gone then.
func runEgress(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: parawork-guest egress SOCKET")
	}
	out, err := openEgress(args[0], slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	defer out.close()
	fmt.Println(out.url)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func openEgress(socket string, log *slog.Logger) (egress, error) {
	if socket == "" {
		return egress{close: func() {}}, nil
	}
	r, err := relay.Open(relay.Config{Socket: socket, Log: log})
	if err != nil {
		return egress{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx) // ends with ctx only
	}()
	return egress{url: r.URL(), close: func() { cancel(); <-done }}, nil
}
