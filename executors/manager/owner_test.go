package manager_test

import (
	"context"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
)

// A sandbox made for somebody who asked for files or a port only counts as somebody's, too.
func TestEverySandboxIsSomebodys(t *testing.T) {
	for name, c := range map[string]struct {
		ctx  func(context.Context) context.Context
		want string
	}{
		"who asks for files":  {func(ctx context.Context) context.Context { return executors.By(ctx, "usr_asks") }, "usr_asks"},
		"who asks for an app": {func(ctx context.Context) context.Context { return executors.As(ctx, executors.ForApp, "") }, "usr_made"},
		"the server":          {func(ctx context.Context) context.Context { return ctx }, "usr_made"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store, Events: h.bus, DialTimeout: 5 * time.Second,
				Workspaces: specs{team: h.team, root: h.root, user: "usr_made"}})
			if _, err := h.m.Ensure(c.ctx(h.ctx), h.ws); err != nil {
				t.Fatal(err)
			}
			if got := h.last().UserID; got != c.want {
				t.Errorf("it is %q's, want %q", got, c.want)
			}
		})
	}
}
