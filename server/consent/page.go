package consent

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/rest"
)

// longestRequest bounds what is asked for in an address: it goes through the sign-in and back.
const longestRequest = 3000

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string

	page = template.Must(template.New("page").Parse(pageText))
)

// parameters are those of a request for an authorization that are kept on the way.
var parameters = []string{"response_type", "client_id", "redirect_uri", "state", "scope", "resource", "code_challenge", "code_challenge_method"}

// request is what a client asks a person for.
type request struct {
	values url.Values // of parameters
	issuer string
	client oauth.Client
	scopes []accounts.Scope // asked for, of those that can be had
}

func (q request) redirectURI() string { return q.values.Get("redirect_uri") }

// back is the address that leads back to the client with an answer.
func (q request) back(answer url.Values) string {
	answer.Set("iss", q.issuer)
	if state := q.values.Get("state"); state != "" {
		answer.Set("state", state)
	}
	u, err := url.Parse(q.redirectURI())
	if err != nil {
		return "/"
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += answer.Encode()
	return u.String()
}

// refused is the answer that says to the client why it gets nothing.
func (q request) refused(err error) string {
	code, description := inOAuth(err)
	return q.back(url.Values{"error": {code}, "error_description": {description}})
}

// again is the address of the request, to come back to.
func (q request) again() string { return authorizePath + "?" + q.values.Encode() }

// proof shows that a form was made for this request and this login session.
func (q request) proof(cookie string) string {
	m := hmac.New(sha256.New, []byte(cookie))
	m.Write([]byte("consent\x00" + q.values.Encode()))
	return hex.EncodeToString(m.Sum(nil))
}

// read checks a request. known says that the client may be sent an error: it is registered, and so is the address.
func (h *Handlers) read(r *http.Request, given url.Values) (q request, known bool, err error) {
	if q.issuer, err = h.issuer(r); err != nil {
		return q, false, err
	}
	q.values = url.Values{}
	for _, name := range parameters {
		if v := given[name]; len(v) > 0 {
			q.values[name] = v
		}
	}
	if err := once(q.values); err != nil {
		return q, false, err
	}
	if len(q.values.Encode()) > longestRequest {
		return q, false, fault.New(fault.Invalid, "invalid_request", "The application's request is longer than %d characters. Tell its makers.", longestRequest)
	}
	if q.client, err = h.cfg.OAuth.ClientFor(r.Context(), q.values.Get("client_id"), q.redirectURI()); err != nil {
		return q, false, err
	}
	if q.values.Get("response_type") != "code" {
		return q, true, fault.New(fault.Invalid, "unsupported_response_type", "response_type must be code. Update the application.")
	}
	if err := oauth.CheckChallenge(q.values.Get("code_challenge"), q.values.Get("code_challenge_method")); err != nil {
		return q, true, err
	}
	if err := h.checkResource(r, q.values["resource"]); err != nil {
		return q, true, err
	}
	for sc := range strings.FieldsSeq(q.values.Get("scope")) {
		if slices.Contains(oauth.Scopes(), accounts.Scope(sc)) { // others than these are not given: the token's answer says which were
			q.scopes = append(q.scopes, accounts.Scope(sc))
		}
	}
	if len(q.scopes) == 0 {
		q.scopes = []accounts.Scope{accounts.ScopeRead}
	}
	return q, true, nil
}

// ask shows the page on which a person allows or denies.
func (h *Handlers) ask(c echo.Context) error {
	q, known, err := h.read(c.Request(), c.QueryParams())
	if err != nil {
		return refuse(c, q, known, err)
	}
	actor, elsewhere, err := h.person(c, q)
	if err != nil {
		return refuse(c, q, true, err)
	}
	if elsewhere != "" {
		return c.Redirect(http.StatusSeeOther, elsewhere)
	}
	return h.show(c, http.StatusOK, h.form(c, q, actor))
}

// person returns who is asked, or the page on which they sign in or confirm that it is them first.
func (h *Handlers) person(c echo.Context, q request) (actor accounts.Actor, elsewhere string, err error) {
	call := rest.CallOf(c.Request().Context())
	if call.Cred.Bearer != "" {
		return actor, "", fault.New(fault.Forbidden, "access_denied", "An API token cannot allow an application anything. Open this address in a browser.")
	}
	actor, err = rest.Authenticate(c.Request().Context(), h.cfg.SignIn, call.Cred)
	if fault.Is(err, fault.Unauthorized) {
		return actor, "/login?" + url.Values{"next": {q.again()}}.Encode(), nil
	}
	if err != nil {
		return actor, "", err
	}
	call.Actor = actor
	c.SetRequest(c.Request().WithContext(tenant.In(c.Request().Context(), actor.TeamIDs()...)))
	elsewhere, err = h.confirmed(q, h.cfg.SignIn.MayChangeFactors(c.Request().Context(), actor))
	return actor, elsewhere, err
}

// confirmed is the page on which somebody confirms that it is them, where err asks for that.
func (h *Handlers) confirmed(q request, err error) (elsewhere string, _ error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != "confirm_needed" {
		return "", err
	}
	v := url.Values{"next": {q.again()}}
	if f.Details["second_factor"] == true {
		v.Set("second", "1")
	}
	return "/confirm?" + v.Encode(), nil
}

// decide takes what a person answered.
func (h *Handlers) decide(c echo.Context) error {
	r := c.Request()
	if err := r.ParseForm(); err != nil {
		return err
	}
	q, known, err := h.read(r, r.PostForm)
	if err != nil {
		return refuse(c, q, known, err)
	}
	actor, elsewhere, err := h.person(c, q)
	if err != nil {
		return refuse(c, q, true, err)
	}
	if elsewhere != "" {
		audit.Reported(r.Context())
		return c.Redirect(http.StatusSeeOther, elsewhere)
	}
	r = c.Request()
	if !hmac.Equal([]byte(r.PostForm.Get("proof")), []byte(q.proof(rest.CallOf(r.Context()).Cred.Cookie))) {
		return fault.New(fault.Forbidden, "cross_origin", "This form was made for another sign-in or another request. Go back to the application and connect again.")
	}
	if r.PostForm.Get("decision") != "allow" {
		audit.Called(r.Context(), "oauth_grant.deny")
		audit.Target(r.Context(), "oauth_client", q.client.ID, q.client.Name)
		return h.leave(c, q, "Access denied", q.refused(fault.New(fault.Forbidden, "access_denied", "You denied the application access.")))
	}
	if remote(q.redirectURI()) && r.PostForm.Get("mine") == "" {
		return h.again(c, q, actor, "Confirm that you started this connection.", fault.New(fault.Invalid, "invalid_request", "The person did not confirm that they started the connection."))
	}
	allowed := oauth.Allowed{Client: q.client, RedirectURI: q.redirectURI(), Challenge: q.values.Get("code_challenge"), Team: r.PostForm.Get("team")}
	for _, sc := range r.PostForm["allow"] {
		allowed.Scopes = append(allowed.Scopes, accounts.Scope(sc))
	}
	code, g, err := h.cfg.OAuth.Allow(r.Context(), actor, allowed)
	if fault.CodeOf(err) == "invalid_scope" { // nothing was ticked: ask again
		return h.again(c, q, actor, "Choose at least one thing that the application may do.", err)
	}
	if elsewhere, err = h.confirmed(q, err); elsewhere != "" {
		audit.Reported(r.Context())
		return c.Redirect(http.StatusSeeOther, elsewhere)
	}
	if err != nil {
		return err
	}
	audit.Target(r.Context(), "token", g.TokenID, g.Name)
	audit.Note(r.Context(), "client_id", g.ClientID)
	audit.Note(r.Context(), "redirect", destination(q.redirectURI()))
	if g.TeamID != "" {
		audit.InTeam(r.Context(), g.TeamID)
	}
	return h.leave(c, q, "Access allowed", q.back(url.Values{"code": {code}}))
}

// view is what the page shows: a question, a farewell or an error.
type view struct {
	Style   template.CSS
	Title   string
	Client  string
	Where   string // it leads afterwards, in words
	Local   bool   // to the person's own computer
	Remote  bool   // it leads to another machine
	Error   string
	To      template.URL // the way back, where there is nothing to decide
	Action  string
	Fields  []field
	Proof   string
	Person  string
	Scopes  []choice
	Teams   []choice
	Several bool // teams
}

type field struct{ Name, Value string }

type choice struct {
	Value, Label, Hint string
	Checked            bool
}

// words are the scopes as people read them: those of the web app's settings (ui/src/signin/scopes.ts).
var words = map[accounts.Scope][2]string{
	accounts.ScopeRead:   {"Read", "Teams, projects, workspaces, changes and files"},
	accounts.ScopeWrite:  {"Work", "Read, create, change and merge workspaces, and run commands in them"},
	accounts.ScopeAttach: {"Sessions", "Read, watch, start and type in sessions, answer questions"},
	accounts.ScopeBill:   {"Costs", "See costs"},
}

// form is the page with the question.
func (h *Handlers) form(c echo.Context, q request, actor accounts.Actor) view {
	v := view{Title: "Connect an application", Client: q.client.Name, Where: destination(q.redirectURI()), Local: oauth.Loopback(q.redirectURI()), Remote: remote(q.redirectURI()), Action: authorizePath,
		Person: actor.User.Email, Proof: q.proof(rest.CallOf(c.Request().Context()).Cred.Cookie), Several: len(actor.Memberships) > 1}
	for _, name := range parameters {
		for _, value := range q.values[name] {
			v.Fields = append(v.Fields, field{name, value})
		}
	}
	for _, sc := range oauth.Scopes() {
		v.Scopes = append(v.Scopes, choice{string(sc), words[sc][0], words[sc][1], slices.Contains(q.scopes, sc)})
	}
	for i, m := range actor.Memberships {
		v.Teams = append(v.Teams, choice{Value: m.Team.Slug, Label: m.Team.Name, Checked: i == 0})
	}
	return v
}

// again shows the form once more, with what is missing, and returns why for the audit.
func (h *Handlers) again(c echo.Context, q request, actor accounts.Actor, missing string, why error) error {
	v := h.form(c, q, actor)
	v.Error = missing
	if err := h.show(c, http.StatusUnprocessableEntity, v); err != nil {
		return err
	}
	return why
}

// remote reports whether a code would leave the person's own machine. A person then confirms in a second step that they began this: one click
// can be stolen by a page that opens another one beneath the pointer.
func remote(uri string) bool { return strings.HasPrefix(uri, "https://") && !oauth.Loopback(uri) }

// destination says in words where an address leads: to a host or an application's scheme.
func destination(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	if u.Scheme == "https" || u.Scheme == "http" {
		return u.Host
	}
	return u.Scheme + ":"
}

// refusal is an error with the way to tell it to the client.
type refusal struct {
	request
	error
}

// Unwrap returns the error.
func (r *refusal) Unwrap() error { return r.error }

// refuse answers a request that cannot be asked of anybody. A redirect tells a program on the person's own computer at once. For all others
// the page has a link that says where it leads, since anybody can register an address.
func refuse(c echo.Context, q request, known bool, err error) error {
	switch {
	case !known || fault.KindOf(err) == fault.Internal:
		return err
	case oauth.Loopback(q.redirectURI()) && c.Request().Method == http.MethodGet:
		return c.Redirect(http.StatusSeeOther, q.refused(err))
	}
	return &refusal{q, err}
}

// leave leads back to the client. It is a page and no redirect: a form's redirects are bound by form-action, and where the client's own
// address leads on to is not known.
func (h *Handlers) leave(c echo.Context, q request, title, to string) error {
	c.Response().Header().Set("Refresh", "0;url="+to)
	return h.show(c, http.StatusOK, view{Title: title, Client: q.client.Name, Where: destination(q.redirectURI()), To: template.URL(to)}) //nolint:gosec // a registered address
}

// asPage is around the page: errors are shown as one.
func (h *Handlers) asPage(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if err == nil || c.Response().Committed {
			return nil
		}
		p := rest.Translate(err)
		if p.Status >= http.StatusInternalServerError {
			call := rest.CallOf(c.Request().Context())
			h.cfg.Log.ErrorContext(c.Request().Context(), "request failed", "request_id", call.ID, "operation", call.Op, "status", p.Status, "error", err)
		}
		v := view{Title: "The application cannot be connected", Error: p.Body.Message}
		if r, ok := errors.AsType[*refusal](err); ok {
			v.Where, v.To = destination(r.redirectURI()), template.URL(r.refused(err)) //nolint:gosec // a registered address
		}
		return h.show(c, p.Status, v)
	}
}

// show writes the page. It has no script, loads nothing, sends its form nowhere else, and is shown in no other page.
func (h *Handlers) show(c echo.Context, status int, v view) error {
	v.Style = template.CSS(pageStyle) //nolint:gosec // our own
	var out bytes.Buffer
	if err := page.Execute(&out, v); err != nil {
		return fmt.Errorf("writing a page: %w", err)
	}
	sum := sha256.Sum256([]byte(pageStyle))
	head := c.Response().Header()
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	head.Set("Cache-Control", "no-store")
	if v.Action != "" {
		head.Set("Referrer-Policy", "same-origin") // with none, browsers send the form with the origin null
	}
	return c.HTMLBlob(status, out.Bytes())
}
