package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Set is a choice of parts that an image may have beside what every image has.
type Set struct {
	Name   string // as --with and the API take it
	Title  string // what people read
	SizeMB int    // what it adds to an image: docs/images.md says how it was measured
}

var sets = []Set{
	{"code", "IPython, figures and tables for run_code", 440},
	{"lsp", "Language servers for TypeScript, JavaScript and Python", 50},
	{"browser", "Chromium with fonts for the browser tools", 720},
	{"desktop", "Xvnc and openbox for the desktop tools", 360},
}

// Sets lists all sets, in the order in which they are installed.
func Sets() []Set { return slices.Clone(sets) }

// CheckSets refuses names that are none of a set's.
func CheckSets(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(sets, func(s Set) bool { return s.Name == name }) {
			return fmt.Errorf("there are no parts %q: choose among %s", name, strings.Join(SetNames(), ", "))
		}
	}
	return nil
}

// SetNames are the names of all sets.
func SetNames() []string {
	out := make([]string, len(sets))
	for i, s := range sets {
		out[i] = s.Name
	}
	return out
}

// SplitSets reads names separated by commas.
func SplitSets(list string) ([]string, error) {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return names, CheckSets(names)
}

// Part is what tools for agents and people need in an image, or on the server where sandboxes run the server's programs.
type Part struct {
	Name      string   // what it is for, as people call it
	Set       string   // the set it belongs to; "" = every image has it
	Programs  []string // one of them must be in PATH
	Modules   []string // all of them must be there for python3
	Apt       []string // Debian's packages
	NPM       []string // packages of npm, with their versions
	Toolchain string   // the program that installs it where no package manager has it. Without it an image does not get this part
	Else      string   // how that program is called
	ForAll    string   // likewise in an image, where everybody must find what it installs; "" = Else
}

const gopls = "golang.org/x/tools/gopls@v0.22.0"

// parts are all parts. Their versions are those the tools were tried with.
var parts = []Part{
	{Name: "Python (run_code)", Programs: []string{"python3"}, Apt: []string{"python3"}},
	{Name: "JavaScript (run_code)", Programs: []string{"node"}, Apt: []string{"nodejs", "npm"}},
	{Name: "search (ripgrep)", Programs: []string{"rg"}, Apt: []string{"ripgrep"}},
	{Name: "IPython, figures and tables (run_code)", Set: "code", Modules: []string{"IPython", "matplotlib", "pandas"},
		Apt: []string{"python3-ipython", "python3-matplotlib", "python3-munkres", "python3-pandas"}}, // munkres spares 600 MB of scipy, which apt takes otherwise
	{Name: "TypeScript's language server", Set: "lsp", Programs: []string{"typescript-language-server", "tsc"}, NPM: []string{"typescript@7.0.2"}},
	{Name: "Python's language server", Set: "lsp", Programs: []string{"basedpyright-langserver", "pyright-langserver"}, NPM: []string{"pyright@1.1.414"}},
	{Name: "Go's language server", Set: "lsp", Programs: []string{"gopls"}, Toolchain: "go", Else: "go install " + gopls,
		ForAll: "GOBIN=/usr/local/bin GOPATH=/tmp/go GOCACHE=/tmp/go/cache GOFLAGS=-modcacherw go install " + gopls + " && rm -rf /tmp/go"},
	{Name: "Rust's language server", Set: "lsp", Programs: []string{"rust-analyzer"}, Toolchain: "rustup", Else: "rustup component add rust-analyzer rust-src"},
	{Name: "the browser", Set: "browser", Programs: []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "chrome-headless-shell"},
		Apt: []string{"chromium", "fonts-dejavu-core", "fonts-liberation", "fonts-noto-color-emoji"}},
	{Name: "the desktop", Set: "desktop", Programs: []string{"Xvnc", "Xtigervnc"}, Apt: []string{"tigervnc-standalone-server"}},
	{Name: "the desktop's windows", Set: "desktop", Programs: []string{"openbox"}, Apt: []string{"openbox", "fonts-dejavu-core"}},
}

// Parts lists all parts.
func Parts() []Part { return slices.Clone(parts) }

// PartsOf lists the parts of some sets, and those that every image has.
func PartsOf(names []string) []Part {
	return slices.DeleteFunc(Parts(), func(p Part) bool { return p.Set != "" && !slices.Contains(names, p.Set) })
}

// Install is the command that installs parts on Debian and Ubuntu; "" where no package manager has any of them.
func Install(missing []Part) string {
	var commands []string
	apt, npm := packagesOf(missing)
	if len(apt) > 0 {
		commands = append(commands, "apt-get install -y --no-install-recommends "+strings.Join(apt, " "))
	}
	if len(npm) > 0 {
		commands = append(commands, "npm install --global "+strings.Join(npm, " "))
	}
	for _, p := range missing {
		if p.Else != "" {
			commands = append(commands, p.Else)
		}
	}
	return strings.Join(commands, " && ")
}

// packagesOf are the packages of parts, each once.
func packagesOf(list []Part) (apt, npm []string) {
	for _, p := range list {
		apt = append(apt, p.Apt...)
		npm = append(npm, p.NPM...)
	}
	slices.Sort(apt)
	slices.Sort(npm)
	return slices.Compact(apt), slices.Compact(npm)
}

// setCommand is what root runs in an image with Node to install a set, in one layer. It fails unless everything is there afterwards.
func setCommand(name string) string {
	mine := slices.DeleteFunc(Parts(), func(p Part) bool { return p.Set != name })
	var commands []string
	apt, npm := packagesOf(mine)
	if len(apt) > 0 {
		commands = append(commands, aptInstall(apt))
	}
	if len(npm) > 0 {
		commands = append(commands, npmInstall(npm))
	}
	for _, p := range mine {
		if p.Toolchain != "" {
			commands = append(commands, "if command -v "+p.Toolchain+" >/dev/null; then "+cmp.Or(p.ForAll, p.Else)+"; fi")
			continue
		}
		if len(p.Programs) > 0 {
			commands = append(commands, "{ command -v "+strings.Join(p.Programs, " || command -v ")+"; } >/dev/null")
		}
		if len(p.Modules) > 0 { // a Python that is not Debian's does not see Debian's modules
			commands = append(commands, "{ python3 -c 'import "+strings.Join(p.Modules, ", ")+"' || python3 -m pip install --no-cache-dir "+strings.Join(p.Modules, " ")+"; }")
		}
	}
	return strings.Join(commands, " && ")
}

// installFile is InstallScript in the context of a build to which Added belongs.
const installFile = ".parawork.install.sh"

// Added is what installs sets at the end of a Dockerfile of somebody else's, and the files that the context of its build must have.
func Added(names []string) (text string, files map[string]string) {
	if len(names) == 0 {
		return "", nil
	}
	var b strings.Builder
	b.WriteString("USER 0:0\nRUN command -v apt-get >/dev/null || { echo 'parawork: the parts are packages of Debian and Ubuntu, and this image has no apt-get'; exit 1; }\n")
	fmt.Fprintf(&b, "COPY %s %s/install.sh\nRUN sh %s/install.sh node\n", installFile, InstallDir, InstallDir)
	for _, s := range sets {
		if slices.Contains(names, s.Name) {
			b.WriteString("RUN " + setCommand(s.Name) + "\n")
		}
	}
	return b.String(), map[string]string{installFile: InstallScript}
}
