package executors

import "context"

type discarding struct{}

// Discard marks a Destroy whose caller gives up what the sandbox holds and this server does not.
func Discard(ctx context.Context) context.Context { return context.WithValue(ctx, discarding{}, true) }

// Discarding reports whether Discard marked ctx.
func Discarding(ctx context.Context) bool { return ctx.Value(discarding{}) != nil }
