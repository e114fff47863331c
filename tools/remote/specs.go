package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// tool is one tool: what it is and what it does.
type tool struct {
	spec  tools.Spec
	check func(json.RawMessage) error
	call  func(context.Context, *API, json.RawMessage) (answer, error)
}

// answer is what a tool found: an object for programs, and a text that says the same to a model in few words.
type answer struct {
	text   string
	object any
}

// of makes the call of a tool whose arguments are an A.
func of[A any](do func(context.Context, *API, A) (answer, error)) func(context.Context, *API, json.RawMessage) (answer, error) {
	return func(ctx context.Context, a *API, raw json.RawMessage) (answer, error) {
		var in A
		if err := json.Unmarshal(raw, &in); err != nil {
			return answer{}, fault.Wrap(err, fault.Invalid, "tool_arguments_invalid", "The arguments do not fit the tool's schema.")
		}
		return do(ctx, a, in)
	}
}

// Timeout is the longest a call may take: a merge of a large repository, or the start of a sandbox.
const Timeout = 5 * time.Minute

func reads(name, title, description, arguments string) tools.Spec {
	return tools.Spec{Name: name, Title: title, Description: description, Arguments: json.RawMessage(arguments), Permission: tools.Allow, Timeout: Timeout}
}

func writes(name, title, description, arguments string) tools.Spec {
	s := reads(name, title, description, arguments)
	s.Needs.Writes, s.Permission = true, tools.Ask
	return s
}

// object is the schema of an object with these properties, closed; required is a JSON array of names.
func object(required, properties string) string {
	return fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":%s,"properties":{%s}}`, required, properties)
}

// Schemas of arguments that several tools have.
const (
	teamArg      = `"team":{"type":"string","maxLength":64,"pattern":"^[A-Za-z0-9-]*$","description":"Team's short name; needed only if you are in several teams"}`
	projectArg   = `"project":{"type":"string","minLength":1,"maxLength":200,"description":"Project's name or id"}`
	workspaceArg = `"workspace":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,64}$","description":"Workspace's key such as PW-12, or its id"}`
	sessionArg   = `"session":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,64}$","description":"Session's id"}`
	limitArg     = `"limit":{"type":"integer","minimum":1,"maximum":100,"description":"Most entries to return; default 30"}`
	cursorArg    = `"cursor":{"type":"string","maxLength":512,"description":"next_cursor of the previous page"}`
	agentText    = `"minLength":1,"maxLength":400,"description":"Kind of agent, such as claude-code or codex; agent_list lists them. Arguments may follow: parawork --model NAME --mode plan --effort high"`
	promptArg    = `"prompt":{"type":"string","minLength":1,"maxLength":200000,"description":"What the agent is to do"}`
)

// Instructions tell a model what the tools are for.
const Instructions = "Parawork runs coding agents in workspaces: a branch of a project each. Find or create a workspace, start an agent, read its session until it waits or has ended, " +
	"answer its questions, read the changes, run the checks, then merge."

// table has every tool, in the order in which clients see them. A client is shown at most tools.MaxListed.
var table = checked([]tool{
	{spec: reads("project_list", "List projects", "List the projects (git repositories) of a team.", object(`[]`, teamArg+`,`+limitArg+`,`+cursorArg)), call: of(projectList)},
	{spec: reads("agent_list", "List agents", "List the coding agents that can be started, such as claude-code or codex, and whether each is ready to use.", object(`[]`, teamArg)), call: of(agentList)},
	{spec: reads("workspace_list", "List workspaces", "List workspaces: one branch of a project each, with the state of its agents and whether it needs attention.",
		object(`[]`, teamArg+`,`+projectArg+`,"show":{"type":"string","enum":["active","archived","all"],"description":"Default: active"},`+limitArg+`,`+cursorArg)), call: of(workspaceList)},
	{spec: writes("workspace_create", "Create a workspace", "Create a workspace: a new branch in a worktree of its own. With agent, that agent starts there with prompt once it is ready; or start one later with session_start. Use run_start to give one prompt to several agents.",
		object(`["project","name"]`, teamArg+`,`+projectArg+`,"name":{"type":"string","minLength":1,"maxLength":200,"description":"What the work is about"},`+
			`"base":{"type":"string","maxLength":255,"description":"Branch to start from; default: the project's default branch"},`+
			`"branch":{"type":"string","maxLength":255,"description":"Name of the new branch; default: made of the name"},`+
			`"executor":{"type":"string","maxLength":64,"description":"Kind of place to run; default: the team's"},"agent":{"type":"string",`+agentText+`},`+promptArg)), call: of(workspaceCreate)},
	{spec: reads("workspace_read", "Read a workspace", "Read a workspace's state: branch, changes, checks, what needs attention, and its sessions with what their agents ask.",
		object(`["workspace"]`, teamArg+`,`+workspaceArg)), call: of(workspaceRead)},
	{spec: writes("session_start", "Start an agent", "Start an agent in a workspace with a prompt. Returns at once; read its progress with session_read.",
		object(`["workspace","agent"]`, teamArg+`,`+workspaceArg+`,"agent":{"type":"string",`+agentText+`},`+promptArg)), call: of(sessionStart)},
	{spec: writes("run_start", "Start several attempts", "Give one prompt to several agents, each in a new workspace of its own. Compare them with run_read, changes_read and checks_run, then merge the best.",
		object(`["project","prompt","agents"]`, teamArg+`,`+projectArg+`,`+promptArg+`,"agents":{"type":"array","minItems":1,"maxItems":8,"description":"One attempt for each; a kind may occur twice","items":{"type":"string",`+agentText+`}},`+
			`"name":{"type":"string","maxLength":200,"description":"Default: the beginning of the prompt"},"base":{"type":"string","maxLength":255,"description":"Branch to start from"}`)), call: of(runStart)},
	{spec: reads("run_read", "Read attempts", "Read the attempts of a run: workspace, session, state and changes of each.",
		object(`["run"]`, `"run":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,64}$","description":"Run's id"}`)), call: of(runRead)},
	{spec: reads("session_read", "Read a session", "Read what an agent does. state: whether it works, waits or has ended, and its question. conversation: its messages and tool calls, the newest page first in time order. screen: its terminal now. output: the last lines of its terminal.",
		object(`["session"]`, sessionArg+`,"what":{"type":"string","enum":["state","conversation","screen","output"],"description":"Default: state"},`+
			limitArg+`,"cursor":{"type":"string","maxLength":512,"description":"Of conversation: next_cursor leads to older messages"}`)), call: of(sessionRead)},
	{spec: writes("session_stop", "Stop an agent", "Stop a session, or only interrupt what its agent does now; an interrupted agent waits for the next prompt.",
		object(`["session"]`, sessionArg+`,"interrupt":{"type":"boolean","description":"Interrupt only"}`)), call: of(sessionStop)},
	{spec: writes("question_answer", "Answer a question", "Answer what an agent asks: choose options by id or label, or send a text where the question allows it. Without question, its open one. Read it first with session_read.",
		object(`["session"]`, sessionArg+`,"question":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,64}$","description":"Question's id"},`+
			`"options":{"type":"array","maxItems":64,"description":"Ids or labels","items":{"type":"string","maxLength":400}},"text":{"type":"string","maxLength":16000,"description":"Free answer, or the reason of a denial"}`)), call: of(questionAnswer)},
	{spec: writes("prompt_queue", "Queue a prompt", "Queue a prompt for an agent. It is sent when the agent is idle; now puts it ahead of the queue, resume continues a session that has ended.",
		object(`["session","text"]`, sessionArg+`,"text":{"type":"string","minLength":1,"maxLength":200000,"description":"The prompt"},`+
			`"now":{"type":"boolean","description":"Ahead of the others"},"resume":{"type":"boolean","description":"Resume an ended session first"}`)), call: of(promptQueue)},
	{spec: reads("changes_read", "Read changes", "List the files that a workspace changed against its base; with path, the unified diff of one file. Long diffs come in parts: continue at next_offset.",
		object(`["workspace"]`, teamArg+`,`+workspaceArg+`,"path":{"type":"string","maxLength":4096,"description":"File to diff"},`+
			`"offset":{"type":"integer","minimum":0,"description":"Where to continue; default 0"},"limit":{"type":"integer","minimum":1,"maximum":200,"description":"Most files to list; default 100"}`)), call: of(changesRead)},
	{spec: writes("review_comment", "Comment on changes", "Add a comment on a line, a file or the whole work to your draft review. With send, send the whole draft to people and, with session, to that agent, which then acts on it.",
		object(`["workspace","body"]`, teamArg+`,`+workspaceArg+`,"body":{"type":"string","minLength":1,"maxLength":16000,"description":"The comment"},`+
			`"path":{"type":"string","maxLength":4096,"description":"File; without it, the comment is about the whole work and needs send"},"line":{"type":"integer","minimum":0,"description":"First line, in the new file"},"end_line":{"type":"integer","minimum":0,"description":"Last line"},`+
			`"send":{"type":"boolean","description":"Send the draft"},`+sessionArg)), call: of(reviewComment)},
	{spec: writes("checks_run", "Run checks", "Run the project's checks (tests, linters) on a workspace's present files. Returns at once; read the results with checks_read.",
		object(`["workspace"]`, teamArg+`,`+workspaceArg)), call: of(checksRun)},
	{spec: reads("checks_read", "Read checks", "Read the results of a workspace's checks; with run, the end of the output of one run.",
		object(`["workspace"]`, teamArg+`,`+workspaceArg+`,"run":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,64}$","description":"Id of a check's run"}`)), call: of(checksRead)},
	{spec: writes("merge", "Merge", "Merge a workspace's branch into its base. Preview it with dry_run first. Conflicts are an answer, not an error: nothing is merged then.",
		object(`["workspace"]`, teamArg+`,`+workspaceArg+`,"strategy":{"type":"string","enum":["merge","squash","rebase"],"description":"Default: squash"},`+
			`"message":{"type":"string","maxLength":60000,"description":"Commit message"},"dry_run":{"type":"boolean","description":"Preview only"}`)), call: of(merge)},
	{spec: reads("usage_read", "Read usage and costs", "Read a team's sandbox hours, sandbox costs and model costs.",
		object(`[]`, teamArg+`,"days":{"type":"integer","minimum":1,"maximum":366,"description":"Over the last days; default 30"},`+
			`"group":{"type":"string","enum":["day","user","project","executor","agent","workspace"],"description":"Default: project"}`)), call: of(usageRead)},
})

func checked(all []tool) []tool {
	for i := range all {
		all[i].check = tools.Checker(all[i].spec)
	}
	return all
}

// Specs describes all tools.
func Specs() []tools.Spec {
	specs := make([]tools.Spec, len(table))
	for i, t := range table {
		specs[i] = t.spec
	}
	return specs
}
