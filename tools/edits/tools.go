package edits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Tools returns what agents may call.
func (s *Service) Tools() []tools.Tool {
	in, writes := tools.Needs{Workspace: true}, tools.Needs{Workspace: true, Writes: true}
	return []tools.Tool{
		tools.Func(tools.Spec{Name: "edit_list", Title: "List edits", Group: "checkpoints", Needs: in, Permission: tools.Allow, Unlisted: true, Timeout: 2 * time.Minute,
			Description: "Lists the changes of files in this workspace, newest first: which tool call of which agent made each, and whether the project's checks passed with it.",
			Arguments:   json.RawMessage(listArguments), Result: json.RawMessage(listResult), Command: tools.Command{Positional: []string{"path"}}}, s.callList),
		tools.Func(tools.Spec{Name: "edit_show", Title: "Show an edit", Group: "checkpoints", Needs: in, Permission: tools.Allow, Unlisted: true,
			Description: "Shows one change of a file with its diff.",
			Arguments:   json.RawMessage(showArguments), Result: json.RawMessage(showResult), Command: tools.Command{Positional: []string{"id"}}}, s.callShow),
		tools.Func(tools.Spec{Name: "edit_undo", Title: "Undo an edit", Group: "checkpoints", Needs: writes, Permission: tools.Ask, Unlisted: true, Timeout: 5 * time.Minute,
			Description: "Undoes one change of a file and keeps later ones. All files are saved first. If later changes contradict it, nothing is written, and the answer has the conflicts.",
			Arguments:   json.RawMessage(undoArguments), Result: json.RawMessage(undoResult), Command: tools.Command{Positional: []string{"id"}}}, s.callUndo),
	}
}

const (
	listArguments = `{"type": "object", "additionalProperties": false, "properties": {
  "path": {"type": "string", "maxLength": 16384, "description": "Only changes of this file."},
  "session": {"type": "string", "maxLength": 64, "description": "Only changes made in this session."},
  "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20, "description": "How many to list."},
  "cursor": {"type": "string", "maxLength": 400, "description": "next_cursor of an earlier answer: goes on after it."}}}`
	shown = `{"type": "object", "additionalProperties": false,
  "required": ["id", "at", "path", "kind", "agent", "session_id", "tool", "call_id", "evidence", "additions", "deletions", "undone", "verified"],
  "properties": {"id": {"type": "string"}, "at": {"type": "integer"}, "path": {"type": "string"}, "kind": {"enum": ["created", "modified", "deleted", "renamed"]},
  "agent": {"type": "string"}, "session_id": {"type": "string"}, "tool": {"type": "string"}, "call_id": {"type": "string"}, "evidence": {"enum": ["record", "operation", "interval"]},
  "additions": {"type": "integer"}, "deletions": {"type": "integer"}, "undone": {"type": "boolean"}, "verified": {"enum": ["", "passed", "failed"]}}}`
	listResult = `{"type": "object", "additionalProperties": false, "required": ["items", "next_cursor"],
  "properties": {"items": {"type": "array", "items": ` + shown + `}, "next_cursor": {"type": "string"}}}`
	showArguments = `{"type": "object", "additionalProperties": false, "required": ["id"], "properties": {
  "id": {"type": "string", "maxLength": 64, "description": "The edit's id, from edit_list."}}}`
	showResult = `{"type": "object", "additionalProperties": false, "required": ["edit", "diff", "truncated"],
  "properties": {"edit": ` + shown + `, "diff": {"type": "string"}, "truncated": {"type": "boolean"}}}`
	undoArguments = `{"type": "object", "additionalProperties": false, "required": ["id"], "properties": {
  "id": {"type": "string", "maxLength": 64, "description": "The edit's id, from edit_list."},
  "dry_run": {"type": "boolean", "default": false, "description": "Only try whether it can be undone."}}}`
	undoResult = `{"type": "object", "additionalProperties": false, "required": ["undone", "merged", "safety_snapshot", "conflicts"],
  "properties": {"undone": {"type": "boolean"}, "merged": {"type": "boolean"}, "safety_snapshot": {"type": "string"},
  "conflicts": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["line", "present", "edited", "before"],
  "properties": {"line": {"type": "integer"}, "present": {"type": "string"}, "edited": {"type": "string"}, "before": {"type": "string"}}}}}}`
)

// allowed checks that a caller's workspace is of its team.
func (s *Service) allowed(ctx context.Context, c tools.Caller) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err == nil && w.TeamID != c.TeamID {
		err = fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return err
}

type editShown struct {
	ID        string   `json:"id"`
	At        int64    `json:"at"`
	Path      string   `json:"path"`
	Kind      Kind     `json:"kind"`
	Agent     string   `json:"agent"`
	Session   string   `json:"session_id"`
	Tool      string   `json:"tool"`
	Call      string   `json:"call_id"`
	Evidence  Evidence `json:"evidence"`
	Additions int      `json:"additions"`
	Deletions int      `json:"deletions"`
	Undone    bool     `json:"undone"`
	Verified  string   `json:"verified"`
}

func show(e Edit) editShown {
	return editShown{e.ID, e.At, e.Path, e.Kind, e.Agent, e.SessionID, e.Tool, e.CallID, e.Evidence, e.Additions, e.Deletions, e.UndoneAt != 0, e.Verified}
}

// line describes an edit in a line.
func (e Edit) line() string {
	by := strings.TrimSpace(e.Agent + " " + e.Tool)
	switch {
	case e.Operation != "":
		by = e.Operation
	case len(e.Calls) > 1:
		by = e.Agent + " in one of several calls"
	case by == "":
		by = "unknown"
	}
	out := fmt.Sprintf("%s  %s  %s %s  +%d -%d  %s", e.ID, time.UnixMilli(e.At).UTC().Format(time.RFC3339), e.Kind, safetext.Line(e.Path), e.Additions, e.Deletions, by)
	if e.UndoneAt != 0 {
		out += "  undone"
	}
	if e.Verified != "" {
		out += "  checks " + e.Verified
	}
	return out
}

type listArgs struct {
	Path, Session, Cursor string
	Limit                 int
}

func (s *Service) callList(ctx context.Context, c tools.Caller, a listArgs) (tools.Result, error) {
	if err := s.allowed(ctx, c); err != nil {
		return tools.Result{}, err
	}
	if a.Path = strings.TrimPrefix(a.Path, "./"); a.Path != "" {
		if err := guest.CheckPath(a.Path); err != nil {
			return tools.Result{}, err
		}
	}
	if err := s.fresh(ctx, c.WorkspaceID); err != nil {
		return tools.Result{}, err
	}
	if a.Limit == 0 {
		a.Limit = 20
	}
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		items, next, _, err := s.List(ctx, Query{WorkspaceID: c.WorkspaceID, Path: a.Path, SessionID: a.Session, Page: page.Page{Limit: max(1, a.Limit*share/64), Cursor: a.Cursor}})
		if err != nil {
			return tools.Result{}, err
		}
		out := make([]editShown, len(items))
		var b strings.Builder
		for i, e := range items {
			out[i] = show(e)
			b.WriteString(e.line() + "\n")
		}
		if len(items) == 0 {
			b.WriteString("There are no edits.")
		}
		return tools.Answer(b.String(), struct {
			Items []editShown `json:"items"`
			Next  string      `json:"next_cursor"`
		}{out, next})
	})
}

// fresh reads the timeline up to now: it waits until the agents' records of the newest snapshot are there.
func (s *Service) fresh(ctx context.Context, workspaceID string) error {
	sn, err := s.cfg.Snapshots.Take(ctx, workspaceID, snapshot.Request{Kind: snapshot.SnapPoll})
	if err != nil {
		return err
	}
	if wait := time.UnixMilli(sn.At).Add(s.cfg.Settle).Sub(s.cfg.Now()); wait > 0 {
		select {
		case <-s.cfg.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.Read(ctx, workspaceID, time.UnixMilli(sn.At))
}

func (s *Service) callShow(ctx context.Context, c tools.Caller, a struct{ ID string }) (tools.Result, error) {
	if err := s.allowed(ctx, c); err != nil {
		return tools.Result{}, err
	}
	e, err := s.Get(ctx, c.WorkspaceID, a.ID)
	if err != nil {
		return tools.Result{}, err
	}
	d, err := s.Diff(ctx, e)
	if err != nil {
		return tools.Result{}, err
	}
	text := strings.ToValidUTF8(d.Text, "\uFFFD")
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		part, cut := text, d.Truncated || share < 64
		if share < 64 {
			part = strings.ToValidUTF8(text[:len(text)*share/64], "")
		}
		r, err := tools.Answer(e.line()+"\n"+part, struct {
			Edit      editShown `json:"edit"`
			Diff      string    `json:"diff"`
			Truncated bool      `json:"truncated"`
		}{show(e), part, cut})
		r.Truncated = cut
		return r, err
	})
}

type undoArgs struct {
	ID     string
	DryRun bool `json:"dry_run"`
}

func (s *Service) callUndo(ctx context.Context, c tools.Caller, a undoArgs) (tools.Result, error) {
	if err := s.allowed(ctx, c); err != nil {
		return tools.Result{}, err
	}
	e, err := s.Get(ctx, c.WorkspaceID, a.ID)
	if err != nil {
		return tools.Result{}, err
	}
	actor, err := s.cfg.Actor(ctx, c.UserID)
	if err != nil {
		return tools.Result{}, err
	}
	done, err := s.Undo(ctx, actor, e, UndoRequest{SessionID: c.SessionID, DryRun: a.DryRun})
	var conflicts []lifecycle.ContentConflict
	if fault.CodeOf(err) == "edit_conflict" {
		conflicts = Conflicts(err)
	} else if err != nil {
		return tools.Result{}, err
	}
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		list := append([]lifecycle.ContentConflict{}, conflicts[:len(conflicts)*share/64]...)
		text := "Undid the edit of " + e.Path + "."
		switch {
		case err != nil:
			text = fault.Words(err, "Later changes contradict it.")
			for _, h := range list {
				text += fmt.Sprintf("\n\nLine %d now:\n%sThe edit had made:\n%sBefore the edit:\n%s", h.Line, h.Present, h.Edited, h.Before)
			}
		case a.DryRun:
			text = "The edit of " + e.Path + " can be undone."
		case !done.Changed:
			text = "Nothing to do: " + e.Path + " already is as before the edit."
		}
		r, aerr := tools.Answer(text, struct {
			Undone    bool                        `json:"undone"`
			Merged    bool                        `json:"merged"`
			Kept      string                      `json:"safety_snapshot"`
			Conflicts []lifecycle.ContentConflict `json:"conflicts"`
		}{err == nil && !a.DryRun, done.Merged, done.Kept.ID, list})
		r.IsError = err != nil
		return r, aerr
	})
}

// Conflicts returns the places that an edit_conflict names.
func Conflicts(err error) []lifecycle.ContentConflict {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		list, _ := f.Details["conflicts"].([]lifecycle.ContentConflict)
		return list
	}
	return nil
}
