package lsp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/lsp/languages"
)

// AfterEdits says when agents of a project get reports about problems in files that they edit.
type AfterEdits string

// The choices.
const (
	Off      AfterEdits = "off"       // no language server runs in the project
	Errors   AfterEdits = "errors"    // after each edit, new errors; the default
	OnDemand AfterEdits = "on_demand" // when they ask
	TurnEnd  AfterEdits = "turn_end"  // at the end of a turn, new errors
)

// Valid reports whether it is one of the choices.
func (a AfterEdits) Valid() bool {
	return slices.Contains([]AfterEdits{Off, Errors, OnDemand, TurnEnd}, a)
}

// Settings keeps the choices of projects.
type Settings interface {
	// AfterEdits returns the choice of a project, "" = the default.
	AfterEdits(ctx context.Context, projectID string) (AfterEdits, error)
	// SetAfterEdits stores it.
	SetAfterEdits(ctx context.Context, projectID string, a AfterEdits) error
}

// How long a check may take. What is not known by then is reported later.
const (
	editWithin = 2 * time.Second
	turnWithin = 10 * time.Second
)

// AfterEdits returns when agents of a project get reports about problems.
func (s *Service) AfterEdits(ctx context.Context, projectID string) (AfterEdits, error) {
	if s.cfg.Settings == nil {
		return Errors, nil
	}
	a, err := s.cfg.Settings.AfterEdits(ctx, projectID)
	if err == nil && !a.Valid() {
		a = Errors
	}
	return a, err
}

// SetAfterEdits chooses when agents of a project get reports about problems.
func (s *Service) SetAfterEdits(ctx context.Context, projectID string, a AfterEdits) error {
	if !a.Valid() {
		return fault.New(fault.Invalid, "after_edits_invalid", "after_edits is off, errors, on_demand or turn_end.").With("field", "after_edits")
	}
	return s.cfg.Settings.SetAfterEdits(ctx, projectID, a)
}

// AfterEdit returns the report to the agent of a session after it edited files, or with turn at the end of its turn: errors of which it had no
// report yet. "" means that there are none. It takes editWithin, or turnWithin, at most.
func (s *Service) AfterEdit(ctx context.Context, c tools.Caller, paths []string, turn bool) (string, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err != nil {
		return "", err
	}
	mode, err := s.AfterEdits(ctx, w.ProjectID)
	if err != nil || mode != Errors && (mode != TurnEnd || !turn) {
		return "", err
	}
	name, limit := callerName(c)+" edits", editWithin
	if turn {
		limit = turnWithin
	}
	if turn && mode == Errors { // what was not known in time
		if paths = s.told.takeLate(name); len(paths) == 0 {
			return "", nil
		}
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p, err := s.admit(within, c.TeamID, c.WorkspaceID)
	if err != nil {
		return "", err
	}
	changes, err := s.cfg.Files.Changed(within, c.WorkspaceID)
	switch {
	case err != nil && within.Err() != nil && ctx.Err() == nil:
		s.told.late(name, paths)
		return "", nil
	case err != nil:
		return "", err
	}
	if turn && mode == TurnEnd {
		paths = s.told.changed(name, changes)
	}
	stamps := map[string]string{}
	for _, ch := range changes {
		stamps[ch.Path] = stampOf(ch)
	}
	var out Report
	for _, path := range paths[:min(len(paths), maxFiles)] {
		file, err := inside(p, path)
		l, known := languages.Of(file)
		if err != nil || !known {
			continue
		}
		f := File{Path: file, Language: l.ID}
		sv, err := s.server(within, p, l)
		if err == nil {
			f, err = sv.diagnostics(within, changes, file)
		}
		f.Path, f.Language = file, l.ID
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case within.Err() != nil && err != nil:
			f.NotReady = "the language server for " + l.Title + " is not ready yet"
		case err != nil:
			f.NotReady = notReady(err)
		}
		f.Items = slices.DeleteFunc(f.Items, func(d Diagnostic) bool { return d.Severity != "error" })
		out.Files = append(out.Files, f)
	}
	out.Files = s.told.noticed(name, out.Files, turn)
	s.told.mark(name, out.Files, stamps)
	if !slices.ContainsFunc(out.Files, func(f File) bool {
		return f.NotReady != "" || slices.ContainsFunc(f.Items, func(d Diagnostic) bool { return d.New })
	}) {
		return "", nil
	}
	return out.Words(false), nil
}

// maxLate bounds the files of one caller whose problems were not known in time.
const maxLate = 50

// late remembers files whose problems were not known in time.
func (t *told) late(name string, files []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(name)
	for _, f := range files {
		if len(c.late) < maxLate && !slices.Contains(c.late, f) {
			c.late = append(c.late, f)
		}
	}
}

// takeLate returns and forgets them.
func (t *told) takeLate(name string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(name)
	files := c.late
	c.late = nil
	return files
}

// noticed leaves out files that are not ready where the caller knows that already of their language, and remembers all of those.
func (t *told) noticed(name string, files []File, turn bool) []File {
	var late []string
	t.mu.Lock()
	c := t.of(name)
	files = slices.DeleteFunc(files, func(f File) bool {
		if f.NotReady == "" {
			delete(c.notReady, f.Language)
			return false
		}
		late = append(late, f.Path)
		if turn || c.notReady[f.Language] {
			return true
		}
		if c.notReady == nil {
			c.notReady = map[string]bool{}
		}
		c.notReady[f.Language] = true
		return false
	})
	t.mu.Unlock()
	if !turn {
		t.late(name, late)
	}
	return files
}

func (s *Service) callAfterEdit(ctx context.Context, c tools.Caller, a struct {
	Paths []string `json:"paths"`
	Turn  bool     `json:"turn"`
}) (tools.Result, error) {
	for i, p := range a.Paths {
		a.Paths[i] = guest.EncodePath(p)
	}
	text, err := s.AfterEdit(ctx, c, a.Paths, a.Turn)
	if err != nil {
		return tools.Result{}, err
	}
	text = strings.TrimSpace(text)
	return tools.Answer(text, map[string]any{"text": text})
}

// afterEditTool is what the hooks of agents call.
func (s *Service) afterEditTool(spec tools.Spec) tools.Tool {
	spec.Arguments = json.RawMessage(object + `"properties": {"paths": {"type": "array", "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 4096}, "description": "The files that were edited."},
		"turn": {"type": "boolean", "description": "The turn ends."}}}`)
	return tools.Func(spec, s.callAfterEdit)
}
