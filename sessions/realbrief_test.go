package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

// Agents get a description of their sandbox: their model sees it before the conversation begins.
func TestRealAgentsLearnOfTheirSandbox(t *testing.T) {
	t.Parallel()
	const prompt = `#script [{"recall":"Work Laptop"}]`
	for name, set := range map[string]func(t *testing.T, h *harness){
		agents.ClaudeCode: func(t *testing.T, h *harness) {
			h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: realAgent(t, "claude")}
			h.accounts[agents.ClaudeCode] = accounts.AgentAccount{Agent: agents.ClaudeCode, Kind: accounts.APIKey, BaseURL: model(t)}
			h.secrets[agents.ClaudeCode] = "sk-ant-api03-" + strings.Repeat("abcdefghij", 5)
		},
		agents.Codex: func(t *testing.T, h *harness) {
			h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: realAgent(t, "codex"), DefaultArgs: []string{"-m", "gpt-5.5", "-s", "danger-full-access"}}
			h.accounts[agents.Codex] = accounts.AgentAccount{Agent: agents.Codex, Kind: accounts.APIKey, BaseURL: model(t) + "/v1"}
			h.secrets[agents.Codex] = "sk-proj-" + strings.Repeat("abcdefghij", 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			set(t, h)
			h.knobs.Brief = "You work on a person's own machine: \"Work Laptop\" (linux, amd64).\nNothing keeps you in."
			s := h.start()
			row := s.begin(t, sessions.StartRequest{Agent: name, Prompt: prompt})
			s.reaches(t, row.ID, state.Idle)
			eventually(t, "the model repeats the description", func() bool {
				screen := s.output(t, row.ID)
				return strings.Contains(strings.Join(strings.Fields(screen), " "), "Laptop") && strings.Contains(screen, "amd64")
			})
			if _, err := s.Stop(t.Context(), h.actor, row.ID, 3*time.Second); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestEveryProgramFindsWhereItWorks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.knobs.Brief = "You work on Work Laptop."
	s := h.start()
	row := s.run(t, "sh", "-c", `printf '<%s>' "$PARAWORK_PLACE"`)
	eventually(t, "the agent has the description", func() bool { return strings.Contains(s.output(t, row.ID), "<You work on Work Laptop.>") })
}
