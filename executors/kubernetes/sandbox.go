package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/guest/bridge"
	"github.com/parawork/parawork/guest/call"
	"github.com/parawork/parawork/guest/reversedial"
	"github.com/parawork/parawork/guest/seal"
)

// sandbox is one sandbox, of which there is one value a process: see Executor.live.
type sandbox struct {
	e     *Executor
	id    string
	token string

	host call.Host // where its guest is to call: of whoever boots it

	mu    sync.Mutex
	rec   record
	over  error // why there will be no other pipe
	open  map[pipe]bool
	way   *gate.Carrier
	calls *calls // where its guest calls: see callsLocked
}

// pipe is a connection to the guest.
type pipe interface{ cut(why error) }

var (
	_ executors.Sandbox    = (*sandbox)(nil)
	_ executors.Pauser     = (*sandbox)(nil)
	_ executors.SinglePipe = (*sandbox)(nil)
)

var (
	errEnded  = errors.New("the sandbox has ended")
	errAsleep = errors.New("the sandbox is paused")
)

func (s *sandbox) record() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec
}

// keep changes the record, and stores it.
func (s *sandbox) keep(change func(*record)) error {
	s.mu.Lock()
	change(&s.rec)
	r := s.rec
	s.mu.Unlock()
	return s.e.files.Write(s.id, r)
}

// Handle carries which pod and volume of which cluster it is. No secret is in it, for handles are stored.
func (s *sandbox) Handle() executors.Handle { return handleOf(s.id, s.record()) }

// Token is the guest's secret.
func (s *sandbox) Token() string { return s.token }

// OnePipe says that pipes are expensive: each is a connection through the API server and the node's kubelet.
func (s *sandbox) OnePipe() bool { return true }

// dialWithin is how long a guest that runs may take to be reached.
const dialWithin = 15 * time.Second

// Dial opens a pipe to the guest.
func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := s.e.clusterOf(ctx, s.record())
	if err != nil {
		return nil, err
	}
	return s.dial(ctx, c, dialWithin)
}

func (s *sandbox) dial(ctx context.Context, c *cluster, within time.Duration) (io.ReadWriteCloser, error) {
	if conn, err := s.take(ctx, c, func(k *calls) *reversedial.Acceptor { return k.pipes }); err == nil {
		if err := s.note(conn.(*calledConn)); err != nil {
			return nil, err
		}
		return conn, nil
	} else if !errors.Is(err, errNoCall) {
		return nil, fmt.Errorf("opening a pipe to the guest: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within+5*time.Second, &problem{reason: GuestFailed, said: "it does not answer"})
	defer cancel()
	st, err := s.e.exec(c, s.record().Pod, guestFile, "bridge", "--wait", within.String(), socketFile)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { st.cut(context.Cause(ctx)) })
	sealed, err := s.greet(ctx, st)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = s.note(st)
		s.e.work.Go(func() { // ends with the stream
			<-st.done
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.open, st)
		})
	}
	if err != nil {
		st.cut(err)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("opening a pipe to the guest: %w", err)
	}
	return sealed, nil
}

// note keeps account of a pipe; one that nobody may have any more is cut.
func (s *sandbox) note(p pipe) error {
	s.mu.Lock()
	over := s.over
	s.open[p] = true
	s.mu.Unlock()
	if over != nil {
		p.cut(over)
	}
	return over
}

// greet waits until the bridge has reached the guest. What carries the pipe may keep a record of it, so the pipe is sealed.
func (s *sandbox) greet(ctx context.Context, st *stream) (io.ReadWriteCloser, error) {
	for _, word := range []string{bridge.Reached, bridge.Begun} {
		got := make([]byte, len(word))
		if _, err := io.ReadFull(st, got); err != nil {
			return nil, ended(ctx, st, err)
		}
		if string(got) != word {
			return nil, errors.New("what answers in the pod is not the guest's bridge")
		}
		if word == bridge.Reached {
			if _, err := io.WriteString(st, bridge.Begin); err != nil {
				return nil, ended(ctx, st, err)
			}
		}
	}
	return seal.Client(st, s.token)
}

// shut ends every pipe, and the way out. why says why there will be no other.
func (s *sandbox) shut(why error) {
	s.mu.Lock()
	s.over = why
	s.mu.Unlock()
	s.cut(why)
}

func (s *sandbox) cut(why error) {
	s.mu.Lock()
	open, way, calls := s.open, s.way, s.calls
	s.open, s.way, s.calls = make(map[pipe]bool), nil, nil
	s.mu.Unlock()
	if way != nil {
		way.End() // before what it opens again with is gone
	}
	if calls != nil {
		calls.close()
	}
	for p := range open {
		p.cut(why)
	}
}

// Destroy ends the sandbox and forgets it.
func (s *sandbox) Destroy(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	return s.e.destroy(ctx, s.id, s.record())
}

// Pause ends the pod and keeps its volume: files stay, programs end.
func (s *sandbox) Pause(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	r := s.record()
	if !r.kept() {
		return errors.New("its files would end with its pod: set sandboxing.kubernetes.keepDisk")
	}
	c, err := s.e.clusterOf(ctx, r)
	if err != nil {
		return err
	}
	instance, err := s.e.ourInstance()
	if err != nil {
		return err
	}
	if err := s.keep(func(r *record) { r.Paused, r.Ended, r.Why = true, s.e.cfg.Now().UnixMilli(), "" }); err != nil { // nobody dials meanwhile
		return err
	}
	if err := c.retire(ctx, instance, r); err != nil {
		return fmt.Errorf("ending the pod: %w", inWords(err))
	}
	s.cut(errAsleep)
	return nil
}

// Resume makes another pod with the volume, which begins another run.
func (s *sandbox) Resume(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	c, err := s.e.clusterOf(ctx, s.record())
	if err != nil {
		return err
	}
	if p, err := c.pod(ctx, s.record().Pod); err == nil && p.phase() == "running" && p.Metadata.DeletionTimestamp == nil {
		s.cut(errAsleep)
		if err := s.keep(func(r *record) { r.Paused = false }); err != nil {
			return err
		}
		return s.reach(ctx, c)
	}
	return s.wake(ctx, c)
}

// wake makes a pod for a sandbox whose last one has ended, and brings the guest into it. The caller holds the sandbox's turn.
func (s *sandbox) wake(ctx context.Context, c *cluster) error {
	instance, err := s.e.ourInstance()
	if err != nil {
		return err
	}
	attempt, err := s.e.files.Random(8)
	if err != nil {
		return err
	}
	s.cut(errAsleep)
	r := s.record()
	if err := c.retire(ctx, instance, r); err != nil {
		return inWords(err)
	}
	if err := s.keep(func(r *record) { r.Attempt, r.Ended = attempt, 0 }); err != nil {
		return err
	}
	if err := s.raise(ctx, c); err != nil {
		if errors.Is(err, errOver) {
			return errors.Join(s.e.destroy(ctx, s.id, s.record()), executors.GoneBecause("Its guest was asked to end."))
		}
		if rerr := s.e.settle(ctx, func(ctx context.Context) error { return c.retire(ctx, instance, s.record()) }); rerr != nil {
			s.e.cfg.Log.Error("half-started pod could not be ended", "sandbox_id", s.id, "error", rerr)
		}
		return inWords(err)
	}
	return nil
}

// raise makes the pod of the record and waits until its guest is reached.
func (s *sandbox) raise(ctx context.Context, c *cluster) error {
	var p pod
	var err error
	if s.record().Box != "" {
		p, err = s.claim(ctx, c)
	} else {
		p, err = s.e.start(ctx, c, s.id, s.record())
	}
	if err != nil {
		return err
	}
	return s.begin(ctx, c, p.Metadata.UID)
}

// begin brings the guest into a pod that runs and waits until it is reached.
func (s *sandbox) begin(ctx context.Context, c *cluster, uid string) error {
	executors.SayStep(ctx, executors.StepGuest, "", "")
	called := ""
	if c.set.CallAddress != "" {
		var err error
		if s.host, err = c.host(ctx); err != nil {
			return err
		}
		called = uid
	}
	if err := s.expect(called); err != nil {
		return err
	}
	if err := s.boot(ctx, c); err != nil {
		return err
	}
	if err := s.keep(func(r *record) { r.Paused, r.Why, r.Up, r.Runs = false, "", uid, s.e.cfg.Now().UnixMilli() }); err != nil {
		return err
	}
	if err := s.reach(ctx, c); err != nil {
		if p, perr := c.pod(ctx, s.record().Pod); perr == nil && p.phase() == "ended" {
			return &problem{reason: GuestFailed, said: endOr(p, "its container ended at once"), cause: err}
		}
		if why(err) == "" {
			return &problem{reason: GuestFailed, said: err.Error(), cause: err}
		}
		return err
	}
	s.carry()
	s.e.tryWalls(c, s.record().Pod)
	return s.keep(func(r *record) { r.Ready = true })
}

// reach opens a pipe to see whether the guest is there.
func (s *sandbox) reach(ctx context.Context, c *cluster) error {
	p, err := s.dial(ctx, c, dialWithin)
	if err == nil {
		_ = p.Close()
	}
	return err
}

// carry opens the sandbox's way out, and keeps it open until the sandbox is shut.
func (s *sandbox) carry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec.Gate == "" || s.way != nil || s.over != nil {
		return
	}
	s.way = gate.Carry(s.e.life, s.e.work.Go, gate.Way{Log: s.e.cfg.Log, Gate: func() string { return s.record().Gate },
		Open: func(ctx context.Context) (net.Conn, error) {
			c, err := s.e.clusterOf(ctx, s.record())
			if err != nil {
				return nil, err
			}
			if conn, err := s.take(ctx, c, func(k *calls) *reversedial.Acceptor { return k.ways }); !errors.Is(err, errNoCall) {
				return conn, err
			}
			return s.e.exec(c, s.record().Pod, guestFile, "egress-bridge", egressFile)
		}})
}

// state says how a sandbox's pod stands: running, starting, ended, or "" where it is gone.
func (c *cluster) state(ctx context.Context, r record) (string, pod, error) {
	p, err := c.pod(ctx, r.Pod)
	switch {
	case isStatus(err, http.StatusNotFound):
		return "", p, nil
	case err != nil:
		return "", p, err
	case p.Metadata.DeletionTimestamp != nil:
		return "ended", p, nil
	}
	switch p.phase() {
	case "waiting":
		return "starting", p, nil
	default:
		return p.phase(), p, nil
	}
}
