package files

import (
	"maps"
	"slices"
	"sync"
)

// How much is remembered; what was used longest ago is forgotten first.
const (
	seenCallers = 2000
	seenFiles   = 500 // of each caller
)

// seen is which files callers have read. The zero value is empty. Safe for concurrent use.
type seen struct {
	mu      sync.Mutex
	clock   uint64
	callers map[string]*reader
}

type reader struct {
	used  uint64
	files map[string]sight
}

// sight is a file as a caller knows it.
type sight struct {
	hash   string // of its content
	masked bool   // values of secrets were masked in what the caller read
	used   uint64
}

func (s *seen) get(caller, path string) (sight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.callers[caller]
	if r == nil {
		return sight{}, false
	}
	f, ok := r.files[path]
	return f, ok
}

func (s *seen) put(caller, path string, f sight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	if s.callers == nil {
		s.callers = map[string]*reader{}
	}
	r := s.callers[caller]
	if r == nil {
		if len(s.callers) >= seenCallers {
			delete(s.callers, oldest(s.callers, func(r *reader) uint64 { return r.used }))
		}
		r = &reader{files: map[string]sight{}}
		s.callers[caller] = r
	}
	if _, known := r.files[path]; !known && len(r.files) >= seenFiles {
		delete(r.files, oldest(r.files, func(f sight) uint64 { return f.used }))
	}
	r.used, f.used = s.clock, s.clock
	r.files[path] = f
}

func (s *seen) forget(caller, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.callers[caller]; r != nil {
		delete(r.files, path)
	}
}

func oldest[V any](of map[string]V, used func(V) uint64) string {
	return slices.MinFunc(slices.Collect(maps.Keys(of)), func(a, b string) int { return int(int64(used(of[a]) - used(of[b]))) })
}
