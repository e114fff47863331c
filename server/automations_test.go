package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/store/automationstore"
	"github.com/parawork/parawork/store/jobstore"
)

func TestAutomationsByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	path := "/api/v1/teams/" + p.team.Slug + "/automations"
	member, viewer, admin, other := bearer(p.tokens["member"]), bearer(p.tokens["viewer"]), bearer(p.tokens["admin"]), bearer(p.tokens["owner"])
	work := fmt.Sprintf(`"work": {"agent": "command", "argv": ["true"], "prompt": "Look at {{event.title}}", "project_id": %q}`, p.ids["project"])
	var a api.Automation
	h.do("POST", path, `{"name": "Look", "trigger": {"kind": "git_host", "events": ["push"], "branches": ["*"]}, `+work+`}`, member...).into(t, &a)
	if a.Secret == nil || a.EventsUrl == nil || a.Work.TimeoutMs == nil || *a.Work.TimeoutMs != jobs.DefTimeout {
		t.Fatalf("%+v", a)
	}
	var shown api.AutomationList
	h.do("GET", path+"?limit=1", "", viewer...).into(t, &shown)
	if len(shown.Items) != 1 || shown.Items[0].Secret != nil || shown.Items[0].Id != a.Id {
		t.Errorf("a viewer sees %+v", shown.Items)
	}
	one := "/api/v1/automations/" + a.Id
	for what, r := range map[string]reply{
		"changed by another member": h.do("PATCH", one, `{"work": {"agent": "command", "argv": ["evil"], "prompt": "p"}}`, other...),
		"started by another member": h.do("POST", one+"/run", `{}`, other...),
		"its secret renewed":        h.do("POST", one+"/secret", "", admin...),
	} {
		if r.StatusCode != 403 || r.code() != "not_automation_owner" {
			t.Errorf("%s: %d %s", what, r.StatusCode, r.body)
		}
	}

	report := func(secret, body string) int {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		return h.do("POST", one+"/events", body, "X-GitHub-Event", "push", "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil))).StatusCode
	}
	push := func(branch string) string { return fmt.Sprintf(`{"ref": "refs/heads/%s", "after": "1f"}`, branch) }
	if got := report("another secret", push("main")); got != 404 {
		t.Errorf("a wrong signature: %d", got)
	}
	last := func() api.AutomationRun {
		t.Helper()
		var runs api.AutomationRunList
		h.do("GET", one+"/runs", "", viewer...).into(t, &runs)
		if len(runs.Items) == 0 {
			t.Fatal("there is no run")
		}
		return runs.Items[0]
	}
	if got := report(*a.Secret, push("main")); got != 202 || last().State != "waiting" {
		t.Errorf("a push: %d %+v", got, last())
	}
	if got := report(*a.Secret, push("feature/x")); got != 202 || last().Code != triggers.Ignored {
		t.Errorf("a push to a branch it does not wait for: %d %+v", got, last())
	}

	// A push to the branch that a run of it made starts nothing.
	ctx := tenant.All(t.Context(), "a test")
	w, err := h.cfg.Workspaces.Records.Workspace(ctx, p.ids["workspace"])
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := automationstore.New(h.db).InsertRun(ctx, triggers.Run{ID: id.New("arn"), AutomationID: a.Id, TeamID: p.team.ID, EventID: "made it", Cause: "manual", Fields: map[string]string{}, State: triggers.Completed, Version: 1, CreatedAt: 1, EndedAt: 2}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := jobstore.New(h.db).InsertJob(ctx, jobs.Job{ID: id.New("job"), TeamID: p.team.ID, CreatedBy: a.CreatedBy, Key: "automation/" + run.ID + "/1", WorkspaceID: w.ID, Status: jobs.Completed, Step: jobs.Done, Version: 1, CreatedAt: 1}, 100); err != nil {
		t.Fatal(err)
	}
	h.do("PATCH", one, `{"trigger": {"kind": "git_host", "events": ["push"]}}`, member...)
	if got := report(*a.Secret, push(w.Branch)); got != 202 || last().Code != "automation_loop" {
		t.Errorf("a push to a branch of its own: %d %+v", got, last())
	}

	h.do("PATCH", one, `{"paused": true}`, admin...).into(t, &a)
	if got := report(newSecret(h, t, one, member), push("main2")); !a.Paused || got != 202 || last().Code != "automation_paused" {
		t.Errorf("paused by an admin: %v, then %d %+v", a.Paused, got, last())
	}
	if r := h.do("DELETE", one, "", admin...); r.StatusCode != 204 {
		t.Errorf("removed by an admin: %d", r.StatusCode)
	}
	if r := h.do("GET", one, "", member...); r.StatusCode != 404 {
		t.Errorf("after it was removed: %d", r.StatusCode)
	}
}

// newSecret renews what reports are signed with and returns it.
func newSecret(h *harness, t *testing.T, one string, owner []string) string {
	t.Helper()
	var s api.AutomationSecret
	h.do("POST", one+"/secret", "", owner...).into(t, &s)
	return s.Secret
}
