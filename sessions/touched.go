package sessions

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/state"
)

const (
	touchedEvery = 1000 // ms of changed files that one entry tells of
	touchedNamed = 8    // files one entry names
	touchedName  = 300  // characters of a name
)

// touched gathers the files that change while a session runs, so that an agent which writes file after file makes an entry a second.
type touched struct {
	mu    sync.Mutex
	t     journal.Touched
	since int64 // 0: nothing waits
}

// FilesChanged notes in the journals of a workspace's running sessions that files have changed just now: paths, and so many
// more. It never blocks.
func (s *Service) FilesChanged(workspaceID string, paths []string, more int) {
	s.mu.Lock()
	var lives []*live
	for _, l := range s.lives {
		lives = append(lives, l)
	}
	s.mu.Unlock()
	for _, l := range lives {
		l.mu.Lock()
		here := l.row.WorkspaceID == workspaceID && !l.row.State.Ended()
		l.mu.Unlock()
		if here {
			l.touched.add(s.now(), paths, more)
			s.noting.add(l)
		}
	}
}

// Working reports whether an agent works in a workspace now.
func (s *Service) Working(_ context.Context, workspaceID string) (bool, error) {
	s.mu.Lock()
	lives := slices.Collect(maps.Values(s.lives))
	s.mu.Unlock()
	for _, l := range lives {
		l.mu.Lock()
		works := l.row.WorkspaceID == workspaceID && l.row.State == state.Working && l.explicit
		l.mu.Unlock()
		if works {
			return true, nil
		}
	}
	return false, nil
}

func (t *touched) add(now int64, paths []string, more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == 0 {
		t.since = now
	}
	t.t.More += more
	for _, p := range paths {
		p = safetext.Cut(p, touchedName)
		switch {
		case slices.Contains(t.t.Paths, p):
		case len(t.t.Paths) < touchedNamed:
			t.t.Paths = append(t.t.Paths, p)
		default:
			t.t.More++
		}
	}
}

// tell notes what was gathered long enough, and reports whether some is not yet.
func (t *touched) tell(l *live, all bool) (more bool) {
	t.mu.Lock()
	if t.since == 0 || !all && l.svc.now()-t.since < touchedEvery {
		more = t.since != 0
		t.mu.Unlock()
		return more
	}
	data := t.t
	t.t, t.since = journal.Touched{}, 0
	t.mu.Unlock()
	l.note(journal.Files, data)
	return false
}
