package testkit_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// spent is what a session asked of models, as its JSON tells it.
type spent struct {
	Input, Output int64
	CacheRead     int64  `json:"cache_read"`
	CacheWrite    int64  `json:"cache_write"`
	CostNano      *int64 `json:"cost_nano"`
	Requests      int64
	Unknown       int64 `json:"unknown_requests"`
	Included      int64 `json:"included_requests"`
	Source        string
}

func (w *work) spent() (s spent) {
	w.t.Helper()
	var got struct{ Tokens *spent }
	w.h.API("GET", "/sessions/"+w.id, nil, &got)
	if got.Tokens != nil {
		s = *got.Tokens
	}
	return s
}

// prompt types a prompt, as a person does.
func (w *work) prompt(steps ...map[string]any) {
	w.t.Helper()
	w.h.API("POST", "/sessions/"+w.id+"/prompts", map[string]string{"text": script(w.t, steps...)}, nil)
}

// answered waits until the agent shows what the model said, a regular expression, and is idle.
func (w *work) answered(text string) {
	w.t.Helper()
	said := regexp.MustCompile(`[●•⏺] ` + text)
	w.waits("the model says: "+text, func() bool { return said.MatchString(w.screen()) })
	w.reaches("idle")
}

// says is a step in which the model answers, with what it bills.
func says(text string, in, out, read, write int) map[string]any {
	return map[string]any{"text": text, "usage": map[string]int{"in": in, "out": out, "cache_read": read, "cache_write": write}}
}

// unseen fails when a key is found in the environment or the arguments of a process other than the server's, or in a file of the instance.
func unseen(t *testing.T, h *testkit.Instance, keys ...string) {
	t.Helper()
	holds := func(what string, b []byte) {
		for _, key := range keys {
			if strings.Contains(string(b), key) {
				t.Errorf("a key is in %s", what)
			}
		}
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, p := range procs {
		if filepath.Base(p) == fmt.Sprint(os.Getpid()) {
			continue
		}
		for _, name := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(filepath.Join(p, name))
			if err == nil {
				holds(p+"/"+name, b)
			}
		}
	}
	must(t, filepath.WalkDir(h.Dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if b, err := os.ReadFile(name); err == nil {
			holds(name, b)
		}
		return nil
	}))
}

// gatewayHarness boots an instance in which both agents work under a scripted model, without asking, with keys of their own.
func gatewayHarness(t *testing.T, extra ...string) (h *testkit.Instance, model string, keys map[string]string) {
	t.Helper()
	h = testkit.Start(t, append(extra, modelsHere, fmt.Sprintf(`"agents":{"claude-code":{"enabled":true,"command":%q,"defaultArgs":["--model","claude-opus-4-8","--permission-mode","acceptEdits","--allowedTools","Bash,Write"]},
		"codex":{"enabled":true,"command":%q,"defaultArgs":["-m","gpt-5.5","-a","never","-s","danger-full-access"]}}`, realAgent(t, "claude"), realAgent(t, "codex")))...)
	model = scripted(t)
	keys = map[string]string{"claude-code": "sk-ant-api03-" + strings.Repeat("fghij-kl", 5), "codex": "sk-proj-" + strings.Repeat("fghij-kl", 5)}
	h.API("PUT", "/me/agent-accounts/claude-code", map[string]any{"kind": "api_key", "api_key": keys["claude-code"], "base_url": model}, nil)
	h.API("PUT", "/me/agent-accounts/codex", map[string]any{"kind": "api_key", "api_key": keys["codex"], "base_url": model + "/v1"}, nil)
	return h, model, keys
}

// shellTool is the tool with which an agent runs a command.
func shellTool(agent, cmd string) map[string]any {
	if agent == "codex" {
		return tool("exec_command", map[string]any{"cmd": cmd})
	}
	return tool("Bash", map[string]any{"command": cmd})
}

// billed is what the scripted model billed for whole answers.
type billed struct {
	Begun, Answers, Input, Output int64
	CacheRead                     int64 `json:"cache_read"`
	CacheWrite                    int64 `json:"cache_write"`
}

func billedBy(t *testing.T, model string) (b billed) {
	t.Helper()
	resp, err := http.Get(model + "/billed")
	must(t, err)
	defer resp.Body.Close()
	must(t, json.NewDecoder(resp.Body).Decode(&b))
	return b
}

// Real agents ask their models through the gateway: what they used is counted to the token and priced to the nano-dollar, the key is nowhere
// near them, and an answer the server died over is asked for again.
func TestAgentsAskThroughTheGateway(t *testing.T) {
	t.Parallel()
	h, model, keys := gatewayHarness(t, testkit.Local)
	all := map[string]*work{}
	for _, agent := range []string{"claude-code", "codex"} {
		first := shellTool(agent, "env > env.txt.new && mv env.txt.new env.txt")
		first["usage"] = map[string]int{"in": 5000, "out": 400, "cache_read": 1100, "cache_write": map[string]int{"claude-code": 270}[agent]} // OpenAI reports no writes
		all[agent] = ask(t, h, agent, first, says("That is all.", 1000, 111, 0, 0))
	}
	for _, w := range all {
		w.waits("the agent tells its environment", func() bool {
			b, err := os.ReadFile(filepath.Join(w.ws.Path, "env.txt"))
			return err == nil && strings.Contains(string(b), "PARAWORK_GATEWAY_URL=http://127.0.0.1:")
		})
		w.answered(`That is all\.`)
	}
	unseen(t, h, keys["claude-code"], keys["codex"])
	counted := func() (b billed, unknown int64) {
		for _, w := range all {
			s := w.spent()
			b.Input, b.Output, b.CacheRead, b.CacheWrite, b.Answers = b.Input+s.Input, b.Output+s.Output, b.CacheRead+s.CacheRead, b.CacheWrite+s.CacheWrite, b.Answers+s.Requests
			unknown += s.Unknown
		}
		return b, unknown
	}
	h.Wait("all that was billed is counted, and nothing else", func() bool {
		b, unknown := counted()
		of := billedBy(t, model)
		of.Begun = 0
		if unknown != 0 || b != of {
			t.Logf("counted %+v, %d unknown; billed %+v", b, unknown, of)
			return false
		}
		return true
	})
	for agent, out := range map[string]int64{"claude-code": 25_000, "codex": 30_000} { // dollars for a million tokens, as nano-dollars a token
		s := all[agent].spent()
		write := map[string]int64{"claude-code": 6_250, "codex": 5_000}[agent]
		if want := s.Input*5_000 + s.Output*out + s.CacheRead*500 + s.CacheWrite*write; s.CostNano == nil || *s.CostNano != want || s.Source != "gateway" || s.Included != 0 {
			t.Errorf("%s: %+v costs %v, want %d", agent, s, s.CostNano, want)
		}
		if s.Input < 6000 || s.Output < 511 {
			t.Errorf("%s: %+v", agent, s)
		}
	}

	// The server dies in the middle of both answers.
	for _, w := range all {
		again := says("After all.", 10, 20, 0, 0)
		again["hold_ms"] = 8000 // a busy machine sees it in time
		w.prompt(again)
	}
	for _, w := range all {
		w.waits("its question is under way", func() bool { return w.spent().Unknown > 0 })
	}
	h.Kill()
	h.Boot()
	for _, w := range all {
		w.answered(`(After all|Done)\.`) // one that kept the beginning of the answer is a step further
		s := w.spent()
		if s.Unknown == 0 { // nobody knows what the answer used that was cut
			t.Errorf("%+v", s)
		}
	}

	// A budget that is spent stops both at once and in words; once it was raised the model is asked again.
	h.API("PUT", "/teams/"+h.Team+"/budget", map[string]any{"limit_nano": 1, "count_tokens": true}, nil)
	asked := billedBy(t, model)
	for _, w := range all {
		w.prompt(says("Never said.", 1, 1, 0, 0))
	}
	refused := regexp.MustCompile(`budget\s+is\s+spent`)
	for agent, w := range all {
		w.waits("the agent says why it stopped", func() bool { return refused.MatchString(w.screen()) })
		w.reaches("idle")
		var list struct{ Items []struct{ Error string } }
		h.API("GET", "/sessions/"+w.id+"/model-requests", nil, &list)
		n := 0
		for _, it := range list.Items {
			if it.Error == "budget_exceeded" {
				n++
			}
		}
		if n == 0 || n > 2 { // Codex asks for a title beside
			t.Errorf("%s tried %d times", agent, n)
		}
	}
	if got := billedBy(t, model); got != asked {
		t.Errorf("the model was asked: %+v, before %+v", got, asked)
	}
	env, err := os.ReadFile(filepath.Join(all["claude-code"].ws.Path, "env.txt"))
	must(t, err)
	if got := askByHand(t, string(env)); got != http.StatusPaymentRequired {
		t.Errorf("with nothing left: %d", got)
	}
	h.API("PUT", "/teams/"+h.Team+"/budget", map[string]any{"limit_nano": nil}, nil)
	if got := askByHand(t, string(env)); got != http.StatusOK {
		t.Errorf("after it was raised: %d", got)
	}
	unseen(t, h, keys["claude-code"], keys["codex"])
}

// askByHand asks the gateway as a program of a session does, whose environment is given, and returns the status.
func askByHand(t *testing.T, env string) int {
	t.Helper()
	of := func(name string) string {
		_, rest, _ := strings.Cut(env, name+"=")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", of("PARAWORK_GATEWAY_URL")+"/anthropic/v1/messages",
		strings.NewReader(`{"model":"claude-opus-4-8","max_tokens":10,"messages":[{"role":"user","content":"Hello."}]}`))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+of("PARAWORK_GATEWAY_TOKEN"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// On a member's machine the gateway is at the sandbox's loopback, too: the key stays on the server, and the way there leads through the
// machine's own guard.
func TestGatewayOnAMachine(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-api03-of-the-team-and-nobody-else"
	h := testkit.Start(t, modelsHere, `"agents":{"asker":{"command":"sh","account":{"env":"K","baseUrlEnv":"B","api":"anthropic"},
		"defaultArgs":["-c","env > env.txt.new && mv env.txt.new env.txt; sleep 1000"]}}`)
	h.API("PUT", "/me/agent-accounts/asker", map[string]any{"kind": "api_key", "api_key": key, "base_url": scripted(t)}, nil)
	m := h.Connect("Work Laptop", "--dangerous")
	w := &work{t: t, h: h, ws: h.WorkspaceOn(m, h.Sample(), "Ask from there")}
	var s testkit.Session
	h.API("POST", "/workspaces/"+w.ws.ID+"/sessions", map[string]any{"agent": "asker"}, &s)
	w.id = s.ID
	var env string
	h.Wait("the agent tells its environment", func() bool {
		b, err := os.ReadFile(filepath.Join(w.ws.Path, "env.txt"))
		env = string(b)
		return err == nil && strings.Contains(env, "PARAWORK_GATEWAY_URL=http://127.0.0.1:")
	})
	for range 3 { // the machine of a test shares this one's loopback
		if got := askByHand(t, env); got != http.StatusOK {
			t.Errorf("the gateway answers %d", got)
		}
	}
	h.Wait("it is counted", func() bool { return w.spent().Requests == 3 })
	unseen(t, h, key)
}
