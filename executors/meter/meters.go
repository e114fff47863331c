// Package meter reads what sandboxes use, as measured by the host, and enforces the limits the kernel does not: disk and time. It gets
// the live sandboxes through an interface (Sandboxes) and does not know how they are made.
//
// Goroutines: Meters.Run has one, and one more during a disk scan. Locks: Meters.mu guards the set of known sandboxes, each meter's mu its
// figures; none is held during a call to a sandbox or the store, or during a disk scan.
package meter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
)

// Source reads the limits that people have set.
type Source interface {
	// Limits returns the limits set on the workspace and on its project.
	Limits(ctx context.Context, workspaceID string) (own, project executors.Limits, err error)
}

// Sandbox is a live sandbox, with what Meters may do to it.
type Sandbox struct {
	*executors.Place
	Record  executors.Record // with the fields that never change
	Sandbox func() executors.Sandbox
	// MayGrow asks the ledger whether the sandbox may have other limits, given what those cost. asked says that the ledger holds a
	// reservation until Resized or Release.
	MayGrow func(ctx context.Context, l executors.Limits) (asked bool, err error)
	Release func(ctx context.Context)
	Resized func(ctx context.Context, l executors.Limits) // makes the ledger charge it for its new limits
}

// Sandboxes are the live sandboxes: the Manager's.
type Sandboxes interface {
	// All returns all live ones.
	All() []Sandbox
	// One returns the workspace's live one.
	One(workspaceID string) (Sandbox, bool)
	// Open returns the rows of all that have not ended.
	Open(ctx context.Context) ([]executors.Record, error)
	// Place returns what a kind of executor can do now.
	Place(ctx context.Context, k executors.Kind) (executors.Capabilities, bool)
	// KindFor returns the kind that k resolves to: for Auto the strongest that works. k where none does.
	KindFor(ctx context.Context, k executors.Kind) executors.Kind
	// Paused returns why the workspace's sandbox is suspended, and whether it is.
	Paused(workspaceID string) (reason string, paused bool)
	// Pause suspends it until somebody wakes it.
	Pause(ctx context.Context, workspaceID, reason string) error
	// Stop ends this sandbox of the workspace, and none that came after it, for a reason that its people read.
	Stop(ctx context.Context, workspaceID, sandboxID, words string) error
}

// Config configures Meters.
type Config struct {
	Places           Sandboxes
	Limits           Source
	Default, Maximum executors.Limits                    // of the instance
	ByKind           map[executors.Kind]executors.Limits // the upper bound for every sandbox of this kind
	// Shared holds for a kind of executor where Default says nothing, because strangers share the machine; optional.
	Shared       func(ctx context.Context, k executors.Kind) (executors.Limits, error)
	Folders      func(r executors.Record) []string
	Notify       func(ctx context.Context, n executors.Note)
	Groups       *cgroup.Tree             // groups without a sandbox are removed; optional
	Events       events.Publisher         // optional
	HasListeners func(teamID string) bool // whether anybody listens for an event; default always
	Now          func() time.Time
	After        func(time.Duration) <-chan time.Time
	Every        time.Duration // between two readings; default 5 s
	ReapEvery    time.Duration // between two searches for unneeded groups; default 5 min
	DiskEvery    time.Duration // between two scans of a disk; default 20 s
	Free         func(dir string) (int64, error)
	Log          *slog.Logger
}

func (c *Config) validate() error {
	if c.Places == nil || c.Limits == nil {
		return errors.New("meter: Meters need Places and Limits")
	}
	if c.Folders == nil {
		c.Folders = func(executors.Record) []string { return nil }
	}
	if c.Notify == nil {
		c.Notify = func(context.Context, executors.Note) {}
	}
	if c.HasListeners == nil {
		c.HasListeners = func(string) bool { return true }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Every <= 0 {
		c.Every = 5 * time.Second
	}
	if c.DiskEvery <= 0 {
		c.DiskEvery = 20 * time.Second
	}
	if c.ReapEvery <= 0 {
		c.ReapEvery = 5 * time.Minute
	}
	if c.Free == nil {
		c.Free = freeBytes
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Meters read what sandboxes use, as measured by the host, and enforce the limits the kernel does not: disk and time. They explain to people
// what the kernel did. Safe for concurrent use. Run has one goroutine, and one more during a disk scan.
type Meters struct {
	cfg Config

	mu   sync.Mutex
	by   map[string]*meter // by sandbox id
	free int64             // free bytes on the disks, at the last check
}

// meter is the state of one sandbox.
type meter struct {
	mu        sync.Mutex
	limits    executors.Limits
	last      executors.Figures
	lastAt    time.Time
	known     bool // last was read
	percent   float64
	disk      diskMeter
	reported  executors.Figures // kills and refusals that people were notified of
	pending   executors.Figures // new kills, which a session that ends because of one may still claim
	forkToldA time.Time
	wallNear  bool
	published time.Time
	shown     executors.Figures
	shownDisk int64
}

// New makes Meters. It starts nothing. Their Participant sets the limits of new sandboxes.
func New(cfg Config) (*Meters, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Meters{cfg: cfg, by: make(map[string]*meter)}, nil
}

// Participant sets the limits of new sandboxes.
func (mt *Meters) Participant() executors.Participant {
	return executors.Participant{Name: "limits", Making: mt.fill, Ended: mt.forget}
}

// forget drops the state of a sandbox that has ended.
func (mt *Meters) forget(r executors.Record) {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	delete(mt.by, r.Handle.ID)
}

// fill sets the limits of a sandbox that is about to be made.
func (mt *Meters) fill(ctx context.Context, c executors.Capabilities, s *executors.Spec) error {
	l, err := mt.effective(ctx, s.WorkspaceID, c.Kind)
	if err != nil {
		return fmt.Errorf("reading the limits of workspace %s: %w", s.WorkspaceID, err)
	}
	s.Limits = l
	t := mt.meter(s.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits, t.known, t.lastAt = l, true, mt.cfg.Now() // it has used nothing, and nothing has happened in it
	return nil
}

// effective merges the limits of the instance, the project and the workspace, within the maximum.
func (mt *Meters) effective(ctx context.Context, workspaceID string, k executors.Kind) (executors.Limits, error) {
	own, project, err := mt.cfg.Limits.Limits(ctx, workspaceID)
	if err != nil {
		return executors.Limits{}, err
	}
	instance, err := mt.instance(ctx, k)
	if err != nil {
		return executors.Limits{}, err
	}
	return instance.With(project).With(own).AtMost(mt.cfg.Maximum).AtMost(mt.cfg.ByKind[k.Base()]), nil
}

// instance returns the instance's limits for a kind of executor.
func (mt *Meters) instance(ctx context.Context, k executors.Kind) (executors.Limits, error) {
	if mt.cfg.Shared == nil {
		return mt.cfg.Default, nil
	}
	shared, err := mt.cfg.Shared(ctx, k.Base())
	return shared.With(mt.cfg.Default), err
}

func (mt *Meters) meter(sandboxID string) *meter {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	t := mt.by[sandboxID]
	if t == nil {
		t = &meter{disk: diskMeter{bytes: -1}}
		mt.by[sandboxID] = t
	}
	return t
}

func (t *meter) setLimits(l executors.Limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits = l
}

func (t *meter) get() executors.Limits {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limits
}

// Enforced says how one limit is enforced in an executor.
type Enforced struct {
	Name string // cpus, memory_mb, processes, disk_mb, wall_minutes
	OK   bool
	How  string // how, or why not, in words
}

// View is everything about a workspace's limits.
type View struct {
	Own, Project, Instance, Maximum, Effective executors.Limits
	Enforced                                   []Enforced
}

// View returns a workspace's limits, where they come from, and how an executor of kind k enforces them.
func (mt *Meters) View(ctx context.Context, workspaceID string, k executors.Kind) (View, error) {
	own, project, err := mt.cfg.Limits.Limits(ctx, workspaceID)
	if err != nil {
		return View{}, err
	}
	v := View{Own: own, Project: project, Maximum: mt.cfg.Maximum}
	m := mt.cfg.Places
	if p, ok := m.One(workspaceID); ok {
		k = p.Kind
	} else {
		k = m.KindFor(ctx, k)
	}
	v.Maximum = v.Maximum.AtMost(mt.cfg.ByKind[k.Base()])
	if v.Instance, err = mt.instance(ctx, k); err != nil {
		return View{}, err
	}
	v.Effective = v.Instance.With(project).With(own).AtMost(v.Maximum)
	c, _ := m.Place(ctx, k)
	for _, name := range executors.LimitNames() {
		one := Enforced{Name: name}
		switch name {
		case "disk_mb":
			one.OK, one.How = true, "measured every "+seconds(mt.cfg.DiskEvery)+"; a sandbox that would write more is paused"
		case "wall_minutes":
			one.OK, one.How = true, "the sandbox is stopped when its time is up; the work is kept"
		default:
			one.OK, one.How = c.Limits, "by the kernel"
			if !c.Limits {
				one.How = "not enforced in this place"
				if c.Warning != "" {
					one.How += ": " + c.Warning
				}
			}
		}
		v.Enforced = append(v.Enforced, one)
	}
	return v, nil
}

func seconds(d time.Duration) string {
	if d == time.Second {
		return "second"
	}
	return executors.Plain(d.Seconds()) + " seconds"
}

// Maximum is the most a project or workspace may ask for.
func (mt *Meters) Maximum() executors.Limits { return mt.cfg.Maximum }

// Apply sets the stored limits on the workspace's live sandbox. now is true when they hold from this moment; else why says when they will,
// "" without a sandbox: with its next one.
func (mt *Meters) Apply(ctx context.Context, workspaceID string) (now bool, why string, err error) {
	p, ok := mt.cfg.Places.One(workspaceID)
	if !ok {
		return false, "", nil
	}
	l, err := mt.effective(ctx, workspaceID, p.Kind)
	if err != nil {
		return false, "", err
	}
	t := mt.meter(p.SandboxID)
	before := t.get()
	if sameKernel(before, l) { // time is kept here
		t.setLimits(l)
		return true, "", nil
	}
	same := executors.Limits{CPUs: before.CPUs, MemoryMB: before.MemoryMB, Processes: before.Processes, DiskMB: l.DiskMB, WallMinutes: l.WallMinutes}
	lim, ok := p.Sandbox().(executors.Limiter)
	if ok {
		asked, refused := p.MayGrow(ctx, l)
		if refused != nil {
			if fault.KindOf(refused) == fault.Internal {
				return false, "", refused
			}
			t.setLimits(same)
			return false, executors.ReasonOf(refused) + " The running sandbox keeps its CPU and memory.", nil
		}
		if err = lim.SetLimits(l); err != nil && asked {
			p.Release(ctx)
		}
	}
	switch {
	case !ok || fault.Is(err, fault.Unsupported):
		t.setLimits(same)
		return false, "This place cannot change the limits of a running sandbox: CPU, memory and processes change with its next one.", nil
	case fault.Is(err, fault.Conflict):
		return false, executors.ReasonOf(err) + " It takes effect with the next sandbox.", nil
	case err != nil:
		return false, "", fault.Wrap(err, fault.Unavailable, "limits_not_applied", "The limits are stored, but could not be set on the running sandbox. Destroy it to get a new one.")
	}
	t.setLimits(l)
	p.Resized(ctx, l)
	return true, "", nil
}

// Live returns the limits the workspace's live sandbox has.
func (mt *Meters) Live(workspaceID string) (executors.Limits, bool) {
	p, ok := mt.cfg.Places.One(workspaceID)
	if !ok {
		return executors.Limits{}, false
	}
	return mt.meter(p.SandboxID).get(), true
}

func sameKernel(a, b executors.Limits) bool {
	return a.CPUs == b.CPUs && a.MemoryMB == b.MemoryMB && a.Processes == b.Processes && a.DiskMB == b.DiskMB
}

// Run reads figures and enforces limits until ctx is done. It returns when its goroutines have ended.
func (mt *Meters) Run(ctx context.Context) error {
	var disks sync.WaitGroup
	looking := make(chan struct{}, 1)
	var reaped time.Time
	for {
		mt.Read(ctx)
		if now := mt.cfg.Now(); now.Sub(reaped) >= mt.cfg.ReapEvery {
			reaped = now
			mt.reapGroups(ctx)
		}
		select {
		case looking <- struct{}{}:
			disks.Go(func() { defer func() { <-looking }(); mt.lookAtDisks(ctx) })
		default: // a scan takes longer than the time between two
		}
		select {
		case <-ctx.Done():
			disks.Wait()
			return nil
		case <-mt.cfg.After(mt.cfg.Every):
		}
	}
}

// reapTimeout bounds ending and removing one control group.
const reapTimeout = 15 * time.Second

// reapGroups ends and removes the control groups of sandboxes that no longer exist: leftovers of a server that died between two steps.
func (mt *Meters) reapGroups(ctx context.Context) {
	if mt.cfg.Groups == nil {
		return
	}
	names := mt.cfg.Groups.Names() // first: a group made later had its row before
	if len(names) == 0 {
		return
	}
	open, err := mt.cfg.Places.Open(ctx)
	if err != nil {
		mt.cfg.Log.Warn("the open sandboxes could not be read", "error", err)
		return
	}
	for _, name := range names {
		if slices.ContainsFunc(open, func(r executors.Record) bool { return r.Handle.ID == name }) {
			continue
		}
		dctx, cancel := context.WithTimeout(ctx, reapTimeout)
		g, err := mt.cfg.Groups.Find(name)
		if err == nil {
			err = g.Destroy(dctx)
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			mt.cfg.Log.Warn("the control group of a sandbox that is gone could not be removed", "sandbox_id", name, "error", err)
		}
	}
}

// Read reads every live sandbox's figures once, and acts on them.
func (mt *Meters) Read(ctx context.Context) {
	for _, p := range mt.cfg.Places.All() {
		if ctx.Err() != nil {
			return
		}
		mt.readOne(ctx, p)
	}
}

func (mt *Meters) readOne(ctx context.Context, p Sandbox) {
	if p.Asleep() { // it uses nothing, and a read may wake it
		return
	}
	t := mt.meter(p.SandboxID)
	if t.adopt() { // recovered after a restart
		if l, err := mt.effective(ctx, p.WorkspaceID, p.Kind); err == nil {
			t.setLimits(l)
		}
	}
	f, ok := FiguresOf(p.Sandbox())
	now := mt.cfg.Now()
	if ok {
		for _, n := range t.take(f, now) {
			n.WorkspaceID, n.TeamID = p.WorkspaceID, p.TeamID
			mt.cfg.Notify(ctx, n)
		}
	}
	mt.watchTime(ctx, p, t, now)
	if t.news(now, mt.cfg.Every) && mt.cfg.Events != nil && mt.cfg.HasListeners(p.TeamID) {
		mt.cfg.Events.Publish(ctx, events.Event{Type: "sandbox.usage", ID: p.SandboxID, WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Version: now.UnixMilli()})
	}
}

// adopt reports whether the meter has no limits and has not asked for them.
func (t *meter) adopt() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.lastAt.IsZero() && t.limits.None()
	return first
}

// refusalsEvery is the shortest time between two notes that processes could not be started.
const refusalsEvery = 10 * time.Minute

// take stores new figures and returns notes for people. A kill is reported one reading late: the session that died of it has the better
// message, and claims the kill.
func (t *meter) take(f executors.Figures, now time.Time) []executors.Note {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		t.reported, t.pending = f, f // what happened before is history
	}
	if t.known {
		if wall := now.Sub(t.lastAt).Milliseconds(); wall > 0 {
			t.percent = max(0, float64(f.CPUMs-t.last.CPUMs)/float64(wall)*100)
		}
	}
	t.last, t.lastAt, t.known = f, now, true
	var out []executors.Note
	if n := t.pending.OOMKills - t.reported.OOMKills; n > 0 {
		out = append(out, executors.Note{Kind: "limit.memory", Text: "The kernel ended a process: " + t.memoryWords() + times(n)})
		t.reported.OOMKills = t.pending.OOMKills
	}
	t.pending.OOMKills = max(f.OOMKills, t.reported.OOMKills)
	if n := f.ForksRefused - t.reported.ForksRefused; n > 0 && now.Sub(t.forkToldA) >= refusalsEvery {
		text := "No process could be started: the limit of processes is reached"
		if t.limits.Processes > 0 {
			text = fmt.Sprintf("No process could be started: the limit of %d processes is reached", t.limits.Processes)
		}
		out = append(out, executors.Note{Kind: "limit.processes", Text: text + times(n)})
		t.reported.ForksRefused, t.forkToldA = f.ForksRefused, now
	}
	return out
}

func (t *meter) memoryWords() string {
	if t.limits.MemoryMB > 0 {
		return "out of memory at " + executors.MemoryWords(t.limits.MemoryMB)
	}
	return "out of memory"
}

func times(n int64) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d times)", n)
}

// claim reports in words whether a process that was just killed died for lack of memory, and takes one such death off those still to be
// reported.
func (t *meter) claim(f executors.Figures) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known || f.OOMKills <= t.reported.OOMKills {
		return ""
	}
	t.reported.OOMKills++
	t.pending.OOMKills = max(t.pending.OOMKills, t.reported.OOMKills)
	return t.memoryWords()
}

// news reports whether the figures differ visibly from those last published.
func (t *meter) news(now time.Time, every time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.published) < every {
		return false
	}
	f, s := t.last, t.shown
	differs := f.CPUMs-s.CPUMs > every.Milliseconds()/200 || apart(f.MemoryBytes, s.MemoryBytes) || f.Processes != s.Processes ||
		f.OOMKills != s.OOMKills || apart(t.disk.bytes, t.shownDisk)
	if differs {
		t.published, t.shown, t.shownDisk = now, f, t.disk.bytes
	}
	return differs
}

func apart(a, b int64) bool { return max(a-b, b-a) > max(1<<20, b/100) }

// wallWarning is how long before its end a sandbox's people are warned.
const wallWarning = 10 * time.Minute

// watchTime ends a sandbox whose time is up.
func (mt *Meters) watchTime(ctx context.Context, p Sandbox, t *meter, now time.Time) {
	l := t.get()
	if l.WallMinutes == 0 {
		return
	}
	left := time.UnixMilli(p.Record.StartedAt).Add(time.Duration(l.WallMinutes) * time.Minute).Sub(now)
	switch {
	case left <= 0:
		words := "stopped: its time of " + executors.MinutesWords(l.WallMinutes) + " is up; the work is kept"
		mt.cfg.Notify(ctx, executors.Note{WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Kind: "limit.wall", Text: "The sandbox was " + words})
		if err := mt.cfg.Places.Stop(ctx, p.WorkspaceID, p.SandboxID, words); err != nil {
			mt.cfg.Log.Warn("a sandbox whose time is up could not be stopped", "sandbox_id", p.SandboxID, "error", err)
		}
	case left <= min(wallWarning, time.Duration(l.WallMinutes)*time.Minute/5):
		t.mu.Lock()
		first := !t.wallNear
		t.wallNear = true
		t.mu.Unlock()
		if first {
			mt.cfg.Notify(ctx, executors.Note{WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Kind: "limit.wall_near",
				Text: "The sandbox will be stopped in " + executors.MinutesWords(max(1, int64(left.Round(time.Minute)/time.Minute))) + ": its time of " +
					executors.MinutesWords(l.WallMinutes) + " is nearly up. The work is kept."})
		}
	}
}

// Usual returns the limits of a sandbox without limits of its own. Nil Meters have none.
func (mt *Meters) Usual(ctx context.Context, k executors.Kind) executors.Limits {
	if mt == nil {
		return executors.Limits{}
	}
	instance, err := mt.instance(ctx, k)
	if err != nil {
		instance = mt.cfg.Default // its charge is computed again when it is made
	}
	return instance.AtMost(mt.cfg.Maximum).AtMost(mt.cfg.ByKind[k.Base()])
}

// FiguresOf asks the host, not the guest.
func FiguresOf(sb executors.Sandbox) (executors.Figures, bool) {
	mtd, ok := sb.(executors.Metered)
	if !ok {
		return executors.Figures{}, false
	}
	f, err := mtd.Figures()
	return f, err == nil
}

// Killed says why a process of a sandbox that was killed just now died, as far as its figures show, and counts the kill as reported. "" =
// not known.
func (mt *Meters) Killed(sandboxID string, f executors.Figures) string {
	return mt.meter(sandboxID).claim(f)
}

// Reading is the latest reading of a sandbox.
type Reading struct {
	Limits      executors.Limits
	CPUPercent  float64 // of one core, over the last few seconds
	DiskBytes   int64   // -1 = not measured yet
	DiskAtLeast bool    // the scan stopped before it had seen everything
}

// Reading returns the latest reading of a sandbox.
func (mt *Meters) Reading(sandboxID string) Reading {
	t := mt.meter(sandboxID)
	t.mu.Lock()
	defer t.mu.Unlock()
	return Reading{Limits: t.limits, CPUPercent: t.percent, DiskBytes: t.disk.bytes, DiskAtLeast: t.disk.partial}
}
