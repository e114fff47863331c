package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
)

// guide is an agent.Guide that tests change.
type guide struct {
	mu       sync.Mutex
	sections []agent.Section
	fails    error
	near     map[string]string // folders' instructions
	read     []string          // folders that were asked for
	commands []agent.Command
}

func (g *guide) tell(sections ...agent.Section) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sections = sections
}

func (g *guide) Sections(context.Context, agent.Thread) ([]agent.Section, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.sections), g.fails
}

func (g *guide) Near(_ context.Context, _ string, paths []string, claim func(string) bool) (out []agent.Instruction, _ error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range paths {
		parts := strings.Split(p, "/")
		for i := range parts[1:] {
			folder := strings.Join(parts[:i+1], "/")
			if !claim(folder) {
				continue
			}
			g.read = append(g.read, folder)
			if text := g.near[folder]; text != "" {
				out = append(out, agent.Instruction{Path: folder + "/AGENTS.md", Text: text})
			}
		}
	}
	return out, nil
}

func (g *guide) Commands(context.Context, agent.Thread) ([]agent.Command, error) {
	return g.commands, nil
}

func (g *guide) Command(_ context.Context, _ agent.Thread, name string) (agent.Command, bool, error) {
	i := slices.IndexFunc(g.commands, func(c agent.Command) bool { return c.Name == name })
	if i < 0 {
		return agent.Command{}, false, nil
	}
	return g.commands[i], true, nil
}

func system(req providers.Request) string {
	var b strings.Builder
	for _, s := range req.System {
		b.WriteString(s.Text + "\n")
	}
	return b.String()
}

// The system prompt stays as it was, so that it can be cached; what changes comes once, in a message. A new beginning has it in the
// system prompt.
func TestInstructionsThatChangeInTheMiddle(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	g := &guide{}
	h.guide = g
	g.tell(agent.Section{Title: "Here", Text: "at one", Moving: true}, agent.Section{Title: "Team", Text: "use tabs; " + secret}, agent.Section{Title: "Old", Text: "old"})
	th := h.open(agent.Options{})
	turn := func(prompt string) providers.Request {
		t.Helper()
		h.model.then(says("ok"))
		h.send(th.ID, prompt)
		h.rest(th.ID)
		all := h.model.asked()
		return all[len(all)-1]
	}
	first := turn("one")
	if s := system(first); !strings.Contains(s, "use tabs") || strings.Contains(s, secret) || !strings.Contains(s, "run_command") || strings.Contains(s, "checkpoint") {
		t.Errorf("the system prompt is %q", s)
	}
	g.tell(agent.Section{Title: "Here", Text: "at two", Moving: true}, agent.Section{Title: "Team", Text: "use tabs; " + secret}, agent.Section{Title: "Old", Text: "old"})
	if second := turn("two"); system(second) != system(first) || last(second) != "two" {
		t.Errorf("told %q", last(second))
	}
	h.kill()
	h.boot()
	g.tell(agent.Section{Title: "Here", Text: "at three", Moving: true}, agent.Section{Title: "Team", Text: "use spaces"})
	third := turn("three")
	if said := last(third); system(third) != system(first) || !strings.Contains(said, "# Team\nuse spaces") || !strings.Contains(said, "# Old\nThere is nothing") || strings.Contains(said, "three") {
		t.Errorf("told %q", said)
	}
	if fourth := turn("four"); last(fourth) != "four" || system(fourth) != system(first) {
		t.Errorf("told again: %q", last(fourth))
	}
	g.fails = errors.New("the sandbox is away")
	if fifth := turn("five"); system(fifth) != system(first) {
		t.Errorf("without a sandbox the system prompt is %q", system(fifth))
	}
	g.fails = nil
	if err := h.svc.Clear(h.ctx, th); err != nil {
		t.Fatal(err)
	}
	if s := system(turn("six")); !strings.Contains(s, "use spaces") || strings.Contains(s, "use tabs") || !strings.Contains(s, "at three") {
		t.Errorf("after a new beginning the system prompt is %q", s)
	}
}

// A change that the model read in a turn that a person undid comes again, and one that it read before does not.
func TestInstructionsComeAgainAfterAnUndo(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	g := &guide{}
	h.guide = g
	th := h.open(agent.Options{})
	turn := func(prompt string, texts ...string) string {
		t.Helper()
		var all []agent.Section
		for i, text := range texts {
			all = append(all, agent.Section{Title: []string{"Team", "Project"}[i], Text: text})
		}
		g.tell(all...)
		h.model.then(says("ok"))
		h.send(th.ID, prompt)
		h.rest(th.ID)
		asked := h.model.asked()
		return last(asked[len(asked)-1])
	}
	turn("one", "use tabs", "be brief")
	turn("two", "use spaces", "be brief")
	turn("three", "use spaces", "be long")
	if _, err := h.undo(th.ID, agent.UndoRequest{}); err != nil {
		t.Fatal(err)
	}
	if said := turn("four", "use spaces", "be long"); !strings.Contains(said, "be long") || strings.Contains(said, "use spaces") {
		t.Errorf("after the undo of three it reads %q", said)
	}
	for range 2 {
		if _, err := h.undo(th.ID, agent.UndoRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if said := turn("five", "use tabs", "be long"); !strings.Contains(said, "be long") || strings.Contains(said, "use tabs") {
		t.Errorf("after the undo of all but one it reads %q", said)
	}
	if said := turn("six", "use tabs", "be long"); said != "six" {
		t.Errorf("it comes again: %q", said)
	}
}

// The instructions of a folder come once with the first result about it, also after a restart, and again when the conversation begins anew.
func TestInstructionsOfFolders(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	g := &guide{near: map[string]string{"web": "web rules " + secret, "web/src": "src rules", "big": strings.Repeat("x", 30<<10)}}
	h.guide = g
	th := h.open(agent.Options{})
	results := func(calls ...string) string {
		t.Helper()
		h.model.then(wants(calls...), says("ok"))
		h.send(th.ID, "go")
		h.rest(th.ID)
		all := h.model.asked()
		return last(all[len(all)-1])
	}
	got := results("file_read", `{"path":"web/src/a.ts"}`, "file_read", `{"path":"web/b.ts"}`, "file_read", `{"path":"c.ts"}`)
	for _, want := range []string{"<instructions file=\"web/AGENTS.md\">\nweb rules ", "src rules"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%d times %q in %q", strings.Count(got, want), want, got)
		}
	}
	if strings.Contains(got, secret) {
		t.Errorf("a secret: %q", got)
	}
	h.kill()
	h.boot()
	if got := results("file_read", `{"path":"web/src/other.ts"}`); strings.Contains(got, "rules") {
		t.Errorf("told again: %q", got)
	}
	if got := results("file_read", `{"path":"big/file"}`); !strings.Contains(got, "too long") || len(got) > 4<<10 {
		t.Errorf("%d bytes", len(got))
	}
	if err := h.svc.Clear(h.ctx, th); err != nil {
		t.Fatal(err)
	}
	if got := results("file_read", `{"path":"web/b.ts"}`); !strings.Contains(got, "web rules") {
		t.Errorf("not told after a new beginning: %q", got)
	}
}

func TestCommandsOfTheRepositoryAndSkills(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.guide = &guide{commands: []agent.Command{
		{Name: "fix", Description: "Fix it", Hint: "[n]", Source: agent.Repository, Text: "Fix $1 ($ARGUMENTS)"},
		{Name: "release", Description: "Release", Source: agent.Skill, Text: "echo $1 for $ARGUMENTS"},
		{Name: "clear", Source: agent.Repository, Text: "never"},
	}}
	th := h.open(agent.Options{})
	for line, want := range map[string]string{
		"/fix 12 now":       "/fix 12 now\n\n<command name=\"fix\">\nFix 12 (12 now)\n</command>",
		"/release v1":       "/release v1\n\n<skill name=\"release\">\necho $1 for v1\n</skill>",
		"/etc/hosts is bad": "/etc/hosts is bad",
	} {
		h.model.then(says("ok"))
		if _, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: line, UserID: h.user}); err != nil {
			t.Fatal(err)
		}
		h.rest(th.ID)
		if all := h.model.asked(); last(all[len(all)-1]) != want {
			t.Errorf("%q was sent as %q", line, last(all[len(all)-1]))
		}
	}
	h.model.then(says("ok"))
	if m := h.send(th.ID, "/fix by the API"); !strings.Contains(m.Parts[0].Text, "Fix by (by the API)") {
		t.Errorf("%q", m.Parts[0].Text)
	}
	h.rest(th.ID)
	n := len(h.model.asked())
	if words, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: "/clear"}); err != nil || words != "" || len(h.model.asked()) != n {
		t.Errorf("a built-in command lost: %q %v", words, err)
	}
	if _, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: "/none"}); err == nil {
		t.Error("an unknown command was sent")
	}
	words, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: "/help"})
	if err != nil || !strings.Contains(words, "/fix [n]: Fix it\n") || strings.Count(words, "/clear") != 1 {
		t.Errorf("%q %v", words, err)
	}
}
