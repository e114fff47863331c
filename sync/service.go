package filesync

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
)

// Config joins a Service to the rest of the house. All but Now and Log are required.
type Config struct {
	Store      Store
	Places     Places
	Workspaces Workspaces
	Events     events.Publisher
	Now        func() time.Time
	Log        *slog.Logger
}

// Service keeps sets of changes. All methods are safe for concurrent use.
type Service struct{ cfg Config }

// New makes a Service. It starts nothing.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// Run follows places until ctx ends, and returns when its goroutines have.
func (s *Service) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Follow starts following a live place until it is gone. It never blocks, and may be called before Run.
func (s *Service) Follow(p *executors.Place) {}

// Changes returns the set of a workspace as last seen. It does not look.
func (s *Service) Changes(ctx context.Context, workspaceID string) (Set, error) {
	return s.cfg.Store.Changes(ctx, workspaceID)
}

// SyncNow looks at once, making a place when there is none, and returns what it saw.
func (s *Service) SyncNow(ctx context.Context, workspaceID string) (Set, error) {
	return Set{}, errors.ErrUnsupported
}

// Diff returns the unified diff of one path against the base. context is the number of lines around a hunk. The caller closes it.
func (s *Service) Diff(ctx context.Context, workspaceID, path string, context int) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

// Read opens a file of the worktree. The caller closes it.
func (s *Service) Read(ctx context.Context, workspaceID, path string) (io.ReadCloser, guest.FileInfo, error) {
	return nil, guest.FileInfo{}, errors.ErrUnsupported
}

// Write writes a file of the worktree, making parent folders. With ifMatch (sha256 hex) it fails with kind Precondition when
// the file's bytes are others by now.
func (s *Service) Write(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string) (guest.FileInfo, error) {
	return guest.FileInfo{}, errors.ErrUnsupported
}

// Remove removes a file of the worktree.
func (s *Service) Remove(ctx context.Context, workspaceID, path string) error {
	return errors.ErrUnsupported
}

// Tree lists a folder of the worktree; "" is the root.
func (s *Service) Tree(ctx context.Context, workspaceID, path string) ([]guest.FileInfo, error) {
	return nil, errors.ErrUnsupported
}

// Summaries returns the figures of every workspace of a team that was looked at.
func (s *Service) Summaries(ctx context.Context, teamID string) (map[string]Summary, error) {
	return s.cfg.Store.ChangeSummaries(ctx, teamID)
}
