package command

import (
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/redact"
)

// Secrets is what a command is given that nobody may see in what it prints.
type Secrets struct {
	Env   map[string]string
	Masks []string
	Own   bool // some are its starter's own
}

// redactorHold is how long what may be the beginning of a secret waits for its rest.
const redactorHold = 50 * time.Millisecond

// sieve masks one output of a command on its way to whoever reads it: what passes has the length and the offsets of what came. Safe for
// concurrent use.
type redactor struct {
	pass func(off int64, p []byte)

	mu   sync.Mutex
	m    redact.Masker
	next int64 // offset of the byte that comes next
	hold *time.Timer
}

// add masks more secrets from here on.
func (s *redactor) add(masks []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.Add(masks...)
}

// offset is where the output is to be read on.
func (s *redactor) offset() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// take takes the bytes at off, which it may change. Bytes that came before are left out.
func (s *redactor) take(off int64, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if off < s.next {
		seen := min(s.next-off, int64(len(p)))
		p, off = p[seen:], off+seen
	}
	if len(p) == 0 {
		return
	}
	if off > s.next { // bytes in between are missing: what was held back has no rest
		s.flush()
		s.next = off
	}
	from := s.next - int64(s.m.Held())
	s.next += int64(len(p))
	if out := s.m.Write(p); len(out) > 0 {
		s.pass(from, out)
	}
	switch {
	case s.m.Held() == 0:
	case s.hold == nil:
		s.hold = time.AfterFunc(redactorHold, s.letGo)
	default:
		s.hold.Reset(redactorHold)
	}
}

func (s *redactor) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
}

// end lets go of what is held back, and of the timer.
func (s *redactor) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != nil {
		s.hold.Stop()
	}
	s.flush()
}

// flush is called under mu.
func (s *redactor) flush() {
	if out := s.m.Flush(); len(out) > 0 {
		s.pass(s.next-int64(len(out)), out)
	}
}

// mask masks more secrets in what the command prints from now on.
func (r *running) mask(masks []string) {
	r.outRedactor.add(masks)
	r.errRedactor.add(masks)
}

// Mask lets the commands that run and fit mask more secrets in what they print from now on.
func (c *Commands) Mask(fits func(Command) bool, masks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.live {
		r.mu.Lock()
		is := fits(r.cmd)
		r.mu.Unlock()
		if is {
			r.mask(masks)
		}
	}
}

// OwnSecretsHere returns whose own secrets commands that run in a workspace were given: everybody who works there could read them.
func (c *Commands) OwnSecretsHere(workspaceID string) (userIDs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.live {
		r.mu.Lock()
		if r.cmd.OwnSecrets && r.cmd.WorkspaceID == workspaceID && !r.cmd.State.Ended() {
			userIDs = append(userIDs, r.cmd.ActorID)
		}
		r.mu.Unlock()
	}
	slices.Sort(userIDs)
	return slices.Compact(userIDs)
}
