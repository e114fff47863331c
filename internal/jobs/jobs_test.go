package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/jobs"
)

var errStopped, errTaken = errors.New("the server stops"), errors.New("taken back")

// started runs a test in a bubble with Jobs of which so many work at a time.
func started(t *testing.T, most int, fn func(t *testing.T, j *jobs.Jobs, stop func())) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := jobs.New(most, errStopped)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); j.Run(ctx) }()
		synctest.Wait()
		stop := sync.OnceFunc(func() { cancel(); <-ended })
		defer stop()
		fn(t, j, stop)
	})
}

func add(t *testing.T, j *jobs.Jobs, id string, fn func(context.Context)) {
	t.Helper()
	if err := j.Add(id, fn); err != nil {
		t.Fatal(err)
	}
}

func TestSoManyJobsWorkAtATime(t *testing.T) {
	started(t, 2, func(t *testing.T, j *jobs.Jobs, _ func()) {
		var working, most, ended atomic.Int64
		next := make(chan struct{})
		for i := range 5 {
			add(t, j, fmt.Sprint(i), func(context.Context) {
				n := working.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				<-next
				working.Add(-1)
				ended.Add(1)
			})
		}
		for want := range int64(5) {
			synctest.Wait()
			if n := working.Load(); n != min(2, 5-want) || ended.Load() != want {
				t.Errorf("%d work, %d have ended; want %d", n, ended.Load(), want)
			}
			next <- struct{}{}
		}
		synctest.Wait()
		if ended.Load() != 5 || most.Load() != 2 {
			t.Errorf("%d ended, %d at a time", ended.Load(), most.Load())
		}
	})
}

func TestAJobIsCancelled(t *testing.T) {
	started(t, 1, func(t *testing.T, j *jobs.Jobs, _ func()) {
		var cause, waiting error
		tidy := make(chan struct{})
		add(t, j, "a", func(ctx context.Context) { <-ctx.Done(); cause = context.Cause(ctx); <-tidy })
		synctest.Wait()
		add(t, j, "b", func(ctx context.Context) { waiting = context.Cause(ctx) })
		if err := j.Add("a", func(context.Context) { t.Error("it ran") }); fault.CodeOf(err) != "already_running" {
			t.Errorf("twice: %v", err)
		}
		if done := j.Cancel("none", errTaken); done != nil {
			t.Error("a job that is not there was cancelled")
		}
		// One that waits its turn does not wait for it to clean up.
		<-j.Cancel("b", errTaken)
		if !errors.Is(waiting, errTaken) {
			t.Errorf("the one that waited: %v", waiting)
		}
		done := j.Cancel("a", errTaken)
		synctest.Wait()
		select {
		case <-done:
			t.Error("it is said to have ended before it cleaned up")
		default:
		}
		close(tidy)
		<-done
		if !errors.Is(cause, errTaken) {
			t.Errorf("the one that worked: %v", cause)
		}
		again := false
		add(t, j, "a", func(ctx context.Context) { again = ctx.Err() == nil }) // its id is free
		synctest.Wait()
		if !again {
			t.Error("its id is not free")
		}
	})
}

func TestTheEndOfRunEndsAllJobs(t *testing.T) {
	started(t, 1, func(t *testing.T, j *jobs.Jobs, stop func()) {
		var stopped atomic.Int64
		for i := range 3 {
			add(t, j, fmt.Sprint(i), func(ctx context.Context) {
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), errStopped) {
					stopped.Add(1)
				}
			})
		}
		synctest.Wait()
		stop()
		if n := stopped.Load(); n != 3 {
			t.Errorf("%d of 3 have cleaned up", n)
		}
		if err := j.Add("late", func(context.Context) { t.Error("it ran") }); fault.CodeOf(err) != "stopping" {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestJobsWaitForRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := jobs.New(1, errStopped)
		ran := false
		add(t, j, "a", func(ctx context.Context) { ran = ctx.Err() == nil })
		synctest.Wait()
		if ran {
			t.Error("it ran before Run")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); j.Run(ctx) }()
		synctest.Wait()
		if !ran {
			t.Error("it did not run")
		}
		cancel()
		<-ended
	})
}
