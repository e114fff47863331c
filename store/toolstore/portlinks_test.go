package toolstore_test

import (
	"fmt"
	"testing"

	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
)

// A link is found by its token's hash until it is removed, another team does not reach it, and nobody stores links without end.
func TestLinksToPorts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := seed(t, db, "ws_1", "ws_2")
		s, ours, theirs := toolstore.NewPortLinks(db), tenant.In(t.Context(), team.ID), tenant.In(t.Context(), "team_other")
		made := 0
		add := func(ws, maker string, at int64) (preview.Link, error) {
			made++
			l := preview.Link{ID: fmt.Sprint("pln_", made), TeamID: team.ID, WorkspaceID: ws, Port: 5173, Name: "Bo", CreatedBy: maker, CreatedAt: at, ExpiresAt: at + 100}
			return l, s.AddPortLink(ours, l, "hash of "+l.ID, 2, 3)
		}
		first, err := add("ws_1", user.ID, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.PortLinkByHash(ours, "hash of pln_1"); err != nil || got != first {
			t.Errorf("by its hash: %+v, %v", got, err)
		}
		if _, err := s.PortLinkByHash(theirs, "hash of pln_1"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team, by its hash: %v", err)
		}
		if err := s.RemovePortLink(theirs, first.ID); err != nil {
			t.Fatal(err)
		}
		if got, err := s.PortLink(ours, first.ID); err != nil || got != first {
			t.Errorf("after another team removed it: %+v, %v", got, err)
		}
		for _, step := range []struct {
			ws, maker string
			refused   bool
		}{{"ws_1", user.ID, false}, {"ws_1", "usr_2", true}, {"ws_2", user.ID, false}, {"ws_2", user.ID, true}, {"ws_2", "usr_2", false}} {
			if _, err := add(step.ws, step.maker, 2); (fault.CodeOf(err) == "too_many_links") != step.refused || err != nil && !step.refused {
				t.Errorf("%+v: %v", step, err)
			}
		}
		if list, err := s.PortLinks(ours, "ws_1", 50); err != nil || len(list) != 2 || list[1] != first {
			t.Errorf("of a workspace: %+v, %v", list, err)
		}
		if list, err := s.PortLinks(ours, "ws_1", 101); err != nil || len(list) != 1 {
			t.Errorf("after one expired: %+v, %v", list, err)
		}
		last, err := add("ws_1", user.ID, 200)
		if err != nil {
			t.Errorf("after all expired: %v", err)
		}
		if _, err := s.PortLink(ours, first.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("an expired link is still stored: %v", err)
		}
		if err := s.RemovePortLink(ours, last.ID); err != nil {
			t.Fatal(err)
		}
		if list, err := s.PortLinks(ours, "ws_1", 200); err != nil || len(list) != 0 {
			t.Errorf("after it was removed: %+v, %v", list, err)
		}
	})
}
