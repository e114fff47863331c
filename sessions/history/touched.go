package history

import (
	"cmp"
	"slices"
	"sync"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/journal"
)

const (
	touchedEvery = 1000 // ms of changed files that one entry covers
	touchedNamed = 8    // files one entry names
	touchedName  = 300  // characters of a name
)

// touched gathers the files that change while a session runs, so that an agent which writes file after file causes one entry a
// second.
type touched struct {
	mu    sync.Mutex
	t     journal.Touched
	since int64 // 0: nothing waits
}

// NoteFiles records that files have just changed: paths, and how many more. It never blocks.
func (r *Recording) NoteFiles(paths []string, more int) {
	r.touched.add(r.all.now(), paths, more)
	r.all.noting.add(r)
}

func (t *touched) add(now int64, paths []string, more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = cmp.Or(t.since, now)
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

// notify writes what was gathered long enough, and reports whether some still waits.
func (t *touched) notify(r *Recording, all bool) (more bool) {
	t.mu.Lock()
	if t.since == 0 || !all && r.all.now()-t.since < touchedEvery {
		more = t.since != 0
		t.mu.Unlock()
		return more
	}
	data := t.t
	t.t, t.since = journal.Touched{}, 0
	t.mu.Unlock()
	r.Note(journal.Files, data)
	return false
}
