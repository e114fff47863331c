package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/tools"
)

const footer = `Every command takes --json (one JSON document) and --help. Where --help says so, "-" reads a text from standard input.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage. Errors are on standard error.
`

// Overview lists all commands by group, with a line each.
func Overview(specs []tools.Spec) string {
	var b strings.Builder
	b.WriteString("Usage: " + Program + " COMMAND [ARGUMENTS]\n")
	for _, g := range tools.Groups() {
		of := inGroup(specs, g.Name)
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n%s", g.Title, g.Description, verbs(of))
	}
	b.WriteString("\n" + footer + Program + " skill prints instructions for coding agents.\n")
	return b.String()
}

func inGroup(specs []tools.Spec, group string) (of []tools.Spec) {
	for _, s := range specs {
		if s.Group == group {
			of = append(of, s)
		}
	}
	return of
}

// verbs lists commands with a line each.
func verbs(specs []tools.Spec) string {
	var b strings.Builder
	for _, s := range specs {
		fmt.Fprintf(&b, "  %-22s %s\n", verbOf(s.Name), s.Title)
	}
	return b.String()
}

// usage is the command in one line.
func (f form) usage() string {
	line := Program + " " + f.verb
	for i, name := range f.spec.Command.Positional {
		a, _ := f.field(name)
		word := placeholder(name)
		if a.kind == "array" && i == len(f.spec.Command.Positional)-1 {
			word += "..."
		}
		if !a.required {
			word = "[" + word + "]"
		}
		line += " " + word
	}
	for _, a := range f.fields {
		if a.required && !slices.Contains(f.spec.Command.Positional, a.name) {
			line += " " + a.option() + a.valueName()
		}
	}
	if slices.ContainsFunc(f.fields, func(a field) bool { return !a.required && !slices.Contains(f.spec.Command.Positional, a.name) }) {
		line += " [OPTIONS]"
	}
	return line
}

// valueName shows what an option takes.
func (a field) valueName() string {
	switch {
	case a.kind == "boolean":
		return ""
	case a.kind == "array" && a.item == "integer":
		return " N,..."
	case a.kind == "array":
		return " A,B,..."
	case a.kind == "object" && a.item != "":
		return " NAME=VALUE"
	case a.kind == "object":
		return " JSON"
	case a.kind == "integer", a.kind == "number":
		return " N"
	}
	return " TEXT"
}

// help describes the command and each of its arguments.
func (f form) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n\n%s\n", f.usage(), f.spec.Description)
	if len(f.fields) > 0 {
		b.WriteString("\n")
	}
	for _, name := range f.spec.Command.Positional {
		if a, ok := f.field(name); ok {
			f.line(&b, placeholder(name), a)
		}
	}
	for _, a := range f.fields {
		if !slices.Contains(f.spec.Command.Positional, a.name) {
			f.line(&b, a.option()+a.valueName(), a)
		}
	}
	fmt.Fprintf(&b, "  %-24s Print the result as one JSON document.\n", "--json")
	return b.String()
}

func (f form) line(b *strings.Builder, name string, a field) {
	about := a.about
	if a.required {
		about += " Required."
	}
	if len(a.enum) > 0 {
		about += " One of: " + strings.Join(a.enum, ", ") + "."
	}
	if a.initial != "" && a.kind != "boolean" {
		about += " Default: " + a.initial + "."
	}
	if a.kind == "boolean" && a.initial == "true" {
		about += " On unless --no-" + a.option()[2:] + " is given."
	}
	if f.spec.Command.Stdin == a.name {
		about += ` "-" reads it from standard input.`
	}
	fmt.Fprintf(b, "  %-24s %s\n", name, strings.TrimSpace(about))
}

// Skill is a file of instructions for coding agents about the commands, in Markdown with the head that skills have.
func Skill(specs []tools.Spec) string {
	var titles []string
	var b strings.Builder
	for _, g := range tools.Groups() {
		of := inGroup(specs, g.Name)
		if len(of) == 0 {
			continue
		}
		titles = append(titles, strings.ToLower(g.Title))
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", g.Title, g.Description)
		for _, s := range of {
			f, err := formOf(s)
			if err != nil {
				continue
			}
			fmt.Fprintf(&b, "- `%s`: %s\n", f.usage(), firstSentence(s.Description))
		}
	}
	about := "Parawork's tools for this project as shell commands"
	if len(titles) > 0 {
		about += " (" + strings.Join(titles, ", ") + ")"
	}
	head := "---\nname: " + Program + "\ndescription: \"" + about + ". Use them to plan and record work that people and other agents see.\"\n---\n\n" +
		"# Parawork\n\nYou work in a sandbox of Parawork, which runs coding agents for a team. The command `" + Program + "` reaches the team's server. " +
		"It needs no login: it acts for the person who started this session.\n\n" +
		"- `" + Program + " --help` lists the commands; `" + Program + " COMMAND --help` says what one takes and answers. Read that before the first use of a command.\n" +
		"- `--json` prints the result as one JSON document for scripts, such as `" + Program + " COMMAND --json | jq .id`.\n" +
		"- A long text goes to standard input: `" + Program + " COMMAND - < FILE`, where the help says so.\n" +
		"- Exit code 0 is done, 1 refused or failed, 2 a wrong command line. The error says what to do; do not repeat the same call.\n"
	return head + b.String()
}

// firstSentence returns the beginning of a description.
func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}
