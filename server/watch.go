package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces/assembly"
)

// Names of the cookie of links: see rest.HostCookie. It holds the tokens of the links a browser has opened, the newest first, so that two
// tabs may watch two sessions.
const (
	watchHostCookie  = "__Host-parawork-watch"
	watchPlainCookie = "parawork-watch"
	watchMost        = 8 // tokens in it
)

var errLinkEnded = fault.New(fault.Gone, "link_ended", "This link has ended, or was not opened in this browser. Open it again, or ask the person who sent it for a new one.")

// Watched finds what a link shows, for watch.Config.Subject.
func Watched(all *sessions.Service, in *assembly.Workspaces) func(ctx context.Context, sessionID string) (watch.Subject, error) {
	return func(ctx context.Context, sessionID string) (watch.Subject, error) {
		session, err := all.Get(ctx, sessionID)
		if err != nil {
			return watch.Subject{}, err
		}
		w, err := in.Records.Workspace(ctx, session.WorkspaceID)
		if err == nil && w.DeletedAt != 0 {
			err = rest.ErrNotFound
		}
		return watch.Subject{WorkspaceID: w.ID, Object: accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private}}, err
	}
}

func (h operations) ListWatchLinks(ctx context.Context, req api.ListWatchLinksRequestObject) (api.ListWatchLinksResponseObject, error) {
	call := rest.CallOf(ctx)
	links, err := h.cfg.Watch.Links(ctx, call.Team.ID, req.Id)
	if err != nil {
		return nil, err
	}
	items, err := h.watchLinks(ctx, call.Team.ID, links)
	return api.ListWatchLinks200JSONResponse{Items: items}, err
}

func (h operations) ListTeamWatchLinks(ctx context.Context, _ api.ListTeamWatchLinksRequestObject) (api.ListTeamWatchLinksResponseObject, error) {
	call := rest.CallOf(ctx)
	links, err := h.cfg.Watch.TeamLinks(ctx, call.Team.ID)
	if err != nil {
		return nil, err
	}
	hidden, err := h.Hidden(ctx, call)
	if err != nil {
		return nil, err
	}
	links = slices.DeleteFunc(links, func(l watch.Link) bool { return hidden[l.WorkspaceID] })
	items, err := h.watchLinks(ctx, call.Team.ID, links)
	return api.ListTeamWatchLinks200JSONResponse{Items: items}, err
}

func (h operations) CreateWatchLink(ctx context.Context, req api.CreateWatchLinkRequestObject) (api.CreateWatchLinkResponseObject, error) {
	call := rest.CallOf(ctx)
	l, token, err := h.cfg.Watch.Create(ctx, call.Actor, req.Id, rest.Val(req.Body.Name), rest.Val(req.Body.Minutes))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "watch_link", l.ID, l.Name)
	audit.Note(ctx, "session_id", l.SessionID)
	audit.Note(ctx, "expires_at", time.UnixMilli(l.ExpiresAt).UTC().Format(time.RFC3339))
	v := h.watchLinkOf(l, map[string]string{call.Actor.User.ID: call.Actor.User.Name})
	// Behind the #, which browsers send to nobody.
	return api.CreateWatchLink201JSONResponse{Id: v.Id, WorkspaceId: v.WorkspaceId, SessionId: v.SessionId, Name: v.Name, State: v.State, CreatedBy: v.CreatedBy,
		CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, Url: h.Here(call.Request) + "/watch#" + token}, nil
}

func (h operations) RevokeWatchLink(ctx context.Context, _ api.RevokeWatchLinkRequestObject) (api.RevokeWatchLinkResponseObject, error) {
	call := rest.CallOf(ctx)
	audit.Target(ctx, "watch_link", call.Link.ID, call.Link.Name)
	if err := h.cfg.Watch.Revoke(ctx, call.Actor, call.Link); err != nil {
		return nil, err
	}
	return api.RevokeWatchLink204Response{}, nil
}

func (h operations) watchLinks(ctx context.Context, teamID string, links []watch.Link) ([]api.WatchLink, error) {
	names, err := rest.MemberNames(ctx, h.cfg.Directory, teamID)
	if err != nil {
		return nil, err
	}
	return rest.List(links, func(l watch.Link) api.WatchLink { return h.watchLinkOf(l, names) }), nil
}

func (h operations) watchLinkOf(l watch.Link, names map[string]string) api.WatchLink {
	state := api.LinkOpen
	switch {
	case l.RevokedAt != 0:
		state = api.LinkRevoked
	case !l.Open(h.cfg.Now().UnixMilli()):
		state = api.LinkExpired
	}
	return api.WatchLink{Id: l.ID, WorkspaceId: l.WorkspaceID, SessionId: l.SessionID, Name: l.Name, State: state,
		CreatedBy: api.Maker{Id: l.CreatedBy, Name: cmp.Or(names[l.CreatedBy], "a former member")}, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt,
		RevokedAt: rest.Ptr(l.RevokedAt), LastUsedAt: rest.Ptr(l.LastUsedAt), Uses: l.Uses, Watching: h.sockets.watching(l.ID)}
}

// OpenWatch opens a link with its token, or goes on with one that this browser has opened.
func (h operations) OpenWatch(ctx context.Context, req api.OpenWatchRequestObject) (api.OpenWatchResponseObject, error) {
	call := rest.CallOf(ctx)
	var l watch.Link
	var err error
	if token := rest.Val(req.Body.Token); token != "" {
		l, err = h.cfg.Watch.Enter(ctx, token)
		if err != nil {
			return nil, err
		}
		audit.As(ctx, audit.Source{Kind: audit.ByLink, ActorID: l.ID, ActorName: l.Name, Credential: l.ID, IP: h.Meta(call).IP, RequestID: call.ID})
		audit.InTeam(ctx, l.TeamID)
		audit.Target(ctx, "session", l.SessionID, "")
		defer func() {
			if err == nil {
				h.keepWatchToken(ctx, call, token)
			}
		}()
	} else {
		audit.Reported(ctx) // its opening was
		if l, err = h.watchedLink(ctx, call.Request, rest.Val(req.Body.LinkId)); err != nil {
			return nil, err
		}
	}
	ctx = tenant.In(ctx, l.TeamID)
	session, err := h.cfg.Sessions.Get(ctx, l.SessionID)
	if err != nil {
		return nil, err
	}
	w, err := h.cfg.Workspaces.Records.Workspace(ctx, l.WorkspaceID)
	if err != nil {
		return nil, err
	}
	team, err := h.cfg.Directory.TeamByID(ctx, l.TeamID)
	if err != nil {
		return nil, err
	}
	return api.OpenWatch200JSONResponse{Body: api.Watched{LinkId: l.ID, Team: team.Name, ExpiresAt: l.ExpiresAt, Workspace: api.WatchedWorkspace{Key: w.Key(), Name: w.Name},
		Session: api.WatchedSession{Agent: session.Agent, AgentName: session.AgentName, State: api.SessionState(session.State), Cols: int(session.Cols), Rows: int(session.Rows)}}}, nil
}

// watchTokens are those in the browser's cookie. Where the page came over https only the cookie that no neighbour can plant counts.
func (s *Server) watchTokens(r *http.Request) []string {
	names := []string{watchHostCookie}
	if !s.Secure(r) {
		names = append(names, watchPlainCookie)
	}
	for _, name := range names {
		if c, err := r.Cookie(name); err == nil && c.Value != "" {
			all := strings.Split(c.Value, ".")
			return all[:min(len(all), watchMost)]
		}
	}
	return nil
}

// watchedLink is the link with this id among those this browser has opened, the newest where linkID is "".
func (s *Server) watchedLink(ctx context.Context, r *http.Request, linkID string) (watch.Link, error) {
	for _, token := range s.watchTokens(r) {
		l, err := s.cfg.Watch.ByToken(ctx, token)
		if fault.Is(err, fault.Gone) && linkID != "" {
			continue
		}
		if err != nil || linkID == "" || l.ID == linkID {
			return l, err
		}
	}
	return watch.Link{}, errLinkEnded
}

// keepWatchToken puts a token in front of those the browser has, and forgets those that have ended.
func (s *Server) keepWatchToken(ctx context.Context, call *rest.Call, token string) {
	tokens, until := []string{}, int64(0)
	for _, t := range slices.Concat([]string{token}, s.watchTokens(call.Request)) {
		if slices.Contains(tokens, t) || len(tokens) == watchMost {
			continue
		}
		if l, err := s.cfg.Watch.ByToken(ctx, t); err == nil {
			tokens, until = append(tokens, t), max(until, l.ExpiresAt)
		}
	}
	c := s.Cookie(call.Request, strings.Join(tokens, "."), time.UnixMilli(until))
	c.Name, c.SameSite = watchHostCookie, http.SameSiteStrictMode
	if !c.Secure {
		c.Name = watchPlainCookie
	}
	http.SetCookie(call.Writer, c)
}

var endLink = &ending{closeNotAllowed, "the link has ended"}

// watchTerminal is GET /watch/terminal.
func (s *Server) watchTerminal(c echo.Context) error {
	r := c.Request()
	if !websocket.IsWebSocketUpgrade(r) {
		return fault.New(fault.Invalid, "websocket_only", "This address is a WebSocket.")
	}
	from, err := fromOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(endLeft)
	l, err := s.watchedLink(ctx, r, r.URL.Query().Get("link"))
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, time.Duration(l.ExpiresAt-s.cfg.Now().UnixMilli())*time.Millisecond, endLink)
	defer stop()
	done, err := s.sockets.add(&socket{user: l.CreatedBy, object: accounts.InTeam(l.TeamID), about: []string{l.WorkspaceID, l.SessionID}, link: l.ID, cancel: cancel,
		check: func(ctx context.Context) error { return s.cfg.Watch.Check(ctx, l.ID) }})
	if err != nil {
		return err
	}
	defer done()
	// Asked again now that a revocation finds the socket.
	if err := s.cfg.Watch.Check(ctx, l.ID); err != nil {
		return err
	}
	viewer, err := s.cfg.Sessions.Attach(tenant.In(ctx, l.TeamID), l.SessionID, sessions.Attach{UserID: l.ID, Name: guestName(l.Name), Guest: true, From: from})
	if err != nil {
		return err
	}
	defer viewer.Close()
	s.serveTerminal(ctx, cancel, c, viewer, true)
	return nil
}

// guestName is how who watches by a link is called before the team.
func guestName(link string) string {
	if link == "" {
		return "Guest"
	}
	return link + " (guest)"
}
