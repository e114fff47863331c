// Package secretfiles decides which files and commits expose the secrets a workspace was given: these are not stored, shown or brought into
// a repository. Values that a workspace's base exposes anyway do not count as secrets.
//
// It starts no goroutine. Its mutex, which guards the cache of values in bases, is innermost.
package secretfiles

import (
	"errors"
	"log/slog"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Config configures a Service.
type Config struct {
	Records *workspaces.Records
	Repo    *git.Repo
	Git     *hostgit.Git
	Log     *slog.Logger
}

// Service knows the secrets that workspaces were given. Safe for concurrent use.
type Service struct {
	cfg     Config
	records *workspaces.Records
	repo    *git.Repo
	git     *hostgit.Git
	opens   opens
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Records == nil || cfg.Repo == nil || cfg.Git == nil {
		panic(errors.New("secretfiles: Records, Repo, Git are required"))
	}
	return &Service{cfg: cfg, records: cfg.Records, repo: cfg.Repo, git: cfg.Git}
}
