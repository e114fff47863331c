package tasks_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/parawork/parawork/internal/tasks"
)

// A thing is looked at by one goroutine at a time, once more when that was asked for meanwhile however often, and by none after the end.
func TestLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scope := tasks.NewScope(t.Context())
		began, goOn := make(chan string, 10), make(chan struct{})
		l := tasks.NewLooks(scope, 2, func(ctx context.Context, key string) {
			began <- key
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		})
		seen := func(want int) {
			t.Helper()
			synctest.Wait()
			if len(began) != want {
				t.Fatalf("%d looks, not %d", len(began), want)
			}
		}
		for range 3 {
			l.At("a")
		}
		seen(1)
		l.At("b")
		l.At("c") // both turns are taken
		seen(2)
		for range 2 {
			goOn <- struct{}{}
		}
		seen(4) // c, and a once more
		for range 2 {
			goOn <- struct{}{}
		}
		seen(4)
		l.At("a")
		seen(5)
		scope.End(context.Canceled)
		l.At("a")
		seen(5)
	})
}
