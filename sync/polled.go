package filesync

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// polled takes a snapshot of what differs in a delta, and of more names in wire form, and reports whether it succeeded.
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
		log.Warn("no snapshot of the changes could be taken", "error", err)
	}
	return err == nil
}

// keepHere takes a snapshot of the files the mirror synced. Those that failed are tried again with the next ones, or soon.
func (m *mirror) keepHere(ctx context.Context, d MirrorDelta) {
	if m.s.cfg.Polled == nil {
		return
	}
	for _, f := range d.Upserts {
		m.owed[f.Path] = true
	}
	for _, p := range d.Removes {
		m.owed[p] = true
	}
	for _, c := range d.Conflicts {
		m.owed[c.Kept] = true
	}
	if m.owes() && m.s.keep(ctx, m.id, "", sortedPaths(m.owed), m.unsure, m.log) {
		clear(m.owed)
		m.unsure = false
	}
}

// owes reports whether something synced is in no snapshot yet, or may be in none.
func (m *mirror) owes() bool { return m.s.cfg.Polled != nil && (len(m.owed) > 0 || m.unsure) }

func sortedPaths(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// unmoved records which files are reported under two names, and returns the old names of those that no longer are: they may exist
// again.
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

// rawPaths returns the names a change is about.
func rawPaths(c guest.Change) []string {
	if c.OldPath == "" || c.OldPath == c.Path {
		return []string{guest.DecodePath(c.Path)}
	}
	return []string{guest.DecodePath(c.Path), guest.DecodePath(c.OldPath)}
}

// FilesInSandbox reports whether a workspace's files are those of a running sandbox with its own disk, and not those on this
// server.
func (s *Service) FilesInSandbox(ctx context.Context, workspaceID string) (bool, error) {
	if s.cfg.Trees == nil {
		return false, nil
	}
	remote, state, err := s.cfg.Places.RemoteDisk(ctx, workspaceID)
	return remote && state != "", err
}

// Around is what LookAround saw.
type Around struct {
	Base  string   // the base commit
	Paths []string // raw paths that differ from it
	// Kept takes, once, the report whether a snapshot of everything was taken: then sync takes none. nil = no report is expected.
	// sync looks again soon at what is in no snapshot.
	Kept func(ok bool)
}

// names asks the guest only for the names of what differs: where the worktree is on this server, the caller reads the files
// itself, and the guest need not compare them first. The set of changes follows on its own. ok is false where the guest must do a
// full look: the files are on its side, names are not enough, or it does not know the request.
func (f *follower) names(ctx context.Context, base string) (a Around, ok bool, err error) {
	if f.mirror != nil {
		return Around{}, false, nil
	}
	f.rebase(base)
	d, err := f.box.dirty(ctx, base)
	if err != nil && ctx.Err() == nil && fault.CodeOf(err) != "guest_unreachable" {
		return Around{}, false, nil
	}
	if err == nil && (d.Base != base || len(d.Paths) > MaxFiles) {
		err = fmt.Errorf("%w: names that were not requested", errLie)
	}
	if err != nil {
		return Around{}, false, err
	}
	a.Base = base
	for _, p := range d.Paths {
		if !validPath(p) {
			return Around{}, false, fmt.Errorf("%w: an invalid path", errLie)
		}
		a.Paths = append(a.Paths, guest.DecodePath(p))
	}
	return a, true, nil
}

// LookAround looks at a workspace's files where its sandbox runs, waits until what differs is on this server, and returns what
// that is. It creates and wakes no sandbox. ok is false where no sandbox can answer.
func (s *Service) LookAround(ctx context.Context, workspaceID string) (a Around, ok bool, err error) {
	here, _, err := s.here(ctx, workspaceID)
	if err != nil {
		return Around{}, false, err
	}
	s.mu.Lock()
	f := s.followers[workspaceID]
	s.mu.Unlock()
	if !here {
		if f == nil || f.over() {
			return Around{}, false, nil
		}
		now, err := s.base(ctx, workspaceID)
		if err != nil {
			return Around{}, false, err
		}
		if a, ok, err := f.names(ctx, now); ok || err != nil {
			return a, ok, lieAsFault(err)
		}
		var h held
		if err := f.lookFor(ctx, now, &h); err != nil {
			return Around{}, false, lieAsFault(err)
		}
		a.Kept = func(ok bool) { f.settled(h, ok) }
		defer func() {
			if !ok {
				f.settled(h, false)
			}
		}()
		if f.mirror != nil {
			if err := f.settle(ctx); err != nil {
				return Around{}, false, err
			}
		}
	}
	set, err := s.Changes(ctx, workspaceID)
	if err != nil || set.Error != "" || !commitID.MatchString(set.BaseCommit) {
		return Around{}, false, err
	}
	for _, c := range set.Items {
		a.Paths = append(a.Paths, rawPaths(c)...)
	}
	a.Base = set.BaseCommit
	return a, true, nil
}
