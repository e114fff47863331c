package server

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/tenant"
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

// A place is explained step by step; who may not use this server without isolation reads so, and nothing new starts there.
func TestWhyAPlaceAndWhoMayUseIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	base, ws := "/api/v1/teams/"+p.ids["team"], "/api/v1/workspaces/"+p.ids["workspace"]
	admin, member := bearer(p.tokens["admin"]), bearer(p.tokens["member"])

	decided := func(query string) (out api.PlaceDecision, rule string) {
		t.Helper()
		r := h.do("GET", base+"/place-choice"+query, "", member...)
		r.into(t, &out)
		for _, s := range out.Steps {
			if s.Decided {
				rule += string(s.Rule)
			}
		}
		return out, rule
	}
	if d, rule := decided(""); d.Executor != "fake" || rule != "auto" || d.Steps[0].Words != "Nobody named a place for this workspace." {
		t.Errorf("nobody says anything: %+v", d)
	}
	if d, rule := decided("?executor=fake"); d.Executor != "fake" || rule != "named" || !strings.HasSuffix(d.Steps[3].Words, "names none.") {
		t.Errorf("named: %+v", d)
	}
	if d, _ := decided("?executor=balloon"); d.Executor != "" || d.Problem == nil || len(d.Steps) == 0 {
		t.Errorf("a place that is not there: %+v", d)
	}
	var wishes api.PlaceWishes
	h.do("PUT", base+"/place-wishes", `{"executor":"fake","machine_first":true,"fallback":"fake"}`, member...).into(t, &wishes)
	if wishes.Executor != "fake" || !wishes.MachineFirst || wishes.Fallback != "fake" || !wishes.Trusted {
		t.Errorf("wishes: %+v", wishes)
	}
	if d, rule := decided(""); rule != "person" || !strings.Contains(d.Steps[1].Words, "no machine of your own") {
		t.Errorf("their own default: %+v", d)
	}
	for _, bad := range []string{`{"executor":"balloon"}`, `{"fallback":"auto"}`} {
		if r := h.do("PUT", base+"/place-wishes", bad, member...); r.StatusCode < 400 {
			t.Errorf("%s: %d %s", bad, r.StatusCode, r.body)
		}
	}

	var why api.PlaceDecision
	h.do("GET", ws+"/place-choice", "", member...).into(t, &why)
	if why.Executor == "" || why.DecidedAt != nil || len(why.Steps) != 0 {
		t.Errorf("of one that was made before: %+v", why)
	}
	steps := []choice.Step{{Rule: choice.RuleNamed, Words: "Nobody named one."}, {Rule: choice.RuleTeam, Kind: "fake", Words: "The team's default.", Decided: true}}
	if err := h.cfg.People.KeepWhy(tenant.All(t.Context(), "test"), p.team.ID, p.ids["workspace"], choice.Decision{Kind: executors.Kind(why.Executor), Steps: steps, LatencyMs: 31}, 7); err != nil {
		t.Fatal(err)
	}
	h.do("GET", ws+"/place-choice", "", member...).into(t, &why)
	if why.DecidedAt == nil || *why.DecidedAt != 7 || len(why.Steps) != 2 || why.LatencyMs != 31 || !why.Steps[1].Decided {
		t.Errorf("why a workspace is there: %+v", why)
	}

	if r := h.do("PUT", base+"/place-rights", `{"people":[]}`, member...); r.StatusCode != 403 {
		t.Errorf("a member gives rights: %d", r.StatusCode)
	}
	var me api.Me
	h.do("GET", "/api/v1/me", "", admin...).into(t, &me)
	var rights api.PlaceRights
	h.do("PUT", base+"/place-rights", `{"members":false,"people":[{"user_id":"`+me.User.Id+`","trusted":true}]}`, admin...).into(t, &rights)
	if rights.Members == nil || *rights.Members || len(rights.People) != 1 {
		t.Errorf("rights: %+v", rights)
	}
	named := `{"project_id":"` + p.ids["project"] + `","name":"x","executor":"fake"}`
	if r := h.do("POST", base+"/workspaces", named, member...); r.StatusCode != 403 || !strings.Contains(string(r.body), "unisolated_not_allowed") {
		t.Errorf("naming it without the right: %d %s", r.StatusCode, r.body)
	}
	for role, refused := range map[string]bool{"member": true, "admin": false} {
		if r := h.do("POST", ws+"/exec", `{"command":"true"}`, bearer(p.tokens[role])...); strings.Contains(string(r.body), "may not use this server without isolation") != refused {
			t.Errorf("a command of the %s: %d %s", role, r.StatusCode, r.body)
		}
	}
}
