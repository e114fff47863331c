package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

const (
	object   = `{"type": "object", "additionalProperties": false, `
	pathArg  = `"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The file, relative to the worktree."}`
	placeArg = pathArg + `,
		"line": {"type": "integer", "minimum": 1, "maximum": 10000000, "description": "From 1."},
		"character": {"type": "integer", "minimum": 1, "maximum": 10000000, "description": "From 1. Or give symbol."},
		"symbol": {"type": "string", "minLength": 1, "maxLength": 500, "description": "The name in that line that is meant, instead of character."}`
	titleArg   = `"title": {"type": "string", "minLength": 1, "maxLength": 300, "description": "What to do, as an earlier call listed it. Without it, nothing is changed."}`
	newNameArg = `"new_name": {"type": "string", "minLength": 1, "maxLength": 500, "description": "The new name."}`

	diagnosticSchema = object + `"required": ["path", "line", "character", "end_line", "end_character", "severity", "code", "source", "message", "new"], "properties": {
		"path": {"type": "string"}, "line": {"type": "integer"}, "character": {"type": "integer"}, "end_line": {"type": "integer"}, "end_character": {"type": "integer"},
		"severity": {"enum": ["error", "warning", "information", "hint"]}, "code": {"type": "string"}, "source": {"type": "string"}, "message": {"type": "string"}, "new": {"type": "boolean"}}}`
	diagnosticsSchema = object + `"required": ["files", "diagnostics"], "properties": {
		"files": {"type": "array", "items": ` + object + `"required": ["path", "ready", "reason"], "properties": {"path": {"type": "string"}, "ready": {"type": "boolean"}, "reason": {"type": "string"}}}},
		"diagnostics": {"type": "array", "items": ` + diagnosticSchema + `}}}`
	locationsSchema = object + `"required": ["locations"], "properties": {"locations": {"type": "array", "items": ` + object + `"required": ["path", "line", "character", "end_line", "end_character", "outside", "text"], "properties": {
		"path": {"type": "string"}, "line": {"type": "integer"}, "character": {"type": "integer"}, "end_line": {"type": "integer"}, "end_character": {"type": "integer"}, "outside": {"type": "boolean"}, "text": {"type": "string"}}}}}}`
	symbolsSchema = object + `"required": ["symbols", "more"], "properties": {"more": {"type": "boolean"}, "symbols": {"type": "array", "items": ` + object + `"required": ["name", "kind", "container", "path", "line", "character", "end_line"], "properties": {
		"name": {"type": "string"}, "kind": {"type": "string"}, "container": {"type": "string"}, "path": {"type": "string"}, "line": {"type": "integer"}, "character": {"type": "integer"}, "end_line": {"type": "integer"}}}}}}`
	completionsSchema = object + `"required": ["completions"], "properties": {"completions": {"type": "array", "items": ` + object + `"required": ["label", "kind", "detail", "insert"], "properties": {
		"label": {"type": "string"}, "kind": {"type": "string"}, "detail": {"type": "string"}, "insert": {"type": "string"}}}}}}`
	changedSchema = `"changed": {"type": "array", "items": ` + object + `"required": ["path", "edits"], "properties": {"path": {"type": "string"}, "edits": {"type": "integer"}}}}`
	actionsSchema = `"actions": {"type": "array", "items": ` + object + `"required": ["title", "kind"], "properties": {"title": {"type": "string"}, "kind": {"type": "string"}}}}`
)

type arguments struct {
	Path      string   `json:"path"`
	Paths     []string `json:"paths"`
	Line      int      `json:"line"`
	Character int      `json:"character"`
	Symbol    string   `json:"symbol"`
	NewName   string   `json:"new_name"`
	Title     string   `json:"title"`
	Query     string   `json:"query"`
	Language  string   `json:"language"`
}

func (a arguments) at() At { return At{guest.EncodePath(a.Path), a.Line, a.Character, a.Symbol} }

// Tools returns the tools of language servers.
func (s *Service) Tools() []tools.Tool {
	spec := func(name, title, description, arguments, result string, positional ...string) tools.Spec {
		return tools.Spec{Name: name, Title: title, Description: description, Group: "language_servers", Permission: tools.Allow, Needs: tools.Needs{Workspace: true}, Timeout: 3 * time.Minute, Unlisted: true,
			Arguments: json.RawMessage(arguments), Result: json.RawMessage(result), Command: tools.Command{Positional: positional, Paths: pathsAmong(positional)}}
	}
	place := func(more, required string) string {
		return object + `"required": ["path", "line"` + required + `], "properties": {` + placeArg + more + `}}`
	}
	listed := spec("lsp_diagnostics", "Check files", "Errors and warnings of the language server in files, as they are now. Without paths: what is new in the files that changed since you asked last; use it after edits. "+
		"TypeScript, JavaScript, Python, Go, Rust.", object+`"properties": {"paths": {"type": "array", "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 4096}, "description": "Files, relative to the worktree."}}}`, diagnosticsSchema, "paths")
	listed.Unlisted = false
	rename := spec("lsp_rename", "Rename a symbol", "Renames a symbol in all files that use it, and answers with the files that were changed.",
		place(", "+newNameArg, `, "new_name"`), object+`"required": ["changed"], "properties": {`+changedSchema+`}}`, "path", "line", "character", "new_name")
	rename.Needs.Writes = true
	actions := spec("lsp_code_actions", "Fixes and refactorings", "What the language server offers at a place, such as fixes of an error. With the title of one, it is done.",
		place(", "+titleArg, ""), object+`"required": ["actions", "changed"], "properties": {`+actionsSchema+`, `+changedSchema+`}}`, "path", "line", "character")
	actions.Needs.Writes = true
	locate := func(name, title, what, description string) tools.Tool {
		return tools.Func(spec(name, title, description, place("", ""), locationsSchema, "path", "line", "character"), func(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
			return s.callLocate(ctx, c, what, a)
		})
	}
	return []tools.Tool{
		tools.Func(listed, s.callDiagnostics),
		s.afterEditTool(spec("lsp_after_edit", "Check an edit", "Errors in files that were just edited, as the project's settings say; empty when there are no new ones. For hooks of agents: others ask lsp_diagnostics.", "",
			object+`"required": ["text"], "properties": {"text": {"type": "string"}}}`, "paths")),
		locate("lsp_definition", "Find a definition", "definition", "Where a symbol is defined."),
		locate("lsp_references", "Find references", "references", "Everywhere a symbol is used, with its declaration."),
		tools.Func(spec("lsp_hover", "Explain a symbol", "The type and documentation of a symbol.", place("", ""), object+`"required": ["text"], "properties": {"text": {"type": "string"}}}`, "path", "line", "character"), s.callHover),
		tools.Func(spec("lsp_symbols", "List symbols", "The symbols of a file; or, with query and language instead of path, symbols of the whole project by name.",
			object+`"properties": {`+pathArg+`, "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "A name, or part of one."}, "language": {"type": "string", "enum": ["typescript", "python", "go", "rust"], "description": "Of the project's symbols."}}}`,
			symbolsSchema, "path"), s.callSymbols),
		tools.Func(spec("lsp_completions", "Completions", "How the text before a place may go on, the likeliest first.", place("", ""), completionsSchema, "path", "line", "character"), s.callCompletions),
		tools.Func(rename, s.callRename),
		tools.Func(actions, s.callActions),
		tools.Func(spec("lsp_restart", "Restart a language server", "Ends the language server of a language. The next question starts it again. Use it after dependencies were installed that it does not see.",
			object+`"required": ["language"], "properties": {"language": {"type": "string", "enum": ["typescript", "python", "go", "rust"], "description": "Whose server."}}}`,
			object+`"required": ["language"], "properties": {"language": {"type": "string"}}}`, "language"), s.callRestart),
	}
}

// pathsAmong returns the arguments that are paths of the sandbox.
func pathsAmong(positional []string) (paths []string) {
	for _, name := range positional {
		if name == "path" || name == "paths" {
			paths = append(paths, name)
		}
	}
	return paths
}

// callerName identifies who asks for diagnostics.
func callerName(c tools.Caller) string {
	if c.SessionID != "" {
		return c.SessionID
	}
	return c.UserID + " " + c.WorkspaceID
}

// fit returns the longest beginning of a list whose answer fits into a limit.
func fit[T any](c tools.Caller, list []T, answer func([]T) (tools.Result, error)) (tools.Result, error) {
	for n := len(list); ; n /= 2 {
		r, err := answer(list[:n])
		r.Truncated = r.Truncated || n < len(list)
		if err != nil || r.Bytes() <= c.Limits.ResultBytes || n == 0 {
			return r, err
		}
	}
}

func (s *Service) callDiagnostics(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
	for i, p := range a.Paths {
		a.Paths[i] = guest.EncodePath(p)
	}
	report, err := s.Report(ctx, c.TeamID, c.WorkspaceID, callerName(c), a.Paths)
	if err != nil {
		return tools.Result{}, err
	}
	type file struct {
		Path   string `json:"path"`
		Ready  bool   `json:"ready"`
		Reason string `json:"reason"`
	}
	files := []file{}
	for _, f := range report.Files {
		files = append(files, file{f.Path, f.NotReady == "", f.NotReady})
	}
	text := report.Words(len(a.Paths) > 0)
	return fit(c, report.Diagnostics(), func(list []Diagnostic) (tools.Result, error) {
		shown, words := files, text
		if len(list) == 0 && len(report.Diagnostics()) > 0 { // the least that can be said
			shown, words = []file{}, "The diagnostics do not fit into the limit of this call."
		}
		return tools.Answer(words, map[string]any{"files": shown, "diagnostics": list})
	})
}

func (s *Service) callLocate(ctx context.Context, c tools.Caller, what string, a arguments) (tools.Result, error) {
	at := a.at()
	found, err := s.Locate(ctx, c.TeamID, c.WorkspaceID, what, at)
	if err != nil {
		return tools.Result{}, err
	}
	return fit(c, found, func(list []Location) (tools.Result, error) {
		var b strings.Builder
		for _, l := range list {
			fmt.Fprintf(&b, "%s:%d:%d: %s\n", l.Path, l.Line, l.Character, l.Text)
		}
		if len(found) == 0 {
			b.WriteString("Nothing was found.")
		}
		return tools.Answer(strings.TrimSpace(b.String()), map[string]any{"locations": list})
	})
}

func (s *Service) callHover(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
	at := a.at()
	text, err := s.Hover(ctx, c.TeamID, c.WorkspaceID, at)
	if err != nil {
		return tools.Result{}, err
	}
	return fit(c, []rune(text), func(part []rune) (tools.Result, error) {
		words := string(part)
		if text == "" {
			words = "The language server says nothing about this place."
		}
		return tools.Answer(words, map[string]any{"text": string(part)})
	})
}

func (s *Service) callSymbols(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
	var found []Symbol
	var more bool
	var err error
	switch {
	case a.Path != "":
		found, more, err = s.Symbols(ctx, c.TeamID, c.WorkspaceID, a.at().Path)
	case a.Query != "" && a.Language != "":
		found, more, err = s.FindSymbols(ctx, c.TeamID, c.WorkspaceID, a.Language, a.Query)
	default:
		err = fault.New(fault.Invalid, "symbols_of_what", "Give the path of a file, or a query with a language.")
	}
	if err != nil {
		return tools.Result{}, err
	}
	return fit(c, found, func(list []Symbol) (tools.Result, error) {
		var b strings.Builder
		for _, y := range list {
			name := y.Name
			if y.Container != "" {
				name = y.Container + "." + name
			}
			fmt.Fprintf(&b, "%s:%d: %s %s\n", y.Path, y.Line, y.Kind, name)
		}
		if len(found) == 0 {
			b.WriteString("There are no symbols.")
		}
		r, err := tools.Answer(strings.TrimSpace(b.String()), map[string]any{"symbols": list, "more": more || len(list) < len(found)})
		r.Truncated = more
		return r, err
	})
}

func (s *Service) callCompletions(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
	at := a.at()
	found, err := s.Completions(ctx, c.TeamID, c.WorkspaceID, at)
	if err != nil {
		return tools.Result{}, err
	}
	return fit(c, found, func(list []Completion) (tools.Result, error) {
		var b strings.Builder
		for _, f := range list {
			fmt.Fprintf(&b, "%s (%s) %s\n", f.Label, f.Kind, f.Detail)
		}
		if len(found) == 0 {
			b.WriteString("There are no completions.")
		}
		return tools.Answer(strings.TrimSpace(b.String()), map[string]any{"completions": list})
	})
}

// changedWords says which files were changed.
func changedWords(list []Edited) string {
	if len(list) == 0 {
		return "Nothing was changed."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d files were changed:\n", len(list))
	for _, e := range list {
		fmt.Fprintf(&b, "%s (%d edits)\n", e.Path, e.Edits)
	}
	return strings.TrimSpace(b.String())
}

func (s *Service) callRename(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
	at := a.at()
	done, err := s.Rename(ctx, c.TeamID, c.WorkspaceID, at, a.NewName)
	if err != nil {
		return tools.Result{}, err
	}
	return fit(c, done, func(list []Edited) (tools.Result, error) {
		return tools.Answer(changedWords(list), map[string]any{"changed": list})
	})
}

func (s *Service) callActions(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
	at := a.at()
	if a.Title != "" {
		done, err := s.Apply(ctx, c.TeamID, c.WorkspaceID, at, a.Title)
		if err != nil {
			return tools.Result{}, err
		}
		return fit(c, append([]Edited{}, done...), func(list []Edited) (tools.Result, error) {
			return tools.Answer(changedWords(list), map[string]any{"actions": []Action{}, "changed": list})
		})
	}
	found, err := s.Actions(ctx, c.TeamID, c.WorkspaceID, at)
	if err != nil {
		return tools.Result{}, err
	}
	return fit(c, found, func(list []Action) (tools.Result, error) {
		var b strings.Builder
		for _, f := range list {
			fmt.Fprintf(&b, "%s (%s)\n", f.Title, f.Kind)
		}
		if len(found) == 0 {
			b.WriteString("The language server offers nothing there.")
		}
		return tools.Answer(strings.TrimSpace(b.String()), map[string]any{"actions": list, "changed": []Edited{}})
	})
}

func (s *Service) callRestart(ctx context.Context, c tools.Caller, a arguments) (tools.Result, error) {
	if err := s.Restart(ctx, c.TeamID, c.WorkspaceID, a.Language); err != nil {
		return tools.Result{}, err
	}
	return tools.Answer("The language server was ended. The next question starts it again.", map[string]any{"language": a.Language})
}
