// Package verification is the tool with which agents verify their work: it runs the project's checks on the present files, in the workspace's
// sandbox, and tells what broke from what failed before the work began. Package checks does the work; this one chooses the checks, compares,
// and cuts each output to the part that says why.
package verification

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
)

// Checks runs a project's checks. checks.Service is one.
type Checks interface {
	Project(ctx context.Context, workspaceID string) (workspaces.Workspace, []workspaces.Check, error)
	// RunNow runs checks on the workspace's files and waits for their ends; it cancels them when ctx ends.
	RunNow(ctx context.Context, userID, workspaceID string, checkIDs []string) ([]checks.Run, error)
	// Baselines returns how checks ended on the commit that the workspace is based on, by their ids, as far as they ran there.
	Baselines(ctx context.Context, workspaceID string) (map[string]checks.Run, error)
	// RunBaseline runs checks on that commit, in a separate folder.
	RunBaseline(ctx context.Context, userID, workspaceID string, checkIDs []string) error
}

// Config configures the tool.
type Config struct {
	Checks Checks
	// Changed returns the paths of the files that differ from the workspace's base now.
	Changed func(ctx context.Context, workspaceID string) ([]string, error)
	// Verified hears of each verification of all checks; tree names the files, "" when they changed meanwhile. nil = nobody needs it.
	Verified func(ctx context.Context, workspaceID, tree string, success bool)
	Log      *slog.Logger
}

// Tool verifies. Safe for concurrent use: verifications of one workspace take turns.
type Tool struct {
	cfg   Config
	turns locks.Keyed // by workspace
}

// New returns the tool.
func New(cfg Config) *Tool {
	if cfg.Checks == nil || cfg.Changed == nil {
		panic("verification: Checks and Changed are required")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Tool{cfg: cfg}
}

var _ tools.Tool = (*Tool)(nil)

// Spec describes the tool.
func (t *Tool) Spec() tools.Spec {
	return tools.Spec{
		Name:  "verify",
		Title: "Verify the work",
		Description: "Runs the project's checks (tests, linters, builds) on the present files. Use it before you say that work is done. " +
			"It runs the checks that the changed files touch, unless you name some or ask for all. " +
			"For each it answers whether it passes, whether it was failing before the work began (null: unknown), and the part of the output that says why it fails. " +
			"new_failures lists what broke since. stale means that files changed meanwhile: run it again.",
		Group:      "verification",
		Arguments:  json.RawMessage(argumentsSchema),
		Result:     json.RawMessage(resultSchema),
		Command:    tools.Command{Positional: []string{"checks"}},
		Needs:      tools.Needs{Workspace: true, Writes: true},
		Permission: tools.Allow,
		Timeout:    30 * time.Minute,
	}
}

const argumentsSchema = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "checks": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 400}, "maxItems": 30, "description": "Names of the checks to run."},
    "all": {"type": "boolean", "default": false, "description": "Run every check, whatever files changed."}
  }
}`

const resultSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["success", "checks", "new_failures", "tree", "stale"],
  "properties": {
    "success": {"type": "boolean"},
    "checks": {"type": "array", "items": {
      "type": "object",
      "additionalProperties": false,
      "required": ["name", "success", "was_failing", "state", "exit_code", "duration_ms", "output"],
      "properties": {
        "name": {"type": "string"},
        "success": {"type": "boolean"},
        "was_failing": {"type": ["boolean", "null"]},
        "state": {"enum": ["passed", "failed", "timed_out", "cancelled", "lost"]},
        "exit_code": {"type": ["integer", "null"]},
        "duration_ms": {"type": "integer"},
        "output": {"type": "string"}
      }
    }},
    "new_failures": {"type": "array", "items": {"type": "string"}},
    "tree": {"type": "string"},
    "stale": {"type": "boolean"}
  }
}`

type arguments struct {
	Checks []string `json:"checks"`
	All    bool     `json:"all"`
}

// answer is the structured result.
type answer struct {
	Success     bool     `json:"success"` // all passed
	Checks      []check  `json:"checks"`
	NewFailures []string `json:"new_failures"` // they fail, and did not when the work began
	Tree        string   `json:"tree"`         // the files they ran on; "" = they changed meanwhile
	Stale       bool     `json:"stale"`
}

type check struct {
	Name       string          `json:"name"`
	Success    bool            `json:"success"`
	WasFailing *bool           `json:"was_failing"`
	State      checks.RunState `json:"state"`
	ExitCode   *int64          `json:"exit_code"`
	DurationMs int64           `json:"duration_ms"`
	Output     string          `json:"output"`

	whole  string // output before it was cut
	reason string
}

// Call verifies.
func (t *Tool) Call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	var a arguments
	if err := tools.Decode(args, &a); err != nil {
		return tools.Result{}, err
	}
	unlock, err := t.turns.LockContext(ctx, c.WorkspaceID)
	if err != nil {
		return tools.Result{}, err
	}
	defer unlock()
	w, all, err := t.cfg.Checks.Project(ctx, c.WorkspaceID)
	if err != nil {
		return tools.Result{}, err
	}
	if w.TeamID != c.TeamID {
		return tools.Result{}, fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace in this team.")
	}
	ids, err := t.chosen(ctx, w, all, a)
	if err != nil {
		return tools.Result{}, err
	}
	if len(all) > 0 && len(ids) == 0 {
		return result(answer{Success: true, Checks: []check{}, NewFailures: []string{}}, "No check is about the changed files. Set all to run every check.", c.Limits.ResultBytes)
	}
	runs, err := t.cfg.Checks.RunNow(ctx, c.UserID, w.ID, ids)
	if err != nil {
		return tools.Result{}, err
	}
	failing, missing := t.baseline(ctx, c.UserID, w, runs)
	if err := context.Cause(ctx); err != nil {
		return tools.Result{}, err
	}
	out := judge(runs, failing)
	if t.cfg.Verified != nil && len(runs) == len(all) {
		t.cfg.Verified(ctx, w.ID, out.Tree, out.Success)
	}
	return result(out, summary(out, missing), c.Limits.ResultBytes)
}

// chosen returns the ids of the checks to run.
func (t *Tool) chosen(ctx context.Context, w workspaces.Workspace, all []workspaces.Check, a arguments) (ids []string, err error) {
	if len(a.Checks) > 0 {
		for _, name := range a.Checks {
			i := slices.IndexFunc(all, func(c workspaces.Check) bool { return strings.EqualFold(c.Name, strings.TrimSpace(name)) })
			if i < 0 {
				return nil, fault.New(fault.NotFound, "check_not_found", "The project has no check %q. It has: %s.", name, names(all)).With("field", "checks")
			}
			ids = append(ids, all[i].ID)
		}
		return ids, nil
	}
	var changed []string
	if !a.All && slices.ContainsFunc(all, func(c workspaces.Check) bool { return len(c.Paths) > 0 }) {
		if changed, err = t.cfg.Changed(ctx, w.ID); err != nil {
			return nil, err
		}
	}
	for _, c := range all {
		if a.All || c.Touches(changed) {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}

func names(all []workspaces.Check) string {
	if len(all) == 0 {
		return "none"
	}
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.Name
	}
	return strings.Join(out, ", ")
}

// baseline returns which checks failed before the work began, by their ids. Those that fail now and did not run there yet do so now: that of
// the others need not be known. missing says why some are unknown.
func (t *Tool) baseline(ctx context.Context, userID string, w workspaces.Workspace, runs []checks.Run) (failing map[string]bool, missing string) {
	known, err := t.cfg.Checks.Baselines(ctx, w.ID)
	var ids []string
	for _, r := range runs {
		if _, ok := known[r.CheckID]; !ok && (r.State == checks.RunFailed || r.State == checks.RunTimedOut) {
			ids = append(ids, r.CheckID)
		}
	}
	if err == nil && len(ids) > 0 {
		ran := t.cfg.Checks.RunBaseline(ctx, userID, w.ID, ids)
		if ran != nil && ctx.Err() == nil {
			t.cfg.Log.InfoContext(ctx, "checks could not run on the base of a workspace", "workspace_id", w.ID, "error", ran)
			missing = "What failed before is not known for all: " + fault.Words(ran, "the checks could not run on the files the work began with.")
		}
		known, err = t.cfg.Checks.Baselines(ctx, w.ID)
	}
	if err != nil {
		t.cfg.Log.WarnContext(ctx, "the baseline of checks could not be read", "workspace_id", w.ID, "error", err)
		return nil, "What failed before is not known: the server could not read it."
	}
	failing = make(map[string]bool, len(known))
	for id, r := range known {
		failing[id] = r.State != checks.RunPassed
	}
	return failing, missing
}

// judge compares runs with what failed before.
func judge(runs []checks.Run, failing map[string]bool) answer {
	out := answer{Success: true, Checks: make([]check, 0, len(runs)), NewFailures: []string{}}
	for i, r := range runs {
		c := check{Name: r.Name, Success: r.State == checks.RunPassed, State: r.State, ExitCode: r.ExitCode, DurationMs: max(r.EndedAt-r.StartedAt, 0), whole: r.Output, reason: r.Reason}
		if r.StartedAt == 0 {
			c.DurationMs = 0
		}
		if was, known := failing[r.CheckID]; known {
			c.WasFailing = &was
		}
		if !c.Success {
			out.Success = false
			if c.WasFailing != nil && !*c.WasFailing {
				out.NewFailures = append(out.NewFailures, c.Name)
			}
		}
		if i == 0 {
			out.Tree = r.Tree
		}
		out.Stale = out.Stale || r.Tree == "" || r.Tree != out.Tree
		out.Checks = append(out.Checks, c)
	}
	if out.Stale {
		out.Tree = ""
	}
	return out
}
