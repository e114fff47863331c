package lsp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/lspframe"
	"github.com/parawork/parawork/tools/lsp"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// scripted is a language server that behaves as mode says. It serves nothing before its own request, with a text as id, was answered.
func scripted(mode string) {
	in := bufio.NewReader(os.Stdin)
	say := func(v any) {
		body, _ := json.Marshal(v)
		_, _ = os.Stdout.Write(lspframe.Encode(body))
	}
	registered := false
	docs, answered, heard := map[string]string{}, map[string]bool{}, []string(nil)
	wrong := func(what string) {
		fmt.Fprintln(os.Stderr, what)
		os.Exit(4)
	}
	for {
		body, err := lspframe.Read(in)
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				TextDocument struct {
					URI  string `json:"uri"`
					Text string `json:"text"`
				} `json:"textDocument"`
				Changes []struct {
					URI string `json:"uri"`
				} `json:"changes"`
			} `json:"params"`
		}
		_ = json.Unmarshal(body, &m)
		answer := func(result any) { say(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result}) }
		switch m.Method {
		case "initialize":
			for _, part := range []string{`"cachePriming":{"enable":false}`, `"checkOnSave":false`, `"buildScripts":{"enable":false}`, `"procMacro":{"enable":false}`, `"numThreads":2`, `"lru":{"capacity":64}`} {
				if mode == "rust" && !strings.Contains(string(body), part) {
					wrong("the settings lack " + part)
				}
			}
			able := map[string]any{}
			if mode == "large" {
				able["experimental"] = strings.Repeat("x", 2<<20)
			}
			answer(map[string]any{"capabilities": able})
		case "initialized":
			if mode == "pushes" {
				continue
			}
			say(map[string]any{"jsonrpc": "2.0", "id": "ts1", "method": "client/registerCapability", "params": map[string]any{"registrations": []any{map[string]string{"id": "1", "method": "textDocument/diagnostic"}}}})
		case "":
			if answered[string(m.ID)] {
				wrong("a request was answered twice")
			}
			answered[string(m.ID)] = true
			registered = registered || string(m.ID) == `"ts1"`
		case "$/parawork/resume":
			if mode == "deaf" {
				return
			}
			say(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32601, "message": "no such method"}})
		case "workspace/didChangeWatchedFiles":
			for _, c := range m.Params.Changes {
				heard = append(heard, filepath.Base(c.URI))
			}
		case "textDocument/didClose":
			if _, open := docs[m.Params.TextDocument.URI]; !open {
				wrong("a document was closed that is not open")
			}
			delete(docs, m.Params.TextDocument.URI)
		case "textDocument/diagnostic":
			switch mode {
			case "lies":
				fmt.Print("Content-Length: 99999999999\r\n\r\n")
			case "cuts":
				fmt.Print("Content-Length: 1000\r\n\r\nshort")
				return
			case "prints":
				fmt.Println("Hello! I am starting up.")
			case "dies":
				fmt.Fprintln(os.Stderr, "out of cheese")
				os.Exit(3)
			case "waits":
				continue
			case "floods":
				for {
					say(map[string]any{"jsonrpc": "2.0", "method": "window/logMessage", "params": map[string]string{"message": "x"}})
				}
			}
			if !registered {
				return
			}
			if mode == "mirror" {
				slices.Sort(heard)
				answer(map[string]any{"kind": "full", "items": []any{map[string]any{"range": protocol.Range{}, "severity": 1, "message": fmt.Sprintf("%q of %d, heard of %s", docs[m.Params.TextDocument.URI], len(docs), heard)}}})
				heard = nil
				continue
			}
			answer(map[string]any{"kind": "full", "items": []any{map[string]any{"range": protocol.Range{}, "severity": 1, "code": 7, "message": "wröng"}}})
		case "textDocument/didOpen":
			if _, open := docs[m.Params.TextDocument.URI]; open {
				wrong("a document was opened twice")
			}
			docs[m.Params.TextDocument.URI] = m.Params.TextDocument.Text
			if mode == "pushes" { // and of changes it never says anything
				wd, _ := os.Getwd()
				say(map[string]any{"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": map[string]any{"uri": "file://" + wd + "/a.go", "diagnostics": []any{}}})
			}
		case "textDocument/rename":
			uri := "file:///etc/passwd"
			if mode == "climbs" {
				wd, _ := os.Getwd()
				uri = "file://" + wd + "/../outside.go"
			}
			edits := []any{map[string]any{"range": protocol.Range{}, "newText": "x"}}
			wd, _ := os.Getwd()
			at := func(line, from, to uint32, text string) {
				edits = append(edits, protocol.TextEdit{Range: protocol.Range{Start: protocol.Position{Line: line, Character: from}, End: protocol.Position{Line: line, Character: to}}, NewText: text})
			}
			switch mode {
			case "edits":
				uri, edits = "file://"+wd+"/a.go", nil
				at(9, 0, 5, "// end\n")
				at(1, 100, 200, ";")
				at(1, 4, 5, "w")
				at(0, 16, 17, "z")
			case "many":
				uri = "file://" + wd + "/a.go"
				for range 20_000 {
					edits = append(edits, edits[0])
				}
			}
			answer(map[string]any{"changes": map[string]any{uri: edits}})
		case "textDocument/completion":
			answer([]any{map[string]any{"label": "second", "sortText": "2"}, map[string]any{"label": "first", "sortText": "1", "kind": 3, "detail": "func()", "insertText": "first()"}})
		case "textDocument/codeAction":
			wd, _ := os.Getwd()
			edit := map[string]any{"changes": map[string]any{"file://" + wd + "/a.go": []any{map[string]any{"range": protocol.Range{}, "newText": "// fixed\n"}}}}
			answer([]any{map[string]any{"title": "Fix it", "kind": "quickfix", "edit": edit}})
		case "textDocument/documentSymbol":
			answer(json.RawMessage(strings.Repeat(`[{"name":"deep","children":`, 2000) + "[]" + strings.Repeat("}]", 2000)))
		default:
			if len(m.ID) > 0 {
				answer(nil)
			}
		}
	}
}

// withScript makes a workspace whose gopls is the scripted server.
func withScript(t *testing.T, mode string) *bench {
	t.Helper()
	return withScriptAnd(t, mode, nil)
}

func withScriptAnd(t *testing.T, mode string, change func(*lsp.Config)) *bench {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "gopls"), fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" = version ] && echo 'gopls v9.9.9' && exit\nSCRIPTED_LANGUAGE_SERVER=%s exec %s\n", mode, self), 0o755))
	return newBench(t, dir, map[string]string{"a.go": "package a\n"}, change)
}

// A server may send requests of its own with texts as ids, register abilities later, and use more than one byte a letter.
func TestDynamicRegistrationAndTextIDs(t *testing.T) {
	b := withScript(t, "good")
	if got := b.report("a.go"); got != "a.go:1:1: error: wröng (7)" {
		t.Error(got)
	}
	if got := b.report(filepath.Join(b.root, "a.go")); got != "a.go:1:1: error: wröng (7)" {
		t.Errorf("by its absolute path: %s", got)
	}
}

// What a server said about a text is no answer about the next one, however often it is asked.
func TestOldReportsAreNoAnswer(t *testing.T) {
	b := withScriptAnd(t, "pushes", quick)
	if got := b.report("a.go"); got != "No problems." {
		t.Errorf("the first text: %q", got)
	}
	b.write("a.go", "package a // edited\n")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if r, err := b.s.Report(ctx, b.team, b.ws, "ses_1", []string{"a.go"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second text: %+v, %v", r, err)
		}
		cancel()
	}
}

// A hostile server is ended, the answer says why, and the sandbox goes on; one that dies again and again is not started any more.
func TestHostileServers(t *testing.T) {
	for mode, want := range map[string]string{"lies": "announced a message of 99999999999 bytes", "cuts": "announced a message of 1000 bytes and sent 5", "prints": "wrote text where a message was expected", "floods": "flooded", "dies": "out of cheese"} {
		t.Run(mode, func(t *testing.T) {
			b := withScript(t, mode)
			for range 3 {
				got := b.report("a.go")
				for range 5 { // a busy machine reads slowly what comes before the fault
					if strings.Contains(got, "is not ready yet") {
						got = b.report("a.go")
					}
				}
				if !strings.Contains(got, "not checked") || !strings.Contains(got, want) {
					t.Errorf("%s", got)
				}
				until(t, func() bool { return len(b.processes()) == 0 })
			}
			if got := b.report("a.go"); !strings.Contains(got, "ended 3 times") {
				t.Errorf("the fourth time: %s", got)
			}
			must(t, b.s.Restart(t.Context(), b.team, b.ws, "go"))
			if got := b.report("a.go"); strings.Contains(got, "ended 3 times") {
				t.Errorf("after a restart by hand: %s", got)
			}
		})
	}
}

// A server may change nothing outside the worktree.
func TestEditsOutsideAreRefused(t *testing.T) {
	for _, mode := range []string{"root", "climbs"} {
		b := withScript(t, mode)
		_, err := b.s.Rename(t.Context(), b.team, b.ws, lsp.At{Path: "a.go", Line: 1, Symbol: "a"}, "b")
		if fault.CodeOf(err) != "language_edit_outside" {
			t.Errorf("%s: %v", mode, err)
		}
		if _, err := os.Stat(filepath.Join(b.root, "..", "outside.go")); err == nil {
			t.Errorf("%s: a file outside was written", mode)
		}
	}
}

// Positions count UTF-16 units, and one past the end of its line or text is that end.
func TestEditsAreApplied(t *testing.T) {
	b := withScript(t, "edits")
	b.write("a.go", "package a // \U0001F600 x\nvar y = 1\n")
	if _, err := b.s.Rename(t.Context(), b.team, b.ws, lsp.At{Path: "a.go", Line: 1, Symbol: "a"}, "b"); err != nil {
		t.Fatal(err)
	}
	if got := b.read("a.go"); got != "package a // \U0001F600 z\nvar w = 1;\n// end\n" {
		t.Errorf("%q", got)
	}
}

// Too many edits are refused, and not cut.
func TestTooManyEditsAreRefused(t *testing.T) {
	b := withScript(t, "many")
	if _, err := b.s.Rename(t.Context(), b.team, b.ws, lsp.At{Path: "a.go", Line: 1, Symbol: "a"}, "b"); fault.CodeOf(err) != "language_edit_too_large" {
		t.Error(err)
	}
	if got := b.read("a.go"); got != "package a\n" {
		t.Errorf("%q", got)
	}
}

// rust-analyzer gets settings that save memory when it starts, and a second answer to a request of its own, which would end it, does not come after a
// restart.
func TestRustAnalyzerIsKeptSmall(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "rust-analyzer"), fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" = --version ] && echo 'rust-analyzer 1.90.0' && exit\nSCRIPTED_LANGUAGE_SERVER=rust exec %s\n", self), 0o755))
	b := newBench(t, dir, map[string]string{"a.rs": "fn main() {}\n"}, nil)
	for range 2 {
		if got := b.report("a.rs"); got != "a.rs:1:1: error: wröng (7)" {
			t.Error(got)
		}
		before := b.processes()
		b.stop()
		b.start(nil)
		b.report("a.rs")
		if now := b.processes(); len(now) != 1 || now[0] != before[0] {
			t.Errorf("%v, before %v", now, before)
		}
	}
}

// Symbols inside one another are read to a depth.
func TestDeepSymbols(t *testing.T) {
	b := withScript(t, "good")
	found, more, err := b.s.Symbols(t.Context(), b.team, b.ws, "a.go")
	if err != nil || len(found) != 21 || !more {
		t.Errorf("%d symbols, more: %v, %v", len(found), more, err)
	}
}

// A server goes on while Parawork restarts. The next run has it close what was open, tells it of every file that may have changed, and answers
// nothing twice.
func TestServersGoOnOverARestart(t *testing.T) {
	b := withScript(t, "mirror")
	b.write("b.go", "package b\n")
	b.report("a.go", "b.go")
	before := b.processes()
	for range 3 {
		b.stop()
		b.write("a.go", "package a // changed\n")
		must(t, os.Remove(filepath.Join(b.root, "b.go")))
		b.start(nil)
		if got, want := b.report("a.go"), `"package a // changed\n" of 1, heard of [a.go b.go]`; !strings.Contains(got, want) {
			t.Errorf("%s, and not %s", got, want)
		}
		if now := b.processes(); len(now) != 1 || now[0] != before[0] {
			t.Fatalf("%v, before %v", now, before)
		}
		b.write("b.go", "package b\n")
		b.report("b.go")
	}
}

// A server that does not go on is ended, and another one answers at once; so does one in place of a process that nothing is known of, or of
// which there is too much to know: what a hostile server says does not fill the database.
func TestServersThatDoNotGoOnAreReplaced(t *testing.T) {
	for mode, forget := range map[string]bool{"deaf": false, "good": true, "large": false} {
		b := withScript(t, mode)
		b.report("a.go")
		before := b.processes()
		b.stop()
		var size int
		must(t, b.db.QueryRow(t.Context(), `SELECT MAX(LENGTH(state)) FROM language_servers`).Scan(&size))
		if size > 1<<20 {
			t.Errorf("%s: its record has %d bytes", mode, size)
		}
		if forget {
			_, err := b.db.Exec(t.Context(), `DELETE FROM language_servers`)
			must(t, err)
		}
		b.start(nil)
		if got := b.report("a.go"); !strings.Contains(got, "wröng") {
			t.Error(got)
		}
		if now := b.processes(); len(now) != 1 || now[0] == before[0] {
			t.Errorf("%s: %v, before %v", mode, now, before)
		}
	}
}

// Another team's caller gets no answer.
func TestOtherTeamsAreRefused(t *testing.T) {
	b := withScript(t, "good")
	if _, err := b.s.Report(t.Context(), "team_other", b.ws, "ses_2", nil); fault.CodeOf(err) != "workspace_not_found" {
		t.Error(err)
	}
}
