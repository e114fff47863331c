// Package languages lists the languages whose servers Parawork starts in sandboxes: an entry for each. It says which files a language
// has, which programs serve it and how they are configured. It starts nothing.
package languages

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Language is a language with a server.
type Language struct {
	ID         string            // in process ids and on the command line
	Title      string            // display name
	Extensions map[string]string // of files, with the dot, to the protocol's language id
	Manifests  []string          // names of other files whose changes the server gets
	Candidates []Candidate       // the first one that works is started
	Install    string            // what to do when there is none, after "To have one, "
	Pushes     bool              // diagnostics, and we do not say that we can ask for them
	Python     bool              // it gets the interpreter of the project's virtual environment
	Env        map[string]string
	Settings   map[string]any // what the server asks for, by section; also its initialization options
	Options    map[string]any // initialization options, where they are not the settings
	MemoryMB   int64          // more ends it
}

// Candidate is a program that serves a language.
type Candidate struct {
	Program  string   // a name of PATH, or a path below the worktree
	Args     []string // to serve on standard input and output
	Version  []string // arguments that print the version; nil: it is not asked
	MinMajor int      // of the version
	Needs    string   // a file below the worktree that must exist
}

// node bounds the heap of programs that run in Node.js.
var node = map[string]string{"NODE_OPTIONS": "--max-old-space-size=2048"}

var all = []Language{
	{
		ID: "typescript", Title: "TypeScript",
		Extensions: map[string]string{".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescriptreact", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact"},
		Manifests:  []string{"package.json", "tsconfig.json", "jsconfig.json"},
		Candidates: []Candidate{
			{Program: "node_modules/.bin/tsc", Args: []string{"--lsp", "--stdio"}, Version: []string{"--version"}, MinMajor: 7},
			{Program: "node_modules/.bin/typescript-language-server", Args: []string{"--stdio"}, Version: []string{"--version"}, Needs: "node_modules/typescript/lib/tsserver.js"},
			{Program: "typescript-language-server", Args: []string{"--stdio"}, Version: []string{"--version"}, Needs: "node_modules/typescript/lib/tsserver.js"},
			{Program: "tsc", Args: []string{"--lsp", "--stdio"}, Version: []string{"--version"}, MinMajor: 7},
			{Program: "typescript-language-server", Args: []string{"--stdio"}, Version: []string{"--version"}},
		},
		Install: "add typescript 7 or newer to the project (npm install --save-dev typescript), or typescript and typescript-language-server to the image.",
		Env:     node, MemoryMB: 3072,
		Settings: map[string]any{"typescript": renames, "javascript": renames, "js/ts": renames},
		Options: map[string]any{"hostInfo": "parawork", "maxTsServerMemory": 2048, "disableAutomaticTypingAcquisition": true,
			"preferences": map[string]any{"providePrefixAndSuffixTextForRename": false}},
	},
	{
		ID: "python", Title: "Python", Python: true, Pushes: true, // Pyright does not answer the first question for diagnostics
		Extensions: map[string]string{".py": "python", ".pyi": "python"},
		Manifests:  []string{"pyproject.toml", "pyrightconfig.json", "setup.cfg"},
		Candidates: []Candidate{
			{Program: ".venv/bin/basedpyright-langserver", Args: []string{"--stdio"}},
			{Program: ".venv/bin/pyright-langserver", Args: []string{"--stdio"}},
			{Program: "venv/bin/basedpyright-langserver", Args: []string{"--stdio"}},
			{Program: "venv/bin/pyright-langserver", Args: []string{"--stdio"}},
			{Program: "node_modules/.bin/basedpyright-langserver", Args: []string{"--stdio"}},
			{Program: "node_modules/.bin/pyright-langserver", Args: []string{"--stdio"}},
			{Program: "basedpyright-langserver", Args: []string{"--stdio"}},
			{Program: "pyright-langserver", Args: []string{"--stdio"}},
		},
		Install: "add basedpyright to the project's virtual environment (pip install basedpyright), or to the image.",
		Env:     node, MemoryMB: 3072,
		Settings: map[string]any{
			"python":                map[string]any{"analysis": analysis},
			"python.analysis":       analysis,
			"basedpyright":          map[string]any{"analysis": analysis},
			"basedpyright.analysis": analysis,
		},
	},
	{
		ID: "go", Title: "Go",
		Extensions: map[string]string{".go": "go"},
		Manifests:  []string{"go.mod", "go.sum", "go.work"},
		Candidates: []Candidate{
			{Program: "gopls", Args: []string{"serve"}, Version: []string{"version"}},
		},
		Install: "install gopls (go install golang.org/x/tools/gopls@latest), or add it to the image.",
		Env:     map[string]string{"GOMEMLIMIT": "2GiB"}, MemoryMB: 3072,
		Settings: map[string]any{"gopls": map[string]any{"pullDiagnostics": true, "semanticTokens": false}},
		Options:  map[string]any{"pullDiagnostics": true, "semanticTokens": false},
	},
	{
		ID: "rust", Title: "Rust",
		Extensions: map[string]string{".rs": "rust"},
		Manifests:  []string{"Cargo.toml", "Cargo.lock"},
		Candidates: []Candidate{
			{Program: "rust-analyzer", Version: []string{"--version"}},
		},
		Install:  "install rust-analyzer (rustup component add rust-analyzer), or add it to the image.",
		MemoryMB: 4096,
		Settings: map[string]any{"rust-analyzer": rust},
		Options:  rust,
	},
}

// renames has TypeScript rename a symbol everywhere instead of importing it under another name.
var renames = map[string]any{"preferences": map[string]any{"useAliasesForRenames": false}}

// analysis keeps Pyright to the files that are open: a whole project's diagnostics would be a flood.
var analysis = map[string]any{"diagnosticMode": "openFilesOnly", "autoSearchPaths": true, "useLibraryCodeForTypes": true}

// rust keeps rust-analyzer small: no warm-up of all crates, no cargo check after each change, no macros run ahead.
var rust = map[string]any{
	"cachePriming": map[string]any{"enable": false}, "checkOnSave": false, "lru": map[string]any{"capacity": 64}, "numThreads": 2,
	"cargo": map[string]any{"buildScripts": map[string]any{"enable": false}}, "procMacro": map[string]any{"enable": false},
}

// All returns the languages, in the order in which they are shown.
func All() []Language { return slices.Clone(all) }

// ByID returns a language.
func ByID(id string) (Language, bool) {
	i := slices.IndexFunc(all, func(l Language) bool { return l.ID == id })
	if i < 0 {
		return Language{}, false
	}
	return all[i], true
}

// Of returns the language of a file.
func Of(file string) (Language, bool) {
	ext := strings.ToLower(path.Ext(file))
	for _, l := range all {
		if l.Extensions[ext] != "" {
			return l, true
		}
	}
	return Language{}, false
}

// DocumentID returns the protocol's language id of a file.
func (l Language) DocumentID(file string) string {
	return l.Extensions[strings.ToLower(path.Ext(file))]
}

// Watches reports whether the server hears of changes of a file.
func (l Language) Watches(file string) bool {
	return l.DocumentID(file) != "" || slices.Contains(l.Manifests, path.Base(file))
}

// Found is what a sandbox has for a language.
type Found struct {
	Program     string // of the candidate that is to be started; "" = none
	Args        []string
	Version     string // in its own words
	Interpreter string // of Python, below the worktree
}

// Path is a line of a shell script that adds the folders where people's own programs are.
const Path = `PATH="$PATH:${GOPATH:-$HOME/go}/bin:$HOME/.cargo/bin:$HOME/.local/bin:/usr/local/go/bin"` + "\n"

// separator begins each line that the probe prints for us: programs print what they like.
const separator = "parawork-probe"

// interpreters are those of virtual environments.
var interpreters = []string{".venv/bin/python", "venv/bin/python"}

// Probe returns a shell script, to be run in the worktree, whose output Read understands. It looks for every candidate.
func (l Language) Probe() string {
	var b strings.Builder
	b.WriteString(Path)
	for i, c := range l.Candidates {
		if c.Needs != "" {
			b.WriteString("[ -e " + c.Needs + " ] && ")
		}
		b.WriteString("p=$(command -v " + pathOf(c.Program) + ") && ")
		if c.Version == nil {
			b.WriteString("v=")
		} else {
			b.WriteString("v=$(\"$p\" " + strings.Join(c.Version, " ") + " 2>/dev/null </dev/null | head -n 1; )")
		}
		b.WriteString(" && printf '" + separator + "\\t%s\\t%s\\t%s\\n' " + strconv.Itoa(i) + " \"$p\" \"$v\"\n")
	}
	if l.Python {
		for _, p := range interpreters {
			b.WriteString("[ -x " + p + " ] && printf '" + separator + "\\tpython\\t%s\\t\\n' " + p + "\n")
		}
	}
	b.WriteString("exit 0\n")
	return b.String()
}

// pathOf makes a path below the worktree one that the shell does not look for in PATH.
func pathOf(program string) string {
	if strings.Contains(program, "/") {
		return "./" + program
	}
	return program
}

var versionNumber = regexp.MustCompile(`(\d+)\.\d+`)

// Read returns what a Probe found.
func (l Language) Read(output []byte) Found {
	var found Found
	best := len(l.Candidates)
	for line := range strings.Lines(string(output)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 4 || f[0] != separator || len(f[2]) > 4096 {
			continue
		}
		if f[1] == "python" {
			if found.Interpreter == "" {
				found.Interpreter = f[2]
			}
			continue
		}
		i, err := strconv.Atoi(f[1])
		if err != nil || i < 0 || i >= best {
			continue
		}
		c := l.Candidates[i]
		m := versionNumber.FindStringSubmatch(f[3])
		if c.Version != nil && m == nil { // such as a stub of rustup that has no component
			continue
		}
		if major := 0; c.MinMajor > 0 {
			if major, _ = strconv.Atoi(m[1]); major < c.MinMajor {
				continue
			}
		}
		best, found.Program, found.Args, found.Version = i, f[2], c.Args, f[3][:min(len(f[3]), 100)]
	}
	return found
}

// Section returns the settings of a section as the server asks for them; nil when there are none.
func (l Language) Section(section string, found Found) any {
	if section == "" {
		return l.Settings
	}
	value := l.Settings[section]
	if l.Python && section == "python" && found.Interpreter != "" {
		return map[string]any{"analysis": analysis, "pythonPath": found.Interpreter}
	}
	return value
}

// InitializationOptions returns them as JSON.
func (l Language) InitializationOptions() json.RawMessage {
	if l.Options == nil {
		return nil
	}
	raw, err := json.Marshal(l.Options)
	if err != nil {
		panic(err) // a table of constants
	}
	return raw
}
