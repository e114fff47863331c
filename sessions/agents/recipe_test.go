package agents_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/sessions/agents"
)

// What images, machines, networks and the gateway are given of an agent is whole.
func TestEveryAgentSaysWhatItIsMadeOf(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	var packaged []string
	for _, k := range agents.Builtin() {
		if k.Agent == "" || k.Name == "" {
			t.Errorf("%+v has no name", k)
		}
		if k.Program == "" {
			continue // a shell, or any command
		}
		packaged = append(packaged, k.Program+" "+k.Package+"@"+k.Version)
		if k.Package == "" || !pinned.MatchString(k.Version) || len(k.Hosts) == 0 {
			t.Errorf("%s: %+v", k.Agent, k.Recipe)
		}
		if hosts := agents.Hosts([]string{k.Agent}); !slices.Equal(hosts, k.Hosts) {
			t.Errorf("%s needs %q", k.Agent, hosts)
		}
		if agents.Programs()[k.Agent] != k.Program || agents.Provider(k.Agent) != k.Provider {
			t.Errorf("%s: program %q, provider %q", k.Agent, agents.Programs()[k.Agent], agents.Provider(k.Agent))
		}
	}
	var got []string
	for _, p := range agents.Packages() {
		got = append(got, p.Program+" "+p.String())
	}
	if !slices.Equal(got, packaged) {
		t.Errorf("packages: %q, of %q", got, packaged)
	}
	if err := recipe.Check(agents.Packages()); err != nil {
		t.Error(err)
	}
	for agent, want := range map[string]string{agents.ClaudeCode: agents.AnthropicAPI, agents.Codex: agents.OpenAIAPI, agents.OpenCode: "", "amp": ""} {
		if got := agents.Provider(agent); got != want {
			t.Errorf("the keys of %s are for %q", agent, got)
		}
	}
}

// The page of the agents has a line for each, with what it is made of.
func TestEveryAgentIsInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range agents.Builtin() {
		want := fmt.Sprintf("| `%s` |", k.Agent)
		if k.Program != "" {
			want = fmt.Sprintf("| `%s` | `%s` | `npm install -g %s` | %s |\n", k.Agent, k.Program, k.Package, k.Version)
		}
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/agents.md lacks the line %q", want)
		}
	}
}

// An agent gets the environment of its recipe wherever it is started.
func TestAnAgentIsStartedWithTheEnvironmentOfItsImages(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, recipe.Programs(agents.Packages())...)
	for _, k := range agents.Builtin() {
		if k.Package == "" {
			continue
		}
		p, err := h.Plan(k.Agent, h.launch())
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range k.Env {
			if p.Env[name] != value {
				t.Errorf("%s is started with %s=%q", k.Agent, name, p.Env[name])
			}
		}
	}
}
