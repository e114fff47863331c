package tasks

import "context"

// Scope is a Group with a context that ends with it: for work that survives its caller, and that its owner ends with a cause. Make one with
// NewScope; safe for concurrent use.
type Scope struct {
	Group
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewScope returns a Scope whose context carries what ctx does, and ends with ctx at the latest. It starts nothing.
func NewScope(ctx context.Context) *Scope {
	s := &Scope{}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// Context ends when the scope does.
func (s *Scope) Context() context.Context { return s.ctx }

// End refuses further work, ends the context with cause and waits for what runs. It may be called more than once: the first cause stays.
func (s *Scope) End(cause error) {
	s.refuse()
	s.cancel(cause)
	s.Close()
}
