package lsp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/tools/lsp"
)

// project is a small project in which an edit breaks a file.
type project struct {
	program       string
	files         map[string]string
	edit          string // the file
	broken, fixed string // its text after an edit
	complaint     string // of the server about the edit
	use           lsp.At // where a symbol of another file is used
	definition    string // the file and line of it
	old, renamed  string
}

// The real language servers say what is wrong after an edit, and nothing of what is not.
func check(t *testing.T, p project) *bench {
	b := newBench(t, installed(t, p.program), p.files, nil)
	if got := b.report(); got != "No problems." {
		t.Fatalf("of a project without mistakes: %s", got)
	}
	b.write(p.edit, p.broken)
	if got := b.report(); !strings.Contains(got, p.complaint) || !strings.HasPrefix(got, p.edit+":") {
		t.Errorf("after an edit: %s", got)
	}
	if got := b.report(); !strings.HasPrefix(got, "No file") {
		t.Errorf("without another edit: %s", got)
	}
	b.write(p.edit, p.fixed)
	if got := b.report(); got != "No problems." {
		t.Errorf("after the mistake was undone: %s", got)
	}
	ctx := t.Context()
	found, err := b.s.Locate(ctx, b.team, b.ws, "definition", p.use)
	must(t, err)
	if len(found) != 1 || !strings.HasPrefix(found[0].Text, p.definition) || found[0].Outside {
		t.Errorf("definition: %+v", found)
	}
	refs, err := b.s.Locate(ctx, b.team, b.ws, "references", p.use)
	must(t, err)
	if len(refs) < 2 {
		t.Errorf("references: %+v", refs)
	}
	text, err := b.s.Hover(ctx, b.team, b.ws, p.use)
	must(t, err)
	if !strings.Contains(text, p.old) {
		t.Errorf("hover: %q", text)
	}
	symbols, _, err := b.s.Symbols(ctx, b.team, b.ws, found[0].Path)
	must(t, err)
	if len(symbols) == 0 || symbols[0].Name != p.old {
		t.Errorf("symbols: %+v", symbols)
	}
	done, err := b.s.Rename(ctx, b.team, b.ws, p.use, p.renamed)
	must(t, err)
	if len(done) != 2 || !strings.Contains(b.read(p.edit), p.renamed) || strings.Contains(b.read(found[0].Path), p.old) {
		t.Errorf("renamed %+v: %s", done, b.read(p.edit))
	}
	if got := b.report(); got != "No problems." {
		t.Errorf("after the renaming: %s", got)
	}
	if n := len(b.processes()); n != 1 {
		t.Errorf("%d language servers", n)
	}
	return b
}

func TestGo(t *testing.T) {
	fixed := "package main\n\nfunc main() {\n\tprintln(Greet(\"you\"))\n}\n"
	check(t, project{program: "gopls", edit: "main.go", complaint: "error: ", fixed: fixed,
		files:  map[string]string{"go.mod": "module example.com/greeter\n\ngo 1.21\n", "main.go": fixed, "greet.go": "package main\n\nfunc Greet(name string) string { return \"hello \" + name }\n"},
		broken: "package main\n\nfunc main() {\n\tprintln(Greet(5))\n}\n", use: lsp.At{Path: "main.go", Line: 4, Symbol: "Greet"}, definition: "func Greet", old: "Greet", renamed: "Welcome"})
}

func TestPython(t *testing.T) {
	fixed := "from greet import greet\n\nprint(greet(\"you\"))\n"
	check(t, project{program: "pyright-langserver", edit: "main.py", complaint: "error: ", fixed: fixed,
		files:  map[string]string{"main.py": fixed, "greet.py": "def greet(name: str) -> str:\n    return \"hello \" + name\n"},
		broken: "from greet import greet\n\nprint(greet(5))\n", use: lsp.At{Path: "main.py", Line: 3, Symbol: "greet"}, definition: "def greet", old: "greet", renamed: "welcome"})
}

var typescript = project{program: "tsc", edit: "main.ts", complaint: "error: ",
	files:  map[string]string{"tsconfig.json": `{"compilerOptions": {"strict": true, "module": "nodenext", "target": "es2022", "noEmit": true, "types": []}, "include": ["*.ts"]}`, "package.json": `{"type": "module"}`, "greet.ts": "export function greet(name: string): string {\n  return \"hello \" + name;\n}\n", "main.ts": "import { greet } from \"./greet.js\";\n\nexport const text = greet(\"you\");\n"},
	fixed:  "import { greet } from \"./greet.js\";\n\nexport const text = greet(\"you\");\n",
	broken: "import { greet } from \"./greet.js\";\n\nexport const text = greet(5);\n", use: lsp.At{Path: "main.ts", Line: 3, Symbol: "greet"}, definition: "export function greet", old: "greet", renamed: "welcome"}

func TestTypeScript(t *testing.T) { check(t, typescript) }

// A project's own TypeScript is preferred to that of the image.
func TestProjectsOwnTypeScript(t *testing.T) {
	dir := installed(t, "tsc")
	b := newBench(t, "", typescript.files, nil)
	must(t, os.MkdirAll(filepath.Join(b.root, "node_modules"), 0o755))
	must(t, os.Symlink(dir, filepath.Join(b.root, "node_modules", ".bin")))
	if got := b.report("main.ts"); got != "No problems." {
		t.Error(got)
	}
	for _, st := range b.s.Statuses(b.ws) {
		if st.Language == "typescript" && (st.Program != "tsc" || st.State != "ready" || !strings.Contains(st.Version, "7.")) {
			t.Errorf("%+v", st)
		}
	}
}
