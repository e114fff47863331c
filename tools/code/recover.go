package code

import (
	"context"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// recoverPatience is how long a sandbox may take to be reached after a start.
const recoverPatience = 10 * time.Minute

// Recover takes up the runs that an earlier server left: their kernels go on, and the guest has kept what they said.
func (s *Service) Recover(ctx context.Context) error {
	open, err := s.cfg.Store.RunningRuns(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for _, stored := range open {
		r := &run{Run: stored, done: make(chan struct{})}
		r.Outputs, r.Error = nil, nil // they are read again
		s.runs[r.ID], s.waiting[r.WorkspaceID] = r, s.waiting[r.WorkspaceID]+1
		s.lost[r.ProcessID] = append(s.lost[r.ProcessID], r)
	}
	var first []*run
	for _, runs := range s.lost {
		first = append(first, runs[0])
	}
	s.mu.Unlock()
	for _, r := range first {
		s.work.Go(func() { s.resume(r) })
	}
	return nil
}

// resume finds the kernel of the runs that belong to a process, unless a new run has done so already.
func (s *Service) resume(first *run) {
	ctx, cancel := context.WithTimeout(s.life, recoverPatience)
	defer cancel()
	for attempt := 0; ; attempt++ {
		place, ok := s.cfg.Sandboxes.Live(first.WorkspaceID)
		if ok && place.SandboxID != first.SandboxID {
			s.giveUp(first.ProcessID, Died, "the sandbox ended while the server was away")
			return
		}
		if ok {
			done, err := s.reattach(ctx, place, first)
			if done {
				return
			}
			if err != nil {
				s.cfg.Log.Debug("a kernel could not be found again yet", "process_id", first.ProcessID, "error", err)
			}
		}
		if !pause(ctx, min(attempt+2, 5)) {
			if s.life.Err() == nil {
				s.giveUp(first.ProcessID, Lost, "the sandbox could not be reached after the server's restart")
			}
			return
		}
	}
}

// reattach reads a kernel from the beginning of what its guest has kept. done means that its runs are taken care of.
func (s *Service) reattach(ctx context.Context, place *executors.Place, first *run) (done bool, err error) {
	key := kernelKey{first.WorkspaceID, string(first.Language.kernel()), first.Kernel}
	unlock, err := s.attaching.LockContext(ctx, key.String())
	if err != nil {
		return false, err
	}
	defer unlock()
	s.mu.Lock()
	_, waiting := s.lost[first.ProcessID]
	other := s.kernels[key]
	s.mu.Unlock()
	if !waiting {
		return true, nil
	}
	_, err = place.Guest.Process(ctx, first.ProcessID)
	if fault.Is(err, fault.NotFound) || other != nil { // another kernel has its name: this one has ended
		s.giveUp(first.ProcessID, Died, "the kernel ended while the server was away")
		return true, nil
	}
	if err != nil {
		return false, err
	}
	_, err = s.attach(ctx, key, place, first.ProcessID, first.UserID, false)
	return err == nil, err
}

// giveUp ends the runs of a process that no kernel has.
func (s *Service) giveUp(processID string, state State, why string) {
	s.mu.Lock()
	runs := s.lost[processID]
	delete(s.lost, processID)
	s.mu.Unlock()
	for _, r := range runs {
		_ = s.finish(r, func(r *Run) { r.State, r.Cause = state, why })
	}
}
