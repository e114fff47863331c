// Package cli is the command line over tools: it reads words as a call of a tool, calls it, and formats the answer. It has no code
// for any single tool; all it knows comes from their specs. Files and streams are its caller's.
//
// It starts no goroutine and holds no lock.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/tools"
)

// Program is the command's own name.
const Program = "parawork"

// How a command exits.
const (
	Done   = 0
	Failed = 1 // refused or failed
	Usage  = 2 // the command line is wrong
)

// Input is what a program was started with.
type Input struct {
	Argv  []string // without the program's own name
	Dir   string   // the folder it was started in, absolute
	Stdin []byte   // what a lone "-" stands for
	// Off are the tools of groups that are switched off: a call of one fails with that reason.
	Off []tools.Spec
}

// Call calls a tool by its name.
type Call func(ctx context.Context, name string, args json.RawMessage) (tools.Result, error)

// Run runs one command line: a call of one of the specs' tools, or help.
func Run(ctx context.Context, in Input, specs []tools.Spec, call Call) (exit int, stdout, stderr string) {
	asJSON := has(in.Argv, "--json")
	r := runner{in: in, specs: specs}
	words, flags, err := r.split()
	if err != nil {
		return r.fail(Usage, asJSON, err)
	}
	if len(words) == 0 || len(words) == 1 && words[0] == "help" && len(flags.rest) == 0 {
		if len(flags.rest) > 0 {
			return r.fail(Usage, asJSON, usage("", "%s comes before a command, and only --json and --help may.", flags.rest[0]))
		}
		return Done, Overview(specs), ""
	}
	if words[0] == "help" {
		words, flags.help = words[1:], true
	}
	if words[0] == "skill" && len(words) == 1 && !flags.help {
		return Done, Skill(specs), ""
	}
	spec, used, ok := find(specs, words)
	if !ok {
		if below := under(specs, words); len(below) > 0 {
			if flags.help {
				return Done, verbs(below), ""
			}
			return r.fail(Usage, asJSON, usage("", "%q is not a whole command. There are:\n%s", strings.Join(words, " "), strings.TrimRight(verbs(below), "\n")))
		}
		return r.fail(Usage, asJSON, r.unknown(words))
	}
	f, err := formOf(spec)
	if err != nil {
		return r.fail(Failed, asJSON, err)
	}
	if flags.help || has(in.Argv, "--help") {
		return Done, f.help(), ""
	}
	args, err := f.parse(in, slices.Concat(words[used:], flags.rest))
	if err != nil {
		return r.fail(Usage, asJSON, err)
	}
	result, err := call(ctx, spec.Name, args)
	if err != nil {
		exit := Failed
		p := tools.ProblemOf(err)
		if p.Code == "tool_arguments_invalid" {
			exit = Usage
			p.Message += " " + seeHelp(f.verb)
		}
		return exit, "", problem(asJSON, p)
	}
	return show(result, asJSON)
}

// Refuse formats an error that came before a command line could be run.
func Refuse(argv []string, err error) (exit int, stdout, stderr string) {
	return Failed, "", problem(has(argv, "--json"), tools.ProblemOf(err))
}

// always are the options that may stand before a command.
var always = []string{"--json", "--help", "-h"}

// runner is one run.
type runner struct {
	in    Input
	specs []tools.Spec
}

// flags are the options before and after the first words.
type flags struct {
	help bool
	rest []string // from the first option after the words on
}

// split separates the words that name the command from the options. Options of all commands may stand before it.
func (r runner) split() (words []string, f flags, err error) {
	for _, a := range r.in.Argv {
		if !utf8.ValidString(a) || strings.IndexByte(a, 0) >= 0 {
			return nil, f, usage("", "An argument is not UTF-8 text.")
		}
	}
	args := r.in.Argv
	for ; len(args) > 0 && slices.Contains(always, args[0]); args = args[1:] {
		f.help = f.help || args[0] != "--json"
	}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		words, args = append(words, args[0]), args[1:]
	}
	f.rest = args
	if len(words) > 0 && len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
		f.help = true
	}
	return words, f, nil
}

// has reports whether an option is given before a lone "--".
func has(argv []string, option string) bool {
	if i := slices.Index(argv, "--"); i >= 0 {
		argv = argv[:i]
	}
	return slices.Contains(argv, option)
}

// find returns the tool that the words begin with, the longest name first, and how many words its name has.
func find(specs []tools.Spec, words []string) (spec tools.Spec, used int, ok bool) {
	for n := min(len(words), 16); n > 0; n-- {
		name := nameOf(words[:n])
		for _, s := range specs {
			if s.Name == name {
				return s, n, true
			}
		}
	}
	return tools.Spec{}, 0, false
}

// under returns the tools whose names begin with the words.
func under(specs []tools.Spec, words []string) (below []tools.Spec) {
	prefix := nameOf(words) + "_"
	for _, s := range specs {
		if strings.HasPrefix(s.Name, prefix) {
			below = append(below, s)
		}
	}
	return below
}

func nameOf(words []string) string {
	return strings.ReplaceAll(strings.Join(words, "_"), "-", "_")
}

func verbOf(name string) string { return strings.ReplaceAll(name, "_", " ") }

// unknown says why there is no such command.
func (r runner) unknown(words []string) error {
	if s, _, ok := find(r.in.Off, words); ok {
		return usage("", "%s is switched off: the project's settings do not include the group %s. An admin of the team can switch it on there.", verbOf(s.Name), s.Group)
	}
	if below := under(r.in.Off, words); len(below) > 0 {
		return usage("", "%s is switched off: the project's settings do not include the group %s. An admin of the team can switch it on there.", shorten(strings.Join(words, " ")), below[0].Group)
	}
	if below := under(r.specs, words[:1]); len(below) > 0 {
		return usage("", "There is no command %q. Of %s there are:\n%s", shorten(strings.Join(words, " ")), words[0], strings.TrimRight(verbs(below), "\n"))
	}
	return usage("", "There is no command %q.", shorten(strings.Join(words, " ")))
}

// usageError is a wrong command line.
type usageError struct{ verb, text string }

func (e *usageError) Error() string { return e.text }

// usage makes a usageError about a command; "" = about none.
func usage(verb, format string, args ...any) error {
	return &usageError{verb, fmt.Sprintf(format, args...)}
}

func seeHelp(verb string) string {
	return "See: " + strings.TrimSpace(Program+" "+verb) + " --help"
}

func (r runner) fail(exit int, asJSON bool, err error) (int, string, string) {
	p := tools.ProblemOf(err)
	if u, ok := err.(*usageError); ok { //nolint:errorlint // made here, never wrapped
		sep := " "
		if strings.Contains(u.text, "\n") {
			sep = "\n"
		}
		p = tools.Problem{Code: "command_usage", Message: u.text + sep + seeHelp(u.verb)}
	}
	return exit, "", problem(asJSON, p)
}

// problem formats an error for standard error.
func problem(asJSON bool, p tools.Problem) string {
	if asJSON {
		return document(p)
	}
	text := p.Code + ": " + p.Message + "\n"
	if len(p.Details) > 0 {
		text += "details: " + document(p.Details)
	}
	return text
}

// document formats one JSON document.
func document(v any) string {
	raw, err := json.Marshal(v)
	if err != nil { // details that are no JSON
		raw, _ = json.Marshal(tools.Problem{Code: "internal", Message: "The answer cannot be shown as JSON: " + err.Error()})
	}
	return string(raw) + "\n"
}

// part is a part of a result's content as the HTTP API shows it.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MIMEType string `json:"mime_type,omitempty"`
	Data     []byte `json:"data,omitempty"`
}

// show formats the answer of a tool.
func show(r tools.Result, asJSON bool) (exit int, stdout, stderr string) {
	var text strings.Builder
	parts := make([]part, len(r.Content))
	for i, c := range r.Content {
		parts[i] = part{Type: "text", Text: c.Text}
		if c.MIME != "" {
			parts[i] = part{Type: "data", MIMEType: c.MIME, Data: c.Data}
			fmt.Fprintf(&text, "[%s, %d bytes: --json has them]\n", c.MIME, len(c.Data))
			continue
		}
		text.WriteString(c.Text)
		if c.Text != "" && !strings.HasSuffix(c.Text, "\n") {
			text.WriteByte('\n')
		}
	}
	exit, stdout = Done, text.String()
	switch {
	case len(r.Structured) > 0 && (asJSON || len(r.Content) == 0):
		stdout = strings.TrimRight(string(r.Structured), "\n") + "\n"
	case asJSON:
		stdout = document(map[string]any{"content": parts, "is_error": r.IsError, "truncated": r.Truncated})
	}
	if r.IsError {
		exit = Failed
		if asJSON {
			stderr = document(tools.Problem{Code: "tool_work_failed", Message: shorten(strings.TrimSpace(text.String()))})
		}
	}
	return exit, stdout, stderr
}

// shorten cuts a text that is repeated in a message.
func shorten(s string) string {
	const most = 2000
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
