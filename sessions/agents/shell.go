package agents

import (
	"os"
	"path/filepath"
	"strings"
)

// Shell is the name of a person's shell.
const Shell = "shell"

// shell is a person's shell next to the agent.
type shell struct{}

func (shell) facts() facts {
	command := "/bin/sh"
	for _, c := range []string{"/bin/bash", "/usr/bin/bash", "/bin/zsh"} {
		if _, err := os.Stat(c); err == nil {
			command = c
			break
		}
	}
	return facts{agent: Shell, name: "Shell", command: command}
}

// A prompt for a shell is a command to type.
func (shell) plan(l Launch) (Plan, error) {
	p := Plan{Argv: append(append([]string{l.program}, l.args...), l.Args...), Prompt: PromptNone}
	if l.Inside != nil && !l.Inside.Host && l.program == filepath.Base(shell{}.facts().command) { // not every image has bash
		p.Argv = append([]string{"/bin/sh", "-c", `command -v bash >/dev/null && exec bash "$@"; exec sh "$@"`, "sh"}, p.Argv[1:]...)
	}
	if l.Prompt != "" {
		p.Prompt = PromptPaste
	}
	return p, nil
}

func (shell) read(s Signal) Hint {
	if s.Kind == Title {
		return Hint{Title: s.Text, HasTitle: true}
	}
	return Hint{}
}

// setupArgv runs a script in the worktree without leaving a file in it. A script that names its interpreter must briefly be a
// file: it is put into the private temp folder.
func setupArgv(script string) []string {
	if strings.HasPrefix(script, "#!") {
		return []string{"/bin/sh", "-c",
			`f=$(mktemp) || exit 1; trap 'rm -f "$f"' EXIT; printf '%s\n' "$1" >"$f" && chmod 700 "$f" && "$f"`, "setup", script}
	}
	return []string{"/bin/sh", "-e", "-c", script, "setup"}
}
