package server

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/store"
)

// caller asks as somebody.
type caller struct {
	name   string
	header http.Header
	ids    map[string]string
	userID string
	team   accounts.Team
}

// admissions records which requests the guard let in, by their ids.
type admissions struct {
	mu   sync.Mutex
	seen map[string]chan string
}

func (d *admissions) entry(request string) chan string {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.seen[request]
	if !ok {
		c = make(chan string, 1)
		d.seen[request] = c
	}
	return c
}

func (d *admissions) note(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		call := rest.CallOf(c.Request().Context())
		defer func() { d.entry(call.ID) <- call.Op }()
		return next(c)
	}
}

// in reports whether the guard let a request in.
func (d *admissions) in(t *testing.T, request string) bool {
	t.Helper()
	select {
	case op := <-d.entry(request):
		return op != ""
	case <-time.After(time.Minute):
		t.Fatalf("request %s did not end", request)
		return false
	}
}

var pathParam = regexp.MustCompile(`:(\w+)`)

// line is one of routeTable.
type line struct{ who, scope string }

func readTable(t *testing.T) map[string]line {
	t.Helper()
	out := map[string]line{}
	for text := range strings.Lines(strings.TrimSpace(routeTable)) {
		f := strings.Fields(text)
		if len(f) != 3 {
			t.Fatalf("routeTable: %q", text)
		}
		if _, twice := out[f[0]]; twice {
			t.Errorf("routeTable has %s twice", f[0])
		}
		out[f[0]] = line{f[1], f[2]}
	}
	return out
}

// scopes are those of routeTable; beside each, what does not include it.
var scopes = map[string]struct {
	have accounts.Scope
	lack []accounts.Scope
}{
	"read":   {accounts.ScopeRead, []accounts.Scope{accounts.ScopeBill}},
	"write":  {accounts.ScopeWrite, []accounts.Scope{accounts.ScopeRead, accounts.ScopeAttach, accounts.ScopeBill}},
	"attach": {accounts.ScopeAttach, []accounts.Scope{accounts.ScopeWrite, accounts.ScopeBill}},
	"bill":   {accounts.ScopeBill, []accounts.Scope{accounts.ScopeRead, accounts.ScopeWrite, accounts.ScopeAttach}},
	"admin":  {accounts.ScopeAdmin, []accounts.Scope{accounts.ScopeRead, accounts.ScopeWrite, accounts.ScopeAttach, accounts.ScopeBill}},
}

// Every route of the live server, asked over HTTP and by upgrades by everybody, answers what the table says. A route without a line fails.
func TestASVS_8_2_1_RouteMatrixOfTheLiveServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	book := &admissions{seen: map[string]chan string{}}
	h.server.echo.Use(book.note)
	h.serve()
	callers := h.callers(t)
	table := readTable(t)
	ops := described(t)
	routes := map[string]string{"getSpec": "GET " + rest.Base + "/openapi.yaml", "getDocs": "GET /api/docs"}
	for route, op := range ops {
		routes[op] = route
	}
	for op := range table {
		if routes[op] == "" {
			t.Errorf("routeTable has a line for %s, which is no operation", op)
		}
	}
	asked := 0
	order := slices.Sorted(maps.Keys(routes))
	slices.SortStableFunc(order, func(a, b string) int { return last(a, "revokeRunner") - last(b, "revokeRunner") }) // nothing works on it afterwards
	for _, op := range order {
		l, ok := table[op]
		if !ok {
			t.Errorf("%s (%s) has no line in routeTable: say in matrix_table_test.go who may use it", op, routes[op])
			continue
		}
		method, path, _ := strings.Cut(routes[op], " ")
		class := l.who
		if rolesTable[class] != nil {
			class = "team"
		}
		expect := maps.Clone(callerTable[class])
		if op == "followEvents" || op == "attachTerminal" || op == "watchBrowser" || op == "watchDesktop" {
			expect["foreign"] = "403 origin_not_allowed"
		}
		maps.Copy(expect, rolesTable[l.who])
		if class != "team" {
			for _, role := range []string{"viewer", "member", "admin", "owner"} {
				expect[role] = expect["other"]
			}
		}
		if l.scope == "-" {
			delete(expect, "narrow")
			delete(expect, "exact")
		}
		askers := slices.Sorted(maps.Keys(expect))
		slices.SortStableFunc(askers, func(a, b string) int { return last(a, "exact", "admin", "owner") - last(b, "exact", "admin", "owner") })
		for _, who := range askers {
			c := callers[who]
			switch who {
			case "narrow":
				c = h.bounded(t, callers["owner"], scopes[l.scope].lack)
			case "exact":
				c = h.bounded(t, callers["owner"], []accounts.Scope{scopes[l.scope].have})
			}
			asked++
			if h.probe(t, book, op, method, path, c, expect[who]) && method != http.MethodGet && class == "team" {
				h.recreate(t, callers) // something may be gone now
			}
		}
	}
	if asked < 1500 {
		t.Errorf("only %d questions were asked", asked)
	}
}

// last is where something comes in an order: at its end when it is one of these.
func last(s string, these ...string) int { return slices.Index(these, s) + 1 }

// probe asks one question. True when it was let in and done.
func (h *harness) probe(t *testing.T, book *admissions, op, method, path string, c caller, want string) (done bool) {
	t.Helper()
	path = pathParam.ReplaceAllStringFunc(path, func(p string) string {
		switch p {
		case ":team":
			return c.ids["team"]
		case ":id":
			return c.ids[kindOf(op)]
		}
		return "none"
	})
	header := c.header.Clone()
	if op == "followThread" { // its answer has no end: whoever is let in is refused by the operation
		header.Set("Last-Event-ID", "none")
	}
	socket := op == "attachTerminal" || op == "watchBrowser" || op == "watchDesktop" || op == "followEvents" || op == "watchTerminal"
	var resp *http.Response
	if socket {
		var conn *websocket.Conn
		var err error
		conn, resp, err = h.dial(t, strings.TrimPrefix(path, rest.Base), header)
		if err == nil {
			// Members who lack a right learn it from the socket: a page sees nothing of a refused handshake.
			for err = nil; err == nil && strings.HasPrefix(want, "403 "); {
				_, _, err = conn.ReadMessage()
			}
			conn.Close()
			got := "in"
			if websocket.IsCloseError(err, closeNotAllowed) {
				got = want
			}
			if got != want {
				t.Errorf("%s asked by %s: %s (%v), want %s", op, c.name, got, err, want)
			}
			return false
		}
		if resp == nil {
			t.Fatalf("%s asked by %s: %v", op, c.name, err)
		}
	} else {
		body := ""
		if method == "POST" || method == "PUT" || method == "PATCH" {
			body = "{}"
		}
		var pairs []string
		for k, v := range header {
			pairs = append(pairs, k, v[0])
		}
		r := h.do(method, path, body, pairs...)
		resp = r.Response
		resp.Body = io.NopCloser(strings.NewReader(string(r.body)))
	}
	raw, _ := io.ReadAll(resp.Body)
	code := reply{body: raw}.code()
	in := book.in(t, resp.Header.Get("X-Request-Id"))
	got := "in"
	if !in {
		got = fmt.Sprint(resp.StatusCode, " ", code)
	}
	if got != want {
		t.Errorf("%s (%s %s) asked by %s: %s %s, want %s", op, method, path, c.name, got, raw, want)
	}
	if in && resp.StatusCode == http.StatusInternalServerError {
		t.Errorf("%s asked by %s was let in and answered %d %s", op, c.name, resp.StatusCode, raw)
	}
	return in && resp.StatusCode < 300
}

// bounded is a caller with a token of these scopes.
func (h *harness) bounded(t *testing.T, c caller, have []accounts.Scope) caller {
	t.Helper()
	key := c.name
	for _, s := range have {
		key += " " + string(s)
	}
	c.name = key
	token, ok := h.boundTokens[key]
	if !ok {
		actor, err := h.accounts.Actor(t.Context(), c.userID)
		if err != nil {
			t.Fatal(err)
		}
		actor.SessionHash, actor.ConfirmedAt = "-", time.Now().UnixMilli()
		if _, token, err = h.accounts.IssueToken(t.Context(), actor, signin.TokenRequest{Name: "bounded", Scopes: have}); err != nil {
			t.Fatal(err)
		}
		if h.boundTokens == nil {
			h.boundTokens = map[string]string{}
		}
		h.boundTokens[key] = token
	}
	c.header = withToken(token)
	return c
}

// recreate makes new objects for the callers to ask for.
func (h *harness) recreate(t *testing.T, callers map[string]caller) {
	t.Helper()
	old := callers["owner"].ids
	if err := h.cfg.Machines.RevokeToken(tenant.All(t.Context(), "a test"), old["runner token"]); err != nil { // there may be so many only
		t.Fatal(err)
	}
	ids := h.furnish(t, callers["owner"].team, callers["owner"].userID)
	ids["runner"] = old["runner"] // the service holds machines in memory; a revoked one is still known
	for name, c := range callers {
		if name != "closed" {
			c.ids = ids
			callers[name] = c
		}
	}
}

// callers are people of every kind, and how they ask.
func (h *harness) callers(t *testing.T) map[string]caller {
	t.Helper()
	p := h.people(t)
	ctx := tenant.All(t.Context(), "a test")
	out := map[string]caller{"nobody": {name: "nobody", header: http.Header{}, ids: p.ids}}
	for name, who := range map[string]string{"owner": "owner", "admin": "admin", "member": "member", "viewer": "viewer", "other": "outsider", "operator": "operator"} {
		out[name] = caller{name: name, header: withToken(p.tokens[who]), ids: p.ids, userID: memberID(t, h, p, who), team: p.team}
	}
	kept := store.NewAccounts(h.db)
	user := func(name string, team accounts.Team, role accounts.Role) (string, string) {
		u := accounts.User{ID: id.New("usr"), Email: name + "@example.com", Name: name, PasswordHash: "!", CreatedAt: 1}
		if ok, err := kept.InsertUser(ctx, u); err != nil || !ok {
			t.Fatalf("user %s: %v", name, err)
		}
		if team.ID != "" {
			if _, err := kept.InsertMember(ctx, team.ID, u.ID, role, 1); err != nil {
				t.Fatal(err)
			}
		}
		_, token, err := h.accounts.CreateToken(ctx, u.ID, "test", 0)
		if err != nil {
			t.Fatal(err)
		}
		return u.ID, token
	}
	// Changes only the rows: the suspension service would also end the token.
	uid, token := user("suspended", p.team, accounts.Owner)
	if err := kept.SetUserSuspended(ctx, uid, 1); err != nil {
		t.Fatal(err)
	}
	out["suspended"] = caller{name: "suspended", header: withToken(token), ids: p.ids}

	uid, token = user("closed", accounts.Team{}, "")
	closed, err := h.accounts.CreateTeam(ctx, accounts.Actor{User: accounts.User{ID: uid}}, "Closed", "")
	if err != nil {
		t.Fatal(err)
	}
	out["closed"] = caller{name: "closed", header: withToken(token), ids: h.furnish(t, closed, uid)}
	if err := kept.SetTeamSuspended(ctx, closed.ID, 1); err != nil {
		t.Fatal(err)
	}

	uid, _ = user("led", p.team, accounts.Owner)
	cookie, _, err := h.accounts.SignIn(ctx, signin.Request{UserID: uid, Factors: []string{accounts.ProofPassword}})
	if err != nil {
		t.Fatal(err)
	}
	out["foreign"] = caller{name: "foreign", header: http.Header{"Cookie": {rest.PlainCookie + "=" + cookie}, "Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}, ids: p.ids}

	r := h.do("POST", "/api/v1/sessions/"+p.ids["session"]+"/links", `{"minutes":60}`, bearer(p.tokens["owner"])...)
	var made struct{ URL string }
	r.into(t, &made)
	_, secret, ok := strings.Cut(made.URL, "#")
	if !ok {
		t.Fatalf("a link: %d %s", r.StatusCode, r.body)
	}
	opened := h.do("POST", "/api/v1/watch", `{"token":"`+secret+`"}`)
	var cookies []string
	for _, c := range opened.Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	if len(cookies) == 0 {
		t.Fatalf("opening a link: %d %s", opened.StatusCode, opened.body)
	}
	out["link"] = caller{name: "link", header: http.Header{"Cookie": {strings.Join(cookies, "; ")}}, ids: p.ids}
	return out
}
