package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

type changesArgs struct {
	workspaceArgs
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

// partOfDiff is how much of a diff one answer has, in bytes.
const partOfDiff = 48 << 10

func changesRead(ctx context.Context, a *API, in changesArgs) (answer, error) {
	id, err := a.workspaceID(ctx, in.Team, in.Workspace)
	if err != nil {
		return answer{}, err
	}
	if in.Path != "" {
		return diff(ctx, a, id, in)
	}
	var set struct {
		BaseCommit string   `json:"base_commit"`
		HeadCommit string   `json:"head_commit"`
		Error      string   `json:"error"`
		Items      []change `json:"items"`
	}
	if err := a.get(ctx, path("workspaces", id, "changes"), nil, &set); err != nil {
		return answer{}, err
	}
	total := len(set.Items)
	from := min(in.Offset, total)
	until := min(from+cmp.Or(in.Limit, 100), total)
	shown := set.Items[from:until]
	out := map[string]any{"base_commit": set.BaseCommit, "head_commit": set.HeadCommit, "total": total, "items": shown}
	text := fmt.Sprintf("%d changed files, base %s\n", total, set.BaseCommit) + lines(shown, "None of them from here on.", func(c change) string {
		name := c.Path
		if c.OldPath != "" {
			name = c.OldPath + " -> " + c.Path
		}
		if c.Binary {
			return fmt.Sprintf("%s %s (binary)", c.Status, name)
		}
		return fmt.Sprintf("%s %s +%d -%d", c.Status, name, c.Additions, c.Deletions)
	}, "")
	if until < total {
		out["next_offset"] = until
		text += fmt.Sprintf("\nThere are more: continue at offset %d.", until)
	}
	if set.Error != "" {
		text += "\nThe last sync failed: " + cut(set.Error, longText)
	}
	return answer{text, out}, nil
}

// diff reads a part of a file's diff. Parts end at the end of a line where there is one.
func diff(ctx context.Context, a *API, id string, in changesArgs) (answer, error) {
	raw, err := a.send(ctx, http.MethodGet, path("workspaces", id, "diff"), url.Values{"path": {in.Path}}, nil, maxAnswer)
	if err != nil {
		return answer{}, err
	}
	from := min(in.Offset, len(raw))
	until := min(from+partOfDiff, len(raw))
	if until < len(raw) {
		if at := strings.LastIndexByte(string(raw[from:until]), '\n'); at > 0 {
			until = from + at + 1
		}
	}
	text := strings.ToValidUTF8(string(raw[from:until]), "\uFFFD")
	out := map[string]any{"path": in.Path, "bytes": len(raw), "offset": from}
	if len(raw) == 0 {
		text = "The file does not differ from the base."
	}
	if until < len(raw) {
		out["next_offset"] = until
		text += fmt.Sprintf("\nThere is more: continue at offset %d of %d.", until, len(raw))
	}
	return answer{text, out}, nil
}

type commentArgs struct {
	workspaceArgs
	Body    string `json:"body"`
	Path    string `json:"path"`
	Line    int    `json:"line"`
	EndLine int    `json:"end_line"`
	Send    bool   `json:"send"`
	Session string `json:"session"`
}

func reviewComment(ctx context.Context, a *API, in commentArgs) (answer, error) {
	if in.Path == "" && !in.Send {
		return answer{}, fault.New(fault.Invalid, "comment_not_placed", "A comment without a path is about the whole work: set send to send it with your draft, or name a path.")
	}
	id, err := a.workspaceID(ctx, in.Team, in.Workspace)
	if err != nil {
		return answer{}, err
	}
	out, text := map[string]any{}, ""
	if in.Path != "" {
		var c struct {
			ID       string `json:"id"`
			ReviewID string `json:"review_id"`
		}
		body := map[string]any{"path": in.Path, "body": in.Body, "line": in.Line}
		if in.EndLine > 0 {
			body["end_line"] = in.EndLine
		}
		if err := a.do(ctx, http.MethodPost, path("workspaces", id, "review", "comments"), nil, body, &c); err != nil {
			return answer{}, err
		}
		out["comment_id"], out["review_id"] = c.ID, c.ReviewID
		text = "Added comment " + c.ID + " to the draft."
	}
	if !in.Send {
		return answer{text, out}, nil
	}
	body := filled(map[string]string{"verdict": "comment", "session_id": in.Session})
	if in.Path == "" {
		body["body"] = in.Body
	}
	var r struct {
		ID    string `json:"id"`
		State string `json:"state"`
		Waits string `json:"waits"`
	}
	if err := a.do(ctx, http.MethodPost, path("workspaces", id, "review", "send"), nil, body, &r); err != nil {
		return answer{}, err
	}
	out["review_id"], out["state"] = r.ID, r.State
	text = strings.TrimSpace(text + " Sent review " + r.ID + ".")
	if r.Waits != "" {
		text += " The agent has not received it yet: " + cut(r.Waits, shortText)
	}
	return answer{text, out}, nil
}

func checksRun(ctx context.Context, a *API, in workspaceArgs) (answer, error) {
	id, err := a.workspaceID(ctx, in.Team, in.Workspace)
	if err != nil {
		return answer{}, err
	}
	var c checks
	if err := a.do(ctx, http.MethodPost, path("workspaces", id, "checks", "run"), nil, map[string]any{}, &c); err != nil {
		return answer{}, err
	}
	return answer{c.text(), c}, nil
}

type checksArgs struct {
	workspaceArgs
	Run string `json:"run"`
}

// endOfOutput is how much of a check's output an answer has, from its end.
const endOfOutput = 32 << 10

func checksRead(ctx context.Context, a *API, in checksArgs) (answer, error) {
	if in.Run != "" {
		raw, err := a.send(ctx, http.MethodGet, path("check-runs", in.Run, "output"), nil, nil, maxAnswer)
		if err != nil {
			return answer{}, err
		}
		cutOff := len(raw) > endOfOutput
		if cutOff {
			raw = raw[len(raw)-endOfOutput:]
		}
		return answer{strings.ToValidUTF8(string(raw), "\uFFFD"), map[string]any{"run": in.Run, "truncated": cutOff}}, nil
	}
	id, err := a.workspaceID(ctx, in.Team, in.Workspace)
	if err != nil {
		return answer{}, err
	}
	var c checks
	if err := a.get(ctx, path("workspaces", id, "checks"), nil, &c); err != nil {
		return answer{}, err
	}
	return answer{c.text(), c}, nil
}

type mergeArgs struct {
	workspaceArgs
	Strategy string `json:"strategy"`
	Message  string `json:"message"`
	DryRun   bool   `json:"dry_run"`
}

// mostConflicts bounds the conflicts an answer names.
const mostConflicts = 100

func merge(ctx context.Context, a *API, in mergeArgs) (answer, error) {
	id, err := a.workspaceID(ctx, in.Team, in.Workspace)
	if err != nil {
		return answer{}, err
	}
	body := filled(map[string]string{"strategy": cmp.Or(in.Strategy, "squash"), "message": in.Message})
	body["dry_run"] = in.DryRun
	var r mergeResult
	if err := a.do(ctx, http.MethodPost, path("workspaces", id, "merge"), nil, body, &r); err != nil {
		return answer{}, err
	}
	conflicts := len(r.Conflicts)
	r.Conflicts = r.Conflicts[:min(conflicts, mostConflicts)]
	var text string
	switch {
	case conflicts > 0:
		text = fmt.Sprintf("Not merged: %d files conflict with %s.", conflicts, r.Base)
		for _, c := range r.Conflicts {
			text += fmt.Sprintf("\n- %s (%s)", c.Path, c.Kind)
		}
	case r.UpToDate:
		text = "There is nothing to merge."
	case r.DryRun && r.Blocked != "":
		text = "It cannot be merged now: " + cut(r.Blocked, longText)
	case r.DryRun:
		text = fmt.Sprintf("It can be merged into %s: %d commits, %d files.", r.Base, r.Commits, r.Files)
	case r.Merged:
		text = fmt.Sprintf("Merged into %s as %s: %d commits, %d files.", r.Base, r.Commit, r.Commits, r.Files)
	default:
		text = "Not merged. " + cut(r.Blocked, longText)
	}
	for _, w := range r.Warnings {
		text += "\nWarning: " + cut(w, shortText)
	}
	return answer{text, r}, nil
}
