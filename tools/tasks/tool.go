package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// tool is a tool whose arguments are an A and whose result is a T.
type tool[A, T any] struct {
	service *Service
	spec    tools.Spec
	call    func(ctx context.Context, s *Service, who Who, args A) (T, error)
	text    func(T) string
	shrink  func(T) (T, bool) // makes a result that is too large smaller; false: it cannot
}

// Spec describes the tool.
func (t tool[A, T]) Spec() tools.Spec { return t.spec }

// Call does the work within the project of the caller's workspace.
func (t tool[A, T]) Call(ctx context.Context, c tools.Caller, raw json.RawMessage) (tools.Result, error) {
	var args A
	if err := tools.Decode(raw, &args); err != nil {
		return tools.Result{}, err
	}
	who, err := t.service.who(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	answer, err := t.call(ctx, t.service, who, args)
	if err != nil {
		return tools.Result{}, err
	}
	for truncated := false; ; truncated = true {
		r, err := tools.Answer(t.text(answer), answer)
		r.Truncated = truncated
		if err != nil || r.Bytes() <= c.Limits.ResultBytes || t.shrink == nil {
			return r, err
		}
		var smaller bool
		if answer, smaller = t.shrink(answer); !smaller {
			return r, nil
		}
	}
}

// who is the caller, who sees the tasks of the workspace's project alone.
func (s *Service) who(ctx context.Context, c tools.Caller) (Who, error) {
	w, err := s.cfg.Projects.Workspace(ctx, c.WorkspaceID)
	if err == nil && w.TeamID != c.TeamID {
		err = fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace.")
	}
	return Who{TeamID: c.TeamID, UserID: c.UserID, SessionID: c.SessionID, WorkspaceID: c.WorkspaceID, ProjectID: w.ProjectID}, err
}

// Tools are the tools of tasks.
func (s *Service) Tools() []tools.Tool {
	return []tools.Tool{s.createTool(), s.listTool(), s.readyTool(), s.claimTool(), s.updateTool(), s.closeTool(), s.showTool(), s.depTool(), s.primeTool(), s.importTool(), s.exportTool()}
}

// spec is what the specs of the tools have in common.
func spec(name, title, description, arguments, result string, writes bool, positional ...string) tools.Spec {
	return tools.Spec{Name: name, Title: title, Description: description, Group: "tasks", Arguments: json.RawMessage(arguments), Result: json.RawMessage(result),
		Command: tools.Command{Positional: positional}, Needs: tools.Needs{Workspace: true, Writes: writes}, Permission: tools.Allow}
}

func unlisted(s tools.Spec) tools.Spec { s.Unlisted = true; return s }

// object is the schema of an object with these properties.
func object(required, properties string) string {
	return `{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `}}`
}

// Properties of arguments.
const (
	argTask        = `"task":{"type":"string","maxLength":64,"description":"Id of the task, such as PW-T12"}`
	argTitle       = `"title":{"type":"string","maxLength":500,"description":"What is to be done, in a few words"}`
	argDescription = `"description":{"type":"string","maxLength":65536,"description":"Details: what, why, how to tell that it is done"}`
	argType        = `"type":{"type":"string","enum":["task","bug","feature","epic","chore"],"description":"Kind of work"}`
	argPriority    = `"priority":{"type":"integer","minimum":0,"maximum":4,"description":"0 critical, 1 high, 2 medium, 3 low, 4 some day"}`
	argParent      = `"parent":{"type":"string","maxLength":64,"description":"Task of which it is a part"}`
	argStatus      = `"status":{"type":"string","enum":["open","in_progress","blocked","closed"],"description":"Status"}`
	argAssignee    = `"assignee":{"type":"string","maxLength":64,"description":"me, or the id of a user or session; empty for nobody"}`
	argLimit       = `"limit":{"type":"integer","minimum":1,"maximum":200,"description":"Most tasks to answer with"}`
	argLabel       = `"label":{"type":"string","maxLength":64,"description":"Only tasks with this label"}`
)

func argLabels(name, what string) string {
	return `"` + name + `":{"type":"array","maxItems":30,"items":{"type":"string","maxLength":64},"description":"` + what + `"}`
}

const argBlockedBy = `"blocked_by":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":64},"description":"Tasks that must be closed before it can begin"}`

// Schemas of results.
const (
	briefSchema = `{"type":"object","required":["id","title","status","priority"],"properties":{"id":{"type":"string"},"title":{"type":"string"},"status":{"type":"string"},"priority":{"type":"integer"},"type":{"type":"string"}}}`
	taskFields  = `"id":{"type":"string"},"uid":{"type":"string"},"project_id":{"type":"string"},"title":{"type":"string"},"description":{"type":"string"},"type":{"type":"string"},"priority":{"type":"integer"},
		"status":{"type":"string"},"reason":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}},"parent":{"type":"string"},"blocked_by":{"type":"array","items":{"type":"string"}},
		"assignee":{"type":"string"},"assignee_name":{"type":"string"},"workspace_id":{"type":"string"},"files":{"type":"array","items":{"type":"string"}},"external_id":{"type":"string"},
		"external_ref":{"type":"string"},"created_by":{"type":"string"},"created_at":{"type":"integer"},"updated_at":{"type":"integer"},"closed_at":{"type":"integer"},"version":{"type":"integer"}`
	taskRequired = `"id","title","status","priority","blocked_by","assignee"`
	briefList    = `{"type":"array","items":` + briefSchema + `}`
)

func taskSchema(more string) string {
	return `{"type":"object","required":[` + taskRequired + `],"properties":{` + taskFields + more + `}}`
}

// tasksAnswer is a list of tasks.
type tasksAnswer struct {
	Tasks      []Task `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

func listSchema() string {
	return `{"type":"object","required":["items"],"properties":{"items":{"type":"array","items":` + taskSchema("") + `},"next_cursor":{"type":"string"}}}`
}

// row is a task on one line.
func (t Task) row() string {
	line := fmt.Sprintf("%s [P%d %s] %s: %s", t.ID, t.Priority, t.Type, t.Status, t.Title)
	if len(t.BlockedBy) > 0 {
		line += " (waits for " + strings.Join(t.BlockedBy, ", ") + ")"
	}
	if t.AssigneeName != "" {
		line += " - " + t.AssigneeName
	}
	return line
}

func (b Brief) row() string {
	return fmt.Sprintf("%s [P%d] %s: %s", b.ID, b.Priority, b.Status, b.Title)
}

func listText(a tasksAnswer) string {
	if len(a.Tasks) == 0 {
		return "No tasks."
	}
	var b strings.Builder
	for _, t := range a.Tasks {
		b.WriteString(t.row() + "\n")
	}
	if a.NextCursor != "" {
		b.WriteString("There are more: pass the cursor " + a.NextCursor + ".\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shrinkList leaves out descriptions and files first, then the later half of the tasks.
func shrinkList(a tasksAnswer) (tasksAnswer, bool) {
	bare := false
	for i := range a.Tasks {
		t := &a.Tasks[i]
		bare = bare || t.Description != "" || len(t.Files) > 0
		t.Description, t.Files = "", nil
	}
	if bare {
		return a, true
	}
	if len(a.Tasks) < 2 {
		return a, false
	}
	a.Tasks = a.Tasks[:len(a.Tasks)/2]
	a.NextCursor = cursorAfter(a.Tasks[len(a.Tasks)-1])
	return a, true
}

// shrinkTask leaves out most of a description.
func shrinkTask(t *Task) bool {
	if len(t.Description) <= 100 && len(t.Files) == 0 {
		return false
	}
	t.Files = t.Files[:len(t.Files)/2]
	t.Description = strings.ToValidUTF8(t.Description[:len(t.Description)/2], "")
	return true
}

func shrinkOne(t Task) (Task, bool) { ok := shrinkTask(&t); return t, ok }

func (d Detail) text() string {
	var b strings.Builder
	b.WriteString(d.row())
	if d.Parent != "" {
		b.WriteString("\nPart of " + d.Parent)
	}
	if len(d.Labels) > 0 {
		b.WriteString("\nLabels: " + strings.Join(d.Labels, ", "))
	}
	if d.Reason != "" {
		b.WriteString("\nClosed: " + d.Reason)
	}
	if d.Description != "" {
		b.WriteString("\n\n" + d.Description)
	}
	for _, part := range []struct {
		title string
		list  []Brief
	}{{"Depends on", d.Dependencies}, {"Needed by", d.Dependents}, {"Children", d.Children}} {
		if len(part.list) == 0 {
			continue
		}
		b.WriteString("\n\n" + part.title + ":")
		for _, o := range part.list {
			b.WriteString("\n  " + o.row())
			if o.Type != "" && o.Type != Blocks {
				b.WriteString(" (" + string(o.Type) + ")")
			}
		}
	}
	if len(d.Files) > 0 {
		b.WriteString("\n\nFiles: " + strings.Join(d.Files, ", "))
	}
	return b.String()
}

func shrinkDetail(d Detail) (Detail, bool) {
	if shrinkTask(&d.Task) {
		return d, true
	}
	for _, list := range []*[]Brief{&d.Children, &d.Dependents, &d.Dependencies} {
		if len(*list) > 0 {
			*list = (*list)[:len(*list)/2]
			return d, true
		}
	}
	return d, false
}

func (o Outcome) text() string {
	var b strings.Builder
	b.WriteString(o.ID + " is closed.")
	if o.Warning != "" {
		b.WriteString(" " + o.Warning)
	}
	if len(o.NowReady) > 0 {
		b.WriteString("\nReady now:")
		for _, t := range o.NowReady {
			b.WriteString("\n  " + t.row())
		}
	}
	return b.String()
}

func shrinkOutcome(o Outcome) (Outcome, bool) {
	if shrinkTask(&o.Task) {
		return o, true
	}
	if len(o.NowReady)+len(o.OpenChildren) == 0 {
		return o, false
	}
	o.NowReady, o.OpenChildren = o.NowReady[:len(o.NowReady)/2], o.OpenChildren[:len(o.OpenChildren)/2]
	return o, true
}
