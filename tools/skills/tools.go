package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/textsearch"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/skills/repository"
)

const (
	searchSchema = `{"type": "object", "additionalProperties": false, "properties": {
		"query": {"type": "string", "maxLength": 500, "description": "Words to look for. Without them, all skills by name."},
		"limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "The most skills to answer with."}}}`
	readSchema = `{"type": "object", "additionalProperties": false, "required": ["name"], "properties": {
		"name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The name of the skill."}}}`
	saveSchema = `{"type": "object", "additionalProperties": false, "required": ["name", "description", "text"], "properties": {
		"name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Lower-case words with hyphens, such as make-a-release. A skill with this name gets a new version."},
		"description": {"type": "string", "minLength": 1, "maxLength": 400, "description": "What it is for and when to use it, in a sentence or two."},
		"text": {"type": "string", "minLength": 1, "maxLength": 32768, "description": "The procedure as Markdown: steps, commands, how each is checked, pitfalls. $ARGUMENTS stands for what the caller adds. No secrets."},
		"scope": {"type": "string", "enum": ["project", "team"], "default": "project", "description": "Who reads it: sessions of this project, or of all of the team's."}}}`
)

// Tools returns skill_search, skill_read and skill_save.
func (s *Service) Tools() []tools.Tool {
	return []tools.Tool{
		tools.Func(tools.Spec{Name: "skill_search", Title: "Find skills", Group: "skills", Permission: tools.Allow, Needs: tools.Needs{Workspace: true}, Unlisted: true,
			Description: "Finds skills, which are procedures of the team, the project and the repository, such as how to release or to add a migration. Answers with names and descriptions, the best matches first.",
			Arguments:   json.RawMessage(searchSchema), Command: tools.Command{Positional: []string{"query"}},
			Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["items"], "properties": {"items": {"type": "array", "items": {"type": "object", "additionalProperties": false,
				"required": ["name", "description", "path"], "properties": {"name": {"type": "string"}, "description": {"type": "string"}, "path": {"type": "string"}}}}}}`)}, s.callSearch),
		tools.Func(tools.Spec{Name: "skill_read", Title: "Read a skill", Group: "skills", Permission: tools.Allow, Needs: tools.Needs{Workspace: true}, Unlisted: true,
			Description: "Reads a skill by its name. Read it before you do what it is about, and follow it. Files that a skill of the repository names are beside its path.",
			Arguments:   json.RawMessage(readSchema), Command: tools.Command{Positional: []string{"name"}},
			Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["name", "description", "path", "text"], "properties": {"name": {"type": "string"}, "description": {"type": "string"},
				"path": {"type": "string"}, "text": {"type": "string"}}}`)}, s.callRead),
		tools.Func(tools.Spec{Name: "skill_save", Title: "Save a skill", Group: "skills", Permission: tools.Ask, Needs: tools.Needs{Workspace: true, Writes: true}, Unlisted: true,
			Description: "Saves a procedure that worked, so that later sessions can repeat it. Use it when a person asks for it. Write what somebody needs who has not seen this conversation. It is a draft until a member accepts it.",
			Arguments:   json.RawMessage(saveSchema), Command: tools.Command{Positional: []string{"name", "description", "text"}, Stdin: "text"},
			Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["id", "name", "version", "draft"], "properties": {"id": {"type": "string"}, "name": {"type": "string"},
				"version": {"type": "integer"}, "draft": {"type": "boolean"}}}`)}, s.callSave),
	}
}

type searchArguments struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

type readArguments struct {
	Name string `json:"name"`
}

type saveArguments struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Text        string `json:"text"`
	Scope       string `json:"scope"`
}

// shown is a skill in an answer.
type shown struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"path"` // of a skill of the repository
}

// project is the project of the caller's workspace.
func (s *Service) project(ctx context.Context, c tools.Caller) (string, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err == nil && w.TeamID != c.TeamID {
		err = fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace in this team.")
	}
	return w.ProjectID, err
}

func (s *Service) callSearch(ctx context.Context, c tools.Caller, a searchArguments) (tools.Result, error) {
	project, err := s.project(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	asked := textsearch.Parse(a.Query)
	kept, err := s.cfg.Store.InUse(ctx, c.TeamID, project, asked)
	if err != nil {
		return tools.Result{}, err
	}
	own, err := s.cfg.Repository.Skills(ctx, c.WorkspaceID)
	if err != nil {
		return tools.Result{}, err
	}
	points := map[string]int{}
	var found []shown
	add := func(k shown, n int) {
		_, twice := points[k.Name]
		if points[k.Name] = n; !twice && (n > 0 || strings.TrimSpace(a.Query) == "") {
			found = append(found, k)
		}
	}
	for _, k := range kept {
		add(shown{k.Name, k.Description, ""}, k.Points)
	}
	for _, k := range own {
		if _, twice := points[k.Name]; !twice {
			add(shown{k.Name, k.Description, k.Path}, asked.Score(k.Name+" "+k.Description, ""))
		}
	}
	slices.SortStableFunc(found, func(a, b shown) int {
		return cmp.Or(cmp.Compare(points[b.Name], points[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	found = found[:min(len(found), cmp.Or(a.Limit, 20))]
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		items := append([]shown{}, found[:len(found)*share/64]...)
		var b strings.Builder
		for _, k := range items {
			fmt.Fprintf(&b, "%s: %s\n", k.Name, k.Description)
		}
		if len(found) == 0 {
			b.WriteString("There is no skill for this.")
		}
		return tools.Answer(strings.TrimSpace(b.String()), map[string]any{"items": items})
	})
}

func (s *Service) callRead(ctx context.Context, c tools.Caller, a readArguments) (tools.Result, error) {
	project, err := s.project(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	k, err := s.Named(ctx, c.TeamID, project, a.Name)
	if fault.CodeOf(err) == "skill_not_found" {
		k, err = s.cfg.Repository.Skill(ctx, c.WorkspaceID, a.Name)
	}
	if err != nil {
		return tools.Result{}, err
	}
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) { return answerOf(k, len(k.Text)*share/64) })
}

// answerOf is a skill with so many bytes of its text.
func answerOf(k repository.Skill, most int) (tools.Result, error) {
	text := k.Text
	if most < len(text) {
		text = strings.ToValidUTF8(text[:most], "") + "\n[The rest is left out.]"
	}
	head := "Skill " + k.Name
	if k.Path != "" {
		head += " (" + k.Path + ")"
	}
	return tools.Answer(head+"\n\n"+text, struct {
		shown
		Text string `json:"text"`
	}{shown{k.Name, k.Description, k.Path}, text})
}

func (s *Service) callSave(ctx context.Context, c tools.Caller, a saveArguments) (tools.Result, error) {
	project, err := s.project(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	k := Skill{TeamID: c.TeamID, ProjectID: project, Name: a.Name, Version: Version{Description: a.Description, Text: a.Text, UserID: c.UserID, SessionID: c.SessionID}}
	if a.Scope == "team" {
		k.ProjectID = ""
	}
	if c.SessionID != "" {
		k.Agent = cmp.Or(c.Agent, "agent")
	}
	saved, err := s.Save(ctx, k, -1)
	if err != nil {
		return tools.Result{}, err
	}
	words := fmt.Sprintf("Saved %s, version %d.", saved.Name, saved.Latest)
	draft := saved.Draft == saved.Latest
	if draft {
		words += " It is a draft: agents read it as soon as a member of the team has accepted it, under Skills."
	}
	return tools.Answer(words, map[string]any{"id": saved.ID, "name": saved.Name, "version": saved.Latest, "draft": draft})
}
