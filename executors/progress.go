package executors

import "context"

// Notifier receives the progress of a making: a step's name, a title for people and a detail ("" = unchanged), and how much is done of the
// total (0 = unknown). It may be called often, but never from two goroutines at once.
type Notifier func(ctx context.Context, step, title, detail string, done, all int64)

type progressKey struct{}

// WithProgress makes SayStep and SayProgress call t: callers of an executor's Create use it to show the progress to people.
func WithProgress(ctx context.Context, t Notifier) context.Context {
	return context.WithValue(ctx, progressKey{}, t)
}

// SayStep reports, from within an executor's Create, the step that runs now; people see it as a step of the making. Without WithProgress it
// does nothing.
func SayStep(ctx context.Context, step, title, detail string) {
	SayProgress(ctx, step, title, detail, 0, 0)
}

// SayProgress is SayStep with how much of the step is done.
func SayProgress(ctx context.Context, step, title, detail string, done, all int64) {
	if t, ok := ctx.Value(progressKey{}).(Notifier); ok {
		t(ctx, step, title, detail, done, all)
	}
}
