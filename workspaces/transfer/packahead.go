package transfer

import (
	"context"
	"sync"
)

// packs are bundles that are made while their sandboxes are being created, which takes long enough to pack.
type packs struct {
	mu     sync.Mutex
	by     map[string]*pack // by sandbox id
	closed bool
	work   sync.WaitGroup
}

type pack struct {
	done   chan struct{}
	cancel context.CancelFunc
}

func newPacks() *packs { return &packs{by: make(map[string]*pack)} }

// PackAhead starts to pack what a sandbox will be sent, while it is being created. Arrive uses the result, or packs itself.
func (s *Service) PackAhead(ctx context.Context, workspaceID, sandboxID string) {
	k := s.packs
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.by[sandboxID] != nil {
		return
	}
	// It outlives the request for the sandbox, like the creation, and ends with the sandbox or the service.
	life, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StepTimeout)
	p := &pack{done: make(chan struct{}), cancel: cancel}
	k.by[sandboxID] = p
	k.work.Go(func() {
		defer close(p.done)
		defer cancel()
		if err := s.packFor(life, workspaceID, sandboxID); err != nil {
			s.cfg.Log.DebugContext(life, "repository not packed ahead", "workspace_id", workspaceID, "sandbox_id", sandboxID, "error", err)
		}
	})
}

func (s *Service) packFor(ctx context.Context, workspaceID, sandboxID string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	unlock, err := s.locks.Homing.LockContext(ctx, w.ID)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = s.spooled(ctx, p, w, sandboxID, func(int64, int64) {})
	return err
}

// packed waits for the bundle of a sandbox that is being packed ahead.
func (s *Service) packed(ctx context.Context, sandboxID string) {
	s.packs.mu.Lock()
	p := s.packs.by[sandboxID]
	s.packs.mu.Unlock()
	if p == nil {
		return
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
}

// Unpack forgets the bundle of a sandbox that has received it or ended, and waits until nothing writes there any more.
func (s *Service) Unpack(sandboxID string) {
	s.packs.mu.Lock()
	p := s.packs.by[sandboxID]
	delete(s.packs.by, sandboxID)
	s.packs.mu.Unlock()
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// close stops packing and waits for it.
func (k *packs) close() {
	k.mu.Lock()
	k.closed = true
	for _, p := range k.by {
		p.cancel()
	}
	k.mu.Unlock()
	k.work.Wait()
}

// Close stops packing ahead and waits for it. Nothing is packed ahead afterwards.
func (s *Service) Close() { s.packs.close() }
