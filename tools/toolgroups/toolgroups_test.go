package toolgroups_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/toolgroups"
)

// memory is a Store.
type memory map[string]map[string]bool

func (m memory) ToolGroups(_ context.Context, projectID string) (map[string]bool, error) {
	return m[projectID], nil
}

func (m memory) SetToolGroups(_ context.Context, projectID string, switched map[string]bool) error {
	m[projectID] = switched
	return nil
}

func specs(group string, listed, unlisted int) (out []tools.Spec) {
	for i := range listed + unlisted {
		out = append(out, tools.Spec{Name: fmt.Sprintf("%s_%d", group, i), Group: group, Description: "12345678", Arguments: json.RawMessage("{}"), Unlisted: i >= listed})
	}
	return out
}

func TestGroups(t *testing.T) {
	t.Parallel()
	store := memory{}
	s := toolgroups.New(store, append(append(specs("tasks", 12, 5), specs("artifacts", 8, 0)...), specs("commands", 1, 0)...))
	o, err := s.Overview(t.Context(), "prj")
	if err != nil || len(o.Groups) != 3 || o.Listed != 20 || o.Groups[0].Listed != 12 || len(o.Groups[0].Tools) != 17 || !o.Groups[0].On || o.Groups[2].On ||
		o.ContextTokens != o.Groups[0].ContextTokens+o.Groups[1].ContextTokens || o.Groups[0].ContextTokens <= 0 {
		t.Errorf("%+v, %v", o, err)
	}
	// One more than agents may be shown.
	_, err = s.Set(t.Context(), "prj", []string{"tasks", "artifacts", "commands"})
	if fault.CodeOf(err) != "tool_groups_too_many" || len(store) != 0 {
		t.Errorf("%v, stored %v", err, store)
	}
	if _, err = s.Set(t.Context(), "prj", []string{"tasks", "nothing"}); fault.CodeOf(err) != "tool_group_unknown" || len(store) != 0 {
		t.Errorf("%v, stored %v", err, store)
	}
	var all []string
	for _, g := range tools.Groups() {
		if g.Name == "commands" || !g.Off && g.Name != "tasks" {
			all = append(all, g.Name)
		}
	}
	o, err = s.Set(t.Context(), "prj", all)
	if err != nil || o.Listed != 9 || o.Groups[0].On || !o.Groups[2].On || !maps.Equal(store["prj"], map[string]bool{"tasks": false, "commands": true}) {
		t.Errorf("%+v, %v, stored %v", o, err, store)
	}
	sel, err := s.Selection(t.Context(), "prj")
	if err != nil || sel.Has("tasks") || !sel.Has("commands") || !sel.Has("artifacts") {
		t.Errorf("%+v, %v", sel, err)
	}
	if sel, err = s.Selection(t.Context(), "another"); err != nil || !sel.Has("tasks") || sel.Has("commands") {
		t.Errorf("%+v, %v", sel, err)
	}
}
