package fake_test

import (
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	worlds := make(map[string]*fake.World)
	executortest.Run(t, executortest.Config{New: func(t *testing.T, dir string) executors.Executor {
		mu.Lock()
		defer mu.Unlock()
		w := worlds[dir]
		if w == nil {
			w = fake.NewWorld(dir, nil)
			worlds[dir] = w
			t.Cleanup(w.Close)
		}
		return fake.New(w)
	}})
}
