package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools"
)

// Tools returns what agents call.
func (s *Service) Tools() []tools.Tool {
	return []tools.Tool{saveTool{s}, listTool{s}, readTool{s}}
}

type (
	saveTool struct{ s *Service }
	listTool struct{ s *Service }
	readTool struct{ s *Service }
)

// shown is an artifact as agents see it.
type shown struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Version     int               `json:"version"`
	Versions    int               `json:"versions"`
	MIME        string            `json:"mime"`
	Size        int64             `json:"size"`
	SHA256      string            `json:"sha256"`
	WorkspaceID string            `json:"workspace_id"`
	SessionID   string            `json:"session_id"`
	Metadata    map[string]string `json:"metadata"`
	CreatedAt   int64             `json:"created_at"`
}

func shownOf(a Artifact) shown {
	v := shown{a.ID, a.Name, a.Version, a.Versions, a.MIME, a.Size, a.SHA256, a.WorkspaceID, a.SessionID, a.Metadata, a.CreatedAt}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	return v
}

func (v shown) line() string {
	return fmt.Sprintf("%s  %s  version %d of %d, %s, %s, %s", v.ID, safetext.OneLine(v.Name), v.Version, v.Versions, v.MIME, sizeText(v.Size), time.UnixMilli(v.CreatedAt).UTC().Format(time.RFC3339))
}

const shownSchema = `{
    "type": "object",
    "required": ["id", "name", "version", "versions", "mime", "size", "sha256", "workspace_id", "session_id", "metadata", "created_at"],
    "properties": {
      "id": {"type": "string"},
      "name": {"type": "string"},
      "version": {"type": "integer"},
      "versions": {"type": "integer"},
      "mime": {"type": "string"},
      "size": {"type": "integer"},
      "sha256": {"type": "string"},
      "workspace_id": {"type": "string"},
      "session_id": {"type": "string"},
      "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
      "created_at": {"type": "integer"}
    }
  }`

// Spec describes the tool.
func (t saveTool) Spec() tools.Spec {
	return tools.Spec{
		Name: "artifact_save", Title: "Save an artifact", Group: "artifacts",
		Description: "Saves a file so that it outlives the sandbox: a report, a picture, a build. People can read, download and share it. Use it for results that do not belong in the repository. " +
			"The path is in the worktree or in the folder $PARAWORK_ARTIFACTS, whose files are also saved automatically. Saving under the same name makes a new version. Answers with the artifact's id, size and sha256.",
		Arguments: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The file, relative to the worktree or absolute."},
    "name": {"type": "string", "maxLength": 512, "description": "The artifact's name, such as report.md. By default the file's own."},
    "mime": {"type": "string", "maxLength": 128, "description": "The MIME type. By default found from name and content."},
    "metadata": {"type": "object", "maxProperties": 20, "additionalProperties": {"type": "string", "maxLength": 1000}, "description": "Further facts about it, as text by name."}
  }
}`),
		Result:     json.RawMessage(shownSchema),
		Command:    tools.Command{Positional: []string{"path"}, Paths: []string{"path"}},
		Needs:      tools.Needs{Workspace: true, Writes: true},
		Permission: tools.Allow, Timeout: 30 * time.Minute,
	}
}

// Call saves a file.
func (t saveTool) Call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	var in struct {
		Path, Name, MIME string
		Metadata         map[string]string
	}
	if err := tools.Decode(args, &in); err != nil {
		return tools.Result{}, err
	}
	a, err := t.s.Save(ctx, Maker{TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, SessionID: c.SessionID, UserID: c.UserID}, SaveRequest{Path: in.Path, Name: in.Name, MIME: in.MIME, Metadata: in.Metadata})
	if err != nil {
		return tools.Result{}, err
	}
	v := shownOf(a)
	return tools.Answer("Saved "+v.line(), v)
}

// Spec describes the tool.
func (t listTool) Spec() tools.Spec {
	return tools.Spec{
		Name: "artifact_list", Title: "List artifacts", Group: "artifacts", Unlisted: true,
		Description: "Lists the artifacts of the project, newest first: files that agents and people saved, of this workspace and of others. Answers with the newest version of each name.",
		Arguments: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "name": {"type": "string", "maxLength": 512, "description": "List all versions of this name."},
    "here": {"type": "boolean", "description": "Only those of this workspace."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many, 20 by default."},
    "cursor": {"type": "string", "maxLength": 512, "description": "Where to go on: next_cursor of an earlier answer."}
  }
}`),
		Result:     json.RawMessage(`{"type": "object", "required": ["items", "next_cursor"], "properties": {"items": {"type": "array", "items": ` + shownSchema + `}, "next_cursor": {"type": "string"}}}`),
		Command:    tools.Command{Positional: []string{"name"}},
		Needs:      tools.Needs{Workspace: true},
		Permission: tools.Allow,
	}
}

// Call lists artifacts.
func (t listTool) Call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	in := struct {
		Name, Cursor string
		Here         bool
		Limit        int
	}{Limit: 20}
	if err := tools.Decode(args, &in); err != nil {
		return tools.Result{}, err
	}
	f, err := t.s.visible(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	if f.Name = in.Name; in.Here {
		f = Filter{WorkspaceID: c.WorkspaceID, Name: in.Name}
	}
	for limit := in.Limit; ; limit /= 2 { // until the answer fits
		items, next, err := t.s.List(ctx, f, page.Page{Limit: limit, Cursor: in.Cursor})
		if err != nil {
			return tools.Result{}, err
		}
		lines, all := []string{fmt.Sprintf("%d artifacts.", len(items))}, make([]shown, len(items))
		for i, a := range items {
			all[i] = shownOf(a)
			lines = append(lines, all[i].line())
		}
		if next != "" {
			lines = append(lines, "There are more: cursor "+next)
		}
		r, err := tools.Answer(strings.Join(lines, "\n"), map[string]any{"items": all, "next_cursor": next})
		if r.Truncated = limit < in.Limit; err != nil || r.Bytes() <= c.Limits.ResultBytes {
			return r, err
		}
		if limit <= 1 {
			return tools.Result{}, fault.New(fault.TooLarge, "tool_limit_too_small", "One artifact does not fit into the caller's limit of %d bytes.", c.Limits.ResultBytes)
		}
	}
}

// visible is what a caller may see: the project's artifacts, without those of other private workspaces.
func (s *Service) visible(ctx context.Context, c tools.Caller) (Filter, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err == nil && w.TeamID != c.TeamID {
		err = fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return Filter{ProjectID: w.ProjectID, SeenFrom: w.ID}, err
}

// Spec describes the tool.
func (t readTool) Spec() tools.Spec {
	return tools.Spec{
		Name: "artifact_read", Title: "Read an artifact", Group: "artifacts",
		Description: "Reads an artifact of the project by its id or name. Answers with the text, from offset on, or with the picture; for other files only with their name, type and size.",
		Arguments: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["artifact"],
  "properties": {
    "artifact": {"type": "string", "minLength": 1, "maxLength": 600, "description": "Its id, or its name such as report.md, or report.md@2 for version 2. If several workspaces have the name, this workspace's is read."},
    "offset": {"type": "integer", "minimum": 0, "description": "Of a text: the byte to begin at."}
  }
}`),
		Result: json.RawMessage(`{"type": "object", "required": ["artifact", "next_offset"], "properties": {"artifact": ` + shownSchema +
			`, "next_offset": {"type": "integer", "description": "Where the text goes on; 0 = it is complete."}}}`),
		Command:    tools.Command{Positional: []string{"artifact"}},
		Needs:      tools.Needs{Workspace: true},
		Permission: tools.Allow,
	}
}

var versioned = regexp.MustCompile(`^(.+)@([1-9][0-9]{0,8})$`)

// find finds an artifact that a caller may see.
func (s *Service) find(ctx context.Context, c tools.Caller, ref string) (Artifact, error) {
	seen, err := s.visible(ctx, c)
	if err != nil {
		return Artifact{}, err
	}
	missing := fault.New(fault.NotFound, "artifact_not_found", "There is no artifact %.200q in this project. `parawork artifact list` shows those that exist.", ref)
	if a, err := s.Get(ctx, ref); err == nil && a.ProjectID == seen.ProjectID && (!a.Private || a.WorkspaceID == c.WorkspaceID) {
		return a, nil
	} else if err != nil && !fault.Is(err, fault.NotFound) {
		return Artifact{}, err
	}
	name, version := ref, 0
	if m := versioned.FindStringSubmatch(ref); m != nil {
		name = m[1]
		version, _ = strconv.Atoi(m[2])
	}
	for _, f := range []Filter{{WorkspaceID: c.WorkspaceID, Name: name}, {ProjectID: seen.ProjectID, SeenFrom: seen.SeenFrom, Name: name}} {
		items, _, err := s.List(ctx, f, page.Page{Limit: page.MaxLimit})
		if err != nil {
			return Artifact{}, err
		}
		for _, a := range items {
			if version == 0 || a.Version == version {
				return a, nil
			}
		}
	}
	return Artifact{}, missing
}

// Call reads an artifact.
func (t readTool) Call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	var in struct {
		Artifact string
		Offset   int64
	}
	if err := tools.Decode(args, &in); err != nil {
		return tools.Result{}, err
	}
	a, err := t.s.find(ctx, c, in.Artifact)
	if err != nil {
		return tools.Result{}, err
	}
	v := shownOf(a)
	about := map[string]any{"artifact": v, "next_offset": int64(0)}
	r, err := tools.Answer(v.line(), about)
	room := int64(c.Limits.ResultBytes - r.Bytes() - 200)
	imageRoom := int64(c.Limits.Image(r.Bytes() + 200))
	picture := strings.HasPrefix(a.MIME, "image/") && a.MIME != "image/svg+xml"
	switch text := IsText(a.MIME) || a.MIME == "image/svg+xml"; {
	case err != nil || room < 0:
		return r, err
	case text && in.Offset > a.Size:
		return tools.Result{}, fault.New(fault.Invalid, "artifact_offset", "The offset %d is behind the end of %s.", in.Offset, sizeText(a.Size)).With("field", "offset")
	case !text && !picture, picture && a.Size > imageRoom:
		r.Content[0].Text += ". It cannot be shown here; people can download it from the workspace's artifacts."
		r.Truncated = picture
		return r, nil
	}
	body, err := t.s.Open(ctx, a)
	if err != nil {
		return tools.Result{}, err
	}
	defer body.Close()
	if picture {
		data, err := io.ReadAll(io.LimitReader(body, imageRoom))
		if err != nil {
			return tools.Result{}, err
		}
		r.Content = append(r.Content, tools.Content{MIME: a.MIME, Data: data})
		return r, nil
	}
	if _, err := body.Seek(in.Offset, io.SeekStart); err != nil {
		return tools.Result{}, err
	}
	buf := make([]byte, min(room, a.Size-in.Offset))
	n, err := io.ReadFull(body, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return tools.Result{}, err
	}
	buf = buf[:n]
	more := in.Offset+int64(n) < a.Size
	if more { // no half character at the end
		for i := 1; i <= utf8.UTFMax && i <= len(buf); i++ {
			if utf8.RuneStart(buf[len(buf)-i]) {
				if !utf8.FullRune(buf[len(buf)-i:]) {
					buf = buf[:len(buf)-i]
				}
				break
			}
		}
		about["next_offset"] = in.Offset + int64(len(buf))
	}
	text := strings.ToValidUTF8(string(buf), "?")
	if r, err = tools.Answer(v.line()+"\n"+text, about); err != nil {
		return tools.Result{}, err
	}
	r.Truncated = more
	return r, nil
}
