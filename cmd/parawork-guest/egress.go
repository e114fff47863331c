package main

import (
	"context"
	"log/slog"

	"github.com/parawork/parawork/guest/relay"
)

// egress lets the sandbox's programs out while the guest serves.
type egress struct {
	url   string // what the proxy variables say, "" without a way out
	close func() // ends it and waits
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
