package tools_test

import (
	"context"
	"encoding/json"
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
		{tools.Selection{Only: []string{"tasks"}}, "tasks", true},
		{tools.Selection{Only: []string{}}, "tasks", false},
		{tools.Selection{Only: []string{"task_list"}}, "tasks", false},
		{tools.Selection{Only: []string{"commands"}}, "commands", false},
	} {
		if got := c.s.Has(c.group); got != c.want {
			t.Errorf("%+v.Has(%q) = %v", c.s, c.group, got)
		}
	}
	one := tools.Selection{Only: []string{"task_list"}}
	if !one.Allows(tools.Spec{Name: "task_list", Group: "tasks"}) || one.Allows(tools.Spec{Name: "task_create", Group: "tasks"}) {
		t.Errorf("%+v: a tool by its name", one)
	}
	if one.Off = []string{"tasks"}; one.Allows(tools.Spec{Name: "task_list", Group: "tasks"}) {
		t.Errorf("%+v has a tool of a group that is off", one)
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

// A call that runs when its session ends may have been done: its record says that it was cancelled, and not that it was refused.
func TestACallThatIsCutWasNotRefused(t *testing.T) {
	t.Parallel()
	var rows recorder
	ctx, cut := context.WithCancelCause(t.Context())
	s := set(t, tools.Config{Recorder: &rows, Tools: []tools.Tool{stub{spec(), func(ctx context.Context, _ tools.Caller, _ json.RawMessage) (tools.Result, error) {
		cut(fault.New(fault.Gone, "session_ended", "The session has ended."))
		<-ctx.Done()
		return tools.Result{}, ctx.Err()
	}}}})
	_, err := s.Call(ctx, somebody, "greet", []byte(`{"name":"you"}`))
	if fault.CodeOf(err) != "session_ended" || len(rows) != 1 || rows[0].Outcome != tools.Cancelled {
		t.Errorf("%v, recorded as %+v", err, rows)
	}
}

// Wrong calls count as well: a flood of them neither loads the server nor pushes others out of the record.
func TestWrongCallsAreLimitedToo(t *testing.T) {
	t.Parallel()
	var rows recorder
	s := set(t, tools.Config{Recorder: &rows, Tools: []tools.Tool{stub{spec(), greets}}})
	limited := 0
	for range 5000 {
		if _, err := s.Call(t.Context(), somebody, "greet", []byte(`{}`)); fault.CodeOf(err) == "tool_rate_limited" {
			limited++
		}
	}
	if limited < 4000 || len(rows) > 1000 {
		t.Errorf("%d of 5000 calls were limited, and %d recorded", limited, len(rows))
	}
}
