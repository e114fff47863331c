package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// newPreview makes the proxy to ports of sandboxes: below the configured domain, or below localhost where the server listens on this
// machine alone, or else below a path of a second origin. nil = off.
func (s *Server) newPreview() *preview.Proxy {
	domain := s.cfg.PreviewDomain
	if domain == "" && s.cfg.Loopback && (s.public == nil || rest.LoopbackHost(s.public.Host)) {
		domain = "localhost"
	}
	if domain == "" && s.cfg.PreviewListen == "" && s.content == nil {
		return nil
	}
	s.previewBelow = domain == ""
	return preview.New(preview.Config{Domain: domain, Dial: s.dialPort, Check: s.mayVisit, Links: s.cfg.PortLinks, Sharer: func(userID string) any { return sharer{userID} }, Secure: s.previewSecure, Now: s.cfg.Now, Log: s.log})
}

// pathFront serves the origin of preview.listen, on which nothing is but ports below their paths.
func (s *Server) pathFront() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ready() != nil {
			http.Error(w, "The server is starting or stopping. Try again in a moment.", http.StatusServiceUnavailable)
			return
		}
		s.preview.ServePath(w, r)
	})
}

// servePreviews serves preview.listen until stop is called. failed gets the error it ends with.
func (s *Server) servePreviews(ctx context.Context, all *sync.WaitGroup, failed chan<- error) (stop func(context.Context), err error) {
	if s.cfg.PreviewListen == "" || !s.previewBelow {
		return func(context.Context) {}, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.PreviewListen)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "cannot_listen", "Parawork cannot listen on %s: %v. Set preview.listen to a free address of this machine.", s.cfg.PreviewListen, err)
	}
	s.previewPort.Store(int32(l.Addr().(*net.TCPAddr).Port))
	web := s.webServer(s.pathFront())
	all.Go(func() { failed <- web.Serve(l) })
	return func(ctx context.Context) {
		_ = web.Shutdown(ctx)
		_ = web.Close()
	}, nil
}

// front hands requests for the origins of ports to the preview, those for contents to their origin, and all others to the API and the web app.
func (s *Server) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content := s.content != nil && s.content.Serves(r.Host)
		switch {
		case !content && (s.preview == nil || !s.preview.Serves(r.Host)):
			next.ServeHTTP(w, r)
		case s.ready() != nil:
			http.Error(w, "The server is starting or stopping. Try again in a moment.", http.StatusServiceUnavailable)
		case content && s.previewBelow && strings.HasPrefix(r.URL.Path, preview.PathRoot):
			s.preview.ServePath(w, r)
		case content:
			s.content.ServeHTTP(w, r)
		default:
			s.preview.ServeHTTP(w, r)
		}
	})
}

// previewSecure is secure for the names of ports: those follow publicUrl.
func (s *Server) previewSecure(r *http.Request) bool {
	return s.Secure(r) || s.public != nil && s.public.Scheme == "https" && !rest.LoopbackHost(r.Host)
}

// mayVisit asks again whether who opened a port may: the same sign-in, and still a right to work in the workspace, for what a page asks
// of a program there is work.
func (s *Server) mayVisit(ctx context.Context, who any, workspaceID string) error {
	actor, err := s.visitor(ctx, who)
	if err != nil {
		return err
	}
	w, err := s.cfg.Workspaces.Records.Workspace(tenant.In(ctx, actor.TeamIDs()...), workspaceID)
	if err != nil {
		return err
	}
	o, err := s.ObjectOf(ctx, actor, w)
	if err != nil {
		return err
	}
	if _, byLink := who.(sharer); byLink {
		if err := accounts.Can(actor, accounts.ShareSession, o); err != nil || w.Private {
			return cmp.Or(err, error(rest.ErrNotFound))
		}
	}
	return accounts.Can(actor, accounts.EditWorkspace, o)
}

// sharer is the user who made a link, on whose right it stands.
type sharer struct{ userID string }

// visitor is on whose right somebody sees a port: their own, or that of who made their link.
func (s *Server) visitor(ctx context.Context, who any) (accounts.Actor, error) {
	switch who := who.(type) {
	case rest.Credential:
		return rest.Authenticate(ctx, s.cfg.SignIn, who)
	case sharer:
		actor, err := s.cfg.Directory.Actor(tenant.All(ctx, "who comes by a link has no team"), who.userID)
		if err != nil || actor.User.SuspendedAt != 0 {
			return accounts.Actor{}, cmp.Or(err, error(rest.ErrSignedOut))
		}
		return actor, nil
	}
	return accounts.Actor{}, rest.ErrSignedOut
}

// dialPort connects to a port of a workspace's sandbox for who, whom mayVisit has admitted. The owner of a machine sees who asks.
func (s *Server) dialPort(ctx context.Context, who any, workspaceID string, port int, wake bool) (net.Conn, error) {
	actor, err := s.visitor(ctx, who)
	if err != nil {
		return nil, err
	}
	ctx = executors.By(tenant.All(ctx, "whoever has the grant was let in by mayVisit"), actor.User.ID)
	place, live := s.cfg.Places.Live(workspaceID)
	if wake {
		var err error
		if place, err = s.cfg.Places.EnsureFor(ctx, workspaceID, executors.ForApp, ""); err != nil {
			return nil, err
		}
	} else if !live {
		return nil, fault.New(fault.Conflict, "sandbox_not_running", "The workspace's sandbox is not running.")
	}
	place.Use()() // who looks at a port uses the sandbox
	return place.Guest.DialPort(ctx, port)
}

const previewsOff = "Previews of ports are off. An operator turns them on with preview.baseDomain or preview.listen in config.json."

// appOrigin is the origin at which the browser that asks uses Parawork.
func (h operations) appOrigin(r *http.Request) (scheme, host string) {
	switch {
	case h.public != nil && !rest.LoopbackHost(r.Host):
		return h.public.Scheme, h.public.Host
	case h.Secure(r):
		return "https", r.Host
	}
	return "http", r.Host
}

// address is where a port is seen from the browser that asks.
func (h operations) address(r *http.Request, workspaceID string, port int) string {
	scheme, host := h.appOrigin(r)
	switch {
	case !h.previewBelow:
		return h.preview.Address(scheme, host, workspaceID, port)
	case h.cfg.PreviewListen != "":
		name := host
		if bare, _, err := net.SplitHostPort(host); err == nil {
			name = bare
		}
		return preview.PathAddress("http://"+net.JoinHostPort(strings.Trim(name, "[]"), strconv.Itoa(int(h.previewPort.Load()))), workspaceID, port)
	}
	return preview.PathAddress(strings.TrimSuffix(h.cfg.ContentURL, "/"), workspaceID, port)
}

func (h operations) ListPorts(ctx context.Context, req api.ListPortsRequestObject) (api.ListPortsResponseObject, error) {
	out := api.Ports{Enabled: h.preview != nil, Items: []api.Port{}}
	if !out.Enabled {
		out.Reason = previewsOff
	}
	sb, err := h.cfg.Places.Sandbox(ctx, req.Id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if sb.State == executors.Running {
		for _, port := range sb.Ports {
			p := api.Port{Port: port}
			if out.Enabled {
				p.Url = h.address(rest.CallOf(ctx).Request, req.Id, port)
			}
			out.Items = append(out.Items, p)
		}
	}
	return api.ListPorts200JSONResponse(out), nil
}

func (h operations) OpenPort(ctx context.Context, req api.OpenPortRequestObject) (api.OpenPortResponseObject, error) {
	if h.preview == nil {
		return nil, errPreviewsOff
	}
	if err := checkPort(req.Port); err != nil {
		return nil, err
	}
	call := rest.CallOf(ctx)
	v := preview.Visit{Who: call.Cred, Owner: call.Actor.User.ID, WorkspaceID: req.Id, Port: req.Port}
	if req.Body != nil {
		v.Path = rest.Val(req.Body.Path)
		if rest.Val(req.Body.Frame) {
			scheme, host := h.appOrigin(call.Request)
			v.App = scheme + "://" + host
		}
	}
	ticket, err := h.preview.Ticket(v)
	if err != nil {
		return nil, err
	}
	return api.OpenPort200JSONResponse{Url: h.address(call.Request, req.Id, req.Port) + ticket}, nil
}

func checkPort(port int) error {
	if port < 1 || port > 65535 {
		return fault.New(fault.Invalid, "invalid_port", "A port is a number from 1 to 65535.").With("field", "port")
	}
	return nil
}

var errPreviewsOff = fault.New(fault.Unsupported, "preview_off", previewsOff)

func (h operations) GetPort(ctx context.Context, req api.GetPortRequestObject) (api.GetPortResponseObject, error) {
	access, err := h.portAccess(ctx, req.Id, req.Port)
	return api.GetPort200JSONResponse(access), err
}

// portAccess lets a script reach a port with the rights of the call: id names what mayVisit and dialPort know.
func (h operations) portAccess(ctx context.Context, id string, port int) (api.PortAccess, error) {
	if h.preview == nil {
		return api.PortAccess{}, errPreviewsOff
	}
	if err := checkPort(port); err != nil {
		return api.PortAccess{}, err
	}
	call := rest.CallOf(ctx)
	token, until, err := h.preview.Token(preview.Visit{Who: call.Cred, Owner: call.Actor.User.ID, WorkspaceID: id, Port: port})
	if err != nil {
		return api.PortAccess{}, err
	}
	address := h.address(call.Request, id, port)
	if h.previewBelow {
		address += preview.NoToken + "/"
	}
	u, err := url.Parse(address)
	if err != nil {
		return api.PortAccess{}, err
	}
	return api.PortAccess{Url: address, Host: u.Host, Headers: map[string]string{preview.TokenHeader: token}, ExpiresAt: until.UnixMilli()}, nil
}

// GetSandboxPort answers as GetPort does, for a sandbox without a repository.
func (h operations) GetSandboxPort(ctx context.Context, req api.GetSandboxPortRequestObject) (api.GetSandboxPortResponseObject, error) {
	sb, err := h.cfg.Sandboxes.Use(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	access, err := h.portAccess(ctx, sb.WorkspaceID, req.Port)
	return api.GetSandboxPort200JSONResponse(access), err
}
