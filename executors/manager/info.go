package manager

import (
	"context"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/meter"
)

// SandboxInfo describes a workspace's sandbox in the API. Times are ms UTC, 0 = not yet.
type SandboxInfo struct {
	ID           string
	WorkspaceID  string
	Executor     executors.Kind
	State        executors.State
	Reason       string
	Isolation    string
	Isolated     bool
	Usage        *Usage           // nil when unknown
	Limits       executors.Limits // as made, or as changed since
	ExpiresAt    int64            // when its time limit ends
	StartedAt    int64
	LastHealthAt int64
	EndedAt      int64
	Ports        []int // TCP ports that processes inside listen on

	OwnDisk    bool
	Steps      []executors.Step // the steps of its making
	Purpose    executors.Purpose
	PausedFor  executors.PausedFor // "" unless it is suspended
	PausedAt   int64               // since when it is suspended
	CPUs       int                 // its size, where its executor has sizes
	MemoryMB   int64
	PriceNano  int64 // nano-USD an hour while it runs
	RunEndsAt  int64 // the executor extends the lease no further than this
	LeaseUntil int64 // when its executor pauses or ends it unless the lease is extended
	IdleAt     int64 // when the server pauses or ends it if nothing happens
	Pooled     bool
	UserID     string // the user who asked for it, "" = the server
}

// Usage holds the current figures of a sandbox: measured by the host where the sandbox is Metered, else reported by its guest.
type Usage struct {
	CPUMs       int64
	CPUPercent  float64 // of one core, over the last few seconds
	RSSBytes    int64
	MemoryPeak  int64
	Processes   int
	OOMKills    int64
	ThrottledMs int64
	DiskBytes   int64 // -1 = not measured yet
	DiskAtLeast bool  // the scan stopped before it had seen everything
	LogBytes    int64 // this and the following are reported by the guest
	LastOutput  int64 // ms UTC
}

// statsTimeout bounds how long a guest may take to report its figures before the sandbox is shown without them.
const statsTimeout = 3 * time.Second

// maxPorts limits how many ports are accepted from a guest.
const maxPorts = 256

// Sandbox describes the workspace's sandbox: the open one, else the last. fault.NotFound when there never was one.
func (m *Manager) Sandbox(ctx context.Context, workspaceID string) (SandboxInfo, error) {
	rec, err := m.cfg.Store.LastSandbox(ctx, workspaceID)
	if err != nil {
		return SandboxInfo{}, err
	}
	rec.Steps = m.stepsNow(rec)
	info := SandboxInfo{ID: rec.Handle.ID, WorkspaceID: workspaceID, Executor: rec.Handle.Kind, State: rec.State,
		Reason: rec.Reason, StartedAt: rec.StartedAt, LastHealthAt: rec.HealthAt, EndedAt: rec.EndedAt, Ports: []int{},
		Steps: rec.Steps, Purpose: rec.Purpose, CPUs: rec.CPUs, MemoryMB: rec.MemoryMB, PriceNano: m.cfg.Metering.UsageInterval(rec).PriceNano, Pooled: rec.Pooled, UserID: rec.UserID}
	if rec.EndedAt == 0 {
		info.PausedFor, info.RunEndsAt, info.LeaseUntil = rec.PausedFor, rec.RunEndsAt, rec.LeaseUntil
	}
	if rec.State == executors.Paused {
		info.PausedAt, info.LeaseUntil, info.RunEndsAt = rec.HealthAt, 0, 0
	}
	if e, ok := m.cfg.Executors.Find(ctx, rec.Handle.Kind); ok {
		c := m.cfg.Choice.CapabilitiesOf(ctx, e)
		info.Isolation, info.Isolated, info.OwnDisk = c.Isolation, c.Isolated, c.OwnDisk
	}
	p, ok := m.live(workspaceID)
	if !ok || p.SandboxID != rec.Handle.ID {
		return info, nil
	}
	r := m.slot(workspaceID)
	r.mu.Lock()
	info.LastHealthAt = max(info.LastHealthAt, p.healthAt)
	info.IdleAt = p.idleEnd()
	r.mu.Unlock()
	p.measured(&info)
	sctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	s, err := p.Guest.Stats(sctx)
	if err != nil {
		m.cfg.Log.Debug("a guest did not report its figures", "sandbox_id", p.SandboxID, "error", err)
		return info, nil
	}
	if info.Usage == nil {
		info.Usage = &Usage{CPUMs: max(s.CPUMs, 0), RSSBytes: max(s.RSSBytes, 0), Processes: max(s.Processes, 0), DiskBytes: -1}
	}
	info.Usage.LogBytes, info.Usage.LastOutput = max(s.LogBytes, 0), s.LastOutput
	for _, port := range s.Ports {
		if port > 0 && port < 1<<16 && len(info.Ports) < maxPorts {
			info.Ports = append(info.Ports, port)
		}
	}
	return info, nil
}

// stepsNow returns a sandbox's steps: while it is being made, those in memory are newer than those of its row.
func (m *Manager) stepsNow(rec executors.Record) []executors.Step {
	if rec.State != executors.Starting {
		return rec.Steps
	}
	s := m.slot(rec.WorkspaceID)
	s.mu.Lock()
	f := s.flight
	var k *making
	if f != nil {
		k = f.making
	}
	s.mu.Unlock()
	if k == nil {
		return rec.Steps
	}
	if now := k.record(); now.Handle.ID == rec.Handle.ID {
		return now.Steps
	}
	return rec.Steps
}

// measured fills in what the host itself measured.
func (p *place) measured(info *SandboxInfo) {
	f, ok := meter.FiguresOf(p.box())
	if ok {
		info.Usage = &Usage{CPUMs: f.CPUMs, RSSBytes: f.MemoryBytes, MemoryPeak: f.MemoryPeak, Processes: int(f.Processes), OOMKills: f.OOMKills,
			ThrottledMs: f.ThrottledMs, DiskBytes: -1}
	}
	p.m.mu.Lock()
	mt := p.m.meters
	p.m.mu.Unlock()
	if mt == nil {
		return
	}
	t := mt.Reading(p.SandboxID)
	info.Limits = t.Limits
	if t.Limits.WallMinutes > 0 {
		info.ExpiresAt = info.StartedAt + t.Limits.WallMinutes*60_000
	}
	if info.Usage != nil {
		info.Usage.CPUPercent, info.Usage.DiskBytes, info.Usage.DiskAtLeast = t.CPUPercent, t.DiskBytes, t.DiskAtLeast
	}
}
