package executors

import "context"

// Notifier hears how far a making is: a step's name, a title for people and a detail, "" = as before, and what is done of all, 0 = not
// known. It may be called often, and never from two goroutines at once.
type Notifier func(ctx context.Context, step, title, detail string, done, all int64)

type progressKey struct{}

// WithProgress has SayStep and SayProgress tell t: whoever calls an executor's Create shows people what comes of it.
func WithProgress(ctx context.Context, t Notifier) context.Context {
	return context.WithValue(ctx, progressKey{}, t)
}

// SayStep tells, from within an executor's Create, how far it is: people see it as a step of the making. Elsewhere it does nothing.
func SayStep(ctx context.Context, step, title, detail string) {
	SayProgress(ctx, step, title, detail, 0, 0)
}

// SayProgress is SayStep with how much of the step is done.
func SayProgress(ctx context.Context, step, title, detail string, done, all int64) {
	if t, ok := ctx.Value(progressKey{}).(Notifier); ok {
		t(ctx, step, title, detail, done, all)
	}
}
