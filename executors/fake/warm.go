package fake

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/parawork/parawork/executors"
)

// Pooled is a Cloud that can make sandboxes ahead of time, in one class per size.
type Pooled struct{ *Cloud }

var (
	_ executors.Warmer  = (*Pooled)(nil)
	_ executors.Sleeper = (*Pooled)(nil) // the Cloud's
)

// NewPooled makes a Pooled over w. A second one over the same World is that of a restarted server.
func NewPooled(w *World) *Pooled { return &Pooled{NewCloud(w)} }

// Class returns the size.
func (p *Pooled) Class(s executors.Spec) string {
	if p.get().NoClass {
		return ""
	}
	return fmt.Sprintf("%d-%d", s.Size.CPUs, s.Size.MemoryMB)
}

// Warm makes one without a guest.
func (p *Pooled) Warm(ctx context.Context, id, class string) (executors.Handle, error) {
	k := p.get()
	if k.Warming != nil {
		k.Warming(ctx)
	}
	if k.WarmErr != nil {
		return executors.Handle{}, k.WarmErr
	}
	if err := ctx.Err(); err != nil {
		return executors.Handle{}, err
	}
	b := &box{handle: executors.Handle{Kind: p.Kind(), ID: id, Version: 1, State: []byte(class)}, listen: newMemListener(), cancel: func() {},
		ended: make(chan struct{}), dir: filepath.Join(p.w.dir, id)}
	close(b.ended)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.boxes[id] = b
	p.w.run(b, k)
	return b.handle, nil
}

// Create uses the warm sandbox that s names, where it exists.
func (p *Pooled) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if s.Warm != nil {
		if p.get().TakeErr != nil {
			return nil, p.get().TakeErr
		}
		p.w.mu.Lock()
		b := p.w.boxes[s.Warm.ID]
		delete(p.w.boxes, s.Warm.ID)
		p.w.mu.Unlock()
		if b == nil {
			return nil, errors.New("the warm sandbox is not there")
		}
	}
	return p.Cloud.Create(ctx, s)
}
