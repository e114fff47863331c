package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// BenchmarkReadOfAWorkspace is what permission costs: the read as people ask for it, and the same read by a server that asks nobody who
// they are. The first should take no more than twice as long as the second.
func BenchmarkReadOfAWorkspace(b *testing.B) {
	h := newHarness(b)
	h.server.Open()
	p := h.people(b)
	ask := func(b *testing.B, handler http.Handler) {
		b.Helper()
		for b.Loop() {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/workspaces/"+p.ids["workspace"], nil)
			r.Header.Set("Authorization", "Bearer "+p.tokens["member"])
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, r)
			if rec.Code != http.StatusOK {
				b.Fatalf("%d %s", rec.Code, rec.Body)
			}
		}
	}
	open := echo.New()
	strict := api.NewStrictHandler(h.server.ops, nil)
	open.GET("/api/v1/workspaces/:id", func(c echo.Context) (err error) {
		r := c.Request()
		ctx := tenant.All(r.Context(), "measuring")
		c.SetRequest(r.WithContext(ctx))
		call := rest.CallOf(c.Request().Context())
		call.Actor = accounts.Actor{Memberships: []accounts.Membership{{Team: p.team, Role: accounts.Owner}}}
		call.Object, call.Team = accounts.InTeam(p.team.ID), p.team
		if call.Workspace, err = h.cfg.Workspaces.Records.Workspace(ctx, c.Param("id")); err != nil {
			return err
		}
		return strict.GetWorkspace(c, c.Param("id"))
	}, h.server.begin, h.server.headers)
	b.Run("authorised", func(b *testing.B) { ask(b, h.server.echo) })
	b.Run("open", func(b *testing.B) { ask(b, open) })
}
