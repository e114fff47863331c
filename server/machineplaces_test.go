package server

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func TestAWorkspaceOnAMembersMachine(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	h.withRepository(t, p.ids["project"], "")
	enrolled, _ := h.machine(t, p, "member", wire.Hello{Version: 1, OS: "linux", Arch: "amd64", Mode: wire.Docker, Access: wire.Full, Share: "owner", Network: "host"})
	known, ok := h.cfg.Machines.Machine(t.Context(), enrolled.RunnerID)
	if !ok {
		t.Fatal("the machine is not known")
	}
	owner := executors.Owner{TeamID: p.team.ID, UserID: known.UserID, Name: "member"}
	machine := h.family.Add(enrolled.RunnerID, owner)
	base, ws := "/api/v1/teams/"+p.ids["team"], "/api/v1/workspaces/"+p.ids["workspace"]
	mine, other := bearer(p.tokens["member"]), bearer(p.tokens["admin"])
	body := `{"project_id":"` + p.ids["project"] + `","name":"on the laptop","executor":"runner","runner_id":"` + enrolled.RunnerID + `"}`

	var list api.ExecutorList
	h.do("GET", base+"/executors?project_id="+p.ids["project"], "", mine...).into(t, &list)
	if n := len(list.Items); n != 2 || list.Items[1].Kind != "runner" || rest.Val(list.Items[1].RunnerId) != enrolled.RunnerID || rest.Val(list.Items[1].Owner) != "member" {
		t.Fatalf("places: %+v", list.Items)
	}
	if s := list.Suggested; s == nil || s.Executor != "runner" || s.RunnerId != enrolled.RunnerID || s.Ask {
		t.Errorf("suggested: %+v", s)
	}
	h.do("GET", base+"/executors", "", other...).into(t, &list)
	if len(list.Items) != 1 {
		t.Errorf("somebody else's places: %+v", list.Items)
	}
	for bad, code := range map[string]string{
		`"executor":"runner"`: "runner_id_needed", `"executor":"fake","runner_id":"rnr_1"`: "runner_id_unexpected", `"executor":"runner:` + enrolled.RunnerID + `"`: "executor_unknown",
		`"runner_id":"rnr_nobody"`: "runner_not_found", `"runner_id":"../x"`: "runner_not_found",
	} {
		if r := h.do("POST", base+"/workspaces", `{"project_id":"`+p.ids["project"]+`","name":"x",`+bad+`}`, mine...); r.code() != code {
			t.Errorf("%s: %d %s", bad, r.StatusCode, r.body)
		}
	}
	if r := h.do("POST", base+"/workspaces", body, other...); r.code() != "runner_not_yours" {
		t.Errorf("on somebody else's machine: %d %s", r.StatusCode, r.body)
	}
	made := h.do("POST", base+"/workspaces", body, mine...)
	if made.StatusCode != 201 {
		t.Fatalf("%d %s", made.StatusCode, made.body)
	}
	var w api.Workspace
	made.into(t, &w)
	if w.Executor != "runner" || rest.Val(w.RunnerId) != enrolled.RunnerID || rest.Val(w.RunnerName) != "member's laptop" {
		t.Errorf("workspace: %s", made.body)
	}
	if k, err := h.cfg.Policies.LastPlace(t.Context(), p.ids["project"], known.UserID); err != nil || k != executors.Runner.Of(enrolled.RunnerID) {
		t.Errorf("remembered: %q, %v", k, err)
	}

	// Whose work it is may be seen by the team; nothing of somebody else's is done there.
	moved := h.do("PATCH", ws, `{"executor":"runner","runner_id":"`+enrolled.RunnerID+`"}`, mine...)
	if moved.StatusCode != 200 {
		t.Fatalf("moving: %d %s", moved.StatusCode, moved.body)
	}
	for _, r := range []reply{h.do("POST", ws+"/exec", `{"command":"true"}`, other...), h.do("POST", ws+"/sessions", `{"agent":"shell"}`, other...),
		h.do("PUT", ws+"/files?path=a", "x", other...), h.do("POST", ws+"/commit", `{"message":"x"}`, other...),
		h.do("POST", "/api/v1/sessions/"+p.ids["session"]+"/input", `{"text":"x"}`, other...), h.do("POST", "/api/v1/sessions/"+p.ids["session"]+"/prompts", `{"text":"x"}`, other...),
		h.do("PATCH", "/api/v1/prompts/"+p.ids["prompt"], `{"text":"x"}`, other...)} {
		if r.code() != "runner_not_yours" {
			t.Errorf("somebody else's work there: %d %s", r.StatusCode, r.body)
		}
	}
	var one api.Workspace
	if r := h.do("GET", ws, "", other...); r.StatusCode != 200 {
		t.Errorf("looking at it: %d", r.StatusCode)
	}
	machine.Set(fake.Knobs{Boundary: executors.NoBoundary})
	h.do("GET", ws, "", mine...).into(t, &one)
	if !strings.Contains(rest.Val(one.PlaceWarning), "DANGEROUS") {
		t.Errorf("a machine without isolation: %q", rest.Val(one.PlaceWarning))
	}
	machine.GoAway("offline since 14:02 UTC")
	h.do("GET", ws, "", mine...).into(t, &one)
	if !rest.Val(one.PlaceBlocked) || !strings.Contains(rest.Val(one.PlaceWarning), "offline since 14:02 UTC") {
		t.Errorf("while it is away: %q", rest.Val(one.PlaceWarning))
	}
	if r := h.do("POST", ws+"/sessions", `{"agent":"shell"}`, mine...); r.code() != "runner_offline" && r.code() != "executor_unavailable" {
		t.Errorf("a session while it is away: %d %s", r.StatusCode, r.body)
	}
	h.do("GET", base+"/executors?project_id="+p.ids["project"], "", mine...).into(t, &list)
	if s := list.Suggested; s == nil || s.Executor != "fake" || !s.Ask || !strings.Contains(rest.Val(s.Reason), "offline since 14:02 UTC") {
		t.Errorf("suggested while it is away: %+v", s)
	}
}
