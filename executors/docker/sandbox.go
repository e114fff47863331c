//go:build linux || darwin

package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/guest/reversedial"
)

// sandbox is one container.
type sandbox struct {
	e        *Executor
	id       string
	token    string
	listener *reversedial.Acceptor // nil in a container that shares nothing with this machine
	rec      record

	mu     sync.Mutex
	way    *gate.Carrier // of the way out, where it needs a carrier
	closed bool
}

var (
	_ executors.Sandbox    = (*sandbox)(nil)
	_ executors.Pauser     = (*sandbox)(nil)
	_ executors.Metered    = (*sandbox)(nil)
	_ executors.Limiter    = (*sandbox)(nil)
	_ executors.SinglePipe = (*sandbox)(nil)
)

// Handle identifies the container and its engine. It does not carry the token, because handles are stored.
func (s *sandbox) Handle() executors.Handle {
	b, err := json.Marshal(s.rec)
	if err != nil {
		panic(err) // encoding a struct of strings cannot fail
	}
	return executors.Handle{Kind: s.e.cfg.Kind, ID: s.id, Version: HandleVersion, State: b}
}

func (s *sandbox) Token() string { return s.token }

// OnePipe reports whether pipes are expensive: one that needs a program in the container is.
func (s *sandbox) OnePipe() bool { return s.rec.Remote }

// shut closes the listener, or the way out.
func (s *sandbox) shut() {
	if s.listener != nil {
		s.listener.Close()
	}
	s.mu.Lock()
	way := s.way
	s.way, s.closed = nil, true
	s.mu.Unlock()
	if way != nil {
		way.End()
	}
}

// callWithin is the longest time in which a live guest has a connection ready.
const callWithin = 300 * time.Millisecond

// Dial takes a connection from the guest. When none comes, it asks the engine whether the container still runs.
func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if s.rec.Remote {
		return s.dialRemote(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, callWithin)
	conn, err := s.listener.Dial(soon)
	cancel()
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, reversedial.ErrClosed) {
		return nil, err
	}
	c, err := s.e.inspect(ctx, s.id)
	switch {
	case errors.Is(err, executors.ErrGone):
		return nil, err
	case err == nil && c.State.Paused:
		return nil, errors.New("the container is paused")
	}
	return s.await(ctx) // the engine may be unreachable: the guest does not need it
}

// dialRemote opens a pipe. When that fails, it asks the engine for the container's state.
func (s *sandbox) dialRemote(ctx context.Context) (io.ReadWriteCloser, error) {
	pipe, err := s.bridge(ctx, 2*time.Second)
	if err == nil || ctx.Err() != nil {
		return pipe, err
	}
	c, ierr := s.e.api.ContainerInspect(ctx, containerName(s.id))
	switch {
	case errdefs.IsNotFound(ierr):
		return nil, fmt.Errorf("sandbox %s has no container: %w", s.id, executors.ErrGone)
	case ierr == nil && c.State.Paused:
		return nil, errors.New("the container is paused")
	case ierr == nil && !c.State.Running:
		return nil, errors.New("the container has ended; it is started again")
	}
	return nil, err
}

// await takes a connection from the guest, whatever the engine reports.
func (s *sandbox) await(ctx context.Context) (io.ReadWriteCloser, error) {
	if s.rec.Remote {
		return s.bridge(ctx, s.e.cfg.ReadyIn)
	}
	conn, err := s.listener.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Destroy ends and removes the container and the sandbox's folder.
func (s *sandbox) Destroy(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	return s.e.destroy(ctx, s.id)
}

// Pause freezes every process of the container.
func (s *sandbox) Pause(ctx context.Context) error {
	if err := s.e.writeRun(s.id, runRecord{Paused: true}); err != nil {
		return err
	}
	if err := s.e.api.ContainerPause(ctx, s.rec.Container); err != nil {
		if c, ierr := s.e.inspect(ctx, s.id); ierr == nil && c.State.Paused {
			return nil
		}
		return inWords(fmt.Errorf("pausing the container: %w", err))
	}
	return nil
}

// Resume unfreezes them.
func (s *sandbox) Resume(ctx context.Context) error {
	if err := s.e.api.ContainerUnpause(ctx, s.rec.Container); err != nil {
		if c, ierr := s.e.inspect(ctx, s.id); ierr == nil && !c.State.Paused {
			return nil
		}
		return inWords(fmt.Errorf("waking the container: %w", err))
	}
	return nil
}

// SetLimits changes the limits of the running container.
func (s *sandbox) SetLimits(l executors.Limits) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	r := resources(l)
	if r.Memory == 0 || r.NanoCPUs == 0 {
		// The engine takes 0 for "unchanged": no limit means all the machine has.
		info, err := s.e.About(ctx)
		if err != nil {
			return inWords(err)
		}
		if r.Memory == 0 {
			r.Memory, r.MemorySwap = info.MemTotal, info.MemTotal
		}
		r.NanoCPUs = cmp.Or(r.NanoCPUs, int64(info.NCPU)*1e9)
	}
	_, err := s.e.api.ContainerUpdate(ctx, s.rec.Container, container.UpdateConfig{Resources: r})
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("sandbox %s has no container: %w", s.id, executors.ErrGone)
	}
	return inWords(err)
}
