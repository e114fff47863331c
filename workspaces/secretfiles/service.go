// Package secretfiles says which files and commits show something of the secrets a workspace was given: nothing of them is kept, shown or brought
// into a repository. Values that the base of a workspace shows to everybody anyway are no secrets.
//
// It begins no goroutine. Its mutex, over which values bases show, is innermost.
package secretfiles

import (
	"errors"
	"log/slog"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Config is what a Service is made of.
type Config struct {
	Records *workspaces.Records
	Repo    *git.Repo
	Git     *hostgit.Git
	Log     *slog.Logger
}

// Service knows what workspaces were given of secrets. Safe for concurrent use.
type Service struct {
	cfg     Config
	records *workspaces.Records
	repo    *git.Repo
	git     *hostgit.Git
	opens   opens
}

// New makes a Service. It starts nothing and panics without what it needs.
func New(cfg Config) *Service {
	if cfg.Records == nil || cfg.Repo == nil || cfg.Git == nil {
		panic(errors.New("secretfiles: Records, Repo, Git are needed"))
	}
	return &Service{cfg: cfg, records: cfg.Records, repo: cfg.Repo, git: cfg.Git}
}
