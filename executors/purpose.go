package executors

import "context"

// asker is who asks for a place, and for what.
type asker struct {
	purpose Purpose
	userID  string
}

type askerKey struct{}

// As marks ctx as of somebody who needs a place for a purpose: Ensure makes it theirs, and the place's purpose grows with its uses.
// userID "" is the server. Without it Ensure is of nobody in particular.
func As(ctx context.Context, p Purpose, userID string) context.Context {
	return context.WithValue(ctx, askerKey{}, asker{p, userID})
}

// EnsureFor is Ensure for a purpose of a user.
func (m *Manager) EnsureFor(ctx context.Context, workspaceID string, p Purpose, userID string) (*Place, error) {
	return m.Ensure(As(ctx, p, userID), workspaceID)
}

// AskerOf is who As says wants a place, and for what; else who asks, by By.
func AskerOf(ctx context.Context) (p Purpose, userID string) {
	if a := askerOf(ctx); a != (asker{}) {
		return a.purpose, a.userID
	}
	userID, _ = ctx.Value(byKey{}).(string)
	return "", userID
}

type byKey struct{}

// By marks ctx as of a request of a user: what is asked of a place for it is asked for them.
func By(ctx context.Context, userID string) context.Context {
	return context.WithValue(ctx, byKey{}, userID)
}

func askerOf(ctx context.Context) asker {
	a, _ := ctx.Value(askerKey{}).(asker)
	return a
}

// usedFor notes a use of a live place; a stronger one than before is stored.
func (m *Manager) usedFor(ctx context.Context, r *room, p *place, a asker) {
	if a.purpose == "" {
		return
	}
	r.mu.Lock()
	stronger := r.place == p && a.purpose.rank() > p.record.Purpose.rank()
	if stronger {
		p.record.Purpose = a.purpose
	}
	rec := p.record
	r.mu.Unlock()
	if !stronger {
		return
	}
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		m.cfg.Log.Warn("use of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
	m.publish(ctx, rec)
}
