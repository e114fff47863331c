package filesync

import (
	"context"
	"log/slog"

	"github.com/parawork/parawork/guest"
)

// polled has what differs in a delta, and more names in wire form, kept, and reports whether it was.
func (s *Service) polled(ctx context.Context, workspaceID, base string, d Delta, more []string, log *slog.Logger) bool {
	if s.cfg.Polled == nil {
		return true
	}
	paths := make([]string, 0, len(d.Upserts)+len(d.Removes))
	for _, c := range d.Upserts {
		paths = append(paths, rawPaths(c)...)
	}
	for _, p := range d.Removes {
		paths = append(paths, guest.DecodePath(p))
	}
	for _, p := range more {
		paths = append(paths, guest.DecodePath(p))
	}
	return s.keep(ctx, workspaceID, base, paths, d.Reset, log)
}

func (s *Service) keep(ctx context.Context, workspaceID, base string, paths []string, whole bool, log *slog.Logger) bool {
	err := s.cfg.Polled(ctx, workspaceID, base, paths, whole)
	if err != nil && ctx.Err() == nil {
		log.Warn("what changed could not be kept", "error", err)
	}
	return err == nil
}

// polledHere has files kept that a mirror brought home.
func (s *Service) polledHere(ctx context.Context, d MirrorDelta, log *slog.Logger) {
	if s.cfg.Polled == nil {
		return
	}
	paths := make([]string, 0, len(d.Upserts)+len(d.Removes)+len(d.Conflicts))
	for _, f := range d.Upserts {
		paths = append(paths, f.Path)
	}
	paths = append(paths, d.Removes...)
	for _, c := range d.Conflicts {
		paths = append(paths, c.Kept)
	}
	s.keep(ctx, d.WorkspaceID, "", paths, false, log)
}

// unmoved notes which files are told of under two names, and returns the old names of those that are no longer: they may be there again.
func (f *follower) unmoved(d Delta) (again []string) {
	if d.Reset {
		f.from = make(map[string]string)
	}
	for _, p := range d.Removes {
		if old, ok := f.from[p]; ok {
			again = append(again, old)
			delete(f.from, p)
		}
	}
	for _, c := range d.Upserts {
		if old, ok := f.from[c.Path]; ok && old != c.OldPath {
			again = append(again, old)
			delete(f.from, c.Path)
		}
		if c.OldPath != "" {
			f.from[c.Path] = c.OldPath
		}
	}
	return again
}

// rawPaths are the names a change is about.
func rawPaths(c guest.Change) []string {
	if c.OldPath == "" || c.OldPath == c.Path {
		return []string{guest.DecodePath(c.Path)}
	}
	return []string{guest.DecodePath(c.Path), guest.DecodePath(c.OldPath)}
}

// Elsewhere reports whether a workspace's files are those of a sandbox with a disk of its own that runs, not those on this server.
func (s *Service) Elsewhere(ctx context.Context, workspaceID string) (bool, error) {
	if s.cfg.Trees == nil {
		return false, nil
	}
	far, state, err := s.cfg.Places.Far(ctx, workspaceID)
	return far && state != "", err
}

// LookAround looks at a workspace's files where its sandbox runs, waits until what differs is on this server, and says what that is: raw paths
// that differ from base. It makes and wakes no sandbox. ok is false where there is none that can tell.
func (s *Service) LookAround(ctx context.Context, workspaceID string) (base string, paths []string, ok bool, err error) {
	here, _, err := s.here(ctx, workspaceID)
	if err != nil {
		return "", nil, false, err
	}
	s.mu.Lock()
	f := s.followers[workspaceID]
	s.mu.Unlock()
	if !here {
		if f == nil || f.over() {
			return "", nil, false, nil
		}
		now, err := s.base(ctx, workspaceID)
		if err != nil {
			return "", nil, false, err
		}
		if err := f.look(ctx, now); err != nil {
			return "", nil, false, lieAsFault(err)
		}
		if f.mirror != nil {
			if err := f.settle(ctx); err != nil {
				return "", nil, false, err
			}
		}
	}
	set, err := s.Changes(ctx, workspaceID)
	if err != nil || set.Error != "" || !commitID.MatchString(set.BaseCommit) {
		return "", nil, false, err
	}
	for _, c := range set.Items {
		paths = append(paths, rawPaths(c)...)
	}
	return set.BaseCommit, paths, true, nil
}
