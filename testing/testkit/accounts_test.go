package testkit_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testkit"
)

// parrot is an agent nobody described to Parawork but its config.json: it takes its id or chooses one, asks before it writes,
// and leaves the end of its key in the worktree.
const parrot = `#!/bin/sh
case "$1" in
	--resume=*) echo "Welcome back to ${1#--resume=}" ;;
	*) echo "Thread: T-$$-parrot" ;;
esac
printf '%s' "$PARROT_KEY" | tail -c 4 > key.txt
printf '%s' "$PARROT_URL" > url.txt
echo "my key is $PARROT_KEY"
while printf 'ready> ' && read -r line; do
	case "$line" in
		write*) printf 'Shall I write %s? ' "${line#write }"; read -r yes; echo "$yes" > "${line#write }" ;;
		*) echo "You said $line" ;;
	esac
done
`

func parrotHarness(t *testing.T, extra ...string) *testkit.Instance {
	t.Helper()
	program := filepath.Join(t.TempDir(), "parrot")
	if err := os.WriteFile(program, []byte(parrot), 0o755); err != nil {
		t.Fatal(err)
	}
	return testkit.Start(t, append(extra, fmt.Sprintf(`"agents":{"parrot":{"name":"Parrot","command":%q,"install":"brew install parrot",
		"account":{"env":"PARROT_KEY","baseUrlEnv":"PARROT_URL"},"conversation":{"pattern":"Thread: (\\S+)"},"resume":{"args":["--resume={conversation}"]},
		"screenRules":[{"pattern":"Shall I write ([^?]+)\\?","says":"waiting","reason":"asks to write $1",
			"options":[{"label":"Yes","keys":"y e s enter","role":"allow"},{"label":"No","keys":"n o enter","role":"deny"}]},{"pattern":"^ready>$","says":"idle"}]}}`, program))...)
}

type account struct {
	ID, Scope, Agent, Name, Kind, API string
	LastFour                          string `json:"last_four"`
	Default                           bool
	Running                           int `json:"running_sessions"`
}

// An agent that only config.json knows: its prompt, its question, its answer, its conversation.
func TestAgentOfConfig(t *testing.T) {
	t.Parallel()
	h := parrotHarness(t)
	ws := h.Workspace(h.Sample(), "Talk to a parrot")
	var s testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "parrot", "prompt": "hello there"}, &s)
	get := func() testkit.Session { h.API("GET", "/sessions/"+s.ID, nil, &s); return s }
	h.Wait("the prompt was delivered", func() bool { return strings.Contains(string(h.Output(s.ID, 0)), "You said hello there") })
	h.Wait("it is idle", func() bool { return get().State == "idle" })
	h.API("POST", "/sessions/"+s.ID+"/input", map[string]string{"text": "write notes.txt\r"}, nil)
	h.Wait("its question is seen", func() bool { return get().State == "waiting" })
	if s.StateReason != "asks to write notes.txt" {
		t.Errorf("reason %q", s.StateReason)
	}
	// The rule's answers are offered like those of any agent, and typed.
	var asked struct {
		Question *struct {
			ID, Kind, Title, Source string
			Options                 []struct{ ID, Label, Role string }
		}
	}
	h.Wait("its question can be answered", func() bool { h.API("GET", "/sessions/"+s.ID, nil, &asked); return asked.Question != nil })
	q := asked.Question
	if q.Kind != "permission" || q.Title != "asks to write notes.txt" || q.Source != "screen" || len(q.Options) != 2 || q.Options[0].Role != "allow" {
		t.Errorf("%+v", q)
	}
	h.API("POST", "/sessions/"+s.ID+"/answer", map[string]any{"question_id": q.ID, "option_id": q.Options[0].ID}, nil)
	h.Wait("it wrote", func() bool { b, _ := os.ReadFile(filepath.Join(ws.Path, "notes.txt")); return string(b) == "yes\n" })
	h.Wait("it is idle again", func() bool { return get().State == "idle" })
	h.API("POST", "/sessions/"+s.ID+"/stop", map[string]int{"grace_ms": 500}, nil)
	first := s.ID
	out := string(h.Output(first, 0))
	_, thread, _ := strings.Cut(out, "Thread: ")
	thread, _, _ = strings.Cut(thread, "\r")
	h.API("POST", "/sessions/"+first+"/resume", nil, &s)
	h.Wait("it goes on with its conversation", func() bool { return strings.Contains(string(h.Output(s.ID, 0)), "Welcome back to "+thread) })
	h.API("POST", "/sessions/"+s.ID+"/stop", map[string]int{"grace_ms": 500}, nil)
}

// Accounts of people and of a team: each session works with its own key, and no key is found anywhere in clear.
func TestAgentAccountsAndTheirSecrets(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		agentAccounts(t, parrotHarness(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		agentAccounts(t, parrotHarness(t, fmt.Sprintf(`"database":{"url":%q}`, storetest.PostgresURL(t))))
	})
}

func agentAccounts(t *testing.T, h *testkit.Instance) {
	keys := map[string]string{"one": "sk-secret-of-one-aaaabbbbcccc1111", "two": "sk-secret-of-two-aaaabbbbcccc2222", "team": "sk-secret-of-team-aaaabbbb3333", "bob": "sk-secret-of-bob-aaaabbbbcccc4444"}
	bob := h.As(h.NewUser("bob@example.com", "Bob"))
	h.Admin("add-member", "--email", "bob@example.com", "--team", h.Team, "--role", "member")
	add := func(c *testkit.Client, path, name, key string) account {
		t.Helper()
		var a account
		c.API("POST", path, map[string]any{"agent": "parrot", "name": name, "kind": "api_key", "api_key": key, "base_url": "http://" + name + ".example.com", "api": "chat"}, &a)
		var changed struct{ API string }
		c.API("PATCH", "/agent-accounts/"+a.ID, map[string]any{"api": "responses"}, &changed)
		if changed.API != "responses" {
			t.Errorf("the API of an address was not changed: %+v", changed)
		}
		if a.ID == "" || a.API != "chat" || a.LastFour != key[len(key)-4:] {
			t.Fatalf("%+v", a)
		}
		return a
	}
	team := "/teams/" + h.Team + "/agent-accounts"
	one, two := add(h.Client, "/me/agent-accounts", "one", keys["one"]), add(h.Client, "/me/agent-accounts", "two", keys["two"])
	shared, bobs := add(h.Client, team, "team", keys["team"]), add(bob, "/me/agent-accounts", "bob", keys["bob"])
	if !one.Default || two.Default || one.Scope != "user" || shared.Scope != "team" {
		t.Errorf("%+v %+v %+v", one, two, shared)
	}
	h.Refused(400, "agent_unknown", "PUT", "/me/agent-accounts/nobody", map[string]string{"kind": "terminal"})
	h.Refused(400, "agent_takes_no_account", "PUT", "/me/agent-accounts/shell", map[string]string{"kind": "terminal"})
	h.Refused(404, "agent_account_not_found", "PATCH", "/agent-accounts/"+bobs.ID, map[string]string{"name": "mine"})
	h.Refused(404, "agent_account_not_found", "POST", "/agent-accounts/"+bobs.ID+"/test", nil)
	for _, c := range []struct{ method, path string }{{"PATCH", ""}, {"DELETE", ""}, {"POST", "/test"}} {
		bob.Refused(403, "forbidden", c.method, "/agent-accounts/"+shared.ID+c.path, map[string]string{})
	}
	bob.Refused(403, "forbidden", "POST", team, map[string]string{"agent": "parrot", "kind": "api_key", "api_key": "sk-0123456789abcdef"})
	var test struct{ Result, Detail string }
	if h.API("POST", "/agent-accounts/"+one.ID+"/test", nil, &test); test.Result != "untestable" {
		t.Errorf("%+v", test)
	}

	ws := h.Workspace(h.Sample(), "Two keys side by side")
	start := func(c *testkit.Client, accountID, key, url string) string {
		t.Helper()
		_ = os.Remove(filepath.Join(ws.Path, "url.txt"))
		var s struct {
			ID        string
			AccountID string `json:"account_id"`
		}
		body := map[string]any{"agent": "parrot"}
		if accountID != "" {
			body["account_id"] = accountID
		}
		c.API("POST", "/workspaces/"+ws.ID+"/sessions", body, &s)
		h.Wait("it works with the key of "+url, func() bool {
			k, _ := os.ReadFile(filepath.Join(ws.Path, "key.txt"))
			u, _ := os.ReadFile(filepath.Join(ws.Path, "url.txt"))
			return string(k) == key[len(key)-4:] && string(u) == "http://"+url+".example.com"
		})
		h.Wait("it says its key, masked", func() bool { return strings.Contains(string(h.Output(s.ID, 0)), "ready>") })
		return s.ID
	}
	sessions := []string{start(h.Client, "", keys["one"], "one"), start(h.Client, two.ID, keys["two"], "two"), start(bob, shared.ID, keys["team"], "team"), start(bob, "", keys["bob"], "bob")}
	h.Refused(400, "agent_account_not_found", "POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "parrot", "account_id": bobs.ID})
	h.Refused(400, "agent_takes_no_account", "POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell", "account_id": one.ID})
	p := h.Refused(409, "account_in_use", "DELETE", "/agent-accounts/"+shared.ID, nil)
	if p.Details["running"] != float64(1) {
		t.Errorf("%+v", p)
	}

	// Nowhere in clear: not on a command line, not in an answer, not in what is printed, not in the log, not in the data folder.
	seen := func(where string, text []byte) {
		t.Helper()
		for who, key := range keys {
			if bytes.Contains(text, []byte(key)) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(key)))) {
				t.Errorf("the key of %s is in %s", who, where)
			}
		}
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range lines {
		text, _ := os.ReadFile(path)
		seen(path, text)
	}
	for _, c := range []*testkit.Client{h.Client, bob} {
		paths := []string{"/me", "/me/agent-accounts", team, "/teams/" + h.Team + "/agents", "/workspaces/" + ws.ID + "/sessions", "/workspaces/" + ws.ID + "/activity"}
		for _, id := range sessions {
			paths = append(paths, "/sessions/"+id, "/sessions/"+id+"/output?from=0", "/sessions/"+id+"/screen")
		}
		for _, path := range paths {
			_, text, err := c.Do("GET", path, nil)
			must(t, err)
			seen(path, text)
		}
	}
	for _, id := range sessions {
		h.API("POST", "/sessions/"+id+"/stop", map[string]int{"grace_ms": 500}, nil)
	}
	var resumed struct {
		ID        string
		AccountID string `json:"account_id"`
	}
	h.API("POST", "/sessions/"+sessions[1]+"/resume", nil, &resumed)
	if resumed.AccountID != two.ID {
		t.Errorf("resumed with %s, want %s", resumed.AccountID, two.ID)
	}
	h.API("POST", "/sessions/"+resumed.ID+"/stop", map[string]int{"grace_ms": 500}, nil)
	h.API("DELETE", "/agent-accounts/"+shared.ID, nil, nil)
	var left struct{ Items []json.RawMessage }
	if h.API("GET", team, nil, &left); len(left.Items) != 0 {
		t.Errorf("%d accounts are left", len(left.Items))
	}
	h.Terminate()
	seen("the log", []byte(h.Log()))
	must(t, filepath.WalkDir(h.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what went meanwhile holds nothing
		}
		if ok, _ := filepath.Match(h.DataDir()+"/sandboxes/*/processes/*/terminal/*", path); ok {
			return nil // what the agent itself printed, as its guest keeps it inside the sandbox until the session's end is stored
		}
		text, err := os.ReadFile(path)
		if err == nil {
			seen(path, text)
		}
		return nil
	}))
	h.Boot() // so that its sandbox is taken down
}
