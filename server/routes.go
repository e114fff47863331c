package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/consent"
	"github.com/parawork/parawork/server/rest"
)

// byHand are the operations the generated code cannot carry: sockets, which take the connection over, and the description of
// the API itself.
func (s *Server) byHand() []handRoute {
	return []handRoute{
		{http.MethodGet, "/sessions/:id/terminal", "attachTerminal", s.attachTerminal, []echo.MiddlewareFunc{s.overSocket}},
		{http.MethodGet, "/workspaces/:id/browser/live", "watchBrowser", s.watchBrowser, []echo.MiddlewareFunc{s.overSocket}},
		{http.MethodGet, "/workspaces/:id/desktop/live", "watchDesktop", s.watchDesktop, []echo.MiddlewareFunc{s.overSocket}},
		{http.MethodGet, "/watch/terminal", "watchTerminal", s.watchTerminal, []echo.MiddlewareFunc{s.overSocket}},
		{http.MethodGet, "/teams/:team/events", "followEvents", s.followEvents, []echo.MiddlewareFunc{s.overSocket}},
		{http.MethodGet, "/runner/connect", "connectRunner", s.ops.ConnectRunner, nil},
		{http.MethodGet, "/guest/connect", "connectGuest", s.ops.ConnectGuest, nil},
		{http.MethodGet, "/runner/downloads/:file", "getRunnerDownload", s.ops.GetRunnerDownload, nil},
		{http.MethodPost, stripePath, "stripeWebhook", s.stripeWebhook, nil},
		{http.MethodPost, "/batch", "readBatch", s.readBatch, nil},
		{http.MethodPost, "/automations/:id/events", "reportEvent", s.reportEvent, nil},
		{http.MethodPost, mcpPath, "callMcp", s.callMCP, []echo.MiddlewareFunc{s.overMCP}},
		{http.MethodGet, "/openapi.yaml", "getSpec", s.getSpec, nil},
		{http.MethodHead, "/health", "getHealth", s.headHealth, nil},
	}
}

type handRoute struct {
	method, path, op string
	handle           echo.HandlerFunc
	around           []echo.MiddlewareFunc
}

// routes registers every operation behind its guard.
func (s *Server) routes() *echo.Echo {
	e := s.newEcho()
	guards := make(map[string][]echo.MiddlewareFunc, len(policy))
	for op := range policy {
		guards[op] = []echo.MiddlewareFunc{s.guard(op)}
	}
	strict := api.NewStrictHandler(s.ops, []api.StrictMiddlewareFunc{sealed})
	api.RegisterHandlersWithOptions(e, strict, api.RegisterHandlersOptions{BaseURL: rest.Base, OperationMiddlewares: guards})
	for _, r := range s.byHand() {
		e.Add(r.method, rest.Base+r.path, r.handle, append(r.around, s.guard(r.op))...)
	}
	pages := consent.New(consent.Config{OAuth: s.cfg.OAuth, SignIn: s.cfg.SignIn, Browsers: s.Browsers, Resource: mcpPath, Now: s.cfg.Now, Log: s.log})
	for _, r := range pages.Routes() {
		e.Add(r.Method, rest.Base+r.Path, r.Handle, append(r.Around, s.guard(r.Op))...)
	}
	for path, file := range docsFiles {
		e.GET("/api/docs"+path, s.docsFile(file), s.guard("getDocs"))
	}
	return e
}
