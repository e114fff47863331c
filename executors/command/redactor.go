package command

import (
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/redact"
)

// Secrets are values a command receives that nobody may see in its output.
type Secrets struct {
	Env   map[string]string
	Masks []string
	Own   bool // some belong to its starter
}

// redactorHold is how long the possible beginning of a secret is held back for its rest.
const redactorHold = 50 * time.Millisecond

// redactor masks secrets in one output of a command before readers get it: the output keeps its length and offsets. Safe for concurrent use.
type redactor struct {
	pass func(off int64, p []byte)

	mu   sync.Mutex
	m    redact.Masker
	next int64 // offset of the next byte
	hold *time.Timer
}

// add masks more secrets from here on.
func (s *redactor) add(masks []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.Add(masks...)
}

// offset returns the offset from which the output is read next.
func (s *redactor) offset() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// take processes the bytes at off, which it may modify. It skips bytes it has seen before.
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
	if off > s.next { // bytes in between are missing: what was held back will not be completed
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

// end releases what is held back, and the timer.
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

// Mask makes the running commands that satisfy fit mask more secrets in their output from now on.
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

// OwnSecretsHere returns whose personal secrets the running commands of a workspace received: everybody who works there could read them.
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
