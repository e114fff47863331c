package subagents_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/workspaces"
)

// The caller of a sibling merges it once it has ended its task; nobody else's agent does.
func TestMerge(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	refused := func(c subagents.Caller, id, code string) {
		t.Helper()
		if _, err := s.Merge(t.Context(), c, id); fault.CodeOf(err) != code {
			t.Errorf("refused with %v, want %s", err, code)
		}
	}
	same := h.spawn(s, h.top(), subagents.Request{})
	a := h.spawn(s, h.top(), subagents.Request{Where: subagents.Sibling})
	a = h.until(s, a.ID, is(subagents.Working))
	refused(h.top(), same.ID, "subagent_shares_files")
	refused(h.top(), a.ID, "subagent_at_work")
	inside := subagents.Caller{TeamID: h.team, WorkspaceID: a.WorkspaceID, SessionID: a.SessionID, UserID: h.actor.User.ID}
	if _, err := s.Report(t.Context(), inside, "done"); err != nil {
		t.Fatal(err)
	}
	refused(inside, a.ID, "subagent_not_yours")
	h.session("ses_stranger", "claude-code", state.Working)
	refused(h.agent("ses_stranger"), a.ID, "subagent_not_found")
	if len(h.commits)+len(h.joins) != 0 {
		t.Fatalf("refused merges changed something: %v, %v", h.commits, h.joins)
	}
	h.joined = workspaces.UpdateResult{Dirty: []string{"mine.txt"}, Conflicts: []workspaces.Conflict{{Path: "both.txt"}}}
	_, err := s.Merge(t.Context(), h.top(), a.ID)
	f, _ := errors.AsType[*fault.Error](err)
	if f == nil || f.Code != "subagent_conflicts" || f.Kind != fault.Conflict || !slices.Equal(f.Details["paths"].([]string), []string{"mine.txt", "both.txt"}) {
		t.Errorf("conflicts: %v", err)
	}
	many := make([]string, 250)
	for i := range many {
		many[i] = fmt.Sprintf("file%d.txt", i)
	}
	h.joined = workspaces.UpdateResult{BaseCommit: "c0ffee", Dirty: many}
	_, err = s.Merge(t.Context(), h.top(), a.ID)
	if f, _ := errors.AsType[*fault.Error](err); f == nil || len(f.Details["paths"].([]string)) != 100 || f.Details["more_paths"] != 150 || !strings.Contains(f.Message, "git merge c0ffee,") {
		t.Errorf("many conflicts: %v", err)
	}
	h.joined = workspaces.UpdateResult{Updated: true}
	if u, err := s.Merge(t.Context(), h.top(), a.ID); err != nil || !u.Updated {
		t.Errorf("%+v, %v", u, err)
	}
	if want := (workspaces.JoinRequest{From: a.WorkspaceID, Began: "commit of snp_1", BeganHead: "head of snp_1"}); h.joins[2] != want || h.commits[2] != a.WorkspaceID {
		t.Errorf("%+v, %v", h.joins, h.commits)
	}
}
