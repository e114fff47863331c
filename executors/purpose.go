package executors

import "context"

// Asker is who asks for a place, and for what.
type Asker struct {
	Purpose Purpose
	UserID  string // "" = the server
}

type askerKey struct{}

// As marks ctx as of somebody who needs a place for a purpose: Ensure makes it theirs, and the place's purpose grows with its uses.
// userID "" is the server. Without it Ensure is of nobody in particular.
func As(ctx context.Context, p Purpose, userID string) context.Context {
	return context.WithValue(ctx, askerKey{}, Asker{p, userID})
}

// AskerOf is who As says wants a place, and for what; else who asks, by By.
func AskerOf(ctx context.Context) (p Purpose, userID string) {
	if a := AsOf(ctx); a != (Asker{}) {
		return a.Purpose, a.UserID
	}
	userID, _ = ctx.Value(byKey{}).(string)
	return "", userID
}

type byKey struct{}

// By marks ctx as of a request of a user: what is asked of a place for it is asked for them.
func By(ctx context.Context, userID string) context.Context {
	return context.WithValue(ctx, byKey{}, userID)
}

// AsOf is who As says wants a place, and for what; the zero Asker when nobody in particular does.
func AsOf(ctx context.Context) Asker {
	a, _ := ctx.Value(askerKey{}).(Asker)
	return a
}
