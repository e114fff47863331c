package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestNoUserOfABoxIsGivenTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := store.NewWorkspaces(db)
		var mu sync.Mutex
		seen := make(map[int64]string)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				id := fmt.Sprintf("ws_%d", i)
				n, err := s.BoxUser(t.Context(), id)
				if err != nil {
					t.Error(err)
					return
				}
				if again, err := s.BoxUser(t.Context(), id); err != nil || again != n {
					t.Errorf("%s has %d, then %d %v", id, n, again, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if other, ok := seen[n]; ok || n < 1 {
					t.Errorf("%s and %s are both %d", id, other, n)
				}
				seen[n] = id
			})
		}
		wg.Wait()
	})
}
