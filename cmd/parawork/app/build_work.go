package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/sessions/modelgateway"
	"github.com/parawork/parawork/sessions/report"
	"github.com/parawork/parawork/sessions/reviewqueue"
	"github.com/parawork/parawork/sessions/runs"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/startstore"
	"github.com/parawork/parawork/store/toolstore"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/disk"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/reviews"
)

// work is what goes on in workspaces.
type work struct {
	sessions *sessions.Service
	files    *filesync.Service
	commands *command.Commands
	reviews  *reviews.Service
	checks   *checks.Service
	overlap  *overlap.Service
	forge    *forge.Service
	runs     *runs.Service
	starts   *firststart.Service
	disk     *disk.Service
	report   *report.Service
}

func newWork(b *base, may *allowance, p *people, w *worktrees, m *money, s *sandboxes) *work {
	cfg := b.cfg
	out := &work{}
	var way modelgateway.Gateway
	if cfg.Gateway.Enabled {
		way = m.gateway
	}
	allowed := allowedCommands{w.workspaces.Records, b.placeNow}
	out.sessions = sessions.New(sessions.Config{Store: store.NewSessions(b.db), Places: s.chosen(), Workspaces: movable{w.workspaces.Records, w.moves},
		Accounts: sessionAccounts{p.directory, p.agentAccounts}, Agents: b.agents, Events: b.events, DataDir: cfg.DataDir, Key: b.key, Secrets: p.secrets, Gateway: way, ToolServer: &b.later, Hosts: &b.later,
		Meter: may.tokens, Exclude: w.workspaces.Repo.Exclude, TurnEnded: func(row sessions.Session, prompt string) {
			w.workspaces.Snapshots.TurnEnded(row.WorkspaceID, row.ID, prompt)
		},
		Checkpoints: &b.later, Grace: b.later.grace, Allow: allowed.session, Tools: b.later.agentTools, Limits: fromconfig.HistoryLimits(cfg.History), TeamHistory: fromconfig.TeamHistory(cfg, p.directory.CountTeams), MaxLogBytes: fromconfig.LogCap(cfg.History), Log: b.logOf("sessions")})
	roots, skip := agents.Kept()
	out.files = filesync.New(filesync.Config{Store: store.NewChanges(b.db), Places: s.places, Workspaces: w.workspaces.Repo, Events: b.events, Touched: out.sessions.FilesChanged,
		Moved: w.workspaces.Ingest.HeadMoved, Polled: w.workspaces.Snapshots.Polled, Trees: trees{w.workspaces}, DataDir: cfg.DataDir, HomeRoots: roots, HomeSkip: skip,
		HomeDir: func(id string) string { return filepath.Join(cfg.DataDir, "boxes", id, "home") }, MaxFile: cfg.Sandboxing.Sync.MaxFileMB << 20,
		MaxTotal: cfg.Sandboxing.Sync.MaxTotalMB << 20, Lag: func(kind string, took time.Duration) {
			s.places.Counters().Synced(executors.Kind(kind), took.Milliseconds())
		}, Log: b.logOf("sync")})
	out.commands = command.New(command.Config{Places: s.chosen(), Store: s.records, Secrets: commandSecrets{w.workspaces, p.secrets, out.sessions}.of, Guard: allowed.command,
		Keep: time.Duration(cfg.Sandboxing.Commands.KeepMinutes) * time.Minute, Queue: time.Duration(cfg.Sandboxing.Commands.QueueMinutes) * time.Minute,
		Timeout: time.Duration(cfg.Sandboxing.Commands.TimeoutSeconds) * time.Second, Log: b.logOf("commands")})
	out.reviews = reviews.New(reviews.Config{Store: store.NewReviews(b.db), Trees: reviews.Files{Repo: w.workspaces.Repo, Snapshots: w.workspaces.Snapshots}, Workspaces: w.workspaces.Records,
		Sessions: reviewqueue.New(out.sessions), Accounts: p.directory, Bus: b.bus, Events: b.events, Log: b.logOf("reviews")})
	out.checks = checks.New(checks.Config{Store: store.NewChecks(b.db), Records: w.workspaces.Records, Sandboxes: w.workspaces.Ingest, Merges: w.workspaces.Merging, Commands: out.commands, Accounts: p.directory, Events: b.events,
		Approved: func(ctx context.Context, workspaceID, tree string) (bool, error) {
			ok, _, err := out.reviews.Approved(ctx, workspaceID, tree)
			return ok, err
		}, Log: b.logOf("checks")})
	out.overlap = overlap.New(overlap.Config{Store: store.NewOverlaps(b.db), Workspaces: overlap.NewTrees(w.workspaces.Records, w.workspaces.Repo, w.rows), Bus: b.bus, Events: b.events, Log: b.logOf("overlap")})
	web := egress.New(egress.Config{Allow: cfg.Outgoing.Networks(), Streams: true})
	out.forge = forge.New(forge.Config{Store: store.NewForge(b.db), Workspaces: w.workspaces.Records, Origin: w.origin, Credentials: p.secrets, People: p.directory, Events: b.events,
		HTTP: web.Transport, CheckURL: web.Check, Prompts: asked{out.sessions, p.secrets}.of, Link: workspaceLinks{p.directory, cfg.Server.PublicURL}.of,
		Gate: out.checks.GateOf, Push: pusher{w.origin}.push, Log: b.logOf("forge")})
	out.runs = runs.New(runs.Config{Store: store.NewRuns(b.db), Records: w.workspaces.Records, Workspaces: w.workspaces.Lifecycle, Sessions: out.sessions, Accounts: p.directory, Events: b.events, Log: b.logOf("runs")})
	kept := toolstore.NewArtifacts(b.db)
	dc := disk.Config{Projects: w.workspaces.Projects, Records: w.workspaces.Records, Reclaim: w.workspaces.Reclaim, Events: b.events, Log: b.logOf("disk")}
	dc.Artifacts = func(ctx context.Context, teamID string) (int, int64, error) {
		u, err := kept.ArtifactUse(ctx, teamID)
		return int(u.Count), u.Bytes, err
	}
	if s.caches != nil {
		dc.Caches = cacheRoom{s.caches}
	}
	out.disk = disk.New(dc)
	out.report = newReport(b, p, w, m, s, out)
	return out
}

// newStarts makes what starts the first sessions of workspaces.
func newStarts(a *App) *firststart.Service {
	return firststart.New(firststart.Config{Store: startstore.New(a.db), Records: a.workspaces.Records, Workspaces: a.workspaces.Lifecycle, Sessions: a.sessions, Actor: a.directory.Actor, Admit: a.admits,
		Place: attached{a.chosen()}.placed, Own: agent.Name, Bus: a.bus, Log: a.logOf("first sessions")})
}
