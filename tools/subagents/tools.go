package subagents

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/tools"
)

// Longest waits of subagent_wait.
const (
	defWait = 5 * time.Minute
	maxWait = 10 * time.Minute
)

// Tools returns the tools of the group "subagents".
func (s *Service) Tools() []tools.Tool {
	return []tools.Tool{
		tools.Func(spec("subagent_spawn", "Start a subagent", "Starts another agent on a part of your work and answers at once with its id; it works while you go on. "+
			"It knows only what its task says: name files, goals and what to answer. It shares your files, so have it change other files than you do; with sibling it works on a copy on its own branch, "+
			"whose work subagent_merge brings to you once it has ended. At most 8 work at once. Collect results with subagent_wait.",
			spawnSchema, spawnResult, tools.Command{Stdin: "task"}, false, true, 0), s.callSpawn),
		tools.Func(spec("subagent_wait", "Wait for subagents", "Waits until all the subagents have ended, or with any only the first of them, and answers with their results. "+
			"Without ids it waits for all you started. When the time runs out it says who still works; call it again.",
			waitSchema, listResult, tools.Command{Positional: []string{"ids"}}, false, false, maxWait+10*time.Second), s.callWait),
		tools.Func(spec("subagent_message", "Send a message to a subagent", "Gives a subagent a further prompt, which it gets once it is idle; its result is then its answer to that prompt.",
			messageSchema, oneResult, tools.Command{Positional: []string{"id", "text"}, Stdin: "text"}, false, true, 0), s.callMessage),
		tools.Func(spec("subagent_interrupt", "Interrupt a subagent", "Stops what a subagent does now; it can be sent a message afterwards. With stop its session ends too. Its files stay.",
			interruptSchema, oneResult, tools.Command{Positional: []string{"id"}}, false, true, 0), s.callInterrupt),
		tools.Func(spec("subagent_merge", "Merge a subagent's work", "Merges what a subagent with sibling did into your branch and files. It commits what the subagent left uncommitted first; your uncommitted changes stay. "+
			"Wait for the subagent before. Conflicts change nothing and are named.",
			idSchema, mergeResult, tools.Command{Positional: []string{"id"}}, true, true, 5*time.Minute), s.callMerge),
		tools.Func(spec("subagent_list", "List subagents", "Lists all subagents of the tree that you are part of, with status, workspace and branch, but without results.",
			`{"type": "object", "additionalProperties": false, "properties": {}}`, listResult, tools.Command{}, false, false, 0), s.callList),
		tools.Func(spec("subagent_status", "Look at a subagent", "Answers with a subagent's status, and what it asks while it is waiting for a person.",
			idSchema, oneResult, tools.Command{Positional: []string{"id"}}, true, false, 0), s.callStatus),
		tools.Func(spec("subagent_result", "Read a subagent's result", "Answers with a subagent's status and result.",
			idSchema, oneResult, tools.Command{Positional: []string{"id"}}, true, false, 0), s.callResult),
		tools.Func(spec("subagent_report", "Report your result", "For a subagent: gives the result of your task to your caller, and ends the task. Without it your last message is the result.",
			reportSchema, oneResult, tools.Command{Positional: []string{"result"}, Stdin: "result"}, true, true, 0), s.callReport),
	}
}

// spec is what the specs of the group have in common.
func spec(name, title, description, arguments, result string, command tools.Command, unlisted, writes bool, timeout time.Duration) tools.Spec {
	return tools.Spec{Name: name, Title: title, Description: description, Group: "subagents", Arguments: json.RawMessage(arguments), Result: json.RawMessage(result), Command: command,
		Unlisted: unlisted, Needs: tools.Needs{Workspace: true, Writes: writes}, Permission: tools.Allow, Timeout: timeout}
}

const (
	idProperty = `"id": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The subagent's id."}`
	idSchema   = `{"type": "object", "additionalProperties": false, "required": ["id"], "properties": {` + idProperty + `}}`

	spawnSchema = `{
  "type": "object", "additionalProperties": false, "required": ["name", "task"],
  "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 100, "description": "A short name that says what it is for."},
    "task": {"type": "string", "minLength": 1, "maxLength": 102400, "description": "The whole task: it sees nothing of your conversation."},
    "agent": {"type": "string", "maxLength": 64, "description": "The kind of agent, such as claude-code, codex or parawork; yours by default. command runs the task as a shell line."},
    "model": {"type": "string", "maxLength": 128, "description": "The model; the agent's default if left out."},
    "mode": {"type": "string", "enum": ["build", "plan", "ask", "review"], "description": "For the agent parawork: what it may change. ask: nothing, for research; plan: tasks; review: nothing, but it runs checks. Yours by default."},
    "tools": {"type": "array", "maxItems": 40, "items": {"type": "string", "maxLength": 64}, "description": "The only tools of Parawork, or groups of them, that it may use; all of yours by default."},
    "where": {"type": "string", "enum": ["same", "sibling"], "description": "same: your files. sibling: a copy on its own branch."},
    "sibling": {"type": "boolean", "description": "The same as where: sibling."},
    "keep": {"type": "boolean", "description": "It goes on when your session ends."},
    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "After this time it is stopped; 30 minutes by default."},
    "max_cost_usd": {"type": "number", "minimum": 0, "maximum": 1000000, "description": "It is stopped once it has spent more on models."}
  }
}`
	spawnResult = `{
  "type": "object", "additionalProperties": false, "required": ["id", "status", "warnings"],
  "properties": {"id": {"type": "string"}, "status": {"type": "string"}, "warnings": {"type": "array", "items": {"type": "string"}}}
}`
	mergeResult = `{
  "type": "object", "additionalProperties": false, "required": ["merged", "up_to_date", "commit", "files", "more_files", "snapshot_id", "warnings"],
  "properties": {"merged": {"type": "boolean"}, "up_to_date": {"type": "boolean"}, "commit": {"type": "string"}, "files": {"type": "array", "items": {"type": "string"}},
    "more_files": {"type": "integer"}, "snapshot_id": {"type": "string"}, "warnings": {"type": "array", "items": {"type": "string"}}}
}`
	waitSchema = `{
  "type": "object", "additionalProperties": false,
  "properties": {
    "ids": {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 64}, "description": "The subagents to wait for; by default all that you started and that work."},
    "any": {"type": "boolean", "description": "Wait for the first of them only."},
    "timeout_ms": {"type": "integer", "minimum": 0, "maximum": 600000, "description": "How long to wait at most; 5 minutes by default."}
  }
}`
	messageSchema = `{
  "type": "object", "additionalProperties": false, "required": ["id", "text"],
  "properties": {` + idProperty + `, "text": {"type": "string", "minLength": 1, "maxLength": 102400, "description": "What it should do next."}}
}`
	interruptSchema = `{
  "type": "object", "additionalProperties": false, "required": ["id"],
  "properties": {` + idProperty + `, "stop": {"type": "boolean", "description": "End its session too."}}
}`
	reportSchema = `{
  "type": "object", "additionalProperties": false, "required": ["result"],
  "properties": {"result": {"type": "string", "minLength": 1, "maxLength": 65536, "description": "What your caller should know."}}
}`
	subagentProperties = `{
    "id": {"type": "string"}, "name": {"type": "string"}, "status": {"type": "string"}, "agent": {"type": "string"}, "where": {"type": "string"},
    "workspace_id": {"type": "string"}, "session_id": {"type": "string"}, "branch": {"type": "string"}, "question": {"type": "string"},
    "result": {"type": "string"}, "code": {"type": "string"}, "error": {"type": "string"}, "files": {"type": "array", "items": {"type": "string"}}, "more_files": {"type": "integer"}, "cost_nano": {"type": ["integer", "null"]}
  }`
	oneResult  = `{"type": "object", "additionalProperties": false, "required": ["id", "name", "status"], "properties": ` + subagentProperties + `}`
	listResult = `{"type": "object", "additionalProperties": false, "required": ["items", "working"], "properties": {
  "items": {"type": "array", "items": ` + oneResult + `}, "working": {"type": "array", "items": {"type": "string"}}}}`
)

// answer is a subagent as a tool shows it.
type answer struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Status      Status   `json:"status"`
	Agent       string   `json:"agent"`
	Where       string   `json:"where"`
	WorkspaceID string   `json:"workspace_id"`
	SessionID   string   `json:"session_id"`
	Branch      string   `json:"branch"`
	Question    string   `json:"question,omitempty"`
	Result      string   `json:"result,omitempty"`
	Files       []string `json:"files,omitempty"`
	MoreFiles   int      `json:"more_files,omitempty"`
	Code        string   `json:"code,omitempty"`
	Error       string   `json:"error,omitempty"`
	CostNano    *int64   `json:"cost_nano"`
}

func answerOf(a Subagent) answer {
	return answer{a.ID, a.Name, a.Status, a.Agent, a.Where, a.WorkspaceID, a.SessionID, a.Branch, a.Question, a.Result, a.Files, a.MoreFiles, a.Code, a.Error, a.CostNano}
}

func callerOf(c tools.Caller) Caller {
	return Caller{TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, SessionID: c.SessionID, UserID: c.UserID}
}

type spawnArgs struct {
	Name, Task, Agent, Model, Mode, Where string
	Tools                                 []string
	Sibling, Keep                         bool
	TimeoutMs                             int64   `json:"timeout_ms"`
	MaxCostUSD                            float64 `json:"max_cost_usd"`
}

func (s *Service) callSpawn(ctx context.Context, c tools.Caller, in spawnArgs) (tools.Result, error) {
	if in.Sibling {
		if in.Where == Same {
			return tools.Result{}, bad("sibling", "sibling and where: same contradict each other. Leave out one of them.")
		}
		in.Where = Sibling
	}
	a, warnings, err := s.Spawn(ctx, callerOf(c), Request{Name: strings.TrimSpace(in.Name), Task: in.Task, Agent: in.Agent, Model: in.Model, Mode: in.Mode, Tools: in.Tools, Where: in.Where, Kept: in.Keep,
		TimeoutMs: in.TimeoutMs, MaxCostNano: int64(math.Round(in.MaxCostUSD * 1e9))})
	if err != nil {
		return tools.Result{}, err
	}
	text := fmt.Sprintf("Subagent %s (%s) is %s.", a.ID, a.Name, a.Status)
	if len(warnings) > 0 {
		text += "\nWarning: " + strings.Join(warnings, "\nWarning: ")
	}
	return tools.Answer(text, map[string]any{"id": a.ID, "status": a.Status, "warnings": append([]string{}, warnings...)})
}

type waitArgs struct {
	IDs       []string `json:"ids"`
	Any       bool
	TimeoutMs *int64 `json:"timeout_ms"`
}

func (s *Service) callWait(ctx context.Context, c tools.Caller, in waitArgs) (tools.Result, error) {
	wait := defWait
	if in.TimeoutMs != nil {
		wait = time.Duration(*in.TimeoutMs) * time.Millisecond
	}
	if most := c.Limits.Timeout - time.Second; wait > most && most > 0 { // answer before the call is cut
		wait = most
	}
	all, err := s.Wait(ctx, callerOf(c), in.IDs, in.Any, wait)
	if err != nil {
		return tools.Result{}, err
	}
	return list(all, c.Limits.ResultBytes, true)
}

func (s *Service) callList(ctx context.Context, c tools.Caller, _ struct{}) (tools.Result, error) {
	all, err := s.Visible(ctx, callerOf(c))
	if err != nil {
		return tools.Result{}, err
	}
	return list(all, c.Limits.ResultBytes, false)
}

func (s *Service) callMessage(ctx context.Context, c tools.Caller, in struct{ ID, Text string }) (tools.Result, error) {
	a, err := s.Message(ctx, callerOf(c), in.ID, in.Text)
	return one(a, err, c.Limits.ResultBytes)
}

type interruptArgs struct {
	ID   string
	Stop bool
}

func (s *Service) callInterrupt(ctx context.Context, c tools.Caller, in interruptArgs) (tools.Result, error) {
	a, err := s.Interrupt(ctx, callerOf(c), in.ID, in.Stop)
	return one(a, err, c.Limits.ResultBytes)
}

// mergedFiles is how many files an answer names.
const mergedFiles = 100

func (s *Service) callMerge(ctx context.Context, c tools.Caller, in struct{ ID string }) (tools.Result, error) {
	u, err := s.Merge(ctx, callerOf(c), in.ID)
	if err != nil {
		return tools.Result{}, err
	}
	files := []string{}
	for _, f := range u.Files[:min(len(u.Files), mergedFiles)] {
		files = append(files, guest.EncodePath(f.Path))
	}
	more := len(u.Files) - len(files) + u.MoreFiles
	text := "Its work is already in your branch."
	if u.Updated {
		text = fmt.Sprintf("Its work is in your branch and files. %d files changed: %s", len(files)+more, strings.Join(files, ", "))
		if more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return tools.Answer(text, map[string]any{"merged": u.Updated, "up_to_date": u.UpToDate, "commit": u.Commit, "files": files, "more_files": more, "snapshot_id": u.SnapshotID,
		"warnings": append([]string{}, u.Warnings...)})
}

func (s *Service) callStatus(ctx context.Context, c tools.Caller, in struct{ ID string }) (tools.Result, error) {
	a, err := s.Find(ctx, callerOf(c), in.ID)
	a.Result = ""
	return one(a, err, c.Limits.ResultBytes)
}

func (s *Service) callResult(ctx context.Context, c tools.Caller, in struct{ ID string }) (tools.Result, error) {
	a, err := s.Find(ctx, callerOf(c), in.ID)
	return one(a, err, c.Limits.ResultBytes)
}

func (s *Service) callReport(ctx context.Context, c tools.Caller, in struct{ Result string }) (tools.Result, error) {
	a, err := s.Report(ctx, callerOf(c), in.Result)
	a.Result = ""
	return one(a, err, c.Limits.ResultBytes)
}

// line is a subagent in words.
func (a answer) line() string {
	var b strings.Builder
	b.WriteString(a.head())
	if a.Where == Sibling && a.Branch != "" {
		fmt.Fprintf(&b, " Its branch is %s.", a.Branch)
	}
	if a.Question != "" {
		b.WriteString(" It asks a person: " + a.Question)
	}
	if a.Error != "" {
		b.WriteString(" " + a.Error)
	}
	if files := a.changed(); files != "" {
		b.WriteString("\n" + files)
	}
	if a.Result != "" {
		b.WriteString("\n" + a.Result)
	}
	return b.String()
}

func one(a Subagent, err error, most int) (tools.Result, error) {
	if err != nil {
		return tools.Result{}, err
	}
	return fitting([]answer{answerOf(a)}, most, func(all []answer) any { return all[0] })
}

func list(all []Subagent, most int, results bool) (tools.Result, error) {
	items, working := make([]answer, len(all)), []string{}
	for i, a := range all {
		if !results {
			a.Result, a.Files, a.MoreFiles = "", nil, 0
		}
		if items[i] = answerOf(a); a.Status.Busy() {
			working = append(working, a.ID)
		}
	}
	return fitting(items, most, func(items []answer) any { return map[string]any{"items": items, "working": working} })
}

// fitting makes a result of at most so many bytes: it cuts long texts, which are in the content and in the object, until both fit.
func fitting(all []answer, most int, shape func([]answer) any) (tools.Result, error) {
	cutAny := false
	for keep := MaxResult; ; keep /= 2 {
		items := make([]answer, len(all))
		lines := make([]string, len(all))
		for i, a := range all {
			for _, text := range []*string{&a.Result, &a.Error, &a.Question} {
				if len(*text) > keep {
					*text, cutAny = ending(*text, keep), true
				}
			}
			items[i], lines[i] = a, a.line()
		}
		if len(lines) == 0 {
			lines = []string{"There are none."}
		}
		r, err := tools.Answer(strings.Join(lines, "\n\n"), shape(items))
		r.Truncated = cutAny
		if err != nil || r.Bytes() <= most || most <= 0 {
			return r, err
		}
		if keep == 0 { // many subagents: their states must do
			if all, cutAny = all[:len(all)/2], true; len(all) == 0 {
				return r, nil
			}
		}
	}
}

// ending is the end of a text.
func ending(s string, most int) string {
	s = s[len(s)-most:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
