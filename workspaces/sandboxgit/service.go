// Package sandboxgit keeps the git dir that an isolated or remote sandbox works in, and talks git with the sandbox: whatever hooks and filters the agent
// wrote run there and never on this server, and every answer is checked before it is used. It lends sandboxes the objects they may read, tells them
// of the project's branches, and fetches their commits.
//
// It begins no goroutine of its own. Locks: Locks.Homing (one fetch of commits a workspace), then Locks.Repos, then Locks.Lending; Begin takes
// Locks.Busy, before all others.
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
	// HiddenBranches returns the branches of workspaces at a git dir that are private or another team's, deleted ones' too, and that no
	// workspace of the team's is open about.
	HiddenBranches(ctx context.Context, gitDir, teamID string) ([]string, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Config is what a Store is made of.
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

// Store keeps what sandboxes have of repositories. Safe for concurrent use.
type Store struct {
	cfg         Config
	store       Rows
	records     *workspaces.Records
	repo        *git.Repo
	secretFiles *secretfiles.Service
	git         *hostgit.Git
	locks       *workspaces.Locks
}

// New makes a Store. It starts nothing and panics without what it needs.
func New(cfg Config) *Store {
	if cfg.Rows == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("sandboxgit: Rows, Records, Repo, SecretFiles, Git, Locks are needed"))
	}
	return &Store{cfg: cfg, store: cfg.Rows, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, git: cfg.Git, locks: cfg.Locks}
}
