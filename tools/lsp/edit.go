package lsp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/jsonlist"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// Bounds of edits that a server asks for.
const (
	maxEditFiles = 200
	maxEdits     = jsonlist.Max - 1 // a longer list is not read to its end
	maxEditText  = 32 << 20         // bytes of the files that one edit changes
	maxActions   = 50
)

// Edited is a file that was changed.
type Edited struct {
	Path  string `json:"path"`
	Edits int    `json:"edits"`
}

// Rename renames what is at a place, in all files. Each file is written by the file API, if it is still as the server saw it.
func (s *Service) Rename(ctx context.Context, teamID, workspaceID string, at At, name string) ([]Edited, error) {
	a, err := s.ask(ctx, teamID, workspaceID, at)
	if err != nil {
		return nil, err
	}
	defer a.end()
	params := a.here()
	params["newName"] = name
	raw, err := a.call(ctx, "textDocument/rename", params)
	if err != nil {
		return nil, err
	}
	var edit protocol.WorkspaceEdit
	if len(raw) > 0 && json.Unmarshal(raw, &edit) != nil {
		return nil, a.sv.wrong()
	}
	return a.sv.apply(ctx, edit)
}

// apply writes a server's edits. Everything is checked and computed before the first file is written; a file that cannot be written then
// stops the rest, and the error says what was written.
func (sv *server) apply(ctx context.Context, edit protocol.WorkspaceEdit) ([]Edited, error) {
	byFile, err := sv.editsOf(edit)
	if err != nil {
		return nil, err
	}
	type write struct {
		path, hash, body string
		edits            int
	}
	var writes []write
	total := 0
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		body, hash, err := sv.read(ctx, file)
		if err != nil {
			return nil, err
		}
		after, err := edited(body, byFile[file])
		if err != nil {
			return nil, err
		}
		if total += len(after); total > maxEditText {
			return nil, errEditTooLarge()
		}
		if after != body {
			writes = append(writes, write{file, hash, after, len(byFile[file])})
		}
	}
	done := []Edited{}
	for _, w := range writes {
		if _, err := sv.s.cfg.Files.Write(ctx, sv.place.WorkspaceID, w.path, strings.NewReader(w.body), w.hash); err != nil {
			if len(done) == 0 {
				return nil, err
			}
			var names []string
			for _, d := range done {
				names = append(names, d.Path)
			}
			return done, fault.Wrap(err, fault.Conflict, "language_edit_incomplete", "%s could not be written: %s These files were changed already: %s. Others were not.", w.path,
				fault.Words(err, "the server's log says more."), safetext.Cut(strings.Join(names, ", "), 2000))
		}
		done = append(done, Edited{w.path, w.edits})
	}
	return done, nil
}

func errEditTooLarge() error {
	return fault.New(fault.TooLarge, "language_edit_too_large", "The language server wants to change more than %d files, %d places or %d MiB of text. Nothing was changed.", maxEditFiles, maxEdits, maxEditText>>20)
}

// editsOf checks a server's edits and returns them by file.
func (sv *server) editsOf(edit protocol.WorkspaceEdit) (map[string][]protocol.TextEdit, error) {
	byFile := map[string][]protocol.TextEdit{}
	total := 0
	add := func(uri string, edits []protocol.TextEdit) error {
		file, inside := sv.relative(uri)
		if !inside {
			return fault.New(fault.Forbidden, "language_edit_outside", "The language server wants to change %.300s, which is outside the worktree. Nothing was changed.", cmp.Or(file, uri))
		}
		byFile[file] = append(byFile[file], edits...)
		if total += len(edits); total > maxEdits || len(byFile) > maxEditFiles {
			return errEditTooLarge()
		}
		return nil
	}
	if len(edit.DocumentChanges) > maxEdits {
		return nil, errEditTooLarge()
	}
	if len(edit.DocumentChanges) > 0 {
		for _, d := range edit.DocumentChanges {
			if d.Kind != "" {
				return nil, fault.New(fault.Invalid, "language_edit_unsupported", "The language server wants to %.20s a file, which is not supported. Nothing was changed.", d.Kind)
			}
			if err := add(d.TextDocument.URI, d.Edits); err != nil {
				return nil, err
			}
		}
		return byFile, nil
	}
	for uri, edits := range edit.Changes {
		if err := add(uri, edits); err != nil {
			return nil, err
		}
	}
	return byFile, nil
}

// Action is something the server offers to do at a place.
type Action struct {
	Title string `json:"title"`
	Kind  string `json:"kind"`
}

// Actions returns what the server offers at a place, such as fixes.
func (s *Service) Actions(ctx context.Context, teamID, workspaceID string, at At) ([]Action, error) {
	a, found, err := s.actions(ctx, teamID, workspaceID, at)
	if err != nil {
		return nil, err
	}
	a.end()
	out := []Action{}
	for _, f := range found {
		out = append(out, Action{safetext.Cut(safetext.Line(f.Title), 300), safetext.Cut(safetext.Line(f.Kind), 100)})
	}
	return out, nil
}

// Apply does what the server offers at a place under a title.
func (s *Service) Apply(ctx context.Context, teamID, workspaceID string, at At, title string) ([]Edited, error) {
	a, found, err := s.actions(ctx, teamID, workspaceID, at)
	if err != nil {
		return nil, err
	}
	defer a.end()
	i := slices.IndexFunc(found, func(f protocol.CodeAction) bool { return safetext.Cut(safetext.Line(f.Title), 300) == title })
	if i < 0 {
		return nil, fault.New(fault.NotFound, "action_not_found", "The language server offers nothing with the title %q there. Ask without a title for what it offers.", title)
	}
	f := found[i]
	if f.Edit == nil && len(f.Data) > 0 {
		raw, err := a.call(ctx, "codeAction/resolve", map[string]any{"title": f.Title, "kind": f.Kind, "data": f.Data, "command": f.Command})
		if err != nil {
			return nil, err
		}
		if len(raw) > 0 && json.Unmarshal(raw, &f) != nil {
			return nil, a.sv.wrong()
		}
	}
	var done []Edited
	if f.Edit != nil {
		if done, err = a.sv.apply(ctx, *f.Edit); err != nil {
			return done, err
		}
	}
	if len(bytes.TrimSpace(f.Command)) == 0 || string(f.Command) == "null" {
		return done, nil
	}
	more, err := a.command(ctx, f.Command)
	return append(done, more...), err
}

// actions asks for what the server offers at a place. The caller ends the question.
func (s *Service) actions(ctx context.Context, teamID, workspaceID string, at At) (*asked, []protocol.CodeAction, error) {
	a, err := s.ask(ctx, teamID, workspaceID, at)
	if err != nil {
		return nil, nil, err
	}
	diagnostics := []protocol.Diagnostic{} // those of the line: fixes belong to them
	within, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	all, err := a.sv.findings(within, a.t)
	if err != nil && within.Err() == nil {
		a.end()
		return nil, nil, a.sv.asFault(err)
	}
	for _, d := range all[:min(len(all), maxDiagnostics)] {
		if d.Range.Start.Line <= a.pos.Line && a.pos.Line <= d.Range.End.Line {
			diagnostics = append(diagnostics, d)
		}
	}
	raw, err := a.call(ctx, "textDocument/codeAction", map[string]any{"textDocument": map[string]string{"uri": a.sv.uri(a.t.path)},
		"range": protocol.Range{Start: a.pos, End: a.pos}, "context": map[string]any{"diagnostics": diagnostics, "triggerKind": 1}})
	if err != nil {
		a.end()
		return nil, nil, err
	}
	var found jsonlist.List[protocol.CodeAction]
	if len(raw) > 0 && json.Unmarshal(raw, &found) != nil {
		a.end()
		return nil, nil, a.sv.wrong()
	}
	return a, found[:min(len(found), maxActions)], nil
}

// command has the server run a command, and writes the edits it asks for meanwhile.
func (a *asked) command(ctx context.Context, raw json.RawMessage) ([]Edited, error) {
	var c struct {
		Command   json.RawMessage `json:"command"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fault.New(fault.Invalid, "language_edit_unsupported", "The language server offers this in a form that is not supported. Nothing was changed.")
	}
	unlock, err := a.sv.docs.turn.Lock(ctx) // one command at a time
	if err != nil {
		return nil, err
	}
	defer unlock()
	var done []Edited
	if err := a.sv.setApplying(ctx, func(within context.Context, edit protocol.WorkspaceEdit) error {
		more, err := a.sv.apply(within, edit)
		done = append(done, more...)
		return err
	}); err != nil {
		return nil, err
	}
	params := map[string]any{"command": c.Command}
	if len(c.Arguments) > 0 {
		params["arguments"] = c.Arguments
	}
	_, err = a.call(ctx, "workspace/executeCommand", params)
	if err := a.sv.setApplying(context.WithoutCancel(ctx), nil); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("running a command of the language server: %w", err)
	}
	return done, nil
}

// setApplying says who takes the edits that the server asks for. It waits for edits under way.
func (sv *server) setApplying(ctx context.Context, apply func(context.Context, protocol.WorkspaceEdit) error) error {
	unlock, err := sv.applyTurn.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sv.applying = apply
	return nil
}
