package server

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/server/rest"
)

// linkMade is a link as its creator sees it.
type linkMade struct {
	ID        string
	URL       string
	State     string
	Watching  int
	Uses      int
	ExpiresAt int64 `json:"expires_at"`
}

func (l linkMade) token(t *testing.T) string {
	t.Helper()
	_, token, ok := strings.Cut(l.URL, "/watch#")
	if !ok || !strings.HasPrefix(token, "pw_watch_") {
		t.Fatalf("the address is %q", l.URL)
	}
	return token
}

func (h *harness) share(t *testing.T, session, bearerToken, body string) linkMade {
	t.Helper()
	r := h.do("POST", "/api/v1/sessions/"+session+"/links", body, bearer(bearerToken)...)
	if r.StatusCode != 201 {
		t.Fatalf("sharing: %d %s", r.StatusCode, r.body)
	}
	var l linkMade
	r.into(t, &l)
	return l
}

// open opens a link in a browser that has these cookies, and returns those it has then.
func (h *harness) open(t *testing.T, token, cookies string) (reply, string) {
	t.Helper()
	r := h.do("POST", "/api/v1/watch", body(t, map[string]any{"token": token}), "Cookie", cookies)
	for _, c := range r.Cookies() {
		if c.Name != watchHostCookie || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Expires.IsZero() {
			t.Errorf("the cookie is %s", strings.ReplaceAll(c.String(), c.Value, "..."))
		}
		cookies = c.Name + "=" + c.Value
	}
	return r, cookies
}

// look dials the terminal of a link as a page of ours does.
func (h *harness) look(t *testing.T, query, cookies string) (*tty, *http.Response, error) {
	t.Helper()
	conn, resp, err := h.dial(t, "/watch/terminal?"+query, http.Header{"Cookie": {cookies}, "Origin": {h.url}})
	return &tty{t: t, conn: conn}, resp, err
}

func TestASVS_4_4_LinksShowOneSessionAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "stty -echo; echo ready; while read l; do echo \"<$l>\"; done")
	made := h.share(t, id, p.tokens["member"], `{"minutes":5,"name":"Ann"}`)
	r, cookies := h.open(t, made.token(t), "")
	if r.StatusCode != 200 || !strings.Contains(string(r.body), `"link_id":"`+made.ID+`"`) || strings.Contains(string(r.body), "pw_watch_") {
		t.Fatalf("opening: %d %s", r.StatusCode, r.body)
	}
	k, resp, err := h.look(t, "link="+made.ID, cookies)
	if err != nil {
		t.Fatalf("%v %v", err, resp)
	}
	owner := h.attach(t, id, "from=0", p.tokens["owner"])
	owner.send(upInput, []byte("one\r"))
	k.see("<one>")
	// Whatever is sent up asks for nothing: neither keys, sizes nor the keyboard.
	for _, f := range [][]byte{append([]byte{upInput}, "mine\r"...), {upSize, 0, 50, 0, 20}, {upTakeSize}, append([]byte{upControl}, `{"do":"hold"}`...), append([]byte{upColors}, make([]byte, 9)...)} {
		k.send(f[0], f[1:])
	}
	k.send(upPing, nil)
	if err := k.until(func(op byte, _ []byte) bool { return op == downPong }); err != nil {
		t.Fatal(err)
	}
	owner.send(upInput, []byte("two\r"))
	sized := false
	if err := k.until(func(op byte, arg []byte) bool {
		sized = sized || op == 2 && binary.BigEndian.Uint16(arg) == 50
		return strings.Contains(string(k.out), "<two>")
	}); err != nil || sized || strings.Contains(string(k.out), "mine") {
		t.Errorf("%v, sized %v: %q", err, sized, k.out)
	}
	// The team sees who watches; who watches sees nobody.
	if !strings.Contains(string(h.do("GET", "/api/v1/sessions/"+id, "", bearer(p.tokens["viewer"])...).body), `"guest":true`) {
		t.Error("the team does not see the guest who watches")
	}
	again, _, err := h.look(t, "", cookies)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.until(func(op byte, arg []byte) bool {
		for _, name := range []string{"owner", "member", "Ann"} {
			if op == 3 && strings.Contains(strings.ReplaceAll(string(arg), `"size_owner"`, ""), name) {
				t.Errorf("a guest sees %s", arg)
			}
		}
		return op == 3
	}); err != nil {
		t.Fatal(err)
	}
	var listed struct{ Items []linkMade }
	h.do("GET", "/api/v1/sessions/"+id+"/links", "", bearer(p.tokens["member"])...).into(t, &listed)
	if len(listed.Items) != 1 || listed.Items[0].Watching != 2 || listed.Items[0].Uses != 1 || listed.Items[0].URL != "" || listed.Items[0].State != "open" {
		t.Errorf("listed: %+v", listed.Items)
	}
	// The cookie is good for nothing else, and no login makes up for it.
	value := strings.TrimPrefix(cookies, watchHostCookie+"=")
	for _, try := range [][]string{{"Cookie", cookies}, {"Cookie", rest.HostCookie + "=" + value}, {"Authorization", "Bearer " + made.token(t)}} {
		for _, path := range []string{"/me", "/teams/harbour", "/sessions/" + id, "/sessions/" + id + "/output?from=0"} {
			if r := h.do("GET", "/api/v1"+path, "", try...); r.StatusCode != 401 {
				t.Errorf("%s with %s: %d", path, try[0], r.StatusCode)
			}
		}
	}
	if _, resp, err := h.dial(t, "/watch/terminal", http.Header{"Authorization": {"Bearer " + p.tokens["owner"]}}); err == nil || resp.StatusCode != 410 {
		t.Errorf("a login opened a link's terminal: %v %v", resp, err)
	}
}

func TestASVS_4_4_2_LinksAreNotLentToForeignPages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	made := h.share(t, p.ids["session"], p.tokens["owner"], `{}`)
	_, cookies := h.open(t, made.token(t), "")
	for name, origin := range map[string][]string{"foreign": {"https://evil.example"}, "none": nil, "null": {"null"}, "another port": {"http://127.0.0.1:1"}} {
		header := http.Header{"Cookie": {cookies}}
		if origin != nil {
			header["Origin"] = origin
		}
		if conn, resp, err := h.dial(t, "/watch/terminal", header); err == nil || resp == nil || resp.StatusCode != 403 {
			t.Errorf("%s: %v %v %v", name, conn != nil, resp, err)
		}
	}
	// Nor may one plant a link of its own, which would show the person something else than they believe.
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		r := h.do("POST", "/api/v1/watch", body(t, map[string]any{"token": made.token(t)}), header...)
		if r.StatusCode != 403 || r.code() != "cross_origin" || len(r.Cookies()) != 0 {
			t.Errorf("%v: %d %s", header, r.StatusCode, r.body)
		}
	}
}

// A link ends at once, and takes who watches with it, whatever ended it.
func TestASVS_7_4_LinksEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, h *harness, p cast, l linkMade){
		"revoked by its maker": func(t *testing.T, h *harness, p cast, l linkMade) {
			if r := h.do("DELETE", "/api/v1/watch-links/"+l.ID, "", bearer(p.tokens["member"])...); r.StatusCode != 204 {
				t.Errorf("%d %s", r.StatusCode, r.body)
			}
			if r := h.do("DELETE", "/api/v1/watch-links/"+l.ID, "", bearer(p.tokens["admin"])...); r.StatusCode != 204 {
				t.Errorf("twice: %d %s", r.StatusCode, r.body)
			}
		},
		"revoked by an admin": func(t *testing.T, h *harness, p cast, l linkMade) {
			if r := h.do("DELETE", "/api/v1/watch-links/"+l.ID, "", bearer(p.tokens["viewer"])...); r.StatusCode != 403 {
				t.Errorf("a viewer: %d %s", r.StatusCode, r.body)
			}
			if r := h.do("DELETE", "/api/v1/watch-links/"+l.ID, "", bearer(p.tokens["admin"])...); r.StatusCode != 204 {
				t.Errorf("%d %s", r.StatusCode, r.body)
			}
		},
		"its maker was removed": func(t *testing.T, h *harness, p cast, _ linkMade) {
			h.demote(t, p, "", "DELETE")
		},
		"its maker became a viewer": func(t *testing.T, h *harness, p cast, _ linkMade) {
			h.demote(t, p, `{"role":"viewer"}`, "PATCH")
		},
		"the workspace became private": func(t *testing.T, h *harness, p cast, _ linkMade) {
			h.done(t, p, "owner", "PATCH", "/workspaces/"+p.ids["workspace"], `{"private":true}`)
		},
		"the team was suspended": func(t *testing.T, h *harness, p cast, _ linkMade) {
			h.done(t, p, "operator", "POST", "/instance/teams/"+p.team.ID+"/suspend", "")
		},
		"its maker was suspended": func(t *testing.T, h *harness, p cast, _ linkMade) {
			var me struct{ User struct{ ID string } }
			h.do("GET", "/api/v1/me", "", bearer(p.tokens["member"])...).into(t, &me)
			h.done(t, p, "operator", "POST", "/instance/users/"+me.User.ID+"/suspend", "")
		},
		"the database says so, as after another process": func(t *testing.T, h *harness, p cast, l linkMade) {
			h.tune(t, `UPDATE watch_links SET revoked_at = 1 WHERE id = ?`, l.ID)
			h.bus.Publish(t.Context(), events.Event{Type: "workspace.updated", TeamID: p.team.ID, ID: p.ids["workspace"], WorkspaceID: p.ids["workspace"]})
		},
		"the workspace was deleted": func(t *testing.T, h *harness, p cast, _ linkMade) {
			h.tune(t, `UPDATE workspaces SET deleted_at = 1 WHERE id = ?`, p.ids["workspace"])
			h.server.Recheck(p.ids["session"])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.serve()
			p := h.people(t)
			id := h.session(t, p, "sh", "-c", "echo ready; read x")
			made := h.share(t, id, p.tokens["member"], `{}`)
			_, cookies := h.open(t, made.token(t), "")
			k, _, err := h.look(t, "", cookies)
			if err != nil {
				t.Fatal(err)
			}
			end(t, h, p, made)
			if code := k.closed(); code != closeNotAllowed {
				t.Errorf("closed with %d", code)
			}
			h.over(t, made, cookies)
			// What it stood on may come back: the link does not.
			h.tune(t, `UPDATE workspaces SET private = FALSE, deleted_at = 0`)
			h.tune(t, `UPDATE teams SET suspended_at = 0`)
			h.tune(t, `UPDATE users SET suspended_at = 0`)
			h.over(t, made, cookies)
		})
	}
}

// done has somebody do something that must go well.
func (h *harness) done(t *testing.T, p cast, who, method, path, body string) {
	t.Helper()
	if r := h.do(method, "/api/v1"+path, body, bearer(p.tokens[who])...); r.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, r.body)
	}
}

// over expects a link to be good for nothing.
func (h *harness) over(t *testing.T, l linkMade, cookies string) {
	t.Helper()
	r, _ := h.open(t, l.token(t), "")
	if r.StatusCode != 410 || r.code() != "link_ended" || len(r.Cookies()) != 0 {
		t.Errorf("opened: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/watch", body(t, map[string]any{"link_id": l.ID}), "Cookie", cookies); r.StatusCode != 410 {
		t.Errorf("gone on with: %d %s", r.StatusCode, r.body)
	}
	if _, resp, err := h.dial(t, "/watch/terminal", http.Header{"Cookie": {cookies}, "Origin": {h.url}}); err == nil {
		k := &tty{t: t, conn: must(h.look(t, "", cookies))}
		if code := k.closed(); code != closeGone && code != closeNotAllowed {
			t.Errorf("its terminal: %d (%v)", code, resp.Status)
		}
	}
}

func must(k *tty, _ *http.Response, _ error) *websocket.Conn { return k.conn }

// demote changes or ends the member's place in the team.
func (h *harness) demote(t *testing.T, p cast, change, method string) {
	t.Helper()
	var me struct{ User struct{ ID string } }
	h.do("GET", "/api/v1/me", "", bearer(p.tokens["member"])...).into(t, &me)
	if r := h.do(method, "/api/v1/teams/harbour/members/"+me.User.ID, change, bearer(p.tokens["owner"])...); r.StatusCode/100 != 2 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
}

// tune changes the database without the services, as another process does.
func (h *harness) tune(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := h.db.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func TestLinksRunOut(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // ms
	h := newHarness(t, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Millisecond) }
	})
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; read x")
	made := h.share(t, id, p.tokens["owner"], `{"minutes":5}`)
	_, cookies := h.open(t, made.token(t), "")
	ahead.Store(made.ExpiresAt - time.Now().UnixMilli() - 2000) // two seconds are left
	k, _, err := h.look(t, "", cookies)
	if err != nil {
		t.Fatal(err)
	}
	if code := k.closed(); code != closeNotAllowed {
		t.Errorf("closed with %d", code)
	}
}

// A browser may watch several sessions, each in a tab of its own.
func TestTwoLinksInOneBrowser(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	first := h.share(t, h.session(t, p, "sh", "-c", "echo first; read x"), p.tokens["owner"], `{}`)
	second := h.share(t, h.session(t, p, "sh", "-c", "echo second; read x"), p.tokens["owner"], `{}`)
	_, cookies := h.open(t, first.token(t), "")
	_, cookies = h.open(t, second.token(t), cookies)
	_, cookies = h.open(t, second.token(t), cookies)
	if strings.Count(cookies, "pw_watch_") != 2 {
		t.Errorf("%d tokens are kept", strings.Count(cookies, "pw_watch_"))
	}
	for l, want := range map[string]string{first.ID: "first", second.ID: "second", "": "second"} {
		k, _, err := h.look(t, "from=0&link="+l, cookies)
		if err != nil {
			t.Fatal(err)
		}
		k.see(want)
	}
	// One that has ended makes room, and does not take the other along.
	h.do("DELETE", "/api/v1/watch-links/"+second.ID, "", bearer(p.tokens["owner"])...)
	k, _, err := h.look(t, "from=0&link="+first.ID, cookies)
	if err != nil {
		t.Fatal(err)
	}
	k.see("first")
	if _, cookies = h.open(t, first.token(t), cookies); strings.Count(cookies, "pw_watch_") != 1 {
		t.Error("a link that has ended is kept")
	}
	if r := h.do("POST", "/api/v1/watch", body(t, map[string]any{"link_id": first.ID}), "Cookie", cookies); r.StatusCode != 200 || !strings.Contains(string(r.body), first.ID) {
		t.Errorf("going on: %d %s", r.StatusCode, r.body)
	}
}

func TestWhatALinkMayBe(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	path := "/api/v1/sessions/" + p.ids["session"] + "/links"
	for body, code := range map[string]string{`{"minutes":4}`: "invalid_minutes", `{"minutes":10081}`: "invalid_minutes", `{"minutes":-5}`: "invalid_minutes",
		`{"name":"` + strings.Repeat("x", 81) + `"}`: "invalid_name", `{"name":"a\nb"}`: "invalid_name"} {
		if r := h.do("POST", path, body, bearer(p.tokens["member"])...); r.StatusCode != 400 || r.code() != code {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	h.tune(t, `UPDATE workspaces SET private = TRUE WHERE id = ?`, p.ids["workspace"])
	if r := h.do("POST", path, `{}`, bearer(p.tokens["owner"])...); r.StatusCode != 409 || r.code() != "workspace_private" {
		t.Errorf("of a private workspace: %d %s", r.StatusCode, r.body)
	}
	h.tune(t, `UPDATE workspaces SET private = FALSE WHERE id = ?`, p.ids["workspace"])
	for range 19 { // beside the furnished one
		h.share(t, p.ids["session"], p.tokens["member"], `{}`)
	}
	if r := h.do("POST", path, `{}`, bearer(p.tokens["member"])...); r.StatusCode != 409 || r.code() != "too_many_links" {
		t.Errorf("one more: %d %s", r.StatusCode, r.body)
	}
	var all struct{ Items []linkMade }
	h.do("GET", "/api/v1/teams/harbour/watch-links", "", bearer(p.tokens["admin"])...).into(t, &all)
	if len(all.Items) != 20 {
		t.Errorf("%d links of the team", len(all.Items))
	}
	for _, token := range []string{"x", "pw_watch_" + strings.Repeat("A", 43), "pw_watch_" + strings.Repeat("!", 43), strings.Repeat("x", 3000)} {
		if r, _ := h.open(t, token, watchHostCookie+"=a.b..c"); r.StatusCode != 410 || r.code() != "link_ended" {
			t.Errorf("%.20s: %d %s", token, r.StatusCode, r.body)
		}
	}
	if r := h.do("POST", "/api/v1/watch", `{}`); r.StatusCode != 410 {
		t.Errorf("nothing: %d", r.StatusCode)
	}
}

// Over https the cookie that a neighbour could plant does not count, and the address people use is publicUrl.
func TestLinksBehindAProxy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) {
		c.PublicURL, c.TrustedProxies = "https://pw.example.com", []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	h.serve()
	p := h.people(t)
	made := h.share(t, p.ids["session"], p.tokens["owner"], `{}`)
	if !strings.HasPrefix(made.URL, "https://pw.example.com/watch#pw_watch_") {
		t.Errorf("the address is %q", made.URL)
	}
	https := []string{"Host", "pw.example.com", "X-Forwarded-Proto", "https", "Cookie", watchPlainCookie + "=" + made.token(t)}
	if r := h.do("POST", "/api/v1/watch", `{}`, https...); r.StatusCode != 410 {
		t.Errorf("a planted cookie: %d", r.StatusCode)
	}
}
