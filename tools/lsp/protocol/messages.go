package protocol

import (
	"encoding/json"
	"net/url"
	"path"
	"strings"

	"github.com/parawork/parawork/internal/jsonlist"
)

// Position is a place in a text: both numbers count from 0, and Character counts UTF-16 units.
type Position struct {
	Line      uint32 `json:"line"`
	Character uint32 `json:"character"`
}

// Range is a part of a text.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// Location is a range in a document.
type Location struct {
	URI   string `json:"uri"`
	Range Range  `json:"range"`
}

// Severities of a Diagnostic.
const (
	SeverityError       = 1
	SeverityWarning     = 2
	SeverityInformation = 3
	SeverityHint        = 4
)

// Diagnostic is what a server finds wrong.
type Diagnostic struct {
	Range    Range           `json:"range"`
	Severity int             `json:"severity,omitempty"`
	Code     json.RawMessage `json:"code,omitempty"` // a number or a string
	Source   string          `json:"source,omitempty"`
	Message  string          `json:"message"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// CodeText returns the code as a text.
func (d Diagnostic) CodeText() string {
	var s string
	if json.Unmarshal(d.Code, &s) == nil {
		return s
	}
	if len(d.Code) > 40 || string(d.Code) == "null" {
		return ""
	}
	return string(d.Code)
}

// PublishDiagnostics is the notification of that name.
type PublishDiagnostics struct {
	URI         string                    `json:"uri"`
	Version     *int                      `json:"version"`
	Diagnostics jsonlist.List[Diagnostic] `json:"diagnostics"`
}

// DocumentReport is the answer to a pull of diagnostics.
type DocumentReport struct {
	Kind  string                    `json:"kind"` // full, unchanged
	Items jsonlist.List[Diagnostic] `json:"items"`
}

// TextEdit replaces a range.
type TextEdit struct {
	Range   Range  `json:"range"`
	NewText string `json:"newText"`
}

// DocumentEdit are edits of one document; with Kind it is an operation on a file.
type DocumentEdit struct {
	Kind         string `json:"kind,omitempty"` // create, rename, delete
	URI          string `json:"uri,omitempty"`
	OldURI       string `json:"oldUri,omitempty"`
	NewURI       string `json:"newUri,omitempty"`
	TextDocument struct {
		URI string `json:"uri"`
	} `json:"textDocument"`
	Edits jsonlist.List[TextEdit] `json:"edits,omitempty"`
}

// WorkspaceEdit are edits of several documents.
type WorkspaceEdit struct {
	Changes         map[string]jsonlist.List[TextEdit] `json:"changes,omitempty"`
	DocumentChanges jsonlist.List[DocumentEdit]        `json:"documentChanges,omitempty"`
}

// Symbol is a named part of a document or of a project, in any of the forms of the protocol.
type Symbol struct {
	Name           string          `json:"name"`
	Detail         string          `json:"detail"`
	Kind           int             `json:"kind"`
	Range          Range           `json:"range"`
	SelectionRange Range           `json:"selectionRange"`
	ContainerName  string          `json:"containerName"`
	Location       Location        `json:"location"`
	Children       json.RawMessage `json:"children"` // for Symbols: a hostile server nests them without end
}

// Symbols reads a list of symbols.
func Symbols(raw json.RawMessage) ([]Symbol, error) { return jsonlist.Read[Symbol](raw, jsonlist.Max) }

var symbolKinds = []string{"", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum", "interface", "function", "variable", "constant", "string", "number",
	"boolean", "array", "object", "key", "null", "enum member", "struct", "event", "operator", "type parameter"}

// SymbolKind returns the name of a kind of symbol.
func SymbolKind(kind int) string {
	if kind <= 0 || kind >= len(symbolKinds) {
		return "symbol"
	}
	return symbolKinds[kind]
}

var completionKinds = []string{"", "text", "method", "function", "constructor", "field", "variable", "class", "interface", "module", "property", "unit", "value", "enum", "keyword", "snippet", "color",
	"file", "reference", "folder", "enum member", "constant", "struct", "event", "operator", "type parameter"}

// CompletionKind returns the name of a kind of completion.
func CompletionKind(kind int) string {
	if kind <= 0 || kind >= len(completionKinds) {
		return "text"
	}
	return completionKinds[kind]
}

// Completion is one that a server offers.
type Completion struct {
	Label      string `json:"label"`
	Kind       int    `json:"kind"`
	Detail     string `json:"detail"`
	SortText   string `json:"sortText"`
	InsertText string `json:"insertText"`
}

// Completions reads a list of completions in either form.
func Completions(raw json.RawMessage) ([]Completion, error) {
	var list struct {
		Items jsonlist.List[Completion] `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err == nil {
		return list.Items, nil
	}
	return list.Items, json.Unmarshal(raw, &list.Items)
}

// Locations reads the answer to a question for places in any form: one location, several, or links.
func Locations(raw json.RawMessage) ([]Location, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	type link struct {
		Location
		TargetURI   string `json:"targetUri"`
		TargetRange Range  `json:"targetSelectionRange"`
	}
	var links jsonlist.List[link]
	if raw[0] == '{' {
		raw = append(append(json.RawMessage("["), raw...), ']')
	}
	if err := json.Unmarshal(raw, &links); err != nil {
		return nil, err
	}
	out := make([]Location, len(links))
	for i, l := range links {
		if out[i] = l.Location; l.TargetURI != "" {
			out[i] = Location{l.TargetURI, l.TargetRange}
		}
	}
	return out, nil
}

// maxHoverParts is how many parts of a hover are read.
const maxHoverParts = 20

// HoverText reads the text of a hover in any of its forms.
func HoverText(raw json.RawMessage) string {
	list, err := jsonlist.Read[json.RawMessage](raw, maxHoverParts)
	if err != nil {
		return markedText(raw)
	}
	parts := make([]string, len(list))
	for i, part := range list {
		parts[i] = markedText(part)
	}
	return strings.Join(parts, "\n\n")
}

// markedText reads a part of a hover: a text, or a text in a language.
func markedText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var marked struct {
		Language string `json:"language"`
		Value    string `json:"value"`
	}
	if json.Unmarshal(raw, &marked) != nil {
		return ""
	}
	if marked.Language != "" {
		return "```" + marked.Language + "\n" + marked.Value + "\n```"
	}
	return marked.Value
}

// CodeAction is what a server offers to do. A Command is the older form, which we do not run.
type CodeAction struct {
	Title   string          `json:"title"`
	Kind    string          `json:"kind"`
	Edit    *WorkspaceEdit  `json:"edit"`
	Data    json.RawMessage `json:"data,omitempty"`
	Command json.RawMessage `json:"command,omitempty"`
}

// Capabilities are what a server says it can do, as far as we ask.
type Capabilities struct {
	PositionEncoding   string          `json:"positionEncoding"`
	TextDocumentSync   json.RawMessage `json:"textDocumentSync"`
	DiagnosticProvider json.RawMessage `json:"diagnosticProvider"`
	CodeActionProvider json.RawMessage `json:"codeActionProvider"`
}

// Given reports whether a server has an ability, which it says by true or by options.
func Given(raw json.RawMessage) bool {
	s := string(raw)
	return s != "" && s != "null" && s != "false"
}

// FileURI returns the URI of an absolute path.
func FileURI(p string) string {
	return (&url.URL{Scheme: "file", Path: p}).String()
}

// FilePath returns the absolute path of a URI, cleaned; "" when it names no file of this machine.
func FilePath(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) || strings.IndexByte(u.Path, 0) >= 0 {
		return ""
	}
	return path.Clean(u.Path)
}
