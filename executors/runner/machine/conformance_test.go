//go:build linux

package machine_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/runner"
	"github.com/parawork/parawork/executors/runner/machine"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/testing/testdocker"
)

// one is a server that knows one machine.
type one struct {
	r *rig
	m runner.Machine
}

func (o one) Machines(context.Context, string) []runner.Machine { return []runner.Machine{o.m} }
func (o one) Machine(_ context.Context, id string) (runner.Machine, bool) {
	return o.m, id == runnerID
}
func (o one) Link(string) (runner.Link, bool) { return o.r.link, true }
func (o one) Sign(_ context.Context, _ string, r *http.Request, body []byte) error {
	return o.r.signer().Sign(r, body)
}
func (o one) UserName(context.Context, string) string { return "Ann" }

// member is the machine as the server's own executor has it.
func (r *rig) member(t *testing.T) executors.Executor {
	t.Helper()
	o := one{r, runner.Machine{ID: runnerID, TeamID: "team_1", UserID: "usr_1", Name: "Laptop", Online: true}}
	check(t, r.notify(t.Context(), http.MethodGet, "/v1/hello", nil, &o.m.Hello))
	e, ok := runner.New(runner.Config{Machines: o}).Member(t.Context(), executors.Runner.Of(runnerID))
	if !ok {
		t.Fatal("the machine is no place")
	}
	return e
}

// conformance runs the suite over the server's executor, the tunnel and the machine's end. A folder's machine stays the same when the server
// is restarted.
func conformance(t *testing.T, change func(t *testing.T, dir string, c *machine.Config)) {
	var mu sync.Mutex
	rigs := make(map[string]*rig)
	p := policy.Default()
	p.Limits.Sandboxes = 0
	executortest.Run(t, executortest.Config{Abilities: []string{"Owned", "Remover"}, SandboxAbilities: []string{"Limiter", "Metered", "Pauser", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor {
			mu.Lock()
			r := rigs[dir]
			mu.Unlock()
			if r == nil {
				r = newRig(t, dir, p, func(c *machine.Config) { change(t, dir, c) })
				mu.Lock()
				rigs[dir] = r
				mu.Unlock()
			}
			return r.member(t)
		}})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance(t, func(*testing.T, string, *machine.Config) {})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Limits.Sandboxes = 0
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		r := newRig(t, t.TempDir(), p, nil)
		return executortest.Service{SameClock: true, Restart: r.restart, // commands of a server whose clock is far off are refused
			Executor: func(t *testing.T, _ string, _ func() time.Time) executors.Executor { return r.member(t) },
			Left: func() (all []string) {
				list, err := r.over.List(context.Background()) // also at the end
				if err != nil {
					t.Errorf("List: %v", err)
				}
				for _, h := range list {
					all = append(all, h.ID)
				}
				return all
			}}
	})
}

// engine is one Docker engine for all tests, started for the first that needs it.
var engine = sync.OnceValues(func() (*testdocker.Daemon, error) {
	d, err := testdocker.Start()
	if err == nil {
		atEnd(d.Stop)
	}
	return d, err
})

func TestConformanceInDocker(t *testing.T) {
	t.Parallel()
	d, err := engine()
	if err != nil {
		testdocker.Skip(t, err)
	}
	guest, err := guestPath()
	check(t, err)
	conformance(t, func(t *testing.T, dir string, c *machine.Config) {
		e, err := docker.New(docker.Config{Dir: filepath.Join(dir, "places"), GuestPath: guest, Host: d.Host, Image: testdocker.Image, Grace: 500 * time.Millisecond})
		check(t, err)
		t.Cleanup(func() { _ = e.Close() })
		c.Executor, c.Mode = e, wire.Docker
	})
}
