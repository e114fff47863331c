package people

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// Names of the cookie that a browser on its way to a provider and back holds; see rest.HostCookie for why there are two. What comes back is
// believed from that browser alone, so that nobody is signed in as somebody else by an address they open.
const (
	HostTripCookie  = "__Host-parawork-sso"
	plainTripCookie = "parawork-sso"
)

// BeginProviderLogin leads the browser to a provider.
func (h SSO) BeginProviderLogin(ctx context.Context, req api.BeginProviderLoginRequestObject) (api.BeginProviderLoginResponseObject, error) {
	call := rest.CallOf(ctx)
	begun, err := h.cfg.SSO.Begin(ctx, h.trip(call, req.Provider, rest.Val(req.Params.Next)))
	if err != nil {
		to, err := h.signInFailed(ctx, req.Provider, err)
		return api.BeginProviderLogin302Response{Headers: api.BeginProviderLogin302ResponseHeaders{Location: &to}}, err
	}
	h.setTrip(call, begun)
	return api.BeginProviderLogin302Response{Headers: api.BeginProviderLogin302ResponseHeaders{Location: &begun.URL}}, nil
}

// FinishProviderLogin takes what a provider answered.
func (h SSO) FinishProviderLogin(ctx context.Context, req api.FinishProviderLoginRequestObject) (api.FinishProviderLoginResponseObject, error) {
	call := rest.CallOf(ctx)
	a := sso.Answer{Provider: req.Provider, Browser: h.tripOf(call.Request), State: rest.Val(req.Params.State), Code: rest.Val(req.Params.Code), Error: rest.Val(req.Params.Error),
		Issuer: rest.Val(req.Params.Iss), Meta: h.Meta(call)}
	if call.Cred.Cookie != "" {
		if actor, err := rest.Authenticate(ctx, h.cfg.SignIn, call.Cred); err == nil {
			a.UserID = actor.User.ID
		} else if !fault.Is(err, fault.Unauthorized) {
			return nil, err
		}
	}
	out, err := h.cfg.SSO.Finish(ctx, a)
	to := out.Next
	switch {
	case err != nil && out.Link:
		to, err = withError(out.Next, req.Provider, err), known(err)
	case err != nil:
		to, err = h.signInFailed(ctx, req.Provider, err)
	case !out.Link:
		h.enterAs(call, out.Entered)
		if out.Entered.Cookie == "" {
			to = "/login?" + url.Values{"next": {out.Next}, "step": {"second"}}.Encode() // which asks for the second factor
		}
	}
	if err != nil {
		return nil, err
	}
	return api.FinishProviderLogin302Response{Headers: api.FinishProviderLogin302ResponseHeaders{Location: &to}}, nil
}

// LinkIdentity begins to link an account elsewhere to one's user.
func (h SSO) LinkIdentity(ctx context.Context, req api.LinkIdentityRequestObject) (api.LinkIdentityResponseObject, error) {
	call := rest.CallOf(ctx)
	begun, err := h.cfg.SSO.BeginLink(ctx, call.Actor, h.trip(call, req.Provider, rest.Val(req.Params.Next)))
	if err != nil {
		return nil, err
	}
	h.setTrip(call, begun)
	return api.LinkIdentity200JSONResponse{Body: api.ProviderWay{Url: begun.URL}}, nil
}

// UnlinkIdentity ends the link to an account elsewhere; the path's last part is its id here.
func (h SSO) UnlinkIdentity(ctx context.Context, req api.UnlinkIdentityRequestObject) (api.UnlinkIdentityResponseObject, error) {
	if err := h.cfg.SSO.Unlink(ctx, rest.CallOf(ctx).Actor, req.Provider); err != nil {
		return nil, err
	}
	return api.UnlinkIdentity204Response{}, nil
}

// trip is the request for a redirect to a provider.
func (h SSO) trip(call *rest.Call, providerID, next string) sso.BeginRequest {
	return sso.BeginRequest{Provider: providerID, Base: h.Here(call.Request), Next: next, Browser: h.tripOf(call.Request), Meta: h.Meta(call)}
}

// providers are the ways to sign in elsewhere, for the sign-in page.
func (h *group) providers() []api.SignInProvider {
	return rest.List(h.cfg.SSO.Ways(), func(w sso.Way) api.SignInProvider {
		return api.SignInProvider{Id: w.ID, Name: w.Name, Kind: api.SignInProviderKind(w.Kind)}
	})
}

// identities are a user's accounts elsewhere.
func (h *group) identities(ctx context.Context, userID string) ([]api.Identity, error) {
	all, err := h.cfg.SSO.Identities(ctx, userID)
	return rest.List(all, func(i sso.Identity) api.Identity {
		return api.Identity{Id: i.ID, Provider: i.Provider, Name: i.Name, Email: i.Email, CreatedAt: i.CreatedAt, LastUsedAt: rest.Ptr(i.LastUsedAt)}
	}), err
}

// tripOf is what the browser's cookie for such ways holds.
func (h SSO) tripOf(r *http.Request) string {
	names := []string{HostTripCookie}
	if !h.Secure(r) {
		names = append(names, plainTripCookie)
	}
	for _, name := range names {
		if c, err := r.Cookie(name); err == nil && c.Value != "" {
			return c.Value
		}
	}
	return ""
}

func (h SSO) setTrip(call *rest.Call, b sso.Begun) {
	c := h.Cookie(call.Request, b.Browser, time.UnixMilli(b.ExpiresAt))
	c.Name = map[bool]string{true: HostTripCookie, false: plainTripCookie}[c.Name == rest.HostCookie]
	http.SetCookie(call.Writer, c)
}

// known returns err where it is not one that has a code for people, which are led to a page that says it.
func known(err error) error {
	if fault.KindOf(err) == fault.Internal || fault.CodeOf(err) == "" {
		return err
	}
	return nil
}

// signInFailed is where a browser is led whose sign-in did not come to its end.
func (h SSO) signInFailed(_ context.Context, providerID string, err error) (string, error) {
	return withError("/login", providerID, err), known(err)
}

// withError adds what went wrong to a page's address: a code the page has words for, and nothing else.
func withError(page, providerID string, err error) string {
	q := url.Values{"error": {fault.CodeOf(err)}, "provider": {providerID}}
	page, fragment, hasFragment := strings.Cut(page, "#")
	sep := "?"
	if strings.Contains(page, "?") {
		sep = "&"
	}
	page += sep + q.Encode()
	if hasFragment {
		page += "#" + fragment
	}
	return page
}
