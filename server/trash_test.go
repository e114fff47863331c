package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/tenant"
)

// A team's trash shows what may be seen, gives back, and lets go for good by who may.
func TestTrash(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	ws, base := p.ids["workspace"], "/api/v1/teams/"+p.team.Slug+"/trash"
	now := time.Now().UnixMilli()
	if _, err := h.db.Exec(tenant.All(t.Context(), "a test"), `UPDATE workspaces SET deleted_at = ?, private = TRUE, snapshot = '{"head":"x"}' WHERE id = ? AND {team}`, now, ws); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Items []struct {
			Kind, ID, Key string
			Bytes         *int64
			PurgeAt       int64 `json:"purge_at"`
		}
		KeepDays int `json:"keep_days"`
	}
	h.do("GET", base, "", bearer(p.tokens["owner"])...).into(t, &got)
	if len(got.Items) != 1 || got.Items[0].Key != "PW-1" || got.Items[0].Bytes != nil || got.Items[0].PurgeAt != now+30*24*3600*1000 || got.KeepDays != 30 {
		t.Fatalf("%+v", got)
	}
	// Somebody else's private workspace is not there, and not to be removed.
	h.do("GET", base, "", bearer(p.tokens["admin"])...).into(t, &got)
	if len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	for who, want := range map[string]int{"admin": http.StatusNotFound, "member": http.StatusForbidden, "outsider": http.StatusNotFound} {
		if r := h.do("POST", base+"/"+ws+"/purge", "", bearer(p.tokens[who])...); r.StatusCode != want {
			t.Errorf("%s: %d %s", who, r.StatusCode, r.body)
		}
	}
	if r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/disk/free", `{"what":["work"]}`, bearer(p.tokens["admin"])...); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	// Making room leaves it too.
	r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/disk/free", `{"what":["trash"]}`, bearer(p.tokens["admin"])...)
	if r.StatusCode != http.StatusOK || !strings.Contains(string(r.body), `"items":0`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", base+"/"+ws+"/purge", "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusNoContent {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/workspaces/"+ws, "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusNotFound {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
