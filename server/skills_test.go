package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/tools/skills"
)

// Members write skills and decide about drafts over the API, admins set what a team's agents read and save; other teams see nothing of it.
func TestSkillsByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	path, instructions := "/api/v1/teams/"+p.team.Slug+"/skills", "/api/v1/teams/"+p.team.Slug+"/agent-instructions"
	member, viewer, admin, outsider := bearer(p.tokens["member"]), bearer(p.tokens["viewer"]), bearer(p.tokens["admin"]), bearer(p.tokens["outsider"])
	var k api.TeamSkill
	h.do("POST", path, `{"name":"release","description":" How to release ","text":"tag it\n"}`, member...).into(t, &k)
	if k.ProjectId != nil || k.InUse != 1 || k.Version != 1 || k.Description != "How to release" || k.Text != "tag it" || k.SavedBy.Name != "member" {
		t.Errorf("%+v", k)
	}
	save := func() { // as an agent does
		t.Helper()
		_, err := h.cfg.Skills.Save(t.Context(), skills.Skill{TeamID: p.team.ID, Name: "release", Version: skills.Version{Description: "d", Text: "rm -rf", UserID: p.ids["session"], Agent: "codex", SessionID: p.ids["session"]}}, -1)
		if err != nil {
			t.Fatal(err)
		}
	}
	save()
	var all api.SkillList
	h.do("GET", path+"?q=tag&drafts=true", "", viewer...).into(t, &all)
	if len(all.Items) != 1 || all.Items[0].Draft != 2 || all.Items[0].InUse != 1 || all.Items[0].Text != "" {
		t.Errorf("%+v", all.Items)
	}
	var versions api.SkillVersionList
	h.do("GET", "/api/v1/skills/"+k.Id+"/versions", "", viewer...).into(t, &versions)
	if len(versions.Items) != 2 || versions.Items[0].Agent != "codex" || versions.Items[0].Text != "rm -rf" || versions.Items[1].Text != "tag it" {
		t.Errorf("%+v", versions.Items)
	}
	one := "/api/v1/skills/" + k.Id
	for _, c := range []struct {
		method, path, body string
		who                []string
		status             int
		code               string
	}{
		{"POST", path, `{"name":"Bad Name","description":"d","text":"t"}`, member, http.StatusBadRequest, "skill_invalid"},
		{"POST", path, `{"name":"a","description":" ","text":"t"}`, member, http.StatusBadRequest, "skill_invalid"},
		{"POST", path, `{"name":"release","description":"d","text":"t"}`, member, http.StatusConflict, "skill_exists"},
		{"POST", path, `{"name":"a","description":"d","text":"t","project_id":"prj_of_others"}`, member, http.StatusNotFound, ""},
		{"POST", path, `{"name":"a","description":"d","text":"t"}`, viewer, http.StatusForbidden, "forbidden"},
		{"POST", path, `{"name":"a","description":"d","text":"t"}`, outsider, http.StatusNotFound, "not_found"},
		{"GET", path + "?cursor=x", "", member, http.StatusBadRequest, ""},
		{"GET", one, "", outsider, http.StatusNotFound, "not_found"},
		{"GET", one + "/versions", "", outsider, http.StatusNotFound, "not_found"},
		{"PATCH", one, `{"use_version":2}`, viewer, http.StatusForbidden, "forbidden"},
		{"PATCH", one, `{"use_version":2}`, outsider, http.StatusNotFound, "not_found"},
		{"PATCH", one, `{"use_version":9}`, member, http.StatusNotFound, "skill_version_not_found"},
		{"PATCH", one, `{"use_version":2,"text":"t"}`, member, http.StatusBadRequest, "skill_invalid"},
		{"PATCH", one, `{"text":"t","version":1}`, member, http.StatusConflict, "skill_changed"},
		{"PATCH", one, `{"use_version":1}`, member, http.StatusOK, ""}, // rejects the draft
		{"DELETE", one, "", viewer, http.StatusForbidden, "forbidden"},
		{"DELETE", one, "", outsider, http.StatusNotFound, "not_found"},
		{"GET", instructions, "", outsider, http.StatusNotFound, "not_found"},
		{"PUT", instructions, `{"text":"Use tabs.","accept_skills":true}`, member, http.StatusForbidden, "forbidden"},
		{"PUT", instructions, `{"text":"` + strings.Repeat("é", 20000) + `"}`, admin, http.StatusBadRequest, "instructions_too_long"},
		{"PUT", instructions, `{"text":"Use tabs.","accept_skills":true}`, admin, http.StatusOK, ""},
		{"PUT", instructions, `{"text":"Use spaces."}`, admin, http.StatusOK, ""},
		{"PUT", "/api/v1/projects/" + p.ids["project"] + "/agent-instructions", `{"text":"","accept_skills":true}`, admin, http.StatusBadRequest, "instructions_invalid"},
	} {
		if r := h.do(c.method, c.path, c.body, c.who...); r.StatusCode != c.status || c.code != "" && r.code() != c.code {
			t.Errorf("%s %s %.60s: %d %s, want %d %s", c.method, c.path, c.body, r.StatusCode, r.body, c.status, c.code)
		}
	}
	var i api.AgentInstructions
	h.do("GET", instructions, "", viewer...).into(t, &i)
	if i.Text != "Use spaces." || !i.AcceptSkills || i.UpdatedBy == nil || i.UpdatedBy.Name != "admin" {
		t.Errorf("%+v", i)
	}
	save()
	h.do("GET", one, "", viewer...).into(t, &k)
	if k.InUse != 3 || k.Draft != 0 || k.Agent != "codex" {
		t.Errorf("a team that accepts what agents save: %+v", k)
	}
	if r := h.do("DELETE", one, "", member...); r.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", one, "", member...); r.StatusCode != http.StatusNotFound {
		t.Errorf("it is still there: %d", r.StatusCode)
	}
}
