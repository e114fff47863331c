package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/meter"
)

// UseMeters makes m enforce the sandboxes' limits; its Participant sets them on each sandbox that is made. Call it once, before Recover.
func (m *Manager) UseMeters(cfg meter.Config) (*meter.Meters, error) {
	cfg.Places = forMeters{m}
	mt, err := meter.New(cfg)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.meters = mt
	m.mu.Unlock()
	return mt, nil
}

// KilledBy says why a process of the workspace's sandbox that was killed just now died, as far as the kernel reports it: "out of memory at 2
// GiB". "" = not known.
func (m *Manager) KilledBy(workspaceID, sandboxID string) string {
	m.mu.Lock()
	mt := m.meters
	m.mu.Unlock()
	p, ok := m.live(workspaceID)
	if mt == nil || !ok || p.SandboxID != sandboxID {
		return ""
	}
	f, ok := meter.FiguresOf(p.box())
	if !ok {
		return ""
	}
	return mt.Killed(sandboxID, f)
}

// forMeters adapts the Manager's sandboxes for Meters.
type forMeters struct{ *Manager }

func (m forMeters) sandbox(p *place) meter.Sandbox {
	return meter.Sandbox{Place: p.Place, Record: p.record0(), Sandbox: p.box,
		MayGrow: func(ctx context.Context, l executors.Limits) (bool, error) { return p.mayGrow(ctx, l) },
		Release: func(ctx context.Context) { m.cfg.Metering.Release(ctx, p.SandboxID) },
		Resized: func(ctx context.Context, l executors.Limits) { p.resized(ctx, l) }}
}

// All returns all live sandboxes.
func (m forMeters) All() []meter.Sandbox {
	all := m.places()
	out := make([]meter.Sandbox, len(all))
	for i, p := range all {
		out[i] = m.sandbox(p)
	}
	return out
}

// One returns the workspace's live sandbox.
func (m forMeters) One(workspaceID string) (meter.Sandbox, bool) {
	p, ok := m.live(workspaceID)
	if !ok {
		return meter.Sandbox{}, false
	}
	return m.sandbox(p), true
}

// Open returns the rows of all sandboxes that have not ended.
func (m forMeters) Open(ctx context.Context) ([]executors.Record, error) {
	return m.cfg.Store.OpenSandboxes(ctx)
}

// Place returns the capabilities of a kind of executor.
func (m forMeters) Place(ctx context.Context, k executors.Kind) (executors.Capabilities, bool) {
	return m.cfg.Choice.Place(ctx, k)
}

// KindFor returns the kind that k resolves to, k itself if none does.
func (m forMeters) KindFor(ctx context.Context, k executors.Kind) executors.Kind {
	return m.cfg.Choice.KindFor(ctx, k)
}

// Stop ends this sandbox of the workspace, and none that came after it.
func (m forMeters) Stop(ctx context.Context, workspaceID, sandboxID, words string) error {
	return m.stop(ctx, workspaceID, sandboxID, words)
}
