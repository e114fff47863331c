package code

import (
	"context"
	"time"

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
	of := map[string][]*run{} // by process
	for _, stored := range open {
		r := &run{Run: stored, done: make(chan struct{})}
		r.Outputs, r.Error = nil, nil // they are read again
		s.mu.Lock()
		s.runs[r.ID], s.waiting[r.WorkspaceID] = r, s.waiting[r.WorkspaceID]+1
		s.mu.Unlock()
		of[r.WorkspaceID+"/"+r.ProcessID] = append(of[r.WorkspaceID+"/"+r.ProcessID], r)
	}
	for _, runs := range of {
		s.work.Go(func() { s.resume(runs) })
	}
	return nil
}

// resume finds the kernel of some runs again.
func (s *Service) resume(runs []*run) {
	ctx, cancel := context.WithTimeout(s.life, recoverPatience)
	defer cancel()
	first := runs[0]
	ended := func(state State, why string) {
		for _, r := range runs {
			s.finish(r, func(r *Run) { r.State, r.Cause = state, why })
		}
	}
	for attempt := 0; ; attempt++ {
		place, ok := s.cfg.Sandboxes.Live(first.WorkspaceID)
		if ok && place.SandboxID != first.SandboxID {
			ended(Died, "the sandbox ended while the server was away")
			return
		}
		if ok {
			_, err := place.Guest.Process(ctx, first.ProcessID)
			if fault.Is(err, fault.NotFound) {
				ended(Died, "the kernel ended while the server was away")
				return
			}
			if err == nil {
				for _, r := range runs {
					r.release = place.Use()
				}
				k, err := s.attach(ctx, kernelKey{first.WorkspaceID, string(first.Language.kernel()), first.Kernel}, place, first.ProcessID, first.UserID, false, runs...)
				switch {
				case err == nil && k.processID != first.ProcessID:
					ended(Died, "the kernel ended while the server was away")
					return
				case err == nil:
					return
				}
				for _, r := range runs {
					r.release()
					r.release = nil
				}
			}
		}
		if !pause(ctx, min(attempt+2, 5)) {
			if s.life.Err() == nil {
				ended(Lost, "the sandbox could not be reached after the server's restart")
			}
			return
		}
	}
}
