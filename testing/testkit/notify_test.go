package testkit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A webhook is called once for a program that fails, also when the server was killed in between; other teams see nothing of it.
func TestFailureReachesAWebhook(t *testing.T) {
	t.Parallel()
	type reported struct {
		Type, Text string
		Session    struct{ ID string }
		Workspace  struct{ Key string }
	}
	got := make(chan reported, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m reported
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err != nil || r.Header.Get("Parawork-Signature") == "" {
			t.Errorf("%v %s", err, b)
		}
		got <- m
	}))
	t.Cleanup(hook.Close)
	h := testkit.Start(t, `"outgoing":{"allow":["127.0.0.0/8"]}`)
	var made struct {
		Webhook struct {
			ID      string
			Enabled bool
		}
		SigningKey string `json:"signing_key"`
	}
	h.API("POST", "/teams/"+h.Team+"/webhooks", map[string]any{"url": hook.URL, "kinds": []string{"failed"}}, &made)
	if !made.Webhook.Enabled || made.SigningKey == "" {
		t.Fatalf("got %+v", made)
	}
	var test struct{ State string }
	h.API("POST", "/webhooks/"+made.Webhook.ID+"/test", nil, &test)
	if m := <-got; test.State != "delivered" || m.Type != "ping" {
		t.Errorf("%+v, %+v", test, m)
	}

	ws := h.Workspace(h.Sample(), "Break")
	s := h.Run(ws.ID, "sh", "-c", "exit 3")
	if m := <-got; m.Type != "attention.failed" || m.Session.ID != s.ID || m.Workspace.Key != ws.Key {
		t.Errorf("told %+v", m)
	}
	h.Kill()
	h.Boot()
	again := h.Run(ws.ID, "sh", "-c", "exit 4")
	if m := <-got; m.Session.ID != again.ID {
		t.Errorf("told %+v, want the second session alone", m)
	}

	h.Refused(400, "url_not_public", "POST", "/teams/"+h.Team+"/webhooks", map[string]any{"url": "https://10.0.0.1/"})
	outsider := h.As(h.NewUser("eve@example.com", "Eve"))
	for _, call := range [][2]string{{"GET", "/teams/" + h.Team + "/webhooks"}, {"PATCH", "/webhooks/" + made.Webhook.ID}, {"DELETE", "/webhooks/" + made.Webhook.ID},
		{"POST", "/webhooks/" + made.Webhook.ID + "/test"}, {"GET", "/webhooks/" + made.Webhook.ID + "/deliveries"}} {
		var body any
		if call[0] == "PATCH" {
			body = map[string]any{"enabled": false}
		}
		outsider.Refused(404, "not_found", call[0], call[1], body)
	}
}
