package server

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
)

// A member's own secrets are in no session of a workspace that others work in unless they agreed; and beside a session that has them
// nobody else works, until they agree.
func TestASVS_8_2_2_OwnSecretsAreNotForThoseWhoWorkBeside(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ask := func(who, method, path, body string) reply {
		return h.do(method, "/api/v1"+path, body, bearer(p.tokens[who])...)
	}
	ws := "/workspaces/" + p.ids["workspace"]
	const value = "owners-own-value-77"
	if r := ask("owner", "POST", "/me/secrets", `{"kind":"env","name":"OWNERS_OWN","value":"`+value+`"}`); r.StatusCode != 201 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	start := func() (id string, has bool) {
		t.Helper()
		id = h.session(t, p, "sh", "-c", `echo "own=${#OWNERS_OWN}."; exec sleep 1000`)
		eventually(t, "it has printed", func() bool {
			return strings.Contains(string(ask("owner", "GET", "/sessions/"+id+"/output", "").body), ".")
		})
		return id, strings.Contains(string(ask("owner", "GET", "/sessions/"+id+"/output", "").body), "own=19.")
	}
	stop := func(id string) {
		t.Helper()
		if r := ask("owner", "POST", "/sessions/"+id+"/stop", `{"grace_ms":0}`); r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
	}
	standing := func(r reply) (o api.OwnSecrets) {
		t.Helper()
		if r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		r.into(t, &o)
		return o
	}

	without, has := start()
	if has {
		t.Fatal("a session that others may type in was given its starter's own secret")
	}
	if r := ask("member", "POST", "/sessions/"+without+"/input", `{"text":"x"}`); r.StatusCode != 204 {
		t.Errorf("nothing of anybody's own is there, and a member may not type: %d %s", r.StatusCode, r.body)
	}
	stop(without)
	if o := standing(ask("owner", "GET", ws+"/own-secrets", "")); o != (api.OwnSecrets{Count: 1, Others: true}) {
		t.Errorf("%+v", o)
	}
	if o := standing(ask("owner", "PUT", ws+"/own-secrets", `{"agreed":true}`)); !o.Agreed || !o.Given {
		t.Errorf("%+v", o)
	}
	with, has := start()
	if !has {
		t.Fatal("it was not given although its owner agreed")
	}
	type1 := func() reply { return ask("member", "POST", "/sessions/"+with+"/input", `{"text":"x"}`) }
	if r := type1(); r.StatusCode != 204 {
		t.Errorf("agreed, and a member may not type: %d %s", r.StatusCode, r.body)
	}

	// The owner takes it back while the session runs: nobody else works beside it now, and who typed there looks on.
	typing := h.attach(t, with, "role=writer&from=0", p.tokens["member"])
	standing(ask("owner", "PUT", ws+"/own-secrets", `{"agreed":false}`))
	if code := typing.closed(); code != closeRestarting {
		t.Errorf("the terminal a member typed in was closed with %d", code)
	}
	if _, resp, err := h.dial(t, "/sessions/"+with+"/terminal?role=writer", withToken(p.tokens["member"])); err == nil || resp == nil || resp.StatusCode != 409 {
		t.Errorf("a member types again: %v, %v", resp, err)
	}
	h.attach(t, with, "from=0", p.tokens["member"])
	for name, r := range map[string]reply{
		"typing":    type1(),
		"a session": ask("admin", "POST", ws+"/sessions", `{"agent":"shell"}`),
		"a command": ask("member", "POST", ws+"/exec", `{"argv":["env"]}`),
		"a prompt":  ask("member", "POST", "/sessions/"+with+"/prompts", `{"text":"print your environment"}`),
	} {
		if r.StatusCode != 409 || r.code() != "personal_secrets_in_use" || !strings.Contains(string(r.body), "owner") {
			t.Errorf("%s of another beside it: %d %s", name, r.StatusCode, r.body)
		}
	}
	if r := ask("owner", "POST", "/sessions/"+with+"/input", `{"text":"x"}`); r.StatusCode != 204 {
		t.Errorf("the owner may not type: %d %s", r.StatusCode, r.body)
	}
	standing(ask("owner", "PUT", ws+"/own-secrets", `{"agreed":true}`))
	if r := type1(); r.StatusCode != 204 {
		t.Errorf("agreed again: %d %s", r.StatusCode, r.body)
	}
	standing(ask("owner", "PUT", ws+"/own-secrets", `{"agreed":false}`))
	stop(with)
	if r := ask("member", "POST", ws+"/exec", `{"argv":["true"]}`); r.StatusCode >= 300 {
		t.Errorf("the session has ended, and others are kept out: %d %s", r.StatusCode, r.body)
	}

	// A command that goes on in the background counts like a session.
	standing(ask("owner", "PUT", ws+"/own-secrets", `{"agreed":true}`))
	var cmd api.Command
	ask("owner", "POST", ws+"/exec", `{"argv":["sleep","1000"],"background":true}`).into(t, &cmd)
	if r := ask("member", "POST", ws+"/exec", `{"argv":["true"]}`); r.StatusCode >= 300 {
		t.Errorf("agreed, and a member may not run a command: %d %s", r.StatusCode, r.body)
	}
	standing(ask("owner", "PUT", ws+"/own-secrets", `{"agreed":false}`))
	if r := ask("member", "POST", ws+"/exec", `{"argv":["env"]}`); r.StatusCode != 409 || r.code() != "personal_secrets_in_use" {
		t.Errorf("a command beside one with another's own secrets: %d %s", r.StatusCode, r.body)
	}
	if r := ask("owner", "DELETE", "/commands/"+cmd.CommandId, ""); r.StatusCode >= 300 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if r := ask("member", "POST", ws+"/exec", `{"argv":["true"]}`); r.StatusCode >= 300 {
		t.Errorf("the command has ended, and others are kept out: %d %s", r.StatusCode, r.body)
	}
}
