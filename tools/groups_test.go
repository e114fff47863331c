package tools_test

import (
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

func TestAgentsOnlyCallToolsOfGroupsThatAreOn(t *testing.T) {
	t.Parallel()
	s := set(t, tools.Config{Tools: []tools.Tool{stub{spec(), greets}}}) // its group is off by default
	agent := somebody
	agent.SessionID = "ses_1"
	if _, err := s.Call(t.Context(), agent, "greet", []byte(`{"name":"you"}`)); fault.CodeOf(err) != "tool_group_off" {
		t.Errorf("an agent called a tool of a group that is off: %v", err)
	}
	agent.Groups = tools.Selection{On: []string{"commands"}}
	if _, err := s.Call(t.Context(), agent, "greet", []byte(`{"name":"you"}`)); err != nil {
		t.Errorf("an agent may not call a tool of a group that is on: %v", err)
	}
	if _, err := s.Call(t.Context(), somebody, "greet", []byte(`{"name":"you"}`)); err != nil {
		t.Errorf("groups are for agents, and a person was refused: %v", err)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s     tools.Selection
		group string
		want  bool
	}{
		{tools.Selection{}, "tasks", true},
		{tools.Selection{}, "commands", false},
		{tools.Selection{}, "unknown", false},
		{tools.Selection{Off: []string{"tasks"}}, "tasks", false},
		{tools.Selection{On: []string{"commands"}}, "commands", true},
		{tools.Selection{On: []string{"tasks"}, Off: []string{"tasks"}}, "tasks", false},
	} {
		if got := c.s.Has(c.group); got != c.want {
			t.Errorf("%+v.Has(%q) = %v", c.s, c.group, got)
		}
	}
}

// 10,000 calls a minute are more than an agent needs; those of others are not affected.
func TestCallsAreLimitedPerCaller(t *testing.T) {
	t.Parallel()
	s := set(t, tools.Config{Tools: []tools.Tool{stub{spec(), greets}}})
	code := ""
	for range 10_000 {
		if _, err := s.Call(t.Context(), somebody, "greet", []byte(`{"name":"you"}`)); err != nil {
			code = fault.CodeOf(err)
			break
		}
	}
	if code != "tool_rate_limited" {
		t.Errorf("10,000 calls at once ended with %q, want tool_rate_limited", code)
	}
	other := somebody
	other.UserID = "usr_2"
	if _, err := s.Call(t.Context(), other, "greet", []byte(`{"name":"you"}`)); err != nil {
		t.Errorf("another caller was limited too: %v", err)
	}
}
