package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/audit"
)

// entries are what a chain holds, newest first.
func (h *harness) entries(t *testing.T, chain string) []audit.Row {
	t.Helper()
	rows, _, err := h.cfg.Audit.List(t.Context(), audit.Query{Chain: chain, Limit: 200}, "")
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func (h *harness) newest(t *testing.T, chain string) audit.Row {
	t.Helper()
	rows := h.entries(t, chain)
	if len(rows) == 0 {
		t.Fatalf("chain %s is empty", chain)
	}
	return rows[0]
}

func TestChangesAreRecorded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	as := func(who string) []string { return []string{"Authorization", "Bearer " + p.tokens[who]} }

	if r := h.do(http.MethodPatch, "/api/v1/workspaces/"+p.ids["workspace"], `{"name":"anew"}`, as("member")...); r.StatusCode != 200 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	got := h.newest(t, p.team.ID)
	if got.Action != "workspace.update" || got.Kind != audit.ByToken || got.ActorName != "member@example.com" || got.Credential == "" || got.IP != "127.0.0.1" ||
		got.TargetKind != "workspace" || got.TargetID != p.ids["workspace"] || got.Result != audit.Done || got.RequestID == "" {
		t.Errorf("%+v", got)
	}
	// A member without the right: in the team's own chain, with the error's code.
	if r := h.do(http.MethodPatch, "/api/v1/workspaces/"+p.ids["workspace"], `{"name":"x"}`, as("viewer")...); r.StatusCode != 403 {
		t.Fatal(r.StatusCode)
	}
	if got := h.newest(t, p.team.ID); got.Result != audit.Refused || got.Code != "forbidden" || got.ActorName != "viewer@example.com" || got.TargetID != p.ids["workspace"] {
		t.Errorf("%+v", got)
	}
	// What an outsider tries stays out of the team's chain: it would tell its members who there is.
	before := len(h.entries(t, p.team.ID))
	if r := h.do(http.MethodDelete, "/api/v1/workspaces/"+p.ids["workspace"], "", as("outsider")...); r.StatusCode != 404 {
		t.Fatal(r.StatusCode)
	}
	if n := len(h.entries(t, p.team.ID)); n != before {
		t.Errorf("the team's chain grew by %d", n-before)
	}
	if got := h.newest(t, audit.Instance); got.Action != "workspace.delete" || got.Result != audit.Refused || got.Code != "not_found" || got.ActorName != "outsider@example.com" {
		t.Errorf("%+v", got)
	}
	// Nobody, and a token that is none.
	if r := h.do(http.MethodPost, "/api/v1/teams", `{"name":"x"}`, "Authorization", "Bearer pw_user_x"); r.StatusCode != 401 {
		t.Fatal(r.StatusCode)
	}
	if got := h.newest(t, audit.Instance); got.Action != "team.create" || got.Result != audit.Refused || got.Kind != audit.ByNobody || got.ActorID != "" || got.IP == "" {
		t.Errorf("%+v", got)
	}
	// What is asked wrongly.
	if r := h.do(http.MethodPost, "/api/v1/me/tokens", `{"name":""}`, as("member")...); r.StatusCode != 400 {
		t.Fatal(r.StatusCode)
	}
	if got := h.newest(t, audit.Instance); got.Action != "token.create" || got.Result != audit.Refused || got.Code != "invalid_name" {
		t.Errorf("%+v", got)
	}
	// Looking leaves nothing, and neither does one's own view of things.
	before = len(h.entries(t, p.team.ID))
	h.do(http.MethodGet, "/api/v1/workspaces/"+p.ids["workspace"], "", as("member")...)
	h.do(http.MethodPost, "/api/v1/inbox/"+p.ids["session"]+"/done", "", as("member")...)
	if n := len(h.entries(t, p.team.ID)); n != before {
		t.Errorf("%d entries more", n-before)
	}
}

// ASVS 16.3.1: every sign-in is recorded, those that fail too; never the password.
func TestASVS_16_3_1_SignInsAreRecorded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	token, _, err := h.accounts.SetupToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := h.do(http.MethodPost, "/api/v1/setup", `{"token":"`+token+`","name":"Ada","email":"ada@example.com","password":"`+testPassword+`","team":"T"}`); r.StatusCode != 201 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	got := h.newest(t, audit.Instance)
	if got.Action != "instance.set_up" || got.ActorName != "ada@example.com" || got.Kind != audit.ByUser || got.Credential == "" {
		t.Errorf("%+v", got)
	}
	if r := h.do(http.MethodPost, "/api/v1/login", `{"email":"ada@example.com","password":"`+testPassword+`"}`); r.StatusCode != 200 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	if got := h.newest(t, audit.Instance); got.Action != "user.sign_in" || got.Result != audit.Done || got.ActorName != "ada@example.com" || got.Credential == "" || got.IP != "127.0.0.1" {
		t.Errorf("%+v", got)
	}
	const typed = "hunter2-in-the-wrong-field"
	if r := h.do(http.MethodPost, "/api/v1/login", `{"email":"`+typed+`@example.com","password":"`+typed+`"}`); r.StatusCode != 401 {
		t.Fatal(r.StatusCode)
	}
	if got := h.newest(t, audit.Instance); got.Action != "user.sign_in" || got.Result != audit.Refused || got.Code != "wrong_credentials" || got.ActorID != "" {
		t.Errorf("%+v", got)
	}
	// Whose account was tried is known where it is somebody's.
	if r := h.do(http.MethodPost, "/api/v1/login", `{"email":"ada@example.com","password":"`+typed+`"}`); r.StatusCode != 401 {
		t.Fatal(r.StatusCode)
	}
	if got := h.newest(t, audit.Instance); got.ActorID != "" || got.TargetName != "ada@example.com" || got.TargetKind != "user" {
		t.Errorf("%+v", got)
	}
	for _, r := range h.entries(t, audit.Instance) {
		for _, text := range []string{r.ActorName, r.TargetName, r.DataText()} {
			if strings.Contains(text, typed) || strings.Contains(text, testPassword) || strings.Contains(text, token) {
				t.Errorf("a secret in %+v", r)
			}
		}
	}
}

// ASVS 16.2.1: an entry says who did what to whom, with the facts that matter.
func TestASVS_16_2_1_EntriesSayWhatChanged(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	as := func(who string) []string { return []string{"Authorization", "Bearer " + p.tokens[who]} }
	var members struct {
		Items []struct{ User struct{ ID, Email string } }
	}
	h.do(http.MethodGet, "/api/v1/teams/"+p.ids["team"]+"/members", "", as("owner")...).into(t, &members)
	id := ""
	for _, m := range members.Items {
		if m.User.Email == "viewer@example.com" {
			id = m.User.ID
		}
	}
	path := "/api/v1/teams/" + p.ids["team"] + "/members/" + id
	if r := h.do(http.MethodPatch, path, `{"role":"member"}`, as("owner")...); r.StatusCode != 200 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	if got := h.newest(t, p.team.ID); got.Action != "member.update" || got.TargetKind != "user" || got.TargetID != id || got.TargetName != "viewer@example.com" ||
		got.Data["before"] != "viewer" || got.Data["role"] != "member" {
		t.Errorf("%+v", got)
	}
	if r := h.do(http.MethodDelete, path, "", as("owner")...); r.StatusCode != 204 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	if got := h.newest(t, p.team.ID); got.Action != "member.remove" || got.TargetID != id || got.Data["role"] != "member" {
		t.Errorf("%+v", got)
	}
	// The name of a private workspace is its owner's alone.
	if r := h.do(http.MethodPatch, "/api/v1/workspaces/"+p.ids["workspace"], `{"private":true}`, as("owner")...); r.StatusCode != 200 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	if r := h.do(http.MethodPatch, "/api/v1/workspaces/"+p.ids["workspace"], `{"name":"my secret plan"}`, as("owner")...); r.StatusCode != 200 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	got := h.newest(t, p.team.ID)
	if got.TargetID != p.ids["workspace"] || got.TargetName != "" || strings.Contains(got.DataText(), "plan") {
		t.Errorf("%+v", got)
	}
	// Who joins is in the team's own chain.
	r := h.do(http.MethodPost, "/api/v1/teams/"+p.ids["team"]+"/invites", `{"role":"member"}`, as("owner")...)
	var made struct{ ID, URL string }
	r.into(t, &made)
	_, token, _ := strings.Cut(made.URL, "#")
	if got := h.newest(t, p.team.ID); got.Action != "invite.create" || got.TargetID != made.ID || got.Data["role"] != "member" || strings.Contains(got.DataText()+got.TargetName, token) {
		t.Errorf("%+v", got)
	}
	if r := h.do(http.MethodPost, "/api/v1/invites/accept", `{"token":"`+token+`","name":"Cy","email":"cy@example.com","password":"`+testPassword+`"}`); r.StatusCode != 200 {
		t.Fatal(r.StatusCode, string(r.body))
	}
	if got := h.newest(t, p.team.ID); got.Action != "invite.accept" || got.ActorName != "cy@example.com" || got.TargetID != p.team.ID || got.Data["new_user"] != "true" {
		t.Errorf("%+v", got)
	}
}

func TestAuditWords(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]string{"deleteWorkspace": "workspace.delete", "setInstancePlaces": "instance_places.set", "createToken": "token.create", "login": "user.sign_in",
		"snoozeInboxItem": "", "testPlace": "place.test", "setPlaceSettings": "place_settings.set"} {
		if got := auditWord(op, http.MethodPost); got != want {
			t.Errorf("%s is %q, want %q", op, got, want)
		}
	}
	if got := auditWord("getWorkspace", http.MethodGet); got != "" {
		t.Errorf("looking is %q", got)
	}
	for op := range auditWords {
		if _, ok := policy[op]; !ok {
			t.Errorf("there is no operation %q", op)
		}
	}
	for op := range oftenDone {
		if _, ok := policy[op]; !ok {
			t.Errorf("there is no operation %q", op)
		}
	}
}

func TestAuditIsReadAndExported(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	as := func(who string) []string { return []string{"Authorization", "Bearer " + p.tokens[who]} }
	for _, name := range []string{"one", "two", "=three"} {
		if r := h.do(http.MethodPatch, "/api/v1/workspaces/"+p.ids["workspace"], `{"name":"`+name+`"}`, as("member")...); r.StatusCode != 200 {
			t.Fatal(r.StatusCode, string(r.body))
		}
	}
	var page struct {
		Items []struct {
			Seq    int64
			Action string
			Actor  struct{ Kind, Name string }
		}
		NextCursor *string `json:"next_cursor"`
	}
	base := "/api/v1/teams/" + p.ids["team"] + "/audit"
	r := h.do(http.MethodGet, base+"?action=workspace&actor=member@&limit=2", "", as("admin")...)
	if r.into(t, &page); r.StatusCode != 200 || len(page.Items) != 2 || page.NextCursor == nil || page.Items[0].Actor.Name != "member@example.com" {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	r = h.do(http.MethodGet, base+"?action=workspace&actor=member@&limit=2&cursor="+*page.NextCursor, "", as("admin")...)
	if r.into(t, &page); len(page.Items) != 1 || page.NextCursor != nil {
		t.Fatalf("%s", r.body)
	}
	for who, want := range map[string]int{"member": 403, "viewer": 403, "outsider": 404, "operator": 404, "owner": 200} {
		if r := h.do(http.MethodGet, base, "", as(who)...); r.StatusCode != want {
			t.Errorf("%s: %d", who, r.StatusCode)
		}
	}
	for who, want := range map[string]int{"owner": 403, "operator": 200} {
		if r := h.do(http.MethodGet, "/api/v1/instance/audit", "", as(who)...); r.StatusCode != want {
			t.Errorf("%s: %d", who, r.StatusCode)
		}
	}
	r = h.do(http.MethodGet, base+"/export?format=csv", "", as("owner")...)
	if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Disposition"), `attachment; filename="parawork-audit-`) || !strings.HasPrefix(string(r.body), "time,seq,") {
		t.Fatalf("%d %v %.100s", r.StatusCode, r.Header, r.body)
	}
	if got := h.newest(t, p.team.ID); got.Action != "audit.export" || got.Data["format"] != "csv" || got.ActorName != "owner@example.com" {
		t.Errorf("%+v", got)
	}
	r = h.do(http.MethodGet, base+"/export", "", as("owner")...)
	report, err := h.cfg.Audit.(*audit.Log).VerifyExport(t.Context(), strings.NewReader(string(r.body)))
	if err != nil || report.Chain != p.team.ID || report.Entries < 4 || len(report.Findings) > 0 {
		t.Errorf("%+v %v", report, err)
	}
	if r := h.do(http.MethodGet, base+"/export?format=odd", "", as("owner")...); r.StatusCode != 400 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do(http.MethodGet, "/api/v1/instance/audit/export?format=json", "", as("operator")...); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
