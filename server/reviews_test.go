package server

import (
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces/reviews"
)

// A draft is its author's, whoever else may do what; and a review types to an agent only for who may.
func TestASVS_8_2_2_DraftsAreTheirAuthors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	at := "/api/v1/workspaces/" + p.ids["workspace"]
	ask := func(token, method, path, body string) reply { return h.do(method, path, body, bearer(token)...) }
	var admin accounts.Actor
	members, err := h.accounts.Members(t.Context(), p.team.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.Role == accounts.Admin {
			if admin, err = h.accounts.Actor(t.Context(), m.User.ID); err != nil {
				t.Fatal(err)
			}
		}
	}

	// The owner writes one; nobody else finds it, nor what is in it.
	if r := ask(p.tokens["owner"], "PUT", at+"/review", `{"body":"between us","verdict":"changes"}`); r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	var mine, theirs api.Review
	ask(p.tokens["owner"], "GET", at+"/review", "").into(t, &mine)
	ask(p.tokens["admin"], "GET", at+"/review", "").into(t, &theirs)
	if mine.Body != "between us" || !mine.Mine || theirs.Id != "" || theirs.Body != "" {
		t.Errorf("mine %+v, theirs %+v", mine, theirs)
	}
	c := reviews.Comment{ID: id.New("rcm"), TeamID: p.team.ID, WorkspaceID: p.ids["workspace"], ReviewID: mine.Id, AuthorID: mine.AuthorId, Path: "a", Side: reviews.NewSide,
		Body: "draft", State: reviews.Open}
	if err := store.NewReviews(h.db).AddComment(t.Context(), c, 10); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"admin", "member", "outsider"} {
		for _, call := range [][3]string{{"PATCH", "/api/v1/review-comments/" + c.ID, `{"body":"x"}`}, {"DELETE", "/api/v1/review-comments/" + c.ID, ""},
			{"POST", "/api/v1/reviews/" + mine.Id + "/cancel", "{}"}} {
			if r := ask(p.tokens[who], call[0], call[1], call[2]); r.StatusCode != 404 {
				t.Errorf("%s %s %s: %d %s", who, call[0], call[1], r.StatusCode, r.body)
			}
		}
	}
	// What was sent others may read and not change.
	if r := ask(p.tokens["admin"], "PATCH", "/api/v1/review-comments/"+p.ids["comment"], `{"body":"x"}`); r.code() != "not_your_comment" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := ask(p.tokens["member"], "PATCH", "/api/v1/review-comments/"+p.ids["comment"], `{"state":"resolved"}`); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}

	// A token that may not type does not type by a review.
	admin.SessionHash, admin.ConfirmedAt = "-", time.Now().UnixMilli() // signed in just now
	_, write, err := h.accounts.IssueToken(t.Context(), admin, signin.TokenRequest{Name: "write", Scopes: []accounts.Scope{accounts.ScopeRead, accounts.ScopeWrite}})
	if err != nil {
		t.Fatal(err)
	}
	if r := ask(write, "POST", at+"/review/send", `{"verdict":"changes","body":"b","session_id":"`+p.ids["session"]+`"}`); r.StatusCode != 403 || r.code() != "wrong_scope" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}

	// What somebody viewed is theirs.
	if r := ask(p.tokens["viewer"], "PUT", at+"/viewed", `{"path":"a","mark":"m","viewed":true}`); r.StatusCode != 204 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for who, want := range map[string]int{"viewer": 1, "owner": 0} {
		var v api.ViewedList
		ask(p.tokens[who], "GET", at+"/viewed", "").into(t, &v)
		if len(v.Items) != want {
			t.Errorf("%s: %+v", who, v)
		}
	}
}
