package executors

import "context"

type discarding struct{}

// Discard marks the context of a Destroy whose caller gives up what only the sandbox holds.
func Discard(ctx context.Context) context.Context { return context.WithValue(ctx, discarding{}, true) }

// Discarding reports whether Discard marked ctx.
func Discarding(ctx context.Context) bool { return ctx.Value(discarding{}) != nil }
