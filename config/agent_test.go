package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/sessions/agents"
)

func loadAgents(t *testing.T, block string) (*config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"agents":{`+block+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(file, env(map[string]string{"HOME": "/h"}), agents.Programs(), places())
}

func TestAgentOfOnesOwn(t *testing.T) {
	t.Parallel()
	c, err := loadAgents(t, `"amp":{"command":"amp","prompt":{"delivery":"argument","flag":"-x="},"conversation":{"pattern":"(T-[0-9a-f-]+)"},
		"resume":{"args":["threads","continue","{conversation}"]},"interrupt":"Esc  Esc","account":{"env":"AMP_API_KEY","baseUrlEnv":"AMP_URL"},"install":"npm i -g amp",
		"screenRules":[{"pattern":"Allow\\?","says":"waiting","reason":"asks","lines":4,
			"options":[{"label":"Yes","keys":"y Enter","role":"allow"},{"label":"No","keys":"down down enter"}]}]},
		"old":{"command":"x","prompt":"argument"}, "codex":{"screenRules":[{"pattern":"x","says":"idle"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	a := c.Agents["amp"]
	if a.Prompt != (config.AgentPrompt{Delivery: "argument", Flag: "-x="}) || a.Resume.Args[2] != "{conversation}" || a.Account.BaseURLEnv != "AMP_URL" || !a.Enabled ||
		len(a.ScreenRules) != 1 || !reflect.DeepEqual(a.ScreenRules[0], config.ScreenRule{Pattern: `Allow\?`, Says: "waiting", Reason: "asks", Lines: 4,
		Options: []config.ScreenOption{{Label: "Yes", Keys: "y Enter", Role: "allow"}, {Label: "No", Keys: "down down enter"}}}) {
		t.Errorf("%+v", a)
	}
	if got := a.ScreenRules[0].Options[0].Bytes() + a.ScreenRules[0].Options[1].Bytes(); got != "y\r\x1b[B\x1b[B\r" {
		t.Errorf("%q", got)
	}
	if keys := a.InterruptKeys(); len(keys) != 2 || keys[0] != "\x1b" {
		t.Errorf("%q", keys)
	}
	if c.Agents["old"].Prompt.Delivery != "argument" || len(c.Agents["codex"].ScreenRules) != 1 || c.Agents["codex"].Command != "codex" {
		t.Errorf("%+v", c.Agents)
	}
}

func TestMistakesInAnAgentAreNamed(t *testing.T) {
	t.Parallel()
	for agents, want := range map[string]string{
		`"x":{"command":"x","screenRule":[]}`:                                                                                  `"agents.x.screenRule" is not a key Parawork knows. Did you mean "agents.x.screenRules"?`,
		`"x":{"command":"x","screenRules":[{"patern":"y","says":"idle"}]}`:                                                     `"agents.x.screenRules[0].patern" is not a key Parawork knows. Did you mean "agents.x.screenRules[].pattern"?`,
		`"x":{"command":"x","screenRules":[{"pattern":"(","says":"idle"}]}`:                                                    "agents.x.screenRules[0].pattern: is not a regular expression",
		`"x":{"command":"x","screenRules":[{"says":"idle"}]}`:                                                                  "agents.x.screenRules[0].pattern: is required",
		`"x":{"command":"x","screenRules":[{"pattern":"y","says":"asking"}]}`:                                                  "agents.x.screenRules[0].says: must be one of",
		`"x":{"command":"x","screenRules":[{"pattern":"y","says":"idle","lines":61}]}`:                                         "agents.x.screenRules[0].lines",
		`"x":{"command":"x","screenRules":[{"pattern":"y","says":"idle","options":[{"label":"a","keys":"y"}]}]}`:               `agents.x.screenRules[0].options: can have at most 9 entries, only in rules with the state "waiting"`,
		`"x":{"command":"x","screenRules":[{"pattern":"y","says":"waiting","options":[{"label":"a","keys":"yes"}]}]}`:          `agents.x.screenRules[0].options[0].keys: "yes" is not a known key`,
		`"x":{"command":"x","screenRules":[{"pattern":"y","says":"waiting","options":[{"label":"a"}]}]}`:                       "agents.x.screenRules[0].options[0].keys: is required",
		`"x":{"command":"x","screenRules":[{"pattern":"y","says":"waiting","options":[{"keys":"y","rule":"allow"}]}]}`:         `Did you mean "agents.x.screenRules[].options[].role"?`,
		`"x":{"command":"x","screenRules":[{"pattern":"y","says":"waiting","options":[{"label":"a","keys":"y","role":"x"}]}]}`: "agents.x.screenRules[0].options[0].role: must be one of",
		`"codex":{"screenRules":[{"pattern":"y","says":"waiting","options":[{"label":"a","keys":"y"}]}]}`:                      "agents.codex.screenRules[0].options: can be set only for your own agents",
		`"x":{"command":"x","screenRules":["y"]}`:                                                                              "agents.x.screenRules[0]: must be an object",
		`"x":{"command":"x","prompt":{"delivery":"stdin"}}`:                                                                    "agents.x.prompt.delivery: must be one of argument, paste, none",
		`"x":{"command":"x","prompt":"shout"}`:                                                                                 "agents.x.prompt.delivery: must be one of",
		`"x":{"command":"x","prompt":{"flag":"-m"}}`:                                                                           "agents.x.prompt.flag",
		`"x":{"command":"x","conversation":{"args":["--new"]}}`:                                                                "agents.x.conversation.args: must contain {conversation}",
		`"x":{"command":"x","conversation":{"pattern":"a*"}}`:                                                                  "agents.x.conversation.pattern: matches an empty text",
		`"x":{"command":"x","resume":{"args":["-r","{conversation}"]}}`:                                                        "agents.x.resume.args: contain {conversation}, but",
		`"x":{"command":"x","interrupt":"alt+f4"}`:                                                                             `agents.x.interrupt: "alt+f4" is not a known key`,
		`"x":{"command":"x","account":{"env":"NO-NAME"}}`:                                                                      "agents.x.account.env",
		`"x":{"command":"x","account":{"baseUrlEnv":"URL"}}`:                                                                   "agents.x.account.env: is required",
		`"x":{"command":"x","account":{"env":"K","baseUrlEnv":"B","api":"gemini"}}`:                                            "agents.x.account.api: must be one of",
		`"x":{"command":"x","account":{"env":"K","api":"openai"}}`:                                                             "agents.x.account.baseUrlEnv: is required",
		`"x":{"name":"x"}`: "agents.x.command: an agent of your own needs the program",
		`"codex":{"resume":{"args":["x"]},"interrupt":"esc","account":{"env":"A"}}`:            "agents.codex.interrupt: can be set only for your own agents",
		`"codex":{"conversation":{"pattern":"x"},"install":"y","prompt":"paste","command":""}`: "agents.codex.conversation: can be set only for your own agents",
	} {
		if _, err := loadAgents(t, agents); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", agents, err, want)
		}
	}
}

// What the documentation shows can be put into config.json as it stands.
func TestDocumentedAgentsLoad(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d examples were found", len(blocks))
	}
	for _, b := range blocks {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(b[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(file, env(nil), agents.Programs(), places()); err != nil {
			t.Errorf("%v in\n%s", err, b[1])
		}
	}
}
