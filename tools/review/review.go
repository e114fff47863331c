// Package review has the tools with which agents review changes: comments on lines of the workspace's diff, and the summary that ends a
// review. Package reviews stores them, and shows them to people as those of anybody.
//
// It starts no goroutine and holds no lock.
package review

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Reviews stores what agents say of changes. reviews.Service is one.
type Reviews interface {
	AgentComment(ctx context.Context, sessionID string, w workspaces.Workspace, n reviews.NewComment) (reviews.Comment, error)
	AgentSummary(ctx context.Context, sessionID string, w workspaces.Workspace, text string) (reviews.Review, error)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Config configures the tools. Reviews and Workspaces are required.
type Config struct {
	Reviews    Reviews
	Workspaces Workspaces
	Secrets    tools.Secrets // masked before a text is stored; nil = teams have none
}

const (
	commentSchema = `{"type": "object", "additionalProperties": false, "required": ["path", "text"], "properties": {
		"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "A changed file, relative to the worktree."},
		"line": {"type": "integer", "minimum": 1, "description": "The first line, numbered as in the file. Without it, the comment is about the whole file."},
		"end_line": {"type": "integer", "minimum": 1, "description": "The last line; without it, the first."},
		"side": {"type": "string", "enum": ["new", "old"], "default": "new", "description": "new: the file as it is now; old: as it was at the base, for lines that were removed."},
		"text": {"type": "string", "minLength": 1, "maxLength": 16384, "description": "What goes wrong and when, and how to repair it."}}}`
	summarySchema = `{"type": "object", "additionalProperties": false, "required": ["text"], "properties": {
		"text": {"type": "string", "minLength": 1, "maxLength": 65536, "description": "What you reviewed, which checks you ran, and the faults by weight; or that there is nothing."}}}`
)

// New returns review_comment and review_summary.
func New(cfg Config) []tools.Tool {
	if cfg.Reviews == nil || cfg.Workspaces == nil {
		panic("review: Reviews and Workspaces are required")
	}
	r := reviewer{cfg}
	return []tools.Tool{
		tools.Func(tools.Spec{Name: "review_comment", Title: "Comment on the changes", Group: "review", Permission: tools.Allow, Needs: tools.Needs{Workspace: true, Writes: true}, Unlisted: true,
			Description: "Comments on a changed file, or on lines of it that the diff since the base shows: changed ones and up to three around them. People see the comment at once. One comment for each fault.",
			Arguments:   json.RawMessage(commentSchema), Command: tools.Command{Positional: []string{"path", "line", "text"}, Stdin: "text"},
			Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["id", "path", "line", "end_line"], "properties": {"id": {"type": "string"}, "path": {"type": "string"},
				"line": {"type": "integer"}, "end_line": {"type": "integer"}}}`)}, r.comment),
		tools.Func(tools.Spec{Name: "review_summary", Title: "Sum up the review", Group: "review", Permission: tools.Allow, Needs: tools.Needs{Workspace: true, Writes: true}, Unlisted: true,
			Description: "Ends your review of the changes with a summary. What you comment after it belongs to another review.",
			Arguments:   json.RawMessage(summarySchema), Command: tools.Command{Positional: []string{"text"}, Stdin: "text"},
			Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["id", "comments"], "properties": {"id": {"type": "string"}, "comments": {"type": "integer"}}}`)}, r.summary),
	}
}

type reviewer struct{ cfg Config }

// workspace is that of the caller, who is an agent.
func (r reviewer) workspace(ctx context.Context, c tools.Caller) (workspaces.Workspace, error) {
	w, err := r.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	switch {
	case err != nil:
		return w, err
	case w.TeamID != c.TeamID:
		return w, fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace in this team.")
	case c.SessionID == "":
		return w, fault.New(fault.Invalid, "not_in_a_session", "This tool is for agents. People comment in the review itself.")
	}
	return w, nil
}

func (r reviewer) comment(ctx context.Context, c tools.Caller, a struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	EndLine int    `json:"end_line"`
	Side    string `json:"side"`
	Text    string `json:"text"`
}) (tools.Result, error) {
	w, err := r.workspace(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	a.Text = safetext.Lines(a.Text)
	if err := tools.Hide(ctx, r.cfg.Secrets, c.TeamID, &a.Text); err != nil {
		return tools.Result{}, err
	}
	made, err := r.cfg.Reviews.AgentComment(ctx, c.SessionID, w, reviews.NewComment{Path: a.Path, Side: reviews.Side(cmp.Or(a.Side, "new")), Line: a.Line, EndLine: a.EndLine, Body: a.Text})
	if err != nil {
		return tools.Result{}, err
	}
	where := safetext.Line(guest.DecodePath(made.Path))
	if made.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, made.Line)
	}
	return tools.Answer("Commented on "+where+".", map[string]any{"id": made.ID, "path": made.Path, "line": made.Line, "end_line": made.EndLine})
}

func (r reviewer) summary(ctx context.Context, c tools.Caller, a struct {
	Text string `json:"text"`
}) (tools.Result, error) {
	w, err := r.workspace(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	a.Text = safetext.Lines(a.Text)
	if err := tools.Hide(ctx, r.cfg.Secrets, c.TeamID, &a.Text); err != nil {
		return tools.Result{}, err
	}
	made, err := r.cfg.Reviews.AgentSummary(ctx, c.SessionID, w, a.Text)
	if err != nil {
		return tools.Result{}, err
	}
	return tools.Answer(fmt.Sprintf("The review is complete, with %d comments.", len(made.Comments)), map[string]any{"id": made.ID, "comments": len(made.Comments)})
}
