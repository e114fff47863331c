package tasks

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/tools"
)

func cursorAfter(t Task) string {
	return page.Encode(page.Key{At: Order(t.Priority, t.Num), ID: t.UID})
}

type createArgs struct {
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Priority    *int     `json:"priority"`
	Labels      []string `json:"label"`
	Parent      string   `json:"parent"`
	BlockedBy   []string `json:"blocked_by"`
	Assignee    string   `json:"assignee"`
	ExternalRef string   `json:"external_ref"`
	From        string   `json:"discovered_from"`
}

func (s *Service) createTool() tools.Tool {
	return tool[createArgs, Task]{s, spec("task_create", "Create a task",
		"Adds a task to the project's list, which people and all agents share. Use it for work that you find and do not do now, and to plan work in parts. Answers with the task and its id.",
		object(`"title"`, strings.Join([]string{argTitle, argDescription, argType, argPriority, argLabels("label", "Labels"), argParent, argBlockedBy, argAssignee,
			`"discovered_from":{"type":"string","maxLength":64,"description":"Task during which it was found"}`,
			`"external_ref":{"type":"string","maxLength":200,"description":"Issue elsewhere that it stands for, such as gh-9"}`}, ",")),
		taskSchema(""), true, "title"),
		func(ctx context.Context, s *Service, who Who, a createArgs) (Task, error) {
			return s.Create(ctx, who, New{Title: a.Title, Description: a.Description, Type: a.Type, Priority: a.Priority, Labels: a.Labels, Parent: a.Parent, BlockedBy: a.BlockedBy,
				Assignee: a.Assignee, ExternalRef: a.ExternalRef, From: a.From})
		}, func(t Task) string { return "Created " + t.row() }, shrinkOne}
}

type listArgs struct {
	Status   []Status `json:"status"`
	Type     string   `json:"type"`
	Priority *int     `json:"priority"`
	Label    string   `json:"label"`
	Assignee string   `json:"assignee"`
	Parent   string   `json:"parent"`
	Text     string   `json:"query"`
	Limit    int      `json:"limit"`
	Cursor   string   `json:"cursor"`
}

func (s *Service) listTool() tools.Tool {
	return tool[listArgs, tasksAnswer]{s, spec("task_list", "List tasks",
		"Lists the project's tasks, most urgent first: those not closed unless status says otherwise. Narrow it by type, label, assignee, parent or words.",
		object("", strings.Join([]string{`"status":{"type":"array","maxItems":4,"items":{"type":"string","enum":["open","in_progress","blocked","closed"]},"description":"Only tasks with one of these"}`,
			argType, argPriority, argLabel, argAssignee, argParent, `"query":{"type":"string","maxLength":200,"description":"Words in the title or description"}`, argLimit,
			`"cursor":{"type":"string","maxLength":512,"description":"next_cursor of the list before"}`}, ",")),
		listSchema(), false),
		func(ctx context.Context, s *Service, who Who, a listArgs) (tasksAnswer, error) {
			items, next, err := s.List(ctx, who, Query{Statuses: a.Status, Type: a.Type, Priority: a.Priority, Label: a.Label, Assignee: a.Assignee, Parent: a.Parent, Text: a.Text,
				Page: page.Page{Limit: a.Limit, Cursor: a.Cursor}})
			return tasksAnswer{items, next}, err
		}, listText, shrinkList}
}

type readyArgs struct {
	Limit int    `json:"limit"`
	Type  string `json:"type"`
	Label string `json:"label"`
}

// readyLimit is how many tasks task_ready answers with by default.
const readyLimit = 10

func (s *Service) ready(ctx context.Context, who Who, a readyArgs) (tasksAnswer, error) {
	if a.Limit == 0 {
		a.Limit = readyLimit
	}
	items, _, err := s.List(ctx, who, Query{Ready: true, For: []string{who.me(), who.UserID}, Type: a.Type, Label: a.Label, Page: page.Page{Limit: a.Limit}})
	return tasksAnswer{Tasks: items}, err
}

func (s *Service) readyTool() tools.Tool {
	return tool[readyArgs, tasksAnswer]{s, spec("task_ready", "List tasks that are ready",
		"Lists tasks that can be started now: open, waiting for no other task, and not taken by somebody else; most urgent first. Claim one before you work on it.",
		object("", strings.Join([]string{argLimit, argType, argLabel}, ",")), listSchema(), false),
		func(ctx context.Context, s *Service, who Who, a readyArgs) (tasksAnswer, error) {
			return s.ready(ctx, who, a)
		},
		listText, shrinkList}
}

type taskArgs struct {
	Task string `json:"task"`
}

func (s *Service) claimTool() tools.Tool {
	return tool[taskArgs, Task]{s, spec("task_claim", "Claim a task",
		"Assigns a task to you and sets it in progress. Of several who try at once, one gets it. It is closed when this workspace is merged, or by task_close.",
		object(`"task"`, argTask), taskSchema(""), true, "task"),
		func(ctx context.Context, s *Service, who Who, a taskArgs) (Task, error) {
			return s.Claim(ctx, who, a.Task)
		},
		func(t Task) string { return "It is yours: " + t.row() }, shrinkOne}
}

type updateArgs struct {
	Task         string    `json:"task"`
	Title        *string   `json:"title"`
	Description  *string   `json:"description"`
	Type         *string   `json:"type"`
	Priority     *int      `json:"priority"`
	Status       *Status   `json:"status"`
	AddLabels    []string  `json:"add_label"`
	RemoveLabels []string  `json:"remove_label"`
	Labels       *[]string `json:"label"`
	Parent       *string   `json:"parent"`
	Assignee     *string   `json:"assignee"`
	Reason       *string   `json:"reason"`
	ExternalRef  *string   `json:"external_ref"`
	Claim        bool      `json:"claim"`
	Artifacts    []string  `json:"artifact"`
}

func (s *Service) updateTool() tools.Tool {
	return tool[updateArgs, Task]{s, spec("task_update", "Change a task",
		"Changes the fields that are given and answers with the task. Status open gives a task back that you claimed; claim takes it as task_claim does.",
		object(`"task"`, strings.Join([]string{argTask, argTitle, argDescription, argType, argPriority, argStatus, argLabels("label", "All its labels"), argLabels("add_label", "Labels to add"),
			argLabels("remove_label", "Labels to remove"), argParent, argAssignee, `"reason":{"type":"string","maxLength":2000,"description":"Why it is closed"}`,
			`"external_ref":{"type":"string","maxLength":200,"description":"Issue elsewhere that it stands for, such as gh-9"}`,
			`"artifact":{"type":"array","maxItems":20,"items":{"type":"string","maxLength":64},"description":"Ids of artifacts to attach"}`,
			`"claim":{"type":"boolean","description":"Claim it first"}`}, ",")),
		taskSchema(""), true, "task"),
		func(ctx context.Context, s *Service, who Who, a updateArgs) (Task, error) {
			if a.Claim {
				if t, err := s.Claim(ctx, who, a.Task); err != nil {
					return t, err
				}
			}
			if len(a.Artifacts) > 0 {
				if d, err := s.Attach(ctx, who, a.Task, a.Artifacts...); err != nil {
					return d.Task, err
				}
			}
			return s.Update(ctx, who, a.Task, Change{Title: a.Title, Description: a.Description, Type: a.Type, Priority: a.Priority, Status: a.Status, Labels: a.Labels, AddLabels: a.AddLabels,
				RemoveLabels: a.RemoveLabels, Parent: a.Parent, Assignee: a.Assignee, Reason: a.Reason, ExternalRef: a.ExternalRef})
		}, Task.row, shrinkOne}
}

type closeArgs struct {
	Task   string `json:"task"`
	Reason string `json:"reason"`
	Strict bool   `json:"strict"`
}

func (s *Service) closeTool() tools.Tool {
	return tool[closeArgs, Outcome]{s, spec("task_close", "Close a task",
		"Closes a task. Answers with the tasks that are ready now because of that, and with its children that are still open.",
		object(`"task"`, argTask+`,"reason":{"type":"string","maxLength":2000,"description":"What was done, or why it is not done"},"strict":{"type":"boolean","description":"Refuse while children are open"}`),
		taskSchema(`,"now_ready":`+briefList+`,"open_children":`+briefList+`,"warning":{"type":"string"}`), true, "task"),
		func(ctx context.Context, s *Service, who Who, a closeArgs) (Outcome, error) {
			return s.Close(ctx, who, a.Task, a.Reason, a.Strict)
		}, Outcome.text, shrinkOutcome}
}

const detailMore = `,"dependencies":` + briefList + `,"dependents":` + briefList + `,"children":` + briefList +
	`,"artifacts":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"version":{"type":"integer"},"mime":{"type":"string"},"size":{"type":"integer"},"workspace_id":{"type":"string"},"created_at":{"type":"integer"}}}}`

func (s *Service) showTool() tools.Tool {
	return tool[taskArgs, Detail]{s, unlisted(spec("task_show", "Show a task", "Answers with a task, what it depends on, what depends on it, and its children.",
		object(`"task"`, argTask), taskSchema(detailMore), false, "task")),
		func(ctx context.Context, s *Service, who Who, a taskArgs) (Detail, error) {
			return s.Get(ctx, who, a.Task)
		},
		Detail.text, shrinkDetail}
}

type depArgs struct {
	Action    string   `json:"action"`
	Task      string   `json:"task"`
	DependsOn string   `json:"depends_on"`
	Type      Relation `json:"type"`
}

func (s *Service) depTool() tools.Tool {
	return tool[depArgs, Detail]{s, unlisted(spec("task_dep", "Change what a task depends on",
		"Adds or removes a dependency of a task on another one, or lists what it depends on. With type blocks, the default, the task waits for the other.",
		object(`"action","task"`, strings.Join([]string{`"action":{"type":"string","enum":["add","remove","list"],"description":"What to do"}`, argTask,
			`"depends_on":{"type":"string","maxLength":64,"description":"The other task"}`,
			`"type":{"type":"string","enum":["blocks","parent-child","discovered-from","related","duplicates","supersedes"],"description":"What they are to each other"}`}, ",")),
		taskSchema(detailMore), true, "action", "task", "depends_on")),
		func(ctx context.Context, s *Service, who Who, a depArgs) (Detail, error) {
			switch {
			case a.Action == "list":
				return s.Get(ctx, who, a.Task)
			case a.DependsOn == "":
				return Detail{}, invalid("depends_on", "Name the other task as well: %s %s OTHER.", a.Action, a.Task)
			case a.Action == "remove":
				return s.Undepend(ctx, who, a.Task, a.DependsOn)
			}
			if a.Type == "" {
				a.Type = Blocks
			}
			return s.Depend(ctx, who, a.Task, a.DependsOn, a.Type)
		}, Detail.text, shrinkDetail}
}

// primeAnswer is a text for the beginning of an agent's context.
type primeAnswer struct {
	Text  string `json:"text"`
	Mine  []Task `json:"mine"`
	Ready []Task `json:"ready"`
}

func (s *Service) primeTool() tools.Tool {
	const list = `{"type":"array","items":{"type":"object"}}`
	return tool[struct{}, primeAnswer]{s, unlisted(spec("task_prime", "Sum up the tasks", "Answers with a short text for an agent: what it works on, what is ready, and how to use tasks.",
		object("", ""), `{"type":"object","required":["text","mine","ready"],"properties":{"text":{"type":"string"},"mine":`+list+`,"ready":`+list+`}}`, false)),
		func(ctx context.Context, s *Service, who Who, _ struct{}) (primeAnswer, error) {
			return s.prime(ctx, who)
		},
		func(a primeAnswer) string { return a.Text },
		func(a primeAnswer) (primeAnswer, bool) {
			if len(a.Mine)+len(a.Ready) == 0 {
				return a, false
			}
			a.Mine, a.Ready = []Task{}, []Task{}
			return a, true
		}}
}

// primeRows is how many tasks of each kind a summary names.
const primeRows = 5

func (s *Service) prime(ctx context.Context, who Who) (primeAnswer, error) {
	mine, _, err := s.List(ctx, who, Query{Statuses: []Status{InProgress}, Assignee: who.me(), Page: page.Page{Limit: primeRows}})
	if err != nil {
		return primeAnswer{}, err
	}
	ready, err := s.ready(ctx, who, readyArgs{Limit: primeRows})
	if err != nil {
		return primeAnswer{}, err
	}
	a := primeAnswer{Mine: mine, Ready: ready.Tasks}
	for _, list := range [][]Task{a.Mine, a.Ready} {
		for i := range list {
			list[i].Description, list[i].Files = "", nil
		}
	}
	var b strings.Builder
	b.WriteString("This project plans its work as tasks, which people and other agents see too.\n\nYou work on:\n" + indent(listText(tasksAnswer{Tasks: a.Mine})))
	b.WriteString("\n\nReady to be taken:\n" + indent(listText(tasksAnswer{Tasks: a.Ready})))
	b.WriteString(`

Take one: parawork task claim ID
Read one: parawork task show ID
Note work that you find: parawork task create "TITLE" --discovered-from ID
One waits for another: parawork task dep add ID OTHER
When it is done: parawork task close ID --reason "what was done"
Each has --json, and --help names its options.`)
	a.Text = b.String()
	return a, nil
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

type importArgs struct {
	JSONL string `json:"jsonl"`
}

func (s *Service) importTool() tools.Tool {
	sp := unlisted(spec("task_import", "Import tasks", "Adds issues of beads (its issues.jsonl) to the project: all of them or none. Those imported before are changed.",
		object(`"jsonl"`, `"jsonl":{"type":"string","maxLength":1048576,"description":"One issue a line, as JSON"}`),
		`{"type":"object","required":["created","updated","skipped"],"properties":{"created":{"type":"integer"},"updated":{"type":"integer"},"skipped":{"type":"integer"}}}`, true, "jsonl"))
	sp.Command.Stdin = "jsonl"
	return tool[importArgs, Imported]{s, sp,
		func(ctx context.Context, s *Service, who Who, a importArgs) (Imported, error) {
			return s.Import(ctx, who, "", []byte(a.JSONL))
		}, func(a Imported) string {
			return fmt.Sprintf("Created %d tasks, changed %d, skipped %d lines.", a.Created, a.Updated, a.Skipped)
		}, nil}
}

type exportArgs struct {
	File bool   `json:"file"`
	Path string `json:"path"`
}

// exported is the answer of task_export.
type exported struct {
	JSONL string   `json:"jsonl,omitempty"`
	File  *Written `json:"file,omitempty"`
}

func (s *Service) exportTool() tools.Tool {
	return tool[exportArgs, exported]{s, unlisted(spec("task_export", "Export tasks",
		"Answers with all tasks of the project as beads writes them: one JSON object a line. With file, writes them into a file of this workspace instead, which you commit as any other.",
		object("", `"file":{"type":"boolean","description":"Write a file of the workspace"},"path":{"type":"string","maxLength":200,"description":"Its path in the repository; default: the one the project names, or `+DefaultFile+`"}`),
		`{"type":"object","properties":{"jsonl":{"type":"string"},"file":{"type":"object","required":["path","tasks","size"],"properties":{"path":{"type":"string"},"tasks":{"type":"integer"},"size":{"type":"integer"}}}}}`, true)),
		func(ctx context.Context, s *Service, who Who, a exportArgs) (exported, error) {
			if a.File || a.Path != "" {
				w, err := s.ExportTo(ctx, who, who.WorkspaceID, a.Path)
				return exported{File: &w}, err
			}
			out := capped{most: tools.MaxResultBytes}
			err := s.Export(ctx, who, "", &out)
			return exported{JSONL: out.String()}, err
		}, func(a exported) string {
			if a.File != nil {
				return fmt.Sprintf("Wrote %d tasks to %s. Commit it to keep it.", a.File.Tasks, a.File.Path)
			}
			return a.JSONL
		},
		func(a exported) (exported, bool) {
			lines := slices.Collect(strings.Lines(a.JSONL))
			a.JSONL = strings.Join(lines[:len(lines)/2], "")
			return a, len(lines) > 0
		}}
}

// capped keeps no more than a tool may answer with.
type capped struct {
	bytes.Buffer
	most int
}

// Write keeps p, or fails when it is one too many.
func (c *capped) Write(p []byte) (int, error) {
	if c.Len()+len(p) > c.most {
		return 0, fault.New(fault.TooLarge, "export_too_large", "The tasks are larger than %d MiB, which is the most here. Use GET /teams/{team}/tasks/export.", c.most>>20)
	}
	return c.Buffer.Write(p)
}
