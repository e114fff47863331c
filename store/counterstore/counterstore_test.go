package counterstore_test

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/counterstore"
	"github.com/parawork/parawork/store/storetest"
)

func TestCountsNeverFall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := counterstore.New(db)
		row := func(p executors.Purpose, v int64) executors.CounterRow {
			return executors.CounterRow{Kind: "docker", Purpose: p, Name: "created", Value: v, Since: 10}
		}
		for _, rows := range [][]executors.CounterRow{{row("app", 3), row("", 5)}, {row("app", 2)}, {row("app", 4)}, {row("app", 4)}} {
			if err := s.SaveCounts(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Counts(t.Context())
		if err != nil || !slices.Equal(got, []executors.CounterRow{row("", 5), row("app", 4)}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
