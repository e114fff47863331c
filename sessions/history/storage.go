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

// capEvery is how often the caps of the history are looked after; also after a session was packed.
const capEvery = time.Hour

// Kept is a session as far as its history's size goes.
type Kept struct {
	SessionID, TeamID, WorkspaceID, Agent string
	StartedAt, EndedAt                    int64 // EndedAt 0: it runs
	Printed                               int64 // bytes it printed
	Disk                                  int64 // bytes its history takes on disk; not stored
}

// Limits are the caps of the history; 0 = none.
type Limits struct {
	Session, Team int64 // bytes on disk
	Keep          time.Duration
}

// Storage is what a team's history takes on disk.
type Storage struct {
	Limits
	Sessions []Kept // the newest first
}

// Storage returns what the history of a team's sessions takes on disk, of one workspace when workspaceID is not "".
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

// historyFiles returns what lies in a session's folder and holds its history, in the order of offsets, the journal last.
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
		if err != nil || !info.Mode().IsRegular() { // packed or dropped just now
			continue
		}
		switch ext := filepath.Ext(e.Name()); {
		case ext == ".seg", ext == ".segz", ext == find.Suffix, e.Name() == journalName, e.Name() == screenFile:
			out = append(out, historyFile{e.Name(), info.Size()})
		}
	}
	return out, nil // names begin with offsets in digits, which sort before the journal's
}

// capLoop keeps the history within its caps.
func (s *Recordings) capLoop(ctx context.Context) {
	if s.cfg.Limits.Team <= 0 && s.cfg.Limits.Keep <= 0 && s.cfg.TeamHistory == nil {
		return
	}
	tick := time.NewTicker(capEvery)
	defer tick.Stop()
	for {
		if err := s.enforce(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("caps of the history not kept", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.packed:
		}
	}
}

// enforce drops the history of sessions that ended too long ago, then, of teams that have more than they may, that of the
// sessions that ended first. What runs is never touched: its own cap bounds it.
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
			s.cfg.Log.Info("history of a session dropped: its team has more than it may", "session_id", k.SessionID, "team_id", k.TeamID, "bytes", n)
		}
	}
	return nil
}

// dropHistory removes whole files from the beginning of an ended session's history until at least so many bytes are free. It
// leaves alone what somebody looks at now.
func (s *Recordings) dropHistory(k Kept, files []historyFile, bytes int64) (freed int64) {
	s.cfg.Sessions.WhileUnused(k.SessionID, func() { freed = s.dropUnused(k, files, bytes) })
	return freed
}

func (s *Recordings) dropUnused(k Kept, files []historyFile, bytes int64) (freed int64) {
	left := slices.DeleteFunc(slices.Clone(files), func(f historyFile) bool { return !f.segment() || f.size == 0 })
	drop := func(f historyFile) bool {
		if err := os.Remove(filepath.Join(s.dir(k.SessionID), f.name)); err != nil {
			s.cfg.Log.Warn("history of a session not dropped", "session_id", k.SessionID, "error", err)
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
		return freed // a search file that tells of dropped bytes alone goes with the next packing, and harms nobody
	}
	for _, f := range files {
		if !f.segment() && !drop(f) {
			return freed
		}
	}
	// An empty segment keeps the log's end: offsets hold.
	if err := os.WriteFile(bytelog.EmptySegment(s.dir(k.SessionID), k.Printed), nil, 0o600); err != nil {
		s.cfg.Log.Warn("end of a dropped history not marked", "session_id", k.SessionID, "error", err)
	}
	return freed
}

func (f historyFile) segment() bool { return strings.HasPrefix(filepath.Ext(f.name), ".seg") }
