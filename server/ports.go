package server

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// newPreview makes the proxy to ports of sandboxes: below the configured domain, or below localhost where the server listens on this
// machine alone. nil = off.
func (s *Server) newPreview() *preview.Proxy {
	domain := s.cfg.PreviewDomain
	if domain == "" && s.cfg.Loopback && (s.public == nil || rest.LoopbackHost(s.public.Host)) {
		domain = "localhost"
	}
	if domain == "" {
		return nil
	}
	return preview.New(preview.Config{Domain: domain, Dial: s.dialPort, Check: s.mayVisit, Secure: s.previewSecure, Now: s.cfg.Now, Log: s.log})
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
	cred, ok := who.(rest.Credential)
	if !ok {
		return rest.ErrSignedOut
	}
	actor, err := rest.Authenticate(ctx, s.cfg.SignIn, cred)
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
	return accounts.Can(actor, accounts.EditWorkspace, o)
}

// dialPort connects to a port of a workspace's sandbox for who, whom mayVisit has admitted. The owner of a machine sees who asks.
func (s *Server) dialPort(ctx context.Context, who any, workspaceID string, port int, wake bool) (net.Conn, error) {
	cred, ok := who.(rest.Credential)
	if !ok {
		return nil, rest.ErrSignedOut
	}
	actor, err := rest.Authenticate(ctx, s.cfg.SignIn, cred)
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
	return place.Guest.DialPort(ctx, port)
}

const previewsOff = "Previews of ports are off. An operator turns them on with preview.baseDomain in config.json."

// address is where a port is seen from the browser that asks.
func (h operations) address(r *http.Request, workspaceID string, port int) string {
	scheme, host := "http", r.Host
	if h.public != nil && !rest.LoopbackHost(r.Host) {
		scheme, host = h.public.Scheme, h.public.Host
	} else if h.Secure(r) {
		scheme = "https"
	}
	return h.preview.Address(scheme, host, workspaceID, port)
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
		return nil, fault.New(fault.Unsupported, "preview_off", previewsOff)
	}
	call := rest.CallOf(ctx)
	ticket, err := h.preview.Ticket(call.Cred, req.Id, req.Port)
	if err != nil {
		return nil, err
	}
	return api.OpenPort200JSONResponse{Url: strings.TrimSuffix(h.address(call.Request, req.Id, req.Port), "/") + "/" + ticket}, nil
}
