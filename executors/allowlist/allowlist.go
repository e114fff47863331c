// Package allowlist decides which programs a command may start: the command is an argv, or a line for the shell, which is parsed, and
// every program in it must be on the list. It guards commands that people, scripts and tools run on the server itself. It is no
// sandbox: an allowed program, above all an interpreter, does what its arguments say.
package allowlist

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
)

// Bounds of a list.
const (
	MaxEntries = 500
	MaxEntry   = 256 // bytes
)

// List holds the allowed programs. It does not change. Safe for concurrent use.
type List struct {
	entries map[string]bool // as written: names, and absolute paths
	files   map[file]bool   // the files that they are
	look    func(program string) (string, error)
}

// file is a program's file with links resolved, and the name by which it was found: one file may be many programs, as BusyBox is.
type file struct{ path, name string }

// New returns a List. An entry is the name of a program, looked up as a command would be, or an absolute path. look finds a program in
// the PATH that commands get; it is exec.LookPath outside tests.
func New(entries []string, look func(program string) (string, error)) (*List, error) {
	if err := CheckEntries(entries); err != nil {
		return nil, err
	}
	l := &List{entries: map[string]bool{}, files: map[file]bool{}, look: look}
	for _, e := range entries {
		l.entries[e] = true
		if f, err := l.file(e); err == nil {
			l.files[f] = true
		}
	}
	return l, nil
}

// CheckEntries rejects entries that cannot be in a List.
func CheckEntries(entries []string) error {
	if len(entries) > MaxEntries {
		return fault.New(fault.Invalid, "invalid_allowed_commands", "At most %d commands can be allowed.", MaxEntries)
	}
	for _, e := range entries {
		if why := Wrong(e); why != "" {
			return fault.New(fault.Invalid, "invalid_allowed_commands", "%q cannot be an allowed command: %s.", safetext.Cut(safetext.Line(e), 60), why)
		}
	}
	return nil
}

// Wrong says why an entry is refused; "" when it is not.
func Wrong(e string) string {
	switch {
	case e == "" || len(e) > MaxEntry:
		return fmt.Sprintf("it must have 1 to %d bytes", MaxEntry)
	case strings.ContainsAny(e, " \t\r\n\x00;&|<>()$`\"'*?[]{}"):
		return "it must be one program, without arguments"
	case strings.Contains(e, "/") && (!filepath.IsAbs(e) || filepath.Clean(e) != e):
		return "with a slash it must be an absolute path"
	}
	return ""
}

// file finds a program's file.
func (l *List) file(program string) (file, error) {
	path, err := l.look(program)
	if err != nil {
		return file{}, err
	}
	if !filepath.IsAbs(path) {
		return file{}, fmt.Errorf("%s is found below the current folder", program)
	}
	resolved, err := filepath.EvalSymlinks(path)
	return file{resolved, filepath.Base(path)}, err
}

// Command is what is to be run: exactly one of Argv and Line is set.
type Command struct {
	Argv []string
	Line string // for /bin/sh
	Dir  string // absolute: where it runs
	Env  map[string]string
}

// steering are variables that decide which program or code a name stands for.
var steering = []string{"PATH", "IFS", "ENV", "BASH_ENV", "GCONV_PATH", "SHELLOPTS", "BASHOPTS", "CDPATH", "HASH", "PS1", "PS2", "PS4", "PROMPT_COMMAND"}

// steers reports whether a variable is one of them, or one of the dynamic loader's, or a function that a shell is to have.
func steers(name string) bool {
	return slices.Contains(steering, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || strings.HasPrefix(name, "BASH_FUNC_")
}

// Check returns nil when every program of the command is allowed. Otherwise it returns the fault command_not_allowed, with the detail
// "program" where allowing one program would help.
func (l *List) Check(c Command) error {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if steers(name) {
			return refused("", "The command was not started: it sets %s, which would decide what its programs are. Leave that variable out.", name)
		}
	}
	if c.Line == "" {
		if len(c.Argv) == 0 {
			return nil // refused as no command
		}
		return l.program(c.Argv[0], c.Dir)
	}
	return l.line(c.Line, c.Dir)
}

// program checks one program by its name or path.
func (l *List) program(name, dir string) error {
	wanted := name
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		wanted = filepath.Join(dir, name)
	}
	if l.entries[wanted] && !strings.Contains(wanted, "/") {
		return nil // a name stands for whatever PATH says, which commands cannot change
	}
	if f, err := l.file(wanted); err == nil && l.files[f] {
		return nil
	}
	return refused(name, "The command was not started: %s is not among the commands that may run on this server.", safetext.Cut(safetext.Line(name), 100))
}

func refused(program, format string, args ...any) error {
	err := fault.New(fault.Forbidden, "command_not_allowed", format, args...)
	if program != "" && Wrong(program) == "" {
		err = err.With("program", program)
	}
	return err
}

// harmless are the shell's own commands that start no program and run no text as commands.
var harmless = map[string]bool{":": true, "[": true, "break": true, "cd": true, "continue": true, "echo": true, "exit": true, "false": true, "kill": true,
	"printf": true, "pwd": true, "return": true, "set": true, "shift": true, "test": true, "times": true, "true": true, "type": true, "ulimit": true, "umask": true, "wait": true}

// assigning are those that set the variables that they are given by name.
var assigning = map[string]bool{"export": true, "readonly": true, "local": true, "read": true, "unset": true}

// evaluating are commands of shells that run text or programs that their arguments name. No function may have such a name: where the
// function is not defined yet, or not any more, the shell's own command runs.
var evaluating = map[string]bool{".": true, "alias": true, "bind": true, "builtin": true, "command": true, "complete": true, "compgen": true, "coproc": true, "declare": true, "enable": true, "eval": true,
	"exec": true, "fc": true, "function": true, "getopts": true, "hash": true, "let": true, "mapfile": true, "readarray": true, "select": true, "source": true, "time": true, "trap": true, "typeset": true}

// line checks every command of a line for the shell, also those in substitutions, functions and loops.
func (l *List) line(text, dir string) error {
	if strings.ContainsRune(text, 0) {
		return refused("", "The command was not started: it has a NUL character.")
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return refused("", "The command was not started: it cannot be read as a line for the shell, so its programs are unknown (%s).", safetext.Cut(safetext.Line(err.Error()), 200))
	}
	defined, moved := map[string]bool{}, false
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == "cd" {
			moved = true
		}
		if fn, ok := n.(*syntax.FuncDecl); ok && fn.Name != nil {
			name := fn.Name.Value
			if _, err := l.look(name); err != nil && !evaluating[name] { // a program of that name would run where the function is not defined
				defined[name] = true
			}
		}
		return true
	})
	var found error
	syntax.Walk(f, func(n syntax.Node) bool {
		if found != nil {
			return false
		}
		switch n := n.(type) {
		case *syntax.Word:
			if dollarQuoted(n) {
				found = refused("", "The command was not started: shells read $'...' differently. Use plain quotes.")
			}
		case *syntax.Assign:
			if n.Name != nil {
				found = sets(n.Name.Value)
			}
		case *syntax.WordIter: // of a for loop
			found = sets(n.Name.Value)
		case *syntax.ParamExp: // ${NAME:=value}
			if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				found = sets(n.Param.Value)
			}
		case *syntax.ArithmExp:
			found = refused("", "The command was not started: it calculates with $((...)), which may set any variable and, in some shells, run programs.")
		case *syntax.CallExpr:
			found = l.call(n, dir, moved, defined)
		}
		return found == nil
	})
	return found
}

// sets refuses a variable that steers.
func sets(name string) error {
	if !steers(name) {
		return nil
	}
	return refused("", "The command was not started: it sets %s, which would decide what its programs are. Leave that variable out.", name)
}

// call checks one simple command.
func (l *List) call(n *syntax.CallExpr, dir string, moved bool, defined map[string]bool) error {
	if len(n.Args) == 0 {
		return nil // assignments alone
	}
	name := n.Args[0].Lit()
	switch {
	case name == "":
		return refused("", "The command was not started: one of its programs is only known when it runs. Write the program's name as plain text.")
	case harmless[name] && setsByOption(name, n.Args[1:]):
		return refused("", "The command was not started: %s may set a variable or run what a variable says. Leave out its option -v, and begin what it prints with plain text.", name)
	case harmless[name], defined[name]: // the commands of a function are checked where it is defined
		return nil
	case assigning[name]:
		for _, arg := range n.Args[1:] {
			if !plainVariable(arg) {
				return refused("", "The command was not started: %s may set a variable that decides what its programs are.", name)
			}
		}
		return nil
	}
	if moved && strings.Contains(name, "/") && !filepath.IsAbs(name) {
		return refused("", "The command was not started: after cd it is unknown which program %s is. Write its whole path.", safetext.Cut(safetext.Line(name), 100))
	}
	return l.program(name, dir)
}

var variableOrOption = regexp.MustCompile(`^(-[A-Za-z]+|[A-Za-z_][A-Za-z0-9_]*)$`)

// plainVariable reports whether a word is an option, or NAME or NAME= and a value that stays one word, with a plain NAME that steers
// nothing.
func plainVariable(w *syntax.Word) bool {
	first, ok := w.Parts[0].(*syntax.Lit)
	if !ok {
		return false
	}
	variable, _, given := strings.Cut(first.Value, "=")
	if !variableOrOption.MatchString(variable) || steers(variable) || !given && len(w.Parts) > 1 {
		return false
	}
	for _, part := range w.Parts[1:] { // some shells split an unquoted value into words, which are variables again
		switch part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		default:
			return false
		}
	}
	return true
}

// setsByOption reports whether a command of its own may set a variable or evaluate a name: Bash has printf -v, test -v and wait -p.
func setsByOption(name string, args []*syntax.Word) bool {
	switch name {
	case "printf":
		return len(args) > 0 && !beginsPlain(args[0])
	case "test", "[":
		return slices.ContainsFunc(args, func(w *syntax.Word) bool { return w.Lit() == "-v" || w.Lit() == "-R" })
	case "wait":
		return slices.ContainsFunc(args, func(w *syntax.Word) bool { return strings.HasPrefix(w.Lit(), "-") })
	}
	return false
}

// beginsPlain reports whether a word begins with a text that is no option.
func beginsPlain(w *syntax.Word) bool {
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) > 0 {
		part = q.Parts[0]
	}
	var text string
	switch p := part.(type) {
	case *syntax.Lit:
		text = p.Value
	case *syntax.SglQuoted:
		text = p.Value
	}
	return text != "" && text[0] != '-' && !(text[0] == '\\' && len(text) > 1 && text[1] == '-')
}

// dollarQuoted reports whether a word has $'...': some shells read it as one text with escapes, others as a dollar and a text, so the
// rest of the line may be something else than what was parsed.
func dollarQuoted(w *syntax.Word) bool {
	for i, part := range w.Parts[1:] {
		before, ok := w.Parts[i].(*syntax.Lit)
		if _, quoted := part.(*syntax.SglQuoted); quoted && ok && strings.HasSuffix(before.Value, "$") {
			return true
		}
	}
	return false
}
