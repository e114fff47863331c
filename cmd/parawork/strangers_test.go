package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store/storetest"
)

// What runs without a row is listed, and ended only where an operator says so.
func TestSandboxesTheDatabaseForgotAreListedAndEndedOnRequest(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	world := fake.NewWorld(t.TempDir(), nil)
	t.Cleanup(world.Close)
	e := fake.New(world)
	ctx, cancel := context.WithTimeout(tenant.All(t.Context(), "a test"), time.Minute)
	defer cancel()
	if _, err := e.Create(ctx, executors.Spec{ID: "sbx_forgotten", Root: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		yes  bool
		said string
		left int
	}{{false, "would be destroyed", 1}, {true, "destroyed sandbox", 0}, {true, "", 0}} {
		var out bytes.Buffer
		if err := endUnknown(ctx, &out, []executors.Executor{e}, db, c.yes); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.said) || c.said == "" && out.Len() > 0 {
			t.Errorf("with yes=%v it says %q", c.yes, out.String())
		}
		if list, err := e.List(ctx); err != nil || len(list) != c.left {
			t.Errorf("with yes=%v there are %v, %v", c.yes, list, err)
		}
	}
}
