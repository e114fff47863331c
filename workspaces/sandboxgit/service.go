// Package sandboxgit maintains the private git dir of an isolated or remote sandbox, and talks to git in the sandbox: hooks and filters the
// agent wrote run there and never on this server, and every answer is checked before it is used. It shares the objects that sandboxes may
// read, advertises the project's branches, and fetches the sandboxes' commits.
//
// It starts no goroutine of its own. Locks: Locks.Homing (one fetch of commits per workspace), then Locks.Repos, then Locks.Lending; Begin
// takes Locks.Busy, before all others.
package sandboxgit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Rows is what the package needs of the storage.
type Rows interface {
	// HiddenBranches returns the branches of workspaces at a git dir that are private or another team's, including deleted ones, unless a
	// workspace of the team uses the branch openly.
	HiddenBranches(ctx context.Context, gitDir, teamID string) ([]string, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Config configures a Store.
type Config struct {
	Rows           Rows
	Records        *workspaces.Records
	Repo           *git.Repo
	SecretFiles    *secretfiles.Service
	Git            *hostgit.Git
	Locks          *workspaces.Locks
	SandboxTimeout time.Duration // of one git call in a sandbox
	CloneTimeout   time.Duration
	DataDir        string
	Log            *slog.Logger
	Now            func() time.Time
	StepTimeout    time.Duration // of worktree and sandbox steps
}

// Store manages the parts of repositories that sandboxes have. Safe for concurrent use.
type Store struct {
	cfg         Config
	store       Rows
	records     *workspaces.Records
	repo        *git.Repo
	secretFiles *secretfiles.Service
	git         *hostgit.Git
	locks       *workspaces.Locks
}

// New makes a Store. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Store {
	if cfg.Rows == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("sandboxgit: Rows, Records, Repo, SecretFiles, Git, Locks are required"))
	}
	return &Store{cfg: cfg, store: cfg.Rows, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, git: cfg.Git, locks: cfg.Locks}
}
