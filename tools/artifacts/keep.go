package artifacts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
)

const (
	sweepEvery = 10 * time.Minute
	resumeFor  = time.Hour // how long a copy that was cut can be resumed
	sweepMost  = 500       // unfinished artifacts looked at in one sweep
)

var onePage = page.Page{Limit: 1}

// Recover removes what an earlier server left half done: contents without a ready row and rows without a content. A copy that was cut is
// kept, so that it can be resumed.
func (s *Service) Recover(ctx context.Context) error {
	ctx = tenant.All(ctx, "artifacts of every team are cleaned up after a start")
	err := s.cfg.Blobs.Recover(ctx)
	if err == nil {
		err = s.sweep(ctx, s.now())
	}
	if fault.Is(err, fault.Unavailable) { // all else works without the object storage
		s.cfg.Log.WarnContext(ctx, "the storage of artifacts cannot be used now; the server tries again", "code", fault.CodeOf(err), "error", err)
		err = nil
	}
	return errors.Join(err, s.removeStrays(ctx))
}

// Run collects what lies in the folders of live sandboxes, and removes what has expired, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	look, sweep := time.NewTicker(s.cfg.Every), time.NewTicker(sweepEvery)
	defer look.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.beginSome(ctx, &group)
		case <-look.C:
			s.look(ctx)
		case <-sweep.C:
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "artifacts could not be cleaned up; the server tries again", "error", err)
			}
		}
	}
}

// Sweep removes artifacts that are older than they are kept, and what was left half done.
func (s *Service) Sweep(ctx context.Context) error {
	ctx = tenant.All(ctx, "artifacts of every team expire")
	if s.cfg.Keep > 0 {
		if _, err := s.cfg.Store.ExpireArtifacts(ctx, s.cfg.Now().Add(-s.cfg.Keep).UnixMilli()); err != nil {
			return err
		}
	}
	return s.sweep(ctx, s.now())
}

// sweep discards rows that are not ready, except those of copies under way and of copies that may be resumed.
func (s *Service) sweep(ctx context.Context, now int64) error {
	rows, err := s.cfg.Store.UnfinishedArtifacts(ctx, now+1, sweepMost)
	if err != nil {
		return err
	}
	var failed error
	for _, a := range rows {
		if a.State == Pending && a.Source != "" && now-a.CreatedAt < resumeFor.Milliseconds() && s.hasPart(a.ID) || !s.hold(a.ID) {
			continue
		}
		err := s.discard(tenant.In(ctx, a.TeamID), a)
		s.release(a.ID)
		if fault.Is(err, fault.Unavailable) { // the next would fail likewise
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (s *Service) hasPart(artifactID string) bool {
	_, err := os.Lstat(s.part(artifactID))
	return err == nil
}

// removeStrays removes parts that belong to no pending artifact. Nothing is being copied yet.
func (s *Service) removeStrays(ctx context.Context) error {
	files, err := os.ReadDir(s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	rows, err := s.cfg.Store.UnfinishedArtifacts(ctx, s.now()+1, sweepMost)
	if err != nil || len(rows) == sweepMost { // not all are known
		return err
	}
	known := make(map[string]bool, len(rows))
	for _, a := range rows {
		known[a.ID] = true
	}
	var failed error
	for _, f := range files {
		if !known[f.Name()] {
			failed = errors.Join(failed, os.Remove(s.part(f.Name())))
		}
	}
	return failed
}
