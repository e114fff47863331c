package server

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/workspaces"
)

func TestPlacesOfATeam(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	if _, err := h.cfg.Policies.PlacePolicy(t.Context(), p.team.ID); err != nil {
		t.Fatal(err)
	}
	base, ws := "/api/v1/teams/"+p.ids["team"], "/api/v1/workspaces/"+p.ids["workspace"]
	admin, member := bearer(p.tokens["admin"]), bearer(p.tokens["member"])

	var list api.ExecutorList
	h.do("GET", base+"/executors", "", member...).into(t, &list)
	if len(list.Items) != 1 || list.Items[0].Boundary != api.BoundaryNone || list.Items[0].BoundaryName != "No isolation" || !list.Items[0].Allowed || !list.Items[0].ChosenByDefault {
		t.Errorf("places: %+v", list.Items)
	}
	if _, err := h.cfg.Workspaces.Records.Workspace(t.Context(), p.ids["workspace"]); err != nil {
		t.Fatal(err)
	}
	moved := h.do("PATCH", ws, `{"executor":"fake"}`, member...)
	if moved.StatusCode != 200 {
		t.Fatalf("naming its place: %d %s", moved.StatusCode, moved.body)
	}
	var one api.Workspace
	moved.into(t, &one)
	if one.Executor != "fake" || *one.Boundary != api.BoundaryNone || !strings.Contains(*one.PlaceWarning, "no boundary") || *one.PlaceBlocked || one.PlaceChanges == nil {
		t.Errorf("workspace %+v", one)
	}
	run := h.do("POST", ws+"/exec", `{"command":"true"}`, member...)
	if run.StatusCode != 200 || !strings.Contains(string(run.body), "completed") {
		t.Fatalf("a command: %d %s", run.StatusCode, run.body)
	}
	for _, bad := range []string{`{"weakest_boundary":"steel"}`, `{"default_executor":"balloon"}`} {
		if r := h.do("PUT", base+"/places", bad, admin...); r.StatusCode < 400 {
			t.Errorf("%s: %d %s", bad, r.StatusCode, r.body)
		}
	}
	if r := h.do("PUT", base+"/places", `{"weakest_boundary":"process"}`, member...); r.StatusCode != 403 {
		t.Errorf("a member: %d", r.StatusCode)
	}
	raised := h.do("PUT", base+"/places", `{"weakest_boundary":"process"}`, admin...)
	var places api.TeamPlaces
	raised.into(t, &places)
	if places.WeakestBoundary != api.BoundaryProcess || places.EffectiveBoundary != api.BoundaryProcess || len(places.Below) != 1 || places.Below[0].Id != p.ids["workspace"] || !places.Below[0].Running ||
		places.Executors[0].Allowed || places.Executors[0].Forbidden == "" {
		t.Errorf("after it was raised: %s", raised.body)
	}
	h.do("GET", ws, "", member...).into(t, &one)
	if !*one.PlaceBlocked || !strings.Contains(*one.PlaceWarning, "a process sandbox is required") {
		t.Errorf("workspace below it: %q, %v", *one.PlaceWarning, *one.PlaceBlocked)
	}
	var sandbox api.Sandbox
	h.do("GET", ws+"/sandbox", "", member...).into(t, &sandbox)
	if *sandbox.Boundary != api.BoundaryNone || *sandbox.BoundaryName != "No isolation" || *sandbox.Warning != *one.PlaceWarning || sandbox.State != "running" {
		t.Errorf("its sandbox: %+v", sandbox)
	}
	if r := h.do("POST", ws+"/sessions", `{"agent":"shell"}`, member...); r.code() != "place_too_weak" {
		t.Errorf("a new session: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", ws+"/exec", `{"command":"true"}`, member...); !strings.Contains(string(r.body), "weaker than this team allows") {
		t.Errorf("a new command: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", base+"/workspaces", `{"project_id":"`+p.ids["project"]+`","name":"x"}`, member...); r.StatusCode < 400 || !strings.Contains(string(r.body), "process sandbox") {
		t.Errorf("a new workspace: %d %s", r.StatusCode, r.body)
	}
	var to api.WorkspacePlaces
	h.do("GET", ws+"/places", "", member...).into(t, &to)
	if !to.Movable || to.Executor != "fake" || len(to.Items) != 1 || len(to.Items[0].Changes) != 0 {
		t.Errorf("where it can go: %+v", to)
	}
}

func TestAPlaceThatIsNotThereAnyMore(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ws := "/api/v1/workspaces/" + p.ids["workspace"]
	member := bearer(p.tokens["member"])
	if r := h.do("PATCH", ws, `{"executor":"balloon"}`, member...); r.code() != "executor_unknown" {
		t.Errorf("to nowhere: %d %s", r.StatusCode, r.body)
	}
	if _, err := h.db.Exec(t.Context(), `UPDATE workspaces SET executor = 'balloon', path = '' WHERE id = ?`, p.ids["workspace"]); err != nil {
		t.Fatal(err)
	}
	var one api.Workspace
	h.do("GET", ws, "", member...).into(t, &one)
	if !*one.PlaceBlocked || !strings.Contains(*one.PlaceWarning, "not part of this server any more") {
		t.Errorf("workspace %q, %v", *one.PlaceWarning, *one.PlaceBlocked)
	}
	r := h.do("PATCH", ws, `{"executor":"auto"}`, member...)
	if r.into(t, &one); r.StatusCode != 200 {
		t.Fatalf("moving: %d %s", r.StatusCode, r.body)
	}
	if one.Executor != "fake" || *one.PlaceBlocked {
		t.Errorf("moved: %+v", one)
	}
	w, err := h.cfg.Workspaces.Records.Workspace(t.Context(), p.ids["workspace"])
	if err != nil || w.Executor != "fake" || w.State != workspaces.Ready {
		t.Errorf("stored %+v, %v", w, err)
	}
}

func TestCachesByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	url := "/api/v1/teams/" + p.ids["team"] + "/caches"
	var got api.TeamCaches
	h.do("GET", url, "", bearer(p.tokens["viewer"])...).into(t, &got)
	if got.Enabled || len(got.Items) != 0 {
		t.Errorf("where they are switched off: %+v", got)
	}
	if r := h.do("DELETE", url, "", bearer(p.tokens["member"])...); r.StatusCode != 403 {
		t.Errorf("a member empties them: %d", r.StatusCode)
	}
	if r := h.do("DELETE", url, "", bearer(p.tokens["admin"])...); r.StatusCode != 200 {
		t.Errorf("an admin: %d %s", r.StatusCode, r.body)
	}
}
