package masks

import (
	"context"
	"slices"
	"sync"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/redact"
)

// Row is what the package needs of a session. It never changes.
type Row struct {
	ID, TeamID, WorkspaceID, SandboxID string
	Agent                              string
	CreatedBy                          string
}

// Host is the session that is masked.
type Host interface {
	Ended() bool
	// Inside reports whether its agent uses the sandbox's own home.
	Inside() bool
	// MaskOutput masks further values in its output from now on.
	MaskOutput(values []string)
	// Notify shows the session's viewers a notice, "" clears it.
	Notify(notice string)
}

// Given is what a session was given. It does not change once the session is in memory.
type Given struct {
	Uses  []secrets.Use // which secrets
	Files []Placed      // files of secrets written for it
	Own   bool          // it was given secrets of the person who started it
}

// Session tracks what one session was given and masks. Safe for concurrent use.
type Session struct {
	masks  *Masks
	host   Host
	row    Row
	given  Given
	hiding *hiding
	keptMu sync.Mutex // serializes writes of the launch file
}

// Session returns the part of a session that masks these values.
func (m *Masks) Session(row Row, host Host, hidden []string) *Session {
	return &Session{masks: m, row: row, host: host, hiding: newHiding(hidden)}
}

// Give records what the session was given. Call it before Join.
func (s *Session) Give(g Given) { s.given = g }

// Join makes the session mask values that reach its workspace, until Leave.
func (s *Session) Join() {
	s.masks.mu.Lock()
	defer s.masks.mu.Unlock()
	s.masks.all[s] = struct{}{}
}

// Leave undoes Join.
func (s *Session) Leave() {
	s.masks.mu.Lock()
	defer s.masks.mu.Unlock()
	delete(s.masks.all, s)
}

// Text returns text with secrets masked, without changing its length.
func (s *Session) Text(text string) string { return s.hiding.text(text) }

// Stream returns what masks the secrets that the session has by now in a text that comes in pieces.
func (s *Session) Stream() *redact.Masker {
	s.hiding.mu.Lock()
	defer s.hiding.mu.Unlock()
	return s.hiding.masker.Again()
}

// hiding masks texts that are not part of the terminal's stream. Safe for concurrent use.
type hiding struct {
	mu     sync.Mutex
	masker *redact.Masker
	values []string
}

func newHiding(values []string) *hiding {
	return &hiding{masker: redact.New(values...), values: slices.Clone(values)}
}

func (h *hiding) add(values []string) (fresh []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range values {
		if !slices.Contains(h.values, v) {
			fresh = append(fresh, v)
		}
	}
	h.masker.Add(fresh...)
	h.values = append(h.values, fresh...)
	return fresh
}

func (h *hiding) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.values)
}

// text returns s with secrets masked.
func (h *hiding) text(s string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.masker.Text(s)
}

// hide masks further values in the session's output from now on, and remembers them across a restart.
func (s *Session) hide(values []string) {
	if s.host.Ended() {
		return
	}
	fresh := s.hiding.add(values)
	if len(fresh) == 0 {
		return
	}
	s.host.MaskOutput(fresh)
	s.keptMu.Lock()
	defer s.keptMu.Unlock()
	if s.host.Ended() {
		return
	}
	kept, err := s.masks.cfg.Launches.Recall(s.row.ID)
	if err == nil {
		kept.Secrets = append(kept.Secrets, fresh...)
		err = s.masks.cfg.Launches.Keep(s.row.ID, kept)
	}
	if err != nil {
		s.masks.cfg.Log.Warn("new secrets of a running session could not be stored", "session_id", s.row.ID, "error", err)
	}
}

// Forget drops the secrets of the session, for which nothing is masked any more.
func (s *Session) Forget() {
	s.keptMu.Lock()
	defer s.keptMu.Unlock()
	if err := s.masks.cfg.Launches.Forget(s.row.ID); err != nil {
		s.masks.cfg.Log.Warn("secrets of an ended session could not be dropped", "session_id", s.row.ID, "error", err)
	}
}

// placement is where the files of the session were written, as far as that can be reached now.
func (s *Session) placement() (Placement, bool) {
	inside := s.host.Inside()
	p, ok := s.masks.cfg.Live(s.row.WorkspaceID)
	if !ok || p.SandboxID != s.row.SandboxID {
		p, ok = &executors.Place{}, false
		p.WorkspaceID, p.SandboxID = s.row.WorkspaceID, s.row.SandboxID
	}
	return s.masks.Placement(p, inside, s.row.CreatedBy), ok
}

// ClearFiles removes the files written for a session that has ended.
func (s *Session) ClearFiles() {
	if len(s.given.Files) == 0 {
		return
	}
	p, live := s.placement()
	s.masks.cfg.Tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.masks.cfg.Context, clearTime)
		defer cancel()
		if live {
			s.masks.clear(ctx, p, s.given.Files)
			return
		}
		own := func(f Placed) bool { return f.Home && !p.inside } // below the home of the user
		s.masks.clear(ctx, p, slices.DeleteFunc(slices.Clone(s.given.Files), func(f Placed) bool { return !own(f) }))
		s.masks.clearHere(ctx, p, s.masks.count(p, slices.DeleteFunc(slices.Clone(s.given.Files), own), -1))
	})
}
