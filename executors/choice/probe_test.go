package choice_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/fake"
)

// inn is a Chooser over one place that counts how often it is asked what it can do; in a synctest bubble.
func inn(t *testing.T, k fake.Knobs, more ...executors.Executor) (*choice.Chooser, *fake.Executor, *atomic.Int64) {
	var asked atomic.Int64
	probe := k.Probe
	k.Probe = func(ctx context.Context) error {
		asked.Add(1)
		if probe != nil {
			return probe(ctx)
		}
		return nil
	}
	e := fake.New(fake.NewWorld(t.TempDir(), nil))
	e.Set(k)
	return choice.New(choice.Config{Executors: executors.NewRegistry(append([]executors.Executor{e}, more...))}), e, &asked
}

func TestAnswersOfPlacesAreKeptAndRefreshedBehindTheScenes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context) error { time.Sleep(time.Second); return nil }
		m, _, asked := inn(t, fake.Knobs{Boundary: executors.ContainerBoundary, Probe: slow})
		at := time.Now()
		look := func() executors.Capabilities { return m.Capabilities(t.Context())[0] }
		if c := look(); !c.Available || time.Since(at) != time.Second {
			t.Fatalf("the first: %+v after %s", c, time.Since(at))
		}
		time.Sleep(29 * time.Second)
		at = time.Now()
		look()
		if asked.Load() != 1 || time.Since(at) != 0 {
			t.Errorf("while it is fresh it was asked %d times, in %s", asked.Load(), time.Since(at))
		}
		time.Sleep(2 * time.Second)
		at = time.Now()
		for range 5 {
			look()
		}
		if time.Since(at) != 0 {
			t.Errorf("somebody waited %s for a refreshed answer", time.Since(at))
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if asked.Load() != 2 {
			t.Errorf("asked %d times, want 2", asked.Load())
		}
		m.Reprobe()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if asked.Load() != 3 {
			t.Errorf("after a doubt: asked %d times, want 3", asked.Load())
		}
	})
}

func TestAPlaceThatHangsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		m, e, asked := inn(t, fake.Knobs{Kind: "stuck", Boundary: executors.ContainerBoundary, Probe: func(context.Context) error { <-release; return nil }},
			steady{"steady"})
		at := time.Now()
		caps := m.Capabilities(t.Context())
		if time.Since(at) != 5*time.Second || caps[0].Available || !strings.Contains(caps[0].Reason, "did not answer within 5s") || !caps[1].Available {
			t.Errorf("%+v after %s", caps, time.Since(at))
		}
		for range 3 {
			time.Sleep(time.Minute)
			at = time.Now()
			if c := m.Capabilities(t.Context()); c[0].Available || time.Since(at) != 0 {
				t.Errorf("later: %+v after %s", c, time.Since(at))
			}
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times while it hangs", asked.Load())
		}
		close(release)
		synctest.Wait()
		if c := m.Capabilities(t.Context()); !c[0].Available {
			t.Errorf("once it answers: %+v", c[0])
		}
		// Unwell again, but heeding its context: the boundary it is known for stays.
		e.Set(fake.Knobs{Kind: "stuck", Boundary: executors.ContainerBoundary, Probe: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		m.Reprobe()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if c := m.Capabilities(t.Context()); c[0].Available || c[0].Boundary != executors.ContainerBoundary {
			t.Errorf("when it hangs again: %+v", c[0])
		}
	})
}

// steady is a place that always works.
type steady struct{ kind executors.Kind }

func (s steady) Kind() executors.Kind { return s.kind }
func (s steady) Capabilities(context.Context) (executors.Capabilities, error) {
	return executors.Capabilities{Name: "Steady", Available: true, Isolated: true}, nil
}
func (steady) Create(context.Context, executors.Spec) (executors.Sandbox, error) {
	return nil, errors.New("not here")
}
func (steady) Recover(context.Context, executors.Handle) (executors.Sandbox, error) {
	return nil, executors.ErrGone
}
func (steady) List(context.Context) ([]executors.Handle, error) { return nil, nil }

func TestAPlaceWithoutABoundaryIsAskedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, asked := inn(t, fake.Knobs{})
		for range 3 {
			m.Capabilities(t.Context())
		}
		if asked.Load() != 3 {
			t.Errorf("asked %d times, want 3", asked.Load())
		}
	})
}

func TestAClosedChooserAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, _, asked := inn(t, fake.Knobs{Boundary: executors.ContainerBoundary})
		ch.Close()
		if c := ch.Capabilities(t.Context())[0]; c.Available || c.Reason != "the server is stopping" {
			t.Errorf("%+v", c)
		}
		if asked.Load() != 0 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}
