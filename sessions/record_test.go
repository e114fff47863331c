package sessions_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	vt "github.com/parawork/parawork/sessions/screen"
)

// A recording is a session of a real agent: what it printed and when, what was typed, and what it was truly doing. Made by
// PARAWORK_RECORD=testdata/states go test ./sessions -run TestRecordStates; replayed by TestRecordedStates.
type recording struct {
	Agent string `json:"agent"`
	Cols  int    `json:"cols"`
	Rows  int    `json:"rows"`
	Ops   []op   `json:"ops"`
}

type op struct {
	At   int64  `json:"at"` // ms since the start
	Out  []byte `json:"out,omitempty"`
	Key  string `json:"key,omitempty"`
	Is   string `json:"is,omitempty"`   // what it truly does from now on: a state, or failed
	Says string `json:"says,omitempty"` // what the reason must match then
}

// recorder plays a person at the terminal of a real agent.
type recorder struct {
	t        *testing.T
	s        *server
	id       string
	rec      recording
	began    time.Time
	off      int64
	shown    *vt.Screen
	restarts bool // also while it works
	live     bool // the server is to be right at once, also after a restart; nothing is recorded
}

func (r *recorder) at() int64 { return time.Since(r.began).Milliseconds() }

// hear reads what was printed.
func (r *recorder) hear() {
	b, _, end, err := r.s.Output(r.t.Context(), r.id, r.off, 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	r.off = end
	if len(b) > 0 {
		r.shown.Write(b)
	}
	if len(b) > 0 && !r.live {
		r.rec.Ops = append(r.rec.Ops, op{At: r.at(), Out: anonymous(b)})
	}
}

// wait reads for d, or until the screen matches a pattern that is not empty.
func (r *recorder) wait(pattern string, d time.Duration) {
	r.t.Helper()
	var want *regexp.Regexp
	if pattern != "" {
		want = regexp.MustCompile(pattern)
	}
	switch {
	case !r.live:
	case want == nil:
		d = time.Second
	default:
		d = patience
	}
	for deadline := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		r.hear()
		text := strings.Join(r.shown.Text().Lines, "\n")
		if want != nil && want.MatchString(text) {
			return
		}
		if time.Now().After(deadline) {
			if want != nil {
				r.t.Fatalf("%q does not appear on:\n%s", pattern, text)
			}
			return
		}
	}
}

// is says what the agent truly does from now on. A live server must soon say so, and again after a restart.
func (r *recorder) is(state, says string) {
	r.t.Helper()
	r.hear()
	if r.live {
		r.right(state)
		if state != "working" || r.restarts { // a scripted turn is short
			r.restarts = false
			r.s.end()
			r.s = r.s.h.start()
			r.right(state)
		}
		return
	}
	r.rec.Ops = append(r.rec.Ops, op{At: r.at(), Is: state, Says: says})
}

// sooner is less than how long a wrong "working" would be believed.
const sooner = 12 * time.Second

func (r *recorder) right(state string) {
	r.t.Helper()
	began := time.Now()
	for {
		row := r.s.get(r.t, r.id)
		got := string(row.State)
		if row.Basis.Failed {
			got = "failed"
		}
		if got == state {
			return
		}
		if time.Since(began) > sooner {
			r.hear()
			r.t.Fatalf("%s (%s) by %q for long while it is %s; %+v\n%s", got, row.StateReason, row.Basis.Source, state, row.Basis.Evidence,
				strings.Join(r.shown.Text().Lines, "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *recorder) key(keys string) {
	r.hear()
	r.s.types(r.t, r.id, keys)
	r.rec.Ops = append(r.rec.Ops, op{At: r.at(), Key: keys})
}

var machinePath = regexp.MustCompile(`/(tmp|root|home|work)/[A-Za-z0-9_./-]*`)

// anonymous puts a path of the same length in the place of each of this machine's.
func anonymous(b []byte) []byte {
	return machinePath.ReplaceAllFunc(b, func(p []byte) []byte { return append([]byte("/w/"), bytes.Repeat([]byte("x"), len(p)-3)...) })
}

// script is a prompt that makes the scripted model answer step by step.
func script(steps string) string { return "#script " + steps }

const (
	later  = `{"delay_ms":7000,"text":"That was all."}`
	sorry  = `[{"error":{"status":%d,"type":"%s","message":"%s"}}]`
	asking = `[{"tools":[{"name":"Write","input":{"file_path":"notes.txt","content":"hello"}}]},` + later + `]`
)

func failure(status int, kind, message string) string {
	return script(fmt.Sprintf(sorry, status, kind, message))
}

// condition is one way a session can go.
type condition struct {
	name   string
	prompt string
	args   []string
	env    map[string]string
	login  bool // without an account
	play   func(r *recorder)
}

var claudeConditions = []condition{
	{name: "works", prompt: script(`[` + later + `]`), play: func(r *recorder) {
		r.wait(`esc to interrupt`, 30*time.Second)
		r.is("working", "")
		r.wait(`(?m)^● That was all`, 30*time.Second)
		r.is("idle", "")
		r.wait("", 10*time.Second)
	}},
	{name: "permission-yes", prompt: script(asking), play: func(r *recorder) {
		r.wait(`Do you want to`, 30*time.Second)
		r.is("waiting", "")
		r.wait("", 8*time.Second)
		r.key("\x1b[B") // an arrow answers nothing
		r.wait("", 8*time.Second)
		r.key("1")
		r.is("working", "")
		r.wait(`(?m)^● That was all`, 30*time.Second)
		r.is("idle", "")
		r.wait("", 8*time.Second)
	}},
	{name: "permission-escape", prompt: script(asking), play: func(r *recorder) {
		r.wait(`Do you want to`, 30*time.Second)
		r.is("waiting", "")
		r.wait("", 10*time.Second)
		r.key("\x1b")
		r.is("idle", "")
		r.wait("", 10*time.Second)
	}},
	{name: "question", prompt: script(`[{"tools":[{"name":"AskUserQuestion","input":{"questions":[{"question":"Which colour?","header":"Colour","multiSelect":false,"options":[{"label":"Red","description":"Warm"},{"label":"Blue","description":"Cold"}]}]}}]},` + later + `]`), play: func(r *recorder) {
		r.wait(`Which colour`, 30*time.Second)
		r.wait(`(?i)enter to select`, 30*time.Second)
		r.is("waiting", "")
		r.wait("", 10*time.Second)
		r.key("\r")
		r.is("working", "")
		r.wait(`(?m)^● That was all`, 30*time.Second)
		r.is("idle", "")
		r.wait("", 8*time.Second)
	}},
	{name: "interrupt", prompt: script(`[{"delay_ms":600000,"text":"Never."}]`), play: func(r *recorder) {
		r.wait(`esc to interrupt`, 30*time.Second)
		r.is("working", "")
		r.wait("", 7*time.Second)
		r.key("\x1b")
		r.is("idle", "")
		r.wait("", 10*time.Second)
	}},
	{name: "silent-tool", prompt: script(`[{"tools":[{"name":"Bash","input":{"command":"sleep 12"}}]},{"text":"That was all."}]`), args: []string{"--allowedTools", "Bash"}, play: func(r *recorder) {
		r.wait(`sleep 12`, 30*time.Second)
		r.wait(`esc to interrupt`, 30*time.Second)
		r.is("working", "")
		r.wait(`(?m)^● That was all`, 40*time.Second)
		r.is("idle", "")
		r.wait("", 8*time.Second)
	}},
	{name: "error-400", prompt: failure(400, "invalid_request_error", "Nothing works today."), play: func(r *recorder) {
		r.wait(`(?m)API Error: 400`, 30*time.Second)
		r.is("failed", "")
		r.wait("", 10*time.Second)
	}},
	{name: "error-402", prompt: failure(402, "billing_error", "The budget is used up."), play: func(r *recorder) {
		r.wait(`(?m)API Error: 402`, 30*time.Second)
		r.is("failed", "")
		r.wait("", 10*time.Second)
	}},
	{name: "error-429", prompt: failure(429, "rate_limit_error", "Slow down."), env: map[string]string{"CLAUDE_CODE_MAX_RETRIES": "1"}, play: func(r *recorder) {
		r.wait(`(?m)^ *⎿? *.*429|rate`, 60*time.Second)
		r.wait("", 12*time.Second)
		r.is("failed", "")
		r.wait("", 8*time.Second)
	}},
	{name: "error-500", prompt: failure(500, "api_error", "Broken."), env: map[string]string{"CLAUDE_CODE_MAX_RETRIES": "1"}, play: func(r *recorder) {
		r.wait(`API Error: 500|API Error`, 60*time.Second)
		r.is("failed", "")
		r.wait("", 10*time.Second)
	}},
	{name: "error-401", prompt: failure(401, "authentication_error", "OAuth token has expired."), env: map[string]string{"CLAUDE_CODE_MAX_RETRIES": "1"}, play: func(r *recorder) {
		r.wait(`(?i)API Error: 401|/login`, 60*time.Second)
		r.is("waiting", "")
		r.wait("", 10*time.Second)
	}},
	{name: "no-login", login: true, prompt: "hello", play: func(r *recorder) {
		r.wait(`(?i)login`, 60*time.Second)
		r.is("waiting", "")
		r.wait("", 8*time.Second)
	}},
}

var codexConditions = []condition{
	{name: "works", prompt: script(`[` + later + `]`), play: func(r *recorder) {
		r.wait(`esc to interrupt`, 30*time.Second)
		r.is("working", "")
		r.wait(`(?m)^• That was all`, 30*time.Second)
		r.is("idle", "")
		r.wait("", 8*time.Second)
	}},
	{name: "permission-yes", prompt: script(`[{"tools":[{"name":"exec_command","input":{"cmd":"touch /etc/x","sandbox_permissions":"require_escalated","justification":"May I?"}}]},` + later + `]`), args: []string{"-a", "on-request", "-s", "read-only"}, play: func(r *recorder) {
		r.wait(`Would you like|(?i)yes, proceed`, 30*time.Second)
		r.is("waiting", "")
		r.wait("", 8*time.Second)
		r.key("\x1b[B")
		r.wait("", 8*time.Second)
		r.key("y")
		r.is("working", "")
		r.wait(`(?m)^• That was all`, 30*time.Second)
		r.is("idle", "")
		r.wait("", 8*time.Second)
	}},
	{name: "permission-escape", prompt: script(`[{"tools":[{"name":"exec_command","input":{"cmd":"touch /etc/x","sandbox_permissions":"require_escalated","justification":"May I?"}}]},` + later + `]`), args: []string{"-a", "on-request", "-s", "read-only"}, play: func(r *recorder) {
		r.wait(`Would you like|(?i)yes, proceed`, 30*time.Second)
		r.is("waiting", "")
		r.wait("", 8*time.Second)
		r.key("\x1b")
		r.is("idle", "")
		r.wait("", 10*time.Second)
	}},
	{name: "interrupt", prompt: script(`[{"delay_ms":600000,"text":"Never."}]`), play: func(r *recorder) {
		r.wait(`esc to interrupt`, 30*time.Second)
		r.is("working", "")
		r.wait("", 7*time.Second)
		r.key("\x1b")
		r.is("idle", "")
		r.wait("", 10*time.Second)
	}},
	{name: "silent-tool", prompt: script(`[{"tools":[{"name":"exec_command","input":{"cmd":"sleep 9","yield_time_ms":20000}}]},{"text":"That was all."}]`), args: []string{"-a", "never", "-s", "danger-full-access"}, play: func(r *recorder) {
		r.wait(`sleep 9`, 30*time.Second)
		r.wait(`esc to interrupt`, 30*time.Second)
		r.is("working", "")
		r.wait(`(?m)^• That was all`, 40*time.Second)
		r.is("idle", "")
		r.wait("", 8*time.Second)
	}},
	{name: "error-400", prompt: failure(400, "invalid_request_error", "Nothing works today."), play: func(r *recorder) {
		r.wait(`(?m)^■`, 30*time.Second)
		r.is("failed", "")
		r.wait("", 10*time.Second)
	}},
	{name: "error-402", prompt: failure(402, "billing_error", "The budget is used up."), play: func(r *recorder) {
		r.wait(`(?m)^■`, 60*time.Second)
		r.is("failed", "")
		r.wait("", 10*time.Second)
	}},
	{name: "error-429", prompt: failure(429, "rate_limit_error", "Slow down."), play: func(r *recorder) {
		r.wait(`(?m)^■`, 60*time.Second)
		r.is("failed", "")
		r.wait("", 10*time.Second)
	}},
	{name: "error-500", prompt: failure(500, "server_error", "Broken."), play: func(r *recorder) {
		r.wait(`(?m)^■`, 120*time.Second)
		r.is("failed", "")
		r.wait("", 10*time.Second)
	}},
	{name: "error-401", prompt: failure(401, "authentication_error", "Token expired."), play: func(r *recorder) {
		r.wait(`(?m)^■`, 120*time.Second)
		r.is("waiting", "")
		r.wait("", 10*time.Second)
	}},
	{name: "no-login", login: true, prompt: "hello", play: func(r *recorder) {
		r.wait(`(?i)sign in`, 60*time.Second)
		r.is("waiting", "")
		r.wait("", 8*time.Second)
	}},
}

func TestRecordStates(t *testing.T) {
	dir := os.Getenv("PARAWORK_RECORD")
	if dir == "" {
		t.Skip("set PARAWORK_RECORD to a folder to record real agents anew")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	address := os.Getenv("PARAWORK_RECORD_MODEL")
	if address == "" {
		address = model(t)
	}
	for agent, all := range map[string][]condition{agents.ClaudeCode: claudeConditions, agents.Codex: codexConditions} {
		for _, c := range all {
			t.Run(agent+"/"+c.name, func(t *testing.T) { record(t, dir, address, agent, c) })
		}
	}
}

func record(t *testing.T, dir, address, agent string, c condition) {
	r := perform(t, address, agent, c, false)
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err := json.NewEncoder(z).Encode(r.rec); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, agent+"."+c.name+".json.gz"), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes; the screen at the end:\n%s", out.Len(), strings.Join(r.shown.Text().Lines, "\n"))
}

// perform starts a real agent and plays the condition.
func perform(t *testing.T, address, agent string, c condition, live bool) *recorder {
	h := newHarness(t)
	if out, err := exec.Command("git", "init", "-q", h.ws.Path).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v %s", err, out)
	}
	name, key, base, defaults := "claude", "sk-ant-api03-", "", []string(nil)
	if agent == agents.Codex {
		name, key, base = "codex", "sk-proj-", "/v1"
		defaults = []string{"-m", "gpt-5.5", "-c", "model_providers.parawork.request_max_retries=1", "-c", "model_providers.parawork.stream_max_retries=1"}
	}
	h.settings[agent] = agents.Settings{Enabled: true, Command: realAgent(t, name), DefaultArgs: defaults}
	if !c.login {
		h.accounts[agent] = accounts.AgentAccount{Agent: agent, Kind: accounts.APIKey, BaseURL: address + base}
		h.secrets[agent] = key + strings.Repeat("abcdefghij", 5)
	} else if agent == agents.Codex {
		h.settings[agent] = agents.Settings{Enabled: true, Command: realAgent(t, name)}
	}
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agent, Prompt: c.prompt, Argv: c.args, Env: c.env, Cols: 100, Rows: 30})
	r := &recorder{t: t, s: s, id: row.ID, began: time.Now(), shown: vt.New(vt.Config{Cols: 100, Rows: 30}),
		rec: recording{Agent: agent, Cols: 100, Rows: 30}}
	r.live, r.restarts = live, live
	c.play(r)
	r.hear()
	if r.s.get(t, row.ID).State.Ended() {
		return r
	}
	if _, err := r.s.Stop(t.Context(), h.actor, row.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	return r
}
