package lsp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// Bounds of answers.
const (
	maxLocations   = 200
	maxPreviews    = 20 // files whose lines are shown beside locations
	maxPreview     = 200
	maxHover       = 8000 // characters
	maxSymbols     = 300
	maxSymbolDepth = 20
	maxCompletions = 50
)

// At is where in a file something is asked about. Numbers count from 1, and Character UTF-16 units; instead of it, Symbol names a text in
// that line.
type At struct {
	Path      string
	Line      int
	Character int
	Symbol    string
}

// Location is a place in a file. Path is relative to the worktree, or absolute for a file outside, whose text is not shown.
type Location struct {
	Path         string `json:"path"`
	Line         int    `json:"line"`
	Character    int    `json:"character"`
	EndLine      int    `json:"end_line"`
	EndCharacter int    `json:"end_character"`
	Outside      bool   `json:"outside"`
	Text         string `json:"text"` // its line
}

// Symbol is a named part of a file or project.
type Symbol struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Container string `json:"container"`
	Path      string `json:"path"`
	Line      int    `json:"line"`
	Character int    `json:"character"`
	EndLine   int    `json:"end_line"`
}

// Completion is a way to go on.
type Completion struct {
	Label  string `json:"label"`
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Insert string `json:"insert"`
}

// asked is a question under way.
type asked struct {
	sv  *server
	t   text
	pos protocol.Position
	end func()
}

// ask opens a file in the server of its language.
func (s *Service) ask(ctx context.Context, teamID, workspaceID string, at At) (*asked, error) {
	l, ok := languages.Of(at.Path)
	if !ok {
		return nil, fault.New(fault.Invalid, "language_unknown", "No language server knows files such as %.200s.", at.Path)
	}
	p, err := s.admit(ctx, teamID, workspaceID)
	if err != nil {
		return nil, err
	}
	if at.Path, err = inside(p, at.Path); err != nil {
		return nil, err
	}
	changes, err := s.cfg.Files.Changed(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	sv, err := s.server(ctx, p, l)
	if err != nil {
		return nil, err
	}
	end := sv.use()
	t, err := sv.refresh(ctx, changes, at.Path)
	if err != nil {
		end()
		return nil, sv.asFault(err)
	}
	a := &asked{sv: sv, t: t, end: end}
	if at.Line > 0 {
		if a.pos, err = position(t.body, at); err != nil {
			end()
			return nil, err
		}
	}
	return a, nil
}

// position finds a place in a text.
func position(body string, at At) (protocol.Position, error) {
	list := lines(body)
	if at.Line > len(list) {
		return protocol.Position{}, fault.New(fault.Invalid, "position_outside", "%s has %d lines; there is no line %d.", at.Path, len(list), at.Line)
	}
	line := list[at.Line-1]
	pos := protocol.Position{Line: uint32(at.Line - 1)}
	switch {
	case at.Symbol != "":
		i := strings.Index(line, at.Symbol)
		if i < 0 {
			return pos, fault.New(fault.Invalid, "position_outside", "Line %d of %s has no %q. It is: %s", at.Line, at.Path, safetext.Cut(at.Symbol, 100), safetext.Cut(line, maxPreview))
		}
		pos.Character = units(line[:i])
	case at.Character > 0:
		if uint32(at.Character-1) > units(line) {
			return pos, fault.New(fault.Invalid, "position_outside", "Line %d of %s has %d characters; there is no character %d.", at.Line, at.Path, units(line), at.Character)
		}
		pos.Character = uint32(at.Character - 1)
	default:
		return pos, fault.New(fault.Invalid, "position_missing", "Say where in line %d: give the character, or the symbol (a name in that line).", at.Line)
	}
	return pos, nil
}

// call sends a request about the document. It tries again when the server says that the document changed meanwhile.
func (a *asked) call(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	within, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for try := 1; ; try++ {
		var raw json.RawMessage
		err := a.sv.conn.Call(within, method, params, &raw)
		if e := new(protocol.ResponseError); errors.As(err, &e) && e.Code == protocol.CodeContentModified && try < pullTries {
			select {
			case <-a.sv.s.cfg.After(settleIn):
				continue
			case <-within.Done():
			}
		}
		if within.Err() != nil && ctx.Err() == nil {
			return nil, fault.New(fault.Timeout, "language_server_not_ready", "There is no answer: %s. Ask again in a moment.", a.sv.busyWords())
		}
		return raw, a.sv.asFault(err)
	}
}

func (a *asked) here() map[string]any {
	return map[string]any{"textDocument": map[string]string{"uri": a.sv.uri(a.t.path)}, "position": a.pos}
}

// asFault says in words what went wrong.
func (sv *server) asFault(err error) error {
	answered := new(protocol.ResponseError)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, protocol.ErrEnded):
		cause := sv.conn.Cause()
		select { // what its process left behind says more
		case <-sv.gone:
			cause = cmp.Or(sv.last(), cause)
		case <-time.After(endGrace + lastWords + time.Second):
		}
		return fault.Wrap(err, fault.Unavailable, "language_server_ended", "The language server for %s ended while it was asked: %s. The next question starts it again.", sv.lang.Title, cause)
	case errors.As(err, &answered):
		return fault.Wrap(err, fault.Unavailable, "language_server_error", "The language server for %s answered with an error: %s", sv.lang.Title, safetext.Cut(safetext.Line(answered.Message), 500))
	}
	return err
}

// Locate answers definition, references, implementation or typeDefinition.
func (s *Service) Locate(ctx context.Context, teamID, workspaceID, what string, at At) ([]Location, error) {
	a, err := s.ask(ctx, teamID, workspaceID, at)
	if err != nil {
		return nil, err
	}
	defer a.end()
	params := a.here()
	if what == "references" {
		params["context"] = map[string]bool{"includeDeclaration": true}
	}
	raw, err := a.call(ctx, "textDocument/"+what, params)
	if err != nil {
		return nil, err
	}
	found, err := protocol.Locations(raw)
	if err != nil {
		return nil, a.sv.wrong()
	}
	return a.sv.locations(ctx, found), nil
}

func (sv *server) wrong() error {
	return fault.New(fault.Unavailable, "language_server_wrong", "The language server for %s gave an answer that cannot be read.", sv.lang.Title)
}

// locations shows places with their lines, each once.
func (sv *server) locations(ctx context.Context, found []protocol.Location) []Location {
	out := []Location{}
	texts := map[string][]string{}
	seen := map[Location]bool{}
	for _, f := range found[:min(len(found), maxLocations)] {
		file, inside := sv.relative(f.URI)
		if file == "" {
			continue
		}
		loc := Location{Path: file, Outside: !inside, Line: int(f.Range.Start.Line) + 1, Character: int(f.Range.Start.Character) + 1, EndLine: int(f.Range.End.Line) + 1, EndCharacter: int(f.Range.End.Character) + 1}
		if !inside {
			loc.Path = guest.EncodePath(file)
		}
		if seen[loc] {
			continue
		}
		seen[loc] = true
		if inside {
			list, read := texts[file]
			if !read && len(texts) < maxPreviews {
				if body, _, err := sv.read(ctx, file); err == nil {
					list = lines(body)
				}
				texts[file] = list
			}
			if loc.Line <= len(list) {
				loc.Text = safetext.Cut(strings.TrimSpace(safetext.Line(list[loc.Line-1])), maxPreview)
			}
		}
		out = append(out, loc)
	}
	return out
}

// Hover returns what the server says about a place, as Markdown; "" when it says nothing.
func (s *Service) Hover(ctx context.Context, teamID, workspaceID string, at At) (string, error) {
	a, err := s.ask(ctx, teamID, workspaceID, at)
	if err != nil {
		return "", err
	}
	defer a.end()
	raw, err := a.call(ctx, "textDocument/hover", a.here())
	if err != nil {
		return "", err
	}
	var hover struct {
		Contents json.RawMessage `json:"contents"`
	}
	if len(raw) > 0 && json.Unmarshal(raw, &hover) != nil {
		return "", a.sv.wrong()
	}
	return safetext.Cut(strings.TrimSpace(safetext.Lines(protocol.HoverText(hover.Contents))), maxHover), nil
}

// Symbols returns the symbols of a file.
func (s *Service) Symbols(ctx context.Context, teamID, workspaceID, file string) (found []Symbol, more bool, err error) {
	a, err := s.ask(ctx, teamID, workspaceID, At{Path: file})
	if err != nil {
		return nil, false, err
	}
	defer a.end()
	raw, err := a.call(ctx, "textDocument/documentSymbol", map[string]any{"textDocument": map[string]string{"uri": a.sv.uri(a.t.path)}})
	if err != nil {
		return nil, false, err
	}
	return a.sv.symbols(raw, a.t.path)
}

// FindSymbols looks for a name in a whole project, in one language.
func (s *Service) FindSymbols(ctx context.Context, teamID, workspaceID, language, query string) (found []Symbol, more bool, err error) {
	l, ok := languages.ByID(language)
	if !ok {
		return nil, false, errNoLanguage(language)
	}
	p, err := s.admit(ctx, teamID, workspaceID)
	if err != nil {
		return nil, false, err
	}
	changes, err := s.cfg.Files.Changed(ctx, workspaceID)
	if err != nil {
		return nil, false, err
	}
	sv, err := s.server(ctx, p, l)
	if err != nil {
		return nil, false, err
	}
	defer sv.use()()
	if _, err := sv.refresh(ctx, changes, ""); err != nil {
		return nil, false, sv.asFault(err)
	}
	raw, err := (&asked{sv: sv}).call(ctx, "workspace/symbol", map[string]any{"query": query})
	if err != nil {
		return nil, false, err
	}
	return sv.symbols(raw, "")
}

// symbols reads symbols in either form of the protocol. file is theirs when they do not say so.
func (sv *server) symbols(raw json.RawMessage, file string) (out []Symbol, more bool, err error) {
	out = []Symbol{}
	var add func(raw json.RawMessage, container string, depth int) error
	add = func(raw json.RawMessage, container string, depth int) error {
		switch {
		case len(raw) == 0:
			return nil
		case depth > maxSymbolDepth:
			more = true
			return nil
		}
		list, err := protocol.Symbols(raw)
		if err != nil {
			return sv.wrong()
		}
		for i, it := range list {
			if len(out) >= maxSymbols {
				more = true
				return nil
			}
			list[i] = protocol.Symbol{} // its children's text is not kept while they are read
			y := Symbol{Name: safetext.Cut(safetext.Line(it.Name), 200), Kind: protocol.SymbolKind(it.Kind), Container: safetext.Cut(safetext.Line(cmp.Or(it.ContainerName, container)), 200), Path: file,
				Line: int(it.SelectionRange.Start.Line) + 1, Character: int(it.SelectionRange.Start.Character) + 1, EndLine: int(it.Range.End.Line) + 1}
			if it.Location.URI != "" {
				at, inside := sv.relative(it.Location.URI)
				if !inside {
					continue // of a library
				}
				y.Path, y.Line, y.Character, y.EndLine = at, int(it.Location.Range.Start.Line)+1, int(it.Location.Range.Start.Character)+1, int(it.Location.Range.End.Line)+1
			}
			out = append(out, y)
			if err := add(it.Children, y.Name, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(raw, "", 0); err != nil {
		return nil, false, err
	}
	return out, more, nil
}

// Completions returns how the text before a place may go on, the likeliest first.
func (s *Service) Completions(ctx context.Context, teamID, workspaceID string, at At) ([]Completion, error) {
	a, err := s.ask(ctx, teamID, workspaceID, at)
	if err != nil {
		return nil, err
	}
	defer a.end()
	raw, err := a.call(ctx, "textDocument/completion", a.here())
	if err != nil {
		return nil, err
	}
	out := []Completion{}
	if len(raw) == 0 {
		return out, nil
	}
	list, err := protocol.Completions(raw)
	if err != nil {
		return nil, a.sv.wrong()
	}
	slices.SortStableFunc(list, func(x, y protocol.Completion) int {
		return cmp.Compare(cmp.Or(x.SortText, x.Label), cmp.Or(y.SortText, y.Label))
	})
	for _, c := range list[:min(len(list), maxCompletions)] {
		out = append(out, Completion{Label: safetext.Cut(safetext.Line(c.Label), 200), Kind: protocol.CompletionKind(c.Kind), Detail: safetext.Cut(safetext.Line(c.Detail), 300), Insert: safetext.Cut(cmp.Or(c.InsertText, c.Label), 1000)})
	}
	return out, nil
}
