package jobs

import (
	"cmp"
	"context"
	"slices"
)

// followed is a job for which something is to be done.
type followed struct {
	team, user, session string
	step                Step
	created, retryAt    int64
	admitted            bool // it is its turn, and its row does not say so yet
}

func (f *followed) note(j Job) {
	f.team, f.user, f.session, f.step, f.created, f.retryAt = j.TeamID, j.CreatedBy, j.SessionID, j.Step, j.CreatedAt, j.RetryAt
	f.admitted = f.admitted && f.step == Waiting
}

// waits reports whether it is not the job's turn.
func (f *followed) waits() bool { return f.step == Waiting && !f.admitted }

// Waiting for a place, in milliseconds: the first time, and at most.
const (
	firstWait = 5_000
	mostWait  = 60_000
)

// backoff is how long a job waits that was refused a place so often in a row.
func backoff(refusals int64) int64 { return min(int64(firstWait)<<min(refusals-1, 8), mostWait) }

// lookAtAll looks at every job that does not wait, and at those whose turn it is.
func (s *Service) lookAtAll() {
	s.mu.Lock()
	s.admit()
	var ids []string
	for id, f := range s.followed {
		if !f.waits() {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.look(id)
	}
}

// lookAtSession looks at the jobs whose session changed.
func (s *Service) lookAtSession(sessionID string) {
	var ids []string
	s.mu.Lock()
	for id, f := range s.followed {
		if f.session == sessionID && !f.waits() {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.look(id)
	}
}

// admit gives waiting jobs their turn: in each team that has room, of the member of whom the fewest jobs run, the oldest one. Where the team
// or the member had no place for a job lately, one job tries whether there is one now, and the others wait for how that ends. The caller
// holds the mutex.
func (s *Service) admit() {
	now := s.now()
	running, byUser := map[string]int{}, map[string]int{}
	var waiting []string
	for id, f := range s.followed {
		switch {
		case f.step == Ending || f.step == Cleaning || f.step == Removing:
		case f.waits():
			if f.retryAt <= now {
				waiting = append(waiting, id)
			}
		default:
			running[f.team]++
			byUser[f.team+"/"+f.user]++
		}
	}
	slices.SortFunc(waiting, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.followed[a].created, s.followed[b].created), cmp.Compare(a, b))
	})
	for len(waiting) > 0 {
		best := 0
		for i, id := range waiting {
			if byUser[s.followed[id].team+"/"+s.followed[id].user] < byUser[s.followed[waiting[best]].team+"/"+s.followed[waiting[best]].user] {
				best = i
			}
		}
		f := s.followed[waiting[best]]
		waiting = slices.Delete(waiting, best, best+1)
		places := [...]string{f.team, f.team + "/" + f.user}
		if running[f.team] >= s.cfg.AtOnce || s.full[places[0]] > now || s.full[places[1]] > now {
			continue
		}
		for _, of := range places {
			if _, full := s.full[of]; full {
				s.full[of] = now + mostWait // unless this one gets a place
			}
		}
		f.admitted = true
		running[f.team]++
		byUser[f.team+"/"+f.user]++
	}
}

// turnOf reports whether it is a job's turn.
func (s *Service) turnOf(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followed[id]
	return f != nil && f.admitted
}

// refused notes that there was no place for a job.
func (s *Service) refused(j Job, ofUser bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := j.TeamID
	if ofUser {
		of += "/" + j.CreatedBy
		delete(s.full, j.TeamID)
	}
	s.full[of] = j.RetryAt
}

// placed notes that there may be a place: a job got one, has left its own or needs none.
func (s *Service) placed(j Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.full, j.TeamID)
	delete(s.full, j.TeamID+"/"+j.CreatedBy)
}

// follow begins to follow a job.
func (s *Service) follow(j Job) {
	s.mu.Lock()
	if s.followed[j.ID] == nil {
		s.followed[j.ID] = &followed{}
		s.followed[j.ID].note(j)
	}
	s.mu.Unlock()
	s.lookAtAll()
}

// look has a job looked at soon.
func (s *Service) look(id string) { s.looks.At(id) }

// seeTo takes a job that is followed one step further. It is followed no more once nothing is left to be done.
func (s *Service) seeTo(ctx context.Context, id string) {
	s.mu.Lock()
	f := s.followed[id]
	s.mu.Unlock()
	if f == nil || s.step(ctx, id) {
		return
	}
	s.mu.Lock()
	if s.followed[id] == f {
		delete(s.followed, id)
	}
	s.mu.Unlock()
}
