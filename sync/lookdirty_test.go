package filesync_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store/storetest"
	filesync "github.com/parawork/parawork/sync"
)

// LookAround at a worktree on this server gets the names as soon as the guest knows them; where it does not, or cannot be right, the
// guest looks as always, or nobody does.
func TestLookingByNames(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		dirty guest.Dirty
		err   error
		paths []string // nil = none reported
		fails bool
	}{
		"names":            {guest.Dirty{Base: baseA, Paths: []string{"a", guest.EncodePath("d\xff")}}, nil, []string{"a", "d\xff"}, false},
		"none":             {guest.Dirty{Base: baseA}, nil, []string{}, false},
		"cannot tell":      {guest.Dirty{}, fault.New(fault.Unsupported, "changes_incomplete", "no"), []string{"polled"}, false},
		"an older build":   {guest.Dirty{}, fault.New(fault.Unavailable, "guest_wrong_answer", "no"), []string{"polled"}, false},
		"git failed":       {guest.Dirty{}, errors.New("git failed"), []string{"polled"}, false},
		"out of reach":     {guest.Dirty{}, fault.New(fault.Unavailable, "guest_unreachable", "no"), nil, true},
		"another base":     {guest.Dirty{Base: baseB}, nil, nil, true},
		"a path outside":   {guest.Dirty{Base: baseA, Paths: []string{"../x"}}, nil, nil, true},
		"a path not clean": {guest.Dirty{Base: baseA, Paths: []string{"a//b"}}, nil, nil, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, storetest.SQLite(t))
			var k keeper
			h.service = filesync.New(filesync.Config{Store: h.store, Places: h, Workspaces: h, Events: h, Polled: k.polled, Log: slog.New(slog.DiscardHandler)})
			h.run()
			box := newScript()
			box.Poll = func(context.Context, string) (guest.ChangeSet, error) { return reset(2, change("polled")), nil }
			box.Dirty = func(_ context.Context, base string) (guest.Dirty, error) {
				if base != baseA {
					t.Errorf("asked for %s", base)
				}
				return c.dirty, c.err
			}
			h.service.FollowBox(h.workspaceID, h.teamID, "sbx_1", &box.FakeBox, nil)
			<-box.asked
			a, ok, err := h.service.LookAround(t.Context(), h.workspaceID)
			if c.fails {
				if err == nil {
					t.Fatalf("told %+v, %v", a, ok)
				}
				return
			}
			if err != nil || !ok || a.Base != baseA || !slices.Equal(a.Paths, c.paths) {
				t.Fatalf("told %+v, %v, %v", a, ok, err)
			}
			if a.Kept != nil {
				a.Kept(true)
			}
		})
	}
}
