// Package assembly constructs all services that work on workspaces, in order: each gets those below it. It is the only package that imports
// all of them.
//
// It owns the goroutines of its parts: Run starts them and returns when all have ended.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/conflict"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/merge"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/projects"
	"github.com/parawork/parawork/workspaces/reclaim"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Store is the storage all parts need.
type Store interface {
	workspaces.Store
	git.Store
	sandboxgit.Rows
	snapshot.Store
	transfer.Store
	ingest.Store
	stage.Store
	merge.Store
	conflict.Store
	projects.Store
	lifecycle.Store
	reclaim.Store
	origin.Store
	move.Store
}

// Config configures Workspaces. DataDir and AllowedRoots are absolute.
type Config struct {
	Store    Store
	Events   events.Publisher    // optional
	Places   workspaces.Places   // may be set later, by Records.Connect
	Sessions workspaces.Sessions // may be set later, by Records.Connect

	Machines transfer.Machines // members' own machines; nil = none

	Credentials git.Credentials // for the hosts of remotes; nil = none

	Trash     reclaim.TrashStore // nil = deleted workspaces stay
	TrashKeep time.Duration      // how long deleted workspaces can be restored; 0 = forever

	// Locks and Jobs are shared with other users of workspaces; nil = there are none.
	Locks *workspaces.Locks
	Jobs  *jobs.Jobs // clones, creations and moves

	DataDir      string
	AllowedRoots []string // folders below which people may choose repositories
	BranchPrefix string   // of the branches of workspaces, such as "parawork/"; "" = none
	CopyIgnored  []string // patterns of ignored files copied for new projects, such as ".env"
	// Outgoing checks every address that remotes lead to; nil = all are allowed. Connector is the proxy for ssh and git: hostgit.Config.
	Outgoing  *egress.Guard
	Connector string
	Protocols []string         // of URLs; default https, ssh, git
	MaxLimits executors.Limits // the most a project or a workspace may request
	// DefaultExecutor is used when Places is not a Chooser.
	DefaultExecutor string
	// FallBackAllowed reports whether a workspace of this kind of remote executor may fall back to this server when that executor is unavailable. nil:
	// never automatically.
	FallBackAllowed func(context.Context, executors.Kind) bool
	// Chown gives the files an isolated workspace may write to their own user. Only root can do that.
	Chown bool

	// Retention returns how long snapshots are retained; nil = the defaults.
	Retention func() snapshot.Retention

	GitPath         string        // default: git in PATH
	CheckoutWorkers int           // default: one per core, at most 8
	CloneTimeout    time.Duration // also of a push
	FetchTimeout    time.Duration
	GitTimeout      time.Duration       // of other git calls
	SetupTimeout    time.Duration       // of a setup script
	StepTimeout     time.Duration       // of worktree and sandbox steps
	SandboxTimeout  time.Duration       // of one git call in a sandbox
	Env             func(string) string // of the server, for ssh agent and proxies; nil = none
	Now             func() time.Time
	After           func(time.Duration) <-chan time.Time
	Log             *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil {
		return errors.New("assembly: Store is required")
	}
	if !filepath.IsAbs(c.DataDir) {
		return errors.New("assembly: DataDir must be absolute")
	}
	if c.GitPath == "" {
		p, err := exec.LookPath("git")
		if err != nil {
			return errors.New("assembly: git was not found: install git")
		}
		c.GitPath = p
	}
	if c.Locks == nil {
		c.Locks = workspaces.NewLocks()
	}
	if c.Jobs == nil {
		c.Jobs = workspaces.NewJobs()
	}
	if c.CheckoutWorkers <= 0 {
		c.CheckoutWorkers = min(max(runtime.NumCPU(), 2), 8)
	}
	if len(c.Protocols) == 0 {
		c.Protocols = []string{"https", "ssh", "git"}
	}
	defaultTo(&c.CloneTimeout, 2*time.Hour)
	defaultTo(&c.FetchTimeout, 2*time.Minute)
	defaultTo(&c.GitTimeout, 2*time.Minute)
	defaultTo(&c.SetupTimeout, time.Hour)
	defaultTo(&c.StepTimeout, 15*time.Minute)
	defaultTo(&c.SandboxTimeout, 5*time.Minute)
	if c.Env == nil {
		c.Env = func(string) string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Workspaces holds all services that work on workspaces, from the lowest to the highest.
type Workspaces struct {
	Records     *workspaces.Records
	Repo        *git.Repo
	SecretFiles *secretfiles.Service
	Sandboxes   *sandboxgit.Store
	Snapshots   *snapshot.Service
	Transfer    *transfer.Service
	Ingest      *ingest.Service
	Stage       *stage.Service
	Merging     *merge.Service
	Conflicts   *conflict.Service
	Projects    *projects.Service
	Lifecycle   *lifecycle.Service
	Reclaim     *reclaim.Service
	Origin      *origin.Service
	Moves       *move.Service

	jobs *jobs.Jobs
}

// New makes the services. It starts nothing and panics on a Config that Validate rejects.
func New(cfg Config) *Workspaces {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	run := hostgit.New(hostgit.Config{Path: cfg.GitPath, StateDir: filepath.Join(cfg.DataDir, "ssh"), Protocols: cfg.Protocols, Env: cfg.Env,
		Timeout: cfg.GitTimeout, Outgoing: cfg.Outgoing, Connector: cfg.Connector, Log: cfg.Log})
	w := &Workspaces{jobs: cfg.Jobs}
	w.Records = workspaces.New(workspaces.Config{Store: cfg.Store, Git: run, DataDir: cfg.DataDir, Events: cfg.Events, Now: cfg.Now, Log: cfg.Log})
	if cfg.Places != nil || cfg.Sessions != nil {
		w.Records.Connect(cfg.Places, cfg.Sessions)
	}
	w.Repo = git.New(git.Config{Store: cfg.Store, Records: w.Records, Git: run, Locks: cfg.Locks, AllowedRoots: cfg.AllowedRoots, BranchPrefix: cfg.BranchPrefix,
		Credentials: cfg.Credentials, DataDir: cfg.DataDir, Events: cfg.Events, FetchTimeout: cfg.FetchTimeout, StepTimeout: cfg.StepTimeout, Now: cfg.Now, Log: cfg.Log})
	w.SecretFiles = secretfiles.New(secretfiles.Config{Records: w.Records, Repo: w.Repo, Git: run, Log: cfg.Log})
	w.Sandboxes = sandboxgit.New(sandboxgit.Config{Rows: cfg.Store, Records: w.Records, Repo: w.Repo, SecretFiles: w.SecretFiles, Git: run, Locks: cfg.Locks,
		SandboxTimeout: cfg.SandboxTimeout, CloneTimeout: cfg.CloneTimeout, StepTimeout: cfg.StepTimeout, DataDir: cfg.DataDir, Now: cfg.Now, Log: cfg.Log})
	w.Snapshots = snapshot.New(snapshot.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, SecretFiles: w.SecretFiles, Sandboxes: w.Sandboxes, Git: run, Locks: cfg.Locks,
		Events: cfg.Events, Retention: cfg.Retention, GitTimeout: cfg.GitTimeout, StepTimeout: cfg.StepTimeout, Now: cfg.Now, After: cfg.After, Log: cfg.Log})
	w.Transfer = transfer.New(transfer.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, SecretFiles: w.SecretFiles, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots,
		Git: run, Locks: cfg.Locks, Machines: cfg.Machines, CloneTimeout: cfg.CloneTimeout, FetchTimeout: cfg.FetchTimeout, StepTimeout: cfg.StepTimeout, DataDir: cfg.DataDir, Log: cfg.Log})
	w.Ingest = ingest.New(ingest.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots, Transfer: w.Transfer, Git: run,
		Locks: cfg.Locks, Protocols: cfg.Protocols, Chown: cfg.Chown, SandboxTimeout: cfg.SandboxTimeout, DataDir: cfg.DataDir, After: cfg.After, Log: cfg.Log})
	w.Stage = stage.New(stage.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, SecretFiles: w.SecretFiles, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots, Git: run, Log: cfg.Log})
	w.Merging = merge.New(merge.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, SecretFiles: w.SecretFiles, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots, Ingest: w.Ingest,
		Git: run, Locks: cfg.Locks, Protocols: cfg.Protocols, GitTimeout: cfg.GitTimeout, StepTimeout: cfg.StepTimeout, Log: cfg.Log})
	w.Conflicts = conflict.New(conflict.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, SecretFiles: w.SecretFiles, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots,
		Ingest: w.Ingest, Stage: w.Stage, Merging: w.Merging})
	w.Projects = projects.New(projects.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, Sandboxes: w.Sandboxes, Transfer: w.Transfer, Git: run, Jobs: cfg.Jobs,
		AllowedRoots: cfg.AllowedRoots, CopyIgnored: cfg.CopyIgnored, MaxLimits: cfg.MaxLimits, Outgoing: cfg.Outgoing, Protocols: cfg.Protocols, Trash: cfg.Trash != nil,
		CloneTimeout: cfg.CloneTimeout, FetchTimeout: cfg.FetchTimeout, Now: cfg.Now, Log: cfg.Log})
	w.Lifecycle = lifecycle.New(lifecycle.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots, Transfer: w.Transfer,
		Ingest: w.Ingest, Merging: w.Merging, Projects: w.Projects, Git: run, Locks: cfg.Locks, Jobs: cfg.Jobs, BranchPrefix: cfg.BranchPrefix,
		CheckoutWorkers: cfg.CheckoutWorkers, DefaultExecutor: cfg.DefaultExecutor, FallBackAllowed: cfg.FallBackAllowed, MaxLimits: cfg.MaxLimits, DataDir: cfg.DataDir,
		FetchTimeout: cfg.FetchTimeout, GitTimeout: cfg.GitTimeout, SetupTimeout: cfg.SetupTimeout, StepTimeout: cfg.StepTimeout, Now: cfg.Now, Log: cfg.Log})
	w.Reclaim = reclaim.New(reclaim.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots, Transfer: w.Transfer,
		Lifecycle: w.Lifecycle, Git: run, Locks: cfg.Locks, Trash: cfg.Trash, TrashKeep: cfg.TrashKeep, CloneTimeout: cfg.CloneTimeout, DataDir: cfg.DataDir, After: cfg.After, Log: cfg.Log})
	w.Origin = origin.New(origin.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, SecretFiles: w.SecretFiles, Sandboxes: w.Sandboxes, Ingest: w.Ingest, Merging: w.Merging,
		Git: run, Locks: cfg.Locks, Credentials: cfg.Credentials, Protocols: cfg.Protocols, PushTimeout: cfg.CloneTimeout, Now: cfg.Now, Log: cfg.Log})
	w.Moves = move.New(move.Config{Store: cfg.Store, Records: w.Records, Repo: w.Repo, Sandboxes: w.Sandboxes, Snapshots: w.Snapshots, Transfer: w.Transfer, Ingest: w.Ingest,
		Lifecycle: w.Lifecycle, Locks: cfg.Locks, Jobs: cfg.Jobs, FallBackAllowed: cfg.FallBackAllowed, Chown: cfg.Chown, Now: cfg.Now, Log: cfg.Log})
	return w
}

// Peers are services that workspaces need and that themselves need workspaces.
type Peers struct {
	Places    workspaces.Places
	Sessions  workspaces.Sessions
	Files     stage.Files
	Watcher   snapshot.Watcher
	Sandboxed snapshot.Sandboxed
	Gate      merge.Gate
	// Reviewed returns the state a reader's last review of a workspace saw: a snapshot's id or a commit, "" when there is none.
	Reviewed func(ctx context.Context, workspaceID, userID string) (rev string, err error)
	// Snapped is called after each new snapshot, like OnSnapshot's fn.
	Snapped func(workspaceID string, s snapshot.Snap)
}

// Join sets the peers. It is called once, before Recover and Run.
func (w *Workspaces) Join(p Peers) {
	w.Records.Connect(p.Places, p.Sessions)
	w.Stage.ConnectFiles(p.Files)
	w.Snapshots.Watch(p.Watcher)
	w.Snapshots.ConnectSandboxed(p.Sandboxed)
	w.Snapshots.ConnectReviews(p.Reviewed)
	w.Snapshots.OnSnapshot(p.Snapped)
	w.Merging.GateBy(p.Gate)
}

// Recover resumes or rolls back what an earlier server left unfinished. It is called once at start, before Run.
func (w *Workspaces) Recover(ctx context.Context) error {
	if err := w.Lifecycle.Recover(ctx); err != nil {
		return err
	}
	return w.Moves.Recover(ctx)
}

// Run runs clones, creations and moves, fetches the commits of sandboxes, takes snapshots and empties the trash until ctx is done. It then
// cancels running work and waits until that has cleaned up.
func (w *Workspaces) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { w.Ingest.Run(ctx) })
	wg.Go(func() { w.Reclaim.Run(ctx) })
	wg.Go(func() { w.Snapshots.Run(ctx) })
	w.jobs.Run(ctx)
	w.Transfer.Close()
	w.Repo.Close()
	wg.Wait()
	return nil
}

func defaultTo(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}
