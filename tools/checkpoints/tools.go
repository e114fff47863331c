package checkpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools"
)

// Tools returns what agents may call.
func (s *Service) Tools() []tools.Tool {
	in := tools.Needs{Workspace: true}
	writes := tools.Needs{Workspace: true, Writes: true}
	return []tools.Tool{
		tools.Func(tools.Spec{Name: "checkpoint_create", Title: "Create a checkpoint", Group: "checkpoints", Needs: writes, Permission: tools.Allow, Timeout: 5 * time.Minute,
			Description: "Marks the present state of all files, untracked ones included, so that you can compare with it and go back to it. Create one before a risky change. " +
				"Say in next what to do next: a session that takes over starts with it. Answers with the checkpoint's id.",
			Arguments: json.RawMessage(createArguments), Result: json.RawMessage(createResult)}, s.callCreate),
		tools.Func(tools.Spec{Name: "checkpoint_list", Title: "List checkpoints", Group: "checkpoints", Needs: in, Permission: tools.Allow,
			Description: "Lists the workspace's checkpoints, newest first: yours, and those taken automatically at each prompt, before a sandbox ended and before a conversation was compacted.",
			Arguments:   json.RawMessage(listArguments), Result: json.RawMessage(listResult)}, s.callList),
		tools.Func(tools.Spec{Name: "checkpoint_diff", Title: "Compare with a checkpoint", Group: "checkpoints", Needs: in, Permission: tools.Allow, Unlisted: true, Timeout: 2 * time.Minute,
			Description: "Shows what changed since a checkpoint, up to now or up to another checkpoint: the files with their numbers of lines, and a unified diff. Long ones are cut; name a path to see one file.",
			Arguments:   json.RawMessage(diffArguments), Result: json.RawMessage(diffResult), Command: tools.Command{Positional: []string{"id"}}}, s.callDiff),
		tools.Func(tools.Spec{Name: "checkpoint_restore", Title: "Restore a checkpoint", Group: "checkpoints", Needs: writes, Permission: tools.Ask, Timeout: 15 * time.Minute,
			Description: "Sets the workspace's files back to a checkpoint, and removes files that did not exist then. All files are saved first: safety_snapshot is their state before. " +
				"Commits and ignored files stay. Answers with the files that changed; conflicts are files that somebody wrote meanwhile, which were left alone.",
			Arguments: json.RawMessage(restoreArguments), Result: json.RawMessage(restoreResult), Command: tools.Command{Positional: []string{"id", "paths"}}}, s.callRestore),
	}
}

const createArguments = `{
  "type": "object", "additionalProperties": false,
  "properties": {
    "note": {"type": "string", "maxLength": 500, "description": "What this state is, in a few words."},
    "next": {"type": "string", "maxLength": 4000, "description": "What to do next when the work is resumed."}
  }
}`

const createResult = `{
  "type": "object", "additionalProperties": false, "required": ["id", "at", "files"],
  "properties": {
    "id": {"type": "string"},
    "at": {"type": "integer", "description": "ms UTC"},
    "files": {"type": "integer", "description": "Files that differ from the workspace's base"}
  }
}`

const listArguments = `{
  "type": "object", "additionalProperties": false,
  "properties": {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "How many to list."},
    "cursor": {"type": "string", "maxLength": 512, "description": "next_cursor of the answer before, to continue it."}
  }
}`

const listResult = `{
  "type": "object", "additionalProperties": false, "required": ["items", "next_cursor"],
  "properties": {
    "items": {"type": "array", "items": {
      "type": "object", "additionalProperties": false, "required": ["id", "at", "reason", "note", "next", "files", "session_id", "agent"],
      "properties": {
        "id": {"type": "string"}, "at": {"type": "integer"}, "reason": {"enum": ["manual", "prompt", "timeout", "token_limit"]}, "note": {"type": "string"},
        "next": {"type": "string"}, "files": {"type": "integer"}, "session_id": {"type": "string"}, "agent": {"type": "string"}
      }
    }},
    "next_cursor": {"type": "string", "description": "Empty: these are the last"}
  }
}`

const diffArguments = `{
  "type": "object", "additionalProperties": false, "required": ["id"],
  "properties": {
    "id": {"type": "string", "maxLength": 64, "description": "The checkpoint to compare with."},
    "against": {"type": "string", "maxLength": 64, "default": "now", "description": "now, or the id of another checkpoint."},
    "path": {"type": "string", "maxLength": 4096, "description": "Only this file or folder, relative to the worktree."}
  }
}`

const diffResult = `{
  "type": "object", "additionalProperties": false, "required": ["files", "total", "additions", "deletions", "patch", "truncated"],
  "properties": {
    "files": {"type": "array", "items": {
      "type": "object", "additionalProperties": false, "required": ["path", "status", "additions", "deletions"],
      "properties": {"path": {"type": "string"}, "status": {"type": "string"}, "additions": {"type": "integer"}, "deletions": {"type": "integer"}}
    }},
    "total": {"type": "integer"}, "additions": {"type": "integer"}, "deletions": {"type": "integer"}, "patch": {"type": "string"}, "truncated": {"type": "boolean"}
  }
}`

const restoreArguments = `{
  "type": "object", "additionalProperties": false, "required": ["id"],
  "properties": {
    "id": {"type": "string", "maxLength": 64, "description": "The checkpoint to restore."},
    "paths": {"type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 4096}, "description": "Only these files and folders, relative to the worktree; without it, all."}
  }
}`

const restoreResult = `{
  "type": "object", "additionalProperties": false, "required": ["changed", "conflicts", "total_changed", "safety_snapshot"],
  "properties": {
    "changed": {"type": "array", "items": {"type": "string"}},
    "conflicts": {"type": "array", "items": {"type": "string"}},
    "total_changed": {"type": "integer"},
    "safety_snapshot": {"type": "string", "description": "Snapshot of the files before"}
  }
}`

// Paths decodes paths of the worktree; an error names one that leads out of it.
func Paths(wire []string) ([]string, error) {
	out := make([]string, len(wire))
	for i, p := range wire {
		p = strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/")
		if err := guest.CheckPath(p); err != nil {
			return nil, err
		}
		out[i] = guest.DecodePath(p)
	}
	return out, nil
}

// allowed checks that a caller's workspace is of its team.
func (s *Service) allowed(ctx context.Context, c tools.Caller) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err == nil && w.TeamID != c.TeamID {
		err = fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return err
}

func (s *Service) callCreate(ctx context.Context, c tools.Caller, a struct{ Note, Next string }) (tools.Result, error) {
	if err := s.allowed(ctx, c); err != nil {
		return tools.Result{}, err
	}
	made, err := s.Create(ctx, Request{WorkspaceID: c.WorkspaceID, SessionID: c.SessionID, UserID: c.UserID, Note: a.Note, NextStep: a.Next})
	if err != nil {
		return tools.Result{}, err
	}
	return tools.Answer(fmt.Sprintf("Created checkpoint %s. %d files differ from the base.", made.ID, made.Files), struct {
		ID    string `json:"id"`
		At    int64  `json:"at"`
		Files int    `json:"files"`
	}{made.ID, made.At, made.Files})
}

// listed is a checkpoint in a list.
type listed struct {
	ID      string `json:"id"`
	At      int64  `json:"at"`
	Reason  Reason `json:"reason"`
	Note    string `json:"note"`
	Next    string `json:"next"`
	Files   int    `json:"files"`
	Session string `json:"session_id"`
	Agent   string `json:"agent"`
}

type listArgs struct {
	Limit  int
	Cursor string
}

func (s *Service) callList(ctx context.Context, c tools.Caller, a listArgs) (tools.Result, error) {
	if a.Limit == 0 {
		a.Limit = 20
	}
	if err := s.allowed(ctx, c); err != nil {
		return tools.Result{}, err
	}
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		items, next, err := s.List(ctx, c.WorkspaceID, page.Page{Limit: max(1, a.Limit*share/64), Cursor: a.Cursor})
		if err != nil {
			return tools.Result{}, err
		}
		out := make([]listed, len(items))
		var b strings.Builder
		for i, p := range items {
			out[i] = listed{p.ID, p.At, p.Reason, safetext.Cut(p.Note, 200), safetext.Cut(p.NextStep, 400), p.Files, p.SessionID, p.Agent}
			fmt.Fprintf(&b, "%s  %s  %s  %d files  %s\n", p.ID, time.UnixMilli(p.At).UTC().Format(time.RFC3339), p.Reason, p.Files, safetext.Cut(p.Note, 80))
		}
		if len(items) == 0 {
			b.WriteString("There are no checkpoints.")
		}
		return tools.Answer(b.String(), struct {
			Items []listed `json:"items"`
			Next  string   `json:"next_cursor"`
		}{out, next})
	})
}

// changedFile is a file of a comparison.
type changedFile struct {
	Path      string `json:"path"`
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
}

func (s *Service) callDiff(ctx context.Context, c tools.Caller, a struct{ ID, Against, Path string }) (tools.Result, error) {
	if err := s.allowed(ctx, c); err != nil {
		return tools.Result{}, err
	}
	of, err := s.in(ctx, c.WorkspaceID, a.ID)
	if err != nil {
		return tools.Result{}, err
	}
	r := DiffRequest{Against: a.Against, Fresh: true}
	if a.Path != "" {
		if r.Paths, err = Paths([]string{a.Path}); err != nil {
			return tools.Result{}, err
		}
	}
	d, err := s.Diff(ctx, of, r)
	if err != nil {
		return tools.Result{}, err
	}
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		files := d.Files[:len(d.Files)*share/64]
		patch := d.Patch
		if share < 64 {
			patch = string(wholeLines([]byte(patch[:len(patch)*share/64])))
		}
		patch = strings.ToValidUTF8(patch, "\uFFFD")
		list := make([]changedFile, len(files))
		for i, f := range files {
			list[i] = changedFile{guest.EncodePath(f.Path), f.Status, f.Additions, f.Deletions}
		}
		cut := d.Truncated || share < 64
		text := fmt.Sprintf("%d files differ, %d lines added, %d removed.", d.Total, d.Additions, d.Deletions)
		if cut {
			text += " Not all of it is shown."
		}
		res, err := tools.Answer(text+"\n"+patch, struct {
			Files     []changedFile `json:"files"`
			Total     int           `json:"total"`
			Additions int           `json:"additions"`
			Deletions int           `json:"deletions"`
			Patch     string        `json:"patch"`
			Truncated bool          `json:"truncated"`
		}{list, d.Total, d.Additions, d.Deletions, patch, cut})
		res.Truncated = cut
		return res, err
	})
}

type restoreArgs struct {
	ID    string
	Paths []string
}

func (s *Service) callRestore(ctx context.Context, c tools.Caller, a restoreArgs) (tools.Result, error) {
	if err := s.allowed(ctx, c); err != nil {
		return tools.Result{}, err
	}
	of, err := s.in(ctx, c.WorkspaceID, a.ID)
	if err != nil {
		return tools.Result{}, err
	}
	actor, err := s.cfg.Actor(ctx, c.UserID)
	if err != nil {
		return tools.Result{}, err
	}
	paths, err := Paths(a.Paths)
	if err != nil {
		return tools.Result{}, err
	}
	done, err := s.Restore(ctx, actor, of, RestoreRequest{Paths: paths, SessionID: c.SessionID})
	if err != nil {
		return tools.Result{}, err
	}
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		shown := func(all []string) []string {
			out := make([]string, len(all)*share/64)
			for i := range out {
				out[i] = guest.EncodePath(all[i])
			}
			return out
		}
		text := fmt.Sprintf("Restored %d files from %s. The state before is snapshot %s.", len(done.Changed), of.ID, done.Kept.ID)
		if n := len(done.Conflicts); n > 0 {
			text += fmt.Sprintf(" %d files were written meanwhile and left alone.", n)
		}
		return tools.Answer(text, struct {
			Changed   []string `json:"changed"`
			Conflicts []string `json:"conflicts"`
			Total     int      `json:"total_changed"`
			Kept      string   `json:"safety_snapshot"`
		}{shown(done.Changed), shown(done.Conflicts), len(done.Changed), done.Kept.ID})
	})
}
