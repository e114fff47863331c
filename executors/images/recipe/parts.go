package recipe

import (
	"slices"
	"strings"
)

// Part is what tools for agents and people need in an image, or on the server where sandboxes run the server's programs.
type Part struct {
	Name     string   // what it is for, as people call it
	Programs []string // one of them must be in PATH
	Modules  []string // all of them must be there for python3
	Apt      []string // Debian's packages
	NPM      []string // packages of npm, with their versions
	Else     string   // how to install it where no package manager has it
}

// parts are all parts. Their versions are those the tools were tried with.
var parts = []Part{
	{Name: "Python (run_code)", Programs: []string{"python3"}, Apt: []string{"python3"}},
	{Name: "IPython, figures and tables (run_code)", Modules: []string{"IPython", "matplotlib", "pandas"},
		Apt: []string{"python3-ipython", "python3-matplotlib", "python3-pandas"}},
	{Name: "JavaScript (run_code)", Programs: []string{"node"}, Apt: []string{"nodejs", "npm"}},
	{Name: "search (ripgrep)", Programs: []string{"rg"}, Apt: []string{"ripgrep"}},
	{Name: "TypeScript's language server", Programs: []string{"typescript-language-server", "tsc"}, NPM: []string{"typescript@7.0.2"}},
	{Name: "Python's language server", Programs: []string{"basedpyright-langserver", "pyright-langserver"}, NPM: []string{"pyright@1.1.414"}},
	{Name: "Go's language server", Programs: []string{"gopls"}, Else: "go install golang.org/x/tools/gopls@v0.22.0"},
	{Name: "Rust's language server", Programs: []string{"rust-analyzer"}, Else: "rustup component add rust-analyzer rust-src"},
	{Name: "the browser", Programs: []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "chrome-headless-shell"},
		Apt: []string{"chromium", "fonts-dejavu-core", "fonts-liberation", "fonts-noto-color-emoji"}},
	{Name: "the desktop", Programs: []string{"Xvnc", "Xtigervnc"}, Apt: []string{"tigervnc-standalone-server"}},
	{Name: "the desktop's windows", Programs: []string{"openbox"}, Apt: []string{"openbox"}},
}

// Parts lists all parts.
func Parts() []Part { return slices.Clone(parts) }

// Install is the command that installs parts on Debian and Ubuntu; "" where no package manager has any of them.
func Install(missing []Part) string {
	var apt, npm, commands []string
	for _, p := range missing {
		apt = append(apt, p.Apt...)
		npm = append(npm, p.NPM...)
	}
	if len(apt) > 0 {
		commands = append(commands, "apt-get install -y --no-install-recommends "+strings.Join(unique(apt), " "))
	}
	if len(npm) > 0 {
		commands = append(commands, "npm install --global "+strings.Join(unique(npm), " "))
	}
	for _, p := range missing {
		if p.Else != "" {
			commands = append(commands, p.Else)
		}
	}
	return strings.Join(commands, " && ")
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
