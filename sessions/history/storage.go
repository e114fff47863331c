package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/sessions/find"
)

// capEvery is how often the caps of the history are enforced; they also are after a session was packed.
const capEvery = time.Hour

// Kept is the stored history of a session and its size.
type Kept struct {
	SessionID, TeamID, WorkspaceID, Agent string
	StartedAt, EndedAt                    int64 // EndedAt 0: it is running
	Printed                               int64 // bytes it printed
	Disk                                  int64 // disk usage of its history; not stored
}

// Limits are the caps of the history; 0 = none.
type Limits struct {
	Session, Team int64 // bytes on disk
	Keep          time.Duration
}

// Storage is the disk usage of a team's history.
type Storage struct {
	Limits
	Sessions []Kept // the newest first
}

// Storage returns the disk usage of the history of a team's sessions, of one workspace when workspaceID is not "".
func (s *Recordings) Storage(ctx context.Context, teamID, workspaceID string) (Storage, error) {
	all, err := s.cfg.Sessions.Kept(ctx, teamID)
	if err != nil {
		return Storage{}, err
	}
	out := Storage{Limits: s.cfg.Limits}
	for _, k := range all {
		if err := ctx.Err(); err != nil {
			return Storage{}, err
		}
		if workspaceID != "" && k.WorkspaceID != workspaceID {
			continue
		}
		files, err := s.historyFiles(k.SessionID)
		if err != nil {
			return Storage{}, err
		}
		for _, f := range files {
			k.Disk += f.size
		}
		if r := s.cfg.Sessions.InMemory(k.SessionID); r != nil && k.EndedAt == 0 {
			_, k.Printed = r.log.Bounds()
		}
		out.Sessions = append(out.Sessions, k)
	}
	slices.SortStableFunc(out.Sessions, func(a, b Kept) int { return cmp.Compare(b.StartedAt, a.StartedAt) })
	return out, nil
}

// historyFile is a file of a session's history.
type historyFile struct {
	name string
	size int64
}

// historyFiles returns the files of a session's folder that hold its history, ordered by offset, the journal last.
func (s *Recordings) historyFiles(id string) ([]historyFile, error) {
	entries, err := os.ReadDir(s.dir(id))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the history of session %s: %w", id, err)
	}
	var out []historyFile
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() { // it was just packed or dropped
			continue
		}
		switch ext := filepath.Ext(e.Name()); {
		case ext == ".seg", ext == ".segz", ext == find.Suffix, e.Name() == journalName, e.Name() == screenFile:
			out = append(out, historyFile{e.Name(), info.Size()})
		}
	}
	return out, nil // names begin with offsets in digits, which sort before the journal's
}

// capLoop enforces the caps of the history.
func (s *Recordings) capLoop(ctx context.Context) {
	if s.cfg.Limits.Team <= 0 && s.cfg.Limits.Keep <= 0 && s.cfg.TeamHistory == nil {
		return
	}
	tick := time.NewTicker(capEvery)
	defer tick.Stop()
	for {
		if err := s.enforce(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("caps of the history could not be enforced", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.packed:
		}
	}
}

// enforce drops the history of sessions that ended too long ago, then, of teams over their cap, that of the sessions that ended
// first. It never touches running sessions: their own cap bounds them.
func (s *Recordings) enforce(ctx context.Context) error {
	all, err := s.cfg.Sessions.Kept(ctx, "")
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	used := map[string]int64{}
	var ended []Kept
	for _, k := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		files, err := s.historyFiles(k.SessionID)
		if err != nil {
			return err
		}
		for _, f := range files {
			k.Disk += f.size
		}
		if k.Disk == 0 {
			continue
		}
		if keep := s.cfg.Limits.Keep; keep > 0 && k.EndedAt != 0 && now.Sub(time.UnixMilli(k.EndedAt)) > keep {
			if n := s.dropHistory(k, files, k.Disk); n > 0 {
				s.cfg.Log.Info("history of a session dropped: it ended too long ago", "session_id", k.SessionID, "team_id", k.TeamID, "bytes", n)
				k.Disk -= n
			}
		}
		used[k.TeamID] += k.Disk
		if k.EndedAt != 0 && k.Disk > 0 {
			ended = append(ended, k)
		}
	}
	most := s.cfg.Limits.Team
	if s.cfg.TeamHistory != nil {
		if most, err = s.cfg.TeamHistory(ctx); err != nil {
			return err
		}
	}
	if most <= 0 {
		return nil
	}
	slices.SortFunc(ended, func(a, b Kept) int { return cmp.Compare(a.EndedAt, b.EndedAt) })
	for _, k := range ended {
		over := used[k.TeamID] - most
		if over <= 0 {
			continue
		}
		files, err := s.historyFiles(k.SessionID)
		if err != nil {
			return err
		}
		if n := s.dropHistory(k, files, over); n > 0 {
			used[k.TeamID] -= n
			s.cfg.Log.Info("history of a session dropped: its team exceeds its cap", "session_id", k.SessionID, "team_id", k.TeamID, "bytes", n)
		}
	}
	return nil
}

// dropHistory removes whole files from the beginning of an ended session's history until at least bytes are free. It skips a
// session that is open.
func (s *Recordings) dropHistory(k Kept, files []historyFile, bytes int64) (freed int64) {
	s.cfg.Sessions.WhileUnused(k.SessionID, func() { freed = s.dropUnused(k, files, bytes) })
	return freed
}

func (s *Recordings) dropUnused(k Kept, files []historyFile, bytes int64) (freed int64) {
	left := slices.DeleteFunc(slices.Clone(files), func(f historyFile) bool { return !f.segment() || f.size == 0 })
	drop := func(f historyFile) bool {
		if err := os.Remove(filepath.Join(s.dir(k.SessionID), f.name)); err != nil {
			s.cfg.Log.Warn("history of a session could not be dropped", "session_id", k.SessionID, "error", err)
			return false
		}
		freed += f.size
		return true
	}
	for len(left) > 0 && freed < bytes {
		if !drop(left[0]) {
			return freed
		}
		left = left[1:]
	}
	if len(left) > 0 {
		return freed // a search file that covers only dropped bytes does no harm and goes with the next packing
	}
	for _, f := range files {
		if !f.segment() && !drop(f) {
			return freed
		}
	}
	// An empty segment preserves the log's end, so that offsets stay valid.
	if err := os.WriteFile(bytelog.EmptySegment(s.dir(k.SessionID), k.Printed), nil, 0o600); err != nil {
		s.cfg.Log.Warn("end of a dropped history could not be marked", "session_id", k.SessionID, "error", err)
	}
	return freed
}

func (f historyFile) segment() bool { return strings.HasPrefix(filepath.Ext(f.name), ".seg") }
