package artifacts

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
)

// Bounds of collecting.
const (
	maxCollected = 500              // files looked at in one folder
	maxDepth     = 8                // folders in folders
	settle       = 5 * time.Second  // a file written more recently is still being written, until its session ends
	collectFor   = 15 * time.Minute // the longest that collecting one workspace may take
	endFor       = time.Minute      // before a sandbox ends, which waits for it
)

// watched is a workspace whose sandbox is live.
type watched struct {
	place *executors.Place
	open  map[string]bool // its sessions that had not ended when they were last looked at; nil = never looked at
}

// Participant follows the sandboxes: what lies in their folders is collected before they end.
func (s *Service) Participant() executors.Participant {
	return executors.Participant{
		Name: "artifacts",
		Live: func(p *executors.Place) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.live[p.WorkspaceID] = watched{place: p}
		},
		Pausing: s.leaving,
		Ending:  s.leaving,
		Ended: func(r executors.Record) {
			s.mu.Lock()
			delete(s.live, r.WorkspaceID)
			s.mu.Unlock()
			s.collectSoon(r.TeamID, r.WorkspaceID) // what a home on this server still holds
		},
	}
}

func (s *Service) leaving(ctx context.Context, p *executors.Place) {
	ctx, cancel := context.WithTimeout(ctx, endFor)
	defer cancel()
	if err := s.Collect(tenant.In(ctx, p.TeamID), p.TeamID, p.WorkspaceID, true); err != nil {
		s.cfg.Log.WarnContext(ctx, "artifacts of an ending or suspended sandbox could not be collected", "workspace_id", p.WorkspaceID, "error", err)
	}
}

// look has the folders of live sandboxes collected: of those in which a session runs, has ended since the last look, or may have ended
// before the first.
func (s *Service) look(ctx context.Context) {
	s.mu.Lock()
	all := make([]watched, 0, len(s.live))
	for _, w := range s.live {
		all = append(all, w)
	}
	s.mu.Unlock()
	for _, w := range all {
		if w.place.Asleep() || ctx.Err() != nil {
			continue
		}
		rows, err := s.cfg.Sessions.List(tenant.In(ctx, w.place.TeamID), w.place.WorkspaceID)
		if err != nil {
			continue
		}
		open, ended := map[string]bool{}, w.open == nil
		for _, row := range rows {
			if !row.State.Ended() {
				open[row.ID] = true
			}
		}
		for id := range w.open {
			ended = ended || !open[id]
		}
		s.mu.Lock()
		if now, ok := s.live[w.place.WorkspaceID]; ok && now.place == w.place {
			s.live[w.place.WorkspaceID] = watched{w.place, open}
		}
		s.mu.Unlock()
		if ended || len(open) > 0 {
			s.collectLater(w.place.TeamID, w.place.WorkspaceID, ended)
		}
	}
}

// collectSoon has a workspace collected whose sandbox or session has ended.
func (s *Service) collectSoon(teamID, workspaceID string) { s.collectLater(teamID, workspaceID, true) }

func (s *Service) collectLater(teamID, workspaceID string, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.todo[workspaceID] = toCollect{teamID, final || s.todo[workspaceID].final}
	tasks.Wake(s.wake)
}

// toCollect is a workspace that is to be collected.
type toCollect struct {
	teamID string
	final  bool
}

// beginSome starts collecting workspaces that wait for it, as many as may be collected at once.
func (s *Service) beginSome(ctx context.Context, group *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for workspaceID, c := range s.todo {
		if len(s.collecting) >= collectors {
			return // the end of one wakes the loop
		}
		if s.collecting[workspaceID] {
			continue
		}
		delete(s.todo, workspaceID)
		s.collecting[workspaceID] = true
		group.Go(func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.collecting, workspaceID)
				tasks.Wake(s.wake)
			}()
			ctx, cancel := context.WithTimeout(tenant.In(ctx, c.teamID), collectFor)
			defer cancel()
			if err := s.Collect(ctx, c.teamID, workspaceID, c.final); err != nil && ctx.Err() == nil {
				s.cfg.Log.InfoContext(ctx, "artifacts could not be collected; the server tries again", "workspace_id", workspaceID, "error", err)
			}
		})
	}
}

// Collect saves what is new in the artifacts folders of a workspace. final includes files that were written a moment ago.
func (s *Service) Collect(ctx context.Context, teamID, workspaceID string, final bool) error {
	folders, _, done, err := s.cfg.Folders.Of(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer done()
	var known map[string]Source
	var rows []sessions.Session
	var failed error
	for _, f := range folders {
		found, err := walk(ctx, f)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if len(found) > 0 && known == nil {
			if known, err = s.cfg.Store.ArtifactSources(ctx, workspaceID); err != nil {
				return err
			}
			if rows, err = s.cfg.Sessions.List(ctx, workspaceID); err != nil {
				return err
			}
		}
		for _, file := range found {
			key, at := f.key(file.in), file.ModTime.UnixMilli()
			if k, ok := known[key]; ok && k.Size == file.Size && k.Mtime == at || !final && s.now()-at < settle.Milliseconds() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			failed = errors.Join(failed, s.collectFile(ctx, teamID, workspaceID, f, file, rows))
		}
	}
	return failed
}

// collectFile saves one file. What can never be saved is noted, and not tried again until the file changes.
func (s *Service) collectFile(ctx context.Context, teamID, workspaceID string, f Folder, file found, rows []sessions.Session) error {
	m := Maker{TeamID: teamID, WorkspaceID: workspaceID, UserID: f.UserID}
	if row, ok := writer(rows, f.UserID, file.ModTime.UnixMilli()); ok {
		m.SessionID, m.UserID = row.ID, row.CreatedBy
	}
	_, err := s.saveFile(ctx, m, SaveRequest{}, f, file.in)
	switch fault.KindOf(err) {
	case fault.Invalid, fault.TooLarge, fault.Forbidden:
		s.cfg.Log.InfoContext(ctx, "a file in an artifacts folder was not collected", "workspace_id", workspaceID, "code", fault.CodeOf(err))
		return s.cfg.Store.NoteArtifactSource(ctx, teamID, workspaceID, Source{Path: f.key(file.in), Size: file.Size, Mtime: file.ModTime.UnixMilli()})
	case fault.NotFound: // it went away
		return nil
	}
	return err
}

// writer guesses which session wrote a file: the last one that had started by then.
func writer(rows []sessions.Session, userID string, at int64) (sessions.Session, bool) {
	var first sessions.Session
	ok := false
	for _, row := range rows { // newest first
		if userID != "" && row.CreatedBy != userID {
			continue
		}
		if first, ok = row, true; row.StartedAt <= at {
			return row, true
		}
	}
	return first, ok
}

// found is a file in an artifacts folder.
type found struct {
	homedir.Info
	in string // its path in the folder
}

// walk lists the regular files of a folder. It follows no link.
func walk(ctx context.Context, f Folder) ([]found, error) {
	var out []found
	var list func(dir string, depth int) error
	list = func(dir string, depth int) error {
		entries, err := f.Files.List(path.Join(f.Name, dir))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, homedir.ErrNotPlain) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch in := path.Join(dir, e.Name); {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case len(out) >= maxCollected:
				return nil
			case e.Regular():
				out = append(out, found{e, in})
			case e.IsDir() && depth < maxDepth:
				if err := list(in, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	top, err := f.Files.Stat(f.Name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !top.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out, list("", 0)
}
