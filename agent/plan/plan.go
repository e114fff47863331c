// Package plan is how plan mode ends: Parawork's own agent proposes a plan, and people approve, change or reject it. The package defines the
// tool that the model calls for it, and the question that people answer. It starts no goroutine and holds no lock.
package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
)

// Tool is the name of the tool that proposes a plan.
const Tool = "plan_propose"

// Bounds.
const (
	maxTitle = 200      // characters
	maxSteps = 12 << 10 // bytes
	maxTasks = 50
	maxTask  = 4000 // bytes of a description
)

// Plan is what the model proposes.
type Plan struct {
	Title string `json:"title"`
	Steps string `json:"steps"` // Markdown
	Tasks []Task `json:"tasks"`
}

// Task is a part of a plan that becomes a task of the project.
type Task struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	BlockedBy   []int  `json:"blocked_by"` // positions of tasks of the plan before it, from 1 on
}

// Spec describes the tool.
func Spec() tools.Spec {
	return tools.Spec{Name: Tool, Title: "Propose a plan", Group: "tasks", Permission: tools.Allow,
		Description: "Ends plan mode: shows your plan to people, waits, and answers with their decision. They approve it, ask for a change, or reject it. When they approve it, its tasks are created and you are in build mode. " +
			"Call it once you know what to do; do not create the tasks yourself.",
		Arguments: json.RawMessage(fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["title", "steps"], "properties": {
			"title": {"type": "string", "minLength": 1, "maxLength": %d, "description": "What is achieved, in one line."},
			"steps": {"type": "string", "minLength": 1, "maxLength": %d, "description": "The plan in Markdown: the steps in order, the files that each touches, how each is checked, and what is left open."},
			"tasks": {"type": "array", "maxItems": %d, "description": "The steps as tasks of the project, in order.", "items": {"type": "object", "additionalProperties": false, "required": ["title"], "properties": {
				"title": {"type": "string", "minLength": 1, "maxLength": %d}, "description": {"type": "string", "maxLength": %d},
				"blocked_by": {"type": "array", "maxItems": %d, "items": {"type": "integer", "minimum": 1}, "description": "Numbers of earlier tasks in this list, from 1 on, that must be done first."}}}}}}`,
			maxTitle, maxSteps, maxTasks, maxTitle, maxTask, maxTasks))}
}

// Parse reads and checks the tool's arguments. Its errors are for the model.
func Parse(args json.RawMessage) (p Plan, err error) {
	bad := func(format string, args ...any) (Plan, error) {
		return Plan{}, fault.New(fault.Invalid, "invalid_plan", format, args...)
	}
	if json.Unmarshal(args, &p) != nil {
		return bad("The plan was not shown to anybody: its arguments do not fit the tool's schema.")
	}
	p.Title, p.Steps = strings.TrimSpace(p.Title), strings.TrimSpace(p.Steps)
	switch {
	case p.Title == "" || utf8.RuneCountInString(p.Title) > maxTitle || strings.Contains(p.Title, "\n"):
		return bad("The plan was not shown to anybody: its title has 1 to %d characters, in one line.", maxTitle)
	case p.Steps == "" || len(p.Steps) > maxSteps:
		return bad("The plan was not shown to anybody: its steps have 1 to %d bytes. Make them shorter.", maxSteps)
	case len(p.Tasks) > maxTasks:
		return bad("The plan was not shown to anybody: it has more than %d tasks.", maxTasks)
	}
	for i, t := range p.Tasks {
		switch {
		case strings.TrimSpace(t.Title) == "" || utf8.RuneCountInString(t.Title) > maxTitle || len(t.Description) > maxTask:
			return bad("The plan was not shown to anybody: task %d needs a title of at most %d characters and a description of at most %d bytes.", i+1, maxTitle, maxTask)
		case slices.ContainsFunc(t.BlockedBy, func(n int) bool { return n < 1 || n > i }):
			return bad("The plan was not shown to anybody: task %d can only wait for tasks before it.", i+1)
		}
	}
	return p, nil
}

// The options that people have.
const (
	start   = "start"
	approve = "approve"
	change  = "change"
	reject  = "reject"
)

// Ask is the question about the plan.
func (p Plan) Ask() agents.Ask {
	return agents.Ask{Kind: agents.PlanReview, Title: "Plan: " + p.Title, Detail: p.Markdown(), FreeText: true, Options: []agents.Option{
		{ID: start, Label: "Approve and start", Role: agents.Allow, Description: "Creates the tasks, and the agent begins in build mode."},
		{ID: approve, Label: "Approve", Role: agents.Plain, Description: "Creates the tasks and changes to build mode. The agent waits for a prompt."},
		{ID: change, Label: "Change", Role: agents.Plain, Description: "The agent reads what you write and proposes another plan."},
		{ID: reject, Label: "Reject", Role: agents.Deny},
	}}
}

// Markdown is the plan as people read it.
func (p Plan) Markdown() string {
	var b strings.Builder
	b.WriteString(p.Steps)
	if len(p.Tasks) > 0 {
		b.WriteString("\n\n## Tasks\n")
	}
	for i, t := range p.Tasks {
		fmt.Fprintf(&b, "\n%d. %s", i+1, strings.TrimSpace(t.Title))
		if len(t.BlockedBy) > 0 {
			fmt.Fprintf(&b, " (after %s)", strings.Trim(strings.ReplaceAll(fmt.Sprint(t.BlockedBy), " ", ", "), "[]"))
		}
	}
	return b.String()
}

// Decision is what people decided.
type Decision struct {
	Approved bool
	Start    bool   // the agent begins at once
	Words    string // for the model
}

// Decide reads the answer to the question.
func Decide(a agents.Answer) Decision {
	option := change // a text alone
	if len(a.Options) > 0 {
		option = a.Options[0].ID
	}
	said := ""
	if a.Text != "" {
		said = " They wrote: " + a.Text
	}
	switch option {
	case start:
		return Decision{true, true, "The plan is approved. You are in build mode now: begin." + said}
	case approve:
		return Decision{true, false, "The plan is approved, and you are in build mode. Do not begin before you are prompted." + said}
	case reject:
		return Decision{Words: "The plan is rejected. You stay in plan mode. Do not carry it out; ask what is wanted instead." + said}
	}
	return Decision{Words: "The plan is to be changed. You stay in plan mode. Propose it again with " + Tool + " once it is changed." + said}
}
