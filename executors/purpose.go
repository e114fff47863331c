package executors

import "context"

// Asker says who asks for a sandbox, and for what.
type Asker struct {
	Purpose Purpose
	UserID  string // "" = the server
}

type askerKey struct{}

// As marks ctx as coming from a user who needs a sandbox for a purpose: Ensure records the user, and the sandbox's purpose is the strongest
// of its uses. userID "" is the server. Without it Ensure acts for nobody in particular.
func As(ctx context.Context, p Purpose, userID string) context.Context {
	return context.WithValue(ctx, askerKey{}, Asker{p, userID})
}

// AskerOf returns what As stored in ctx, else the user stored by By.
func AskerOf(ctx context.Context) (p Purpose, userID string) {
	if a := AsOf(ctx); a != (Asker{}) {
		return a.Purpose, a.UserID
	}
	userID, _ = ctx.Value(byKey{}).(string)
	return "", userID
}

type byKey struct{}

// By marks ctx as the request of a user: sandboxes are asked for on the user's behalf.
func By(ctx context.Context, userID string) context.Context {
	return context.WithValue(ctx, byKey{}, userID)
}

// AsOf returns what As stored in ctx; the zero Asker when there is none.
func AsOf(ctx context.Context) Asker {
	a, _ := ctx.Value(askerKey{}).(Asker)
	return a
}
