package lsp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// Times of diagnostics that a server pushes.
const (
	settleIn  = 300 * time.Millisecond // without another report, what it pushed is complete
	otherIn   = time.Second            // how long a report about a file that did not change itself is waited for
	pullTries = 5
	maxFiles  = 50 // whose diagnostics are asked for at once
)

// Diagnostic is what a language server finds wrong in a file. Numbers count from 1; Character counts UTF-16 units.
type Diagnostic struct {
	Path         string `json:"path"`
	Line         int    `json:"line"`
	Character    int    `json:"character"`
	EndLine      int    `json:"end_line"`
	EndCharacter int    `json:"end_character"`
	Severity     string `json:"severity"` // error, warning, information, hint
	Code         string `json:"code"`
	Source       string `json:"source"`
	Message      string `json:"message"`
	New          bool   `json:"new"` // no earlier report to the caller had it
}

// File is a file's diagnostics.
type File struct {
	Path     string
	Language string
	Hash     string // sha256 in hex of the text they are about
	Items    []Diagnostic
	NotReady string // why they are unknown now; "" = they are known
}

var severities = []string{"", "error", "warning", "information", "hint"}

func severityRank(s string) int { return slices.Index(severities, s) }

// identity tells diagnostics apart whose lines moved.
type identity [16]byte

func (d Diagnostic) identity() identity {
	sum := sha256.Sum256([]byte(d.Severity + "\x00" + d.Code + "\x00" + d.Source + "\x00" + d.Message))
	return identity(sum[:16])
}

func diagnosticOf(file string, d protocol.Diagnostic) Diagnostic {
	severity := d.Severity
	if severity < protocol.SeverityError || severity > protocol.SeverityHint {
		severity = protocol.SeverityError
	}
	return Diagnostic{Path: file, Line: int(d.Range.Start.Line) + 1, Character: int(d.Range.Start.Character) + 1, EndLine: int(d.Range.End.Line) + 1, EndCharacter: int(d.Range.End.Character) + 1,
		Severity: severities[severity], Code: safetext.Cut(safetext.Line(d.CodeText()), 100), Source: safetext.Cut(safetext.Line(d.Source), 100), Message: safetext.Cut(strings.TrimSpace(safetext.Lines(d.Message)), maxMessageText)}
}

// Diagnostics returns what is wrong in files of a workspace, as they are on the disk now. A file whose language has no server, or whose
// server cannot answer yet, says so itself; the error is for workspaces that cannot be asked at all.
func (s *Service) Diagnostics(ctx context.Context, teamID, workspaceID string, paths []string) ([]File, error) {
	if len(paths) > maxFiles {
		paths = paths[:maxFiles]
	}
	p, err := s.admit(ctx, teamID, workspaceID)
	if err != nil {
		return nil, err
	}
	changes, err := s.cfg.Files.Changed(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	out := make([]File, 0, len(paths))
	failed := map[string]string{} // by language: others of its files are not tried
	for _, file := range paths {
		l, ok := languages.Of(file)
		if !ok {
			out = append(out, File{Path: file, NotReady: "no language server knows such files"})
			continue
		}
		f := File{Path: file, Language: l.ID, NotReady: failed[l.ID]}
		if f.NotReady == "" {
			sv, err := s.server(ctx, p, l)
			if err != nil {
				failed[l.ID] = notReady(err)
			} else {
				f, err = sv.diagnostics(ctx, changes, file)
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				f.NotReady = notReady(err)
			}
			f.Path, f.Language = file, l.ID
		}
		out = append(out, f)
	}
	return out, nil
}

func notReady(err error) string {
	return strings.TrimSuffix(fault.Words(err, "it could not be found out"), ".")
}

// diagnostics returns those of one file.
func (sv *server) diagnostics(ctx context.Context, changes []guest.Change, file string) (File, error) {
	defer sv.use()()
	t, err := sv.refresh(ctx, changes, file)
	if err != nil {
		return File{}, err
	}
	within, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	f := File{Path: file, Hash: t.hash}
	items, err := sv.findings(within, t)
	if within.Err() != nil && ctx.Err() == nil {
		f.NotReady = sv.busyWords()
		return f, nil
	}
	if err != nil {
		return f, sv.asFault(err)
	}
	for _, d := range items[:min(len(items), maxDiagnostics)] {
		f.Items = append(f.Items, diagnosticOf(file, d))
	}
	slices.SortStableFunc(f.Items, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Character, b.Character))
	})
	return f, nil
}

func (sv *server) busyWords() string {
	var st Status
	sv.describe(&st)
	if st.Doing != "" {
		return "the language server for " + sv.lang.Title + " is not ready yet (" + st.Doing + ")"
	}
	return "the language server for " + sv.lang.Title + " is not ready yet"
}

// findings returns a document's diagnostics in the way in which the server gives them.
func (sv *server) findings(ctx context.Context, t text) ([]protocol.Diagnostic, error) {
	sv.mu.Lock()
	pulls := sv.pulls
	sv.mu.Unlock()
	if !pulls {
		items, err := sv.pushed(ctx, t)
		if !errors.Is(err, errPulls) {
			return items, err
		}
	}
	return sv.pull(ctx, t.path)
}

// errPulls ends the wait for a report of a server that registers meanwhile that it wants to be asked.
var errPulls = errors.New("the server wants to be asked for diagnostics")

// pull asks for a file's diagnostics.
func (sv *server) pull(ctx context.Context, file string) ([]protocol.Diagnostic, error) {
	for try := 1; ; try++ {
		var r protocol.DocumentReport
		err := sv.conn.Call(ctx, "textDocument/diagnostic", map[string]any{"textDocument": map[string]string{"uri": sv.uri(file)}}, &r)
		if again := new(protocol.ResponseError); errors.As(err, &again) && try < pullTries && (again.Code == protocol.CodeServerCancelled || again.Code == protocol.CodeContentModified) {
			select {
			case <-sv.s.cfg.After(settleIn):
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return r.Items, err
	}
}

// pushed waits for the server's report about a document.
func (sv *server) pushed(ctx context.Context, t text) ([]protocol.Diagnostic, error) {
	var other <-chan time.Time // ends the wait for a report that may not come
	seen := -1
	var settled <-chan time.Time
	for {
		sv.mu.Lock()
		if sv.pulls {
			sv.mu.Unlock()
			return nil, errPulls
		}
		r, changed := sv.reports[t.path], sv.changed
		var items []protocol.Diagnostic
		current, seq := false, 0
		if r != nil {
			items, seq = r.items, r.seq
			current = r.seq > t.before && (r.version == nil || *r.version >= t.version)
		}
		sv.mu.Unlock()
		switch {
		case current && !t.fresh:
			return items, nil
		case current && seq != seen:
			seen, settled = seq, sv.s.cfg.After(settleIn)
		case r != nil && !current && other == nil && r.version != nil && *r.version == t.version:
			other = sv.s.cfg.After(otherIn) // other files changed: the server may have nothing to say about this one
		}
		select {
		case <-changed:
		case <-settled:
			return items, nil
		case <-other:
			return items, nil
		case <-sv.conn.Done():
			return nil, fmt.Errorf("%w: %w", protocol.ErrEnded, sv.conn.Cause())
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
