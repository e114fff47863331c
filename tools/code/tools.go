package code

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/tools"
)

type runArguments struct {
	Code      string   `json:"code"`
	Language  Language `json:"language"`
	Kernel    string   `json:"kernel"`
	TimeoutMs int64    `json:"timeout_ms"`
}

type kernelArguments struct {
	Language Language `json:"language"`
	Kernel   string   `json:"kernel"`
}

const (
	languageSchema = `{"type": "string", "enum": ["python", "javascript", "typescript", "shell"]`
	kernelSchema   = `{"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,31}$", "default": "default", "description": "Which interpreter of the language: each name has its own variables."}`
	runSchema      = `{"type": "object", "additionalProperties": false, "required": ["code"], "properties": {
		"code": {"type": "string", "minLength": 1, "maxLength": 1048576, "description": "The code. The value of its last expression is a result."},
		"language": ` + languageSchema + `, "default": "python", "description": "What the code is written in."},
		"kernel": ` + kernelSchema + `,
		"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 86400000, "default": 300000, "description": "After this time the code is interrupted."}}}`
	kernelOf = `{"type": "object", "additionalProperties": false, "properties": {
		"language": ` + languageSchema + `, "default": "python", "description": "Of the kernel."},
		"kernel": ` + kernelSchema + `}}`
	runResult = `{"type": "object", "additionalProperties": false, "required": ["id", "state", "stdout", "stderr", "results", "error", "fresh", "cause", "exit_code", "truncated", "duration_ms"], "properties": {
		"id": {"type": "string"}, "state": {"enum": ["running", "ok", "failed", "interrupted", "timed_out", "died", "lost"]},
		"stdout": {"type": "string"}, "stderr": {"type": "string"},
		"results": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["mime", "data", "artifact_id", "main"], "properties": {
			"mime": {"type": "string"}, "data": {}, "artifact_id": {"type": "string"}, "main": {"type": "boolean"}}}},
		"error": {"type": ["object", "null"], "additionalProperties": false, "required": ["name", "value", "traceback"], "properties": {
			"name": {"type": "string"}, "value": {"type": "string"}, "traceback": {"type": "string"}}},
		"fresh": {"type": "boolean"}, "cause": {"type": "string"}, "exit_code": {"type": ["integer", "null"]}, "truncated": {"type": "boolean"}, "duration_ms": {"type": "integer"}}}`
	kernelsResult = `{"type": "object", "additionalProperties": false, "required": ["items"], "properties": {"items": {"type": "array", "items": {
		"type": "object", "additionalProperties": false, "required": ["language", "kernel", "version", "started_at", "busy"], "properties": {
			"language": {"type": "string"}, "kernel": {"type": "string"}, "version": {"type": "string"}, "started_at": {"type": "integer"}, "busy": {"type": "boolean"}}}}}}`
)

// Tools returns the tools of code.
func (s *Service) Tools() []tools.Tool {
	needs := tools.Needs{Workspace: true, Writes: true, Network: true}
	return []tools.Tool{
		tools.Func(tools.Spec{Name: "run_code", Title: "Run code", Group: "code", Permission: tools.Ask, Needs: needs, Timeout: maxTimeout + 2*cancelPatience,
			Description: "Runs code in an interpreter that keeps its variables: Python, JavaScript, TypeScript or a shell. Use it to compute, to look at data and to draw (matplotlib figures and tables are results). " +
				"Answers with what it printed, its results and its error. fresh means that there were no variables before.",
			Arguments: json.RawMessage(runSchema), Result: json.RawMessage(runResult), Command: tools.Command{Positional: []string{"code"}, Stdin: "code"}}, s.callRun),
		tools.Func(tools.Spec{Name: "code_kernels", Title: "List kernels", Group: "code", Permission: tools.Allow, Needs: tools.Needs{Workspace: true}, Unlisted: true,
			Description: "Lists the interpreters of the workspace that are there, with their languages and names.",
			Arguments:   json.RawMessage(`{"type": "object", "additionalProperties": false, "properties": {}}`), Result: json.RawMessage(kernelsResult)}, s.callKernels),
		tools.Func(tools.Spec{Name: "code_reset", Title: "Reset a kernel", Group: "code", Permission: tools.Allow, Needs: needs, Unlisted: true,
			Description: "Ends an interpreter with its variables. The next run of its language and name starts another one.",
			Arguments:   json.RawMessage(kernelOf), Command: tools.Command{Positional: []string{"language", "kernel"}},
			Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["reset"], "properties": {"reset": {"type": "boolean"}}}`)}, s.callReset),
	}
}

type shownResult struct {
	MIME       string          `json:"mime"`
	Data       json.RawMessage `json:"data"`
	ArtifactID string          `json:"artifact_id"`
	Main       bool            `json:"main"`
}

type shownRun struct {
	ID         string        `json:"id"`
	State      State         `json:"state"`
	Stdout     string        `json:"stdout"`
	Stderr     string        `json:"stderr"`
	Results    []shownResult `json:"results"`
	Error      *Error        `json:"error"`
	Fresh      bool          `json:"fresh"`
	Cause      string        `json:"cause"`
	ExitCode   *int          `json:"exit_code"`
	Truncated  bool          `json:"truncated"`
	DurationMs int64         `json:"duration_ms"`
}

func (s *Service) callRun(ctx context.Context, c tools.Caller, a runArguments) (tools.Result, error) {
	if a.Language == "" {
		a.Language = Python
	}
	r, err := s.Execute(ctx, Request{TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, SessionID: c.SessionID, UserID: c.UserID, Agent: c.Agent, Language: a.Language, Kernel: a.Kernel, Code: a.Code, TimeoutMs: a.TimeoutMs})
	if err != nil {
		return tools.Result{}, err
	}
	return answer(r, c.Limits.ResultBytes)
}

// answer shows a run within a number of bytes: pictures as contents of their own, everything else as text and as an object. Of long printed
// texts the ends are kept; results that do not fit are left out.
func answer(r Run, limit int) (tools.Result, error) {
	out := shownRun{ID: r.ID, State: r.State, Results: []shownResult{}, Error: r.Error, Fresh: r.Fresh, Cause: r.Cause, ExitCode: r.Exit, Truncated: r.Truncated, DurationMs: r.TookMs}
	var stdout, stderr strings.Builder
	for _, o := range r.Outputs {
		switch o.Type {
		case "stdout":
			stdout.WriteString(o.Text)
		case "stderr":
			stderr.WriteString(o.Text)
		}
	}
	share := limit / 10 // each text stands twice, and JSON may need more for it
	cut := func(s string, most int) string {
		if len(s) <= most {
			return s
		}
		out.Truncated = true
		return "..." + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	out.Stdout, out.Stderr = cut(stdout.String(), share), cut(stderr.String(), share/2)
	if e := r.Error; e != nil {
		out.Error = &Error{cut(e.Name, 200), cut(e.Value, share/8), cut(e.Traceback, share/4)}
	}
	var text strings.Builder
	text.WriteString(out.Stdout)
	if out.Stderr != "" {
		fmt.Fprintf(&text, "\n[error output]\n%s", out.Stderr)
	}
	room := limit / 3
	var pictures []tools.Content
	for _, o := range r.Outputs {
		if o.Type != "result" {
			continue
		}
		for _, mime := range inOrder(o) {
			if artifact := o.Artifacts[mime]; artifact != "" {
				out.Results = append(out.Results, shownResult{mime, json.RawMessage("null"), artifact, o.Main})
				fmt.Fprintf(&text, "\n[%s saved as artifact %s]", mime, artifact)
				continue
			}
			raw := o.Data[mime]
			if room -= 2*len(raw) + 200; room < 0 {
				out.Truncated = true
				continue
			}
			out.Results = append(out.Results, shownResult{mime, raw, "", o.Main})
			var s string
			isText := json.Unmarshal(raw, &s) == nil
			switch {
			case binary(mime) && strings.HasPrefix(mime, "image/"):
				if data, err := base64.StdEncoding.DecodeString(s); err == nil {
					pictures = append(pictures, tools.Content{MIME: mime, Data: data})
				}
			case mime == "text/plain" && isText:
				fmt.Fprintf(&text, "\n%s", s)
			}
		}
	}
	if out.Error != nil {
		fmt.Fprintf(&text, "\n%s", strings.TrimSpace(out.Error.Traceback))
	}
	if r.State != OK {
		fmt.Fprintf(&text, "\n[%s%s]", strings.ReplaceAll(string(r.State), "_", " "), prefixed(": ", r.Cause))
	}
	if r.Exit != nil && *r.Exit != 0 {
		fmt.Fprintf(&text, "\n[exit code %d]", *r.Exit)
	}
	words := strings.TrimSpace(text.String())
	if words == "" {
		words = "Done; nothing was printed."
	}
	res, err := tools.Answer(words+"\n["+r.ID+"]", out) // the conversation finds the run by its id
	res.Content = append(res.Content, pictures...)
	res.IsError, res.Truncated = r.State != OK, out.Truncated
	return res, err
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// inOrder lists the MIME types of a result, plain text first.
func inOrder(o Output) []string {
	var mimes []string
	for mime := range o.Data {
		mimes = append(mimes, mime)
	}
	for mime := range o.Artifacts {
		mimes = append(mimes, mime)
	}
	slices.SortFunc(mimes, func(a, b string) int {
		if (a == "text/plain") != (b == "text/plain") {
			if a == "text/plain" {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return mimes
}

func (s *Service) callKernels(ctx context.Context, c tools.Caller, _ struct{}) (tools.Result, error) {
	if err := s.own(ctx, c); err != nil {
		return tools.Result{}, err
	}
	list, err := s.Kernels(ctx, c.WorkspaceID)
	if err != nil {
		return tools.Result{}, err
	}
	type shown struct {
		Language  string `json:"language"`
		Kernel    string `json:"kernel"`
		Version   string `json:"version"`
		StartedAt int64  `json:"started_at"`
		Busy      bool   `json:"busy"`
	}
	items, words := make([]shown, len(list)), make([]string, len(list))
	for i, k := range list {
		items[i] = shown{string(k.Language), k.Name, k.Version, k.StartedAt, k.Busy}
		words[i] = fmt.Sprintf("%s %s (%s)", k.Language, k.Name, k.Version)
	}
	if len(words) == 0 {
		words = []string{"There is no kernel."}
	}
	return tools.Answer(strings.Join(words, "\n"), map[string]any{"items": items})
}

func (s *Service) callReset(ctx context.Context, c tools.Caller, a kernelArguments) (tools.Result, error) {
	if err := s.own(ctx, c); err != nil {
		return tools.Result{}, err
	}
	if a.Language == "" {
		a.Language = Python
	}
	if err := s.Stop(ctx, c.WorkspaceID, a.Language, a.Kernel); err != nil {
		return tools.Result{}, err
	}
	return tools.Answer("The variables are gone.", map[string]any{"reset": true})
}

// own refuses a workspace that is not of the caller's team.
func (s *Service) own(ctx context.Context, c tools.Caller) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err == nil && w.TeamID != c.TeamID {
		err = errNoWorkspace()
	}
	return err
}
