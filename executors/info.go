package executors

import (
	"context"
	"time"
)

// SandboxInfo is what the API tells of a workspace's sandbox. Times are ms UTC, 0 = not yet.
type SandboxInfo struct {
	ID           string
	WorkspaceID  string
	Executor     Kind
	State        State
	Reason       string
	Isolation    string
	Isolated     bool
	Usage        *Usage // nil when the guest did not tell
	StartedAt    int64
	LastHealthAt int64
	EndedAt      int64
	Ports        []int // TCP ports its processes listen on
}

// Usage are the figures of a sandbox now, as its guest tells them.
type Usage struct {
	CPUMs      int64
	RSSBytes   int64
	Processes  int
	LogBytes   int64
	LastOutput int64 // ms UTC
}

// statsTimeout bounds how long a guest may take to tell its figures before it is shown without them.
const statsTimeout = 3 * time.Second

// maxPorts bounds how many ports a guest is believed to have.
const maxPorts = 256

// Sandbox tells of the workspace's sandbox: the open one, else the last. fault.NotFound when there never was one.
func (m *Manager) Sandbox(ctx context.Context, workspaceID string) (SandboxInfo, error) {
	rec, err := m.cfg.Store.LastSandbox(ctx, workspaceID)
	if err != nil {
		return SandboxInfo{}, err
	}
	info := SandboxInfo{ID: rec.Handle.ID, WorkspaceID: workspaceID, Executor: rec.Handle.Kind, State: rec.State,
		Reason: rec.Reason, StartedAt: rec.StartedAt, LastHealthAt: rec.HealthAt, EndedAt: rec.EndedAt, Ports: []int{}}
	if e, ok := m.byKind[rec.Handle.Kind]; ok {
		c := m.capabilities(ctx, e)
		info.Isolation, info.Isolated = c.Isolation, c.Isolated
	}
	p, ok := m.Live(workspaceID)
	if !ok || p.SandboxID != rec.Handle.ID {
		return info, nil
	}
	r := m.room(workspaceID)
	r.mu.Lock()
	info.LastHealthAt = max(info.LastHealthAt, p.healthAt)
	r.mu.Unlock()
	sctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	s, err := p.Guest.Stats(sctx)
	if err != nil {
		m.cfg.Log.Debug("guest did not tell its figures", "sandbox_id", p.SandboxID, "error", err)
		return info, nil
	}
	info.Usage = &Usage{CPUMs: max(s.CPUMs, 0), RSSBytes: max(s.RSSBytes, 0), Processes: max(s.Processes, 0),
		LogBytes: max(s.LogBytes, 0), LastOutput: s.LastOutput}
	for _, port := range s.Ports {
		if port > 0 && port < 1<<16 && len(info.Ports) < maxPorts {
			info.Ports = append(info.Ports, port)
		}
	}
	return info, nil
}
