package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	agentbrowser "github.com/parawork/parawork/tools/browser"
)

// viewed is a person's socket to a browser.
type viewed struct {
	*testing.T
	conn *websocket.Conn
}

func (h *harness) viewBrowser(t *testing.T, workspace, token string) viewed {
	t.Helper()
	conn, resp, err := h.dial(t, "/workspaces/"+workspace+"/browser/live", withToken(token))
	if err != nil {
		t.Fatalf("%v %v", err, resp)
	}
	return viewed{t, conn}
}

func (v viewed) send(text string) {
	v.Helper()
	if err := v.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		v.Fatal(err)
	}
}

// until reads states and refusals until one fits.
func (v viewed) until(fits func(state agentbrowser.View, code string) bool) {
	v.Helper()
	for {
		_, raw, err := v.conn.ReadMessage()
		if err != nil {
			v.Fatal(err)
		}
		var m struct {
			agentbrowser.View
			Code string
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			v.Fatal(err)
		}
		if fits(m.View, m.Code) {
			return
		}
	}
}

// ended reads until the socket is closed, and expects words about a lost right.
func (v viewed) ended() {
	v.Helper()
	for {
		_, _, err := v.conn.ReadMessage()
		if err == nil {
			continue
		}
		if e, ok := errors.AsType[*websocket.CloseError](err); !ok || e.Code != closeNotAllowed || !strings.Contains(e.Text, "may not use this any more") {
			v.Errorf("the socket ended with %v", err)
		}
		return
	}
}

// Who loses the right to type loses control of the browser at once, and who leaves the team the picture as well. The audit log says who had control.
func TestLostRightsEndControlOfTheBrowser(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ws := p.ids["workspace"]
	driving, owner := h.viewBrowser(t, ws, p.tokens["member"]), h.viewBrowser(t, ws, p.tokens["owner"])
	driving.send(`{"type":"take"}`)
	driving.until(func(s agentbrowser.View, _ string) bool { return s.Yours })
	owner.until(func(s agentbrowser.View, _ string) bool { return s.Control.Taken() && !s.Yours })

	h.demote(t, p, `{"role":"viewer"}`, "PATCH")
	owner.until(func(s agentbrowser.View, code string) bool { return code == "" && !s.Control.Taken() })
	driving.ended()

	watching := h.viewBrowser(t, ws, p.tokens["member"]) // a viewer may look
	watching.send(`{"type":"take"}`)
	watching.until(func(_ agentbrowser.View, code string) bool { return code == "read_only" })
	h.demote(t, p, "", "DELETE")
	watching.ended()

	var log struct{ Items []struct{ Action string } }
	h.do("GET", "/api/v1/teams/harbour/audit?limit=100", "", bearer(p.tokens["owner"])...).into(t, &log)
	var words []string
	for _, e := range log.Items {
		if strings.HasPrefix(e.Action, "browser.") {
			words = append(words, e.Action)
		}
	}
	if slices.Sort(words); !slices.Equal(words, []string{"browser.give_back", "browser.take_over"}) {
		t.Errorf("the audit log has %q", words)
	}
}
