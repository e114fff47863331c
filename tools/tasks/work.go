package tasks

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Begin claims a task for a person who is about to work on it in a workspace of its own. Errors: those of Claim, task_has_workspace.
func (s *Service) Begin(ctx context.Context, who Who, ref string) (Task, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return t, err
	}
	if t.WorkspaceID != "" && t.Status != Closed {
		return t, fault.New(fault.Conflict, "task_has_workspace", "%s is worked on in a workspace already. Continue there.", t.ID).With("workspace_id", t.WorkspaceID)
	}
	who.WorkspaceID = ""
	return s.Claim(ctx, who, t.UID)
}

// Link stores in which workspace a task is worked on. The merge of that workspace closes the task.
func (s *Service) Link(ctx context.Context, who Who, ref, workspaceID string) (Task, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return t, err
	}
	now := s.now()
	if _, err = s.edit(ctx, t.UID, func(_ context.Context, t *Task) error {
		t.WorkspaceID, t.LinkedAt = workspaceID, now
		return nil
	}); err != nil {
		return t, err
	}
	return s.one(ctx, t.UID)
}

// WorkspaceName is what the workspace of a task is called.
func WorkspaceName(t Task) string {
	name := t.ID + " " + t.Title
	if r := []rune(name); len(r) > 100 {
		name = strings.TrimSpace(string(r[:100]))
	}
	return name
}

// Prompt is the first message to an agent that starts to work on a task.
func Prompt(t Task) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Work on the task %s: %s\n", t.ID, t.Title)
	if d := strings.TrimSpace(t.Description); d != "" {
		fmt.Fprintf(&b, "\n%s\n", d)
	}
	fmt.Fprintf(&b, "\nThe tasks of this project are at hand with `parawork task show %s`, `parawork task create` for what you find on the way, and `parawork task close %s --reason ...` once it is done.\n", t.ID, t.ID)
	return b.String()
}
