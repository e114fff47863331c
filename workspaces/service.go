package workspaces

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/internal/page"
)

// ProjectStore keeps projects. Reads of what does not exist, or was deleted, are fault.NotFound.
type ProjectStore interface {
	InsertProject(ctx context.Context, p Project) error
	Project(ctx context.Context, id string) (Project, error)
	Projects(ctx context.Context, teamID string, pg page.Page) (items []Project, next string, err error)
	// ProjectLines returns a line for every project of a team, deleted ones included; their workspaces are not counted.
	ProjectLines(ctx context.Context, teamID string) (map[string]ProjectLine, error)
	// CountActive returns how many workspaces that are neither archived nor deleted each project of a team has, by its id.
	CountActive(ctx context.Context, teamID string) (map[string]int, error)
	// ProjectsIn returns every project in this state, for recovery.
	ProjectsIn(ctx context.Context, state ProjectState) ([]Project, error)
	// ProjectsAt returns every project, of any team, whose git dir this is.
	ProjectsAt(ctx context.Context, gitDir string) ([]Project, error)
	// EditProject changes a project in one transaction; an error of fn changes nothing.
	// FolderProjects returns every team's projects in folders of the server's, those in the trash included.
	FolderProjects(ctx context.Context) ([]Project, error)
	// InsertFolderProject stores a project in a folder, if known are the ids of all there are, else ErrFoldersChanged: of several that are
	// added at once each sees those before it.
	InsertFolderProject(ctx context.Context, p Project, known []string) error
	EditProject(ctx context.Context, id string, fn func(*Project) error) (Project, error)
	// DeleteProject marks the project deleted; fault.Conflict when workspaces that are not deleted belong to it.
	DeleteProject(ctx context.Context, id, by string, at int64) error
	// UndeleteProject brings a deleted project back, for a workspace that is restored from the trash.
	UndeleteProject(ctx context.Context, id string) error
}

// WorkspaceStore keeps workspaces.
type WorkspaceStore interface {
	// InsertWorkspace takes the team's next number in the same transaction and returns the row with it.
	InsertWorkspace(ctx context.Context, w Workspace) (Workspace, error)
	// WorkspaceKnown reports whether there ever was a workspace with this id.
	WorkspaceKnown(ctx context.Context, id string) (bool, error)
	// NumbersGiven is the highest number each team's workspaces have had; SkipNumbers has a team's next one be higher than num.
	NumbersGiven(ctx context.Context) (map[string]int64, error)
	SkipNumbers(ctx context.Context, teamID string, num int64) error
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (Workspace, error)
	Workspaces(ctx context.Context, teamID string, f Filter, pg page.Page) (items []Workspace, next string, err error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]Workspace, error)
	// WorkspacesIn returns every workspace in one of these states, for recovery.
	WorkspacesIn(ctx context.Context, states ...State) ([]Workspace, error)
	// PrivateWorkspaces returns a team's private workspaces, deleted ones too; those of all teams with "".
	PrivateWorkspaces(ctx context.Context, teamID string) ([]Workspace, error)
	// HiddenBranches returns the branches of workspaces at a git dir that are private or another team's, deleted ones' too, and that no
	// workspace of the team's is open about.
	HiddenBranches(ctx context.Context, gitDir, teamID string) ([]string, error)
	// EditWorkspace changes a workspace in one transaction; an error of fn changes nothing.
	EditWorkspace(ctx context.Context, id string, fn func(*Workspace) error) (Workspace, error)
	// BoxUser returns the number of the workspace's user on this machine, a new one when it has none. No number is given twice.
	BoxUser(ctx context.Context, workspaceID string) (int64, error)
}

// ActivityStore keeps the timelines.
type ActivityStore interface {
	InsertActivity(ctx context.Context, a Activity) error
	// Activity returns the newest first.
	Activity(ctx context.Context, workspaceID string, pg page.Page) (items []Activity, next string, err error)
}

// Store is what the room needs of the storage.
type Store interface {
	ProjectStore
	WorkspaceStore
	ActivityStore
	SnapshotStore
}

// Places is what the room needs of the sandboxes.
type Places interface {
	// Ensure makes the workspace's sandbox or finds the live one.
	Ensure(ctx context.Context, workspaceID string) error
	// Destroy ends the sandbox and everything in it. Idempotent.
	Destroy(ctx context.Context, workspaceID string) error
	// Live reports whether the workspace has a sandbox now.
	Live(workspaceID string) bool
	// RunInBox runs a bounded command in the sandbox, making one when there is none.
	RunInBox(ctx context.Context, workspaceID string, c executors.BoxCommand) (executors.BoxResult, error)
}

// Sessions is what the room needs of the sessions.
type Sessions interface {
	// StartSetup starts the project's setup script as a session people can watch. Env values are not logged.
	StartSetup(ctx context.Context, w Workspace, script string, env map[string]string) (sessionID string, err error)
	// WaitEnd waits until the session has ended and says how.
	WaitEnd(ctx context.Context, sessionID string) (exitCode int, reason string, err error)
	// StopAll stops every session of the workspace and waits until they have ended.
	StopAll(ctx context.Context, workspaceID string) error
	// Running counts the sessions that have not ended.
	Running(ctx context.Context, workspaceID string) (int, error)
	// SecretFiles is what the workspace was ever given of secrets. On an error nothing of its files is shown or kept.
	SecretFiles(ctx context.Context, workspaceID string) (SecretFiles, error)
	// SecretsPass has a workspace know what another was given of secrets: it is about to get files of it.
	SecretsPass(ctx context.Context, from, to Workspace) error
}

// Config is what a Service is made of. DataDir and AllowedRoots are absolute.
type Config struct {
	Store    Store
	Events   events.Publisher // optional
	Places   Places           // may be given later, by Connect
	Sessions Sessions         // may be given later, by Connect

	Machines Machines // members' own machines; nil = there are none

	Credentials Credentials // for the hosts of remotes; nil = there are none

	Trash     TrashStore    // nil = what was deleted stays
	TrashKeep time.Duration // how long what was deleted can be restored; 0 = for ever

	// Locks and Jobs are shared with everything else that works on workspaces; nil = nothing else does.
	Locks *Locks
	Jobs  *jobs.Jobs // clones, creations and moves

	DataDir      string
	AllowedRoots []string // folders below which people may choose repositories
	BranchPrefix string   // of the branches of workspaces, such as "parawork/"; "" = none
	CopyIgnored  []string // patterns of ignored files copied for new projects, such as ".env"
	// Outgoing judges every address that remotes lead to; nil = all may be reached. Connector is ssh's and git's way there:
	// hostgit.Config.
	Outgoing  *egress.Guard
	Connector string
	Protocols []string         // of URLs; default https, ssh, git
	MaxLimits executors.Limits // the most a project or a workspace may ask for
	// DefaultExecutor is the kind of place a workspace gets where Places is no Chooser.
	DefaultExecutor string
	// FallBackAllowed says whether work whose place is another machine may go on on this server when that cannot serve. nil: never by itself.
	FallBackAllowed func(context.Context) bool
	// Chown gives what an isolated workspace may write to a user of its own. Only root can.
	Chown bool

	// Retention says how long snapshots are kept; nil = the defaults.
	Retention func() Retention

	GitPath         string // default: git of PATH
	CheckoutWorkers int    // default: one a core, at most 8
	CloneTimeout    time.Duration
	FetchTimeout    time.Duration
	GitTimeout      time.Duration       // of other git calls
	SetupTimeout    time.Duration       // of a setup script
	StepTimeout     time.Duration       // of worktree and sandbox steps
	BoxTimeout      time.Duration       // of one git call in a sandbox
	Env             func(string) string // of the server, for ssh agent and proxies; nil = none
	Now             func() time.Time
	After           func(time.Duration) <-chan time.Time
	Log             *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil {
		return errors.New("workspaces: Store is needed")
	}
	if !filepath.IsAbs(c.DataDir) {
		return errors.New("workspaces: DataDir must be absolute")
	}
	if c.GitPath == "" {
		p, err := exec.LookPath("git")
		if err != nil {
			return errors.New("workspaces: git was not found: install git")
		}
		c.GitPath = p
	}
	if c.Locks == nil {
		c.Locks = NewLocks()
	}
	if c.Jobs == nil {
		c.Jobs = NewJobs()
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
	defaultTo(&c.BoxTimeout, 5*time.Minute)
	if c.Env == nil {
		c.Env = func(string) string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// mostJobs is how many clones, creations and moves work at the same time.
const mostJobs = 4

// NewJobs makes what runs clones, creations and moves.
func NewJobs() *jobs.Jobs { return jobs.New(mostJobs, ErrShutdown) }

func defaultTo(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}
