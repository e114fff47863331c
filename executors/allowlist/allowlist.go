// Package allowlist decides which programs a command may start: the command is an argv, or a line for the shell, which is parsed, and
// every program in it must be on the list. It guards commands that people, scripts and tools run on the server itself. It is no
// sandbox: an allowed program, above all an interpreter, does what its arguments say.
package allowlist

import (
	"fmt"
	"maps"
	"path/filepath"
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
	files   map[string]bool // the files that they are, with links resolved
	look    func(program string) (string, error)
}

// New returns a List. An entry is the name of a program, looked up as a command would be, or an absolute path. look finds a program in
// the PATH that commands get; it is exec.LookPath outside tests.
func New(entries []string, look func(program string) (string, error)) (*List, error) {
	if err := CheckEntries(entries); err != nil {
		return nil, err
	}
	l := &List{entries: map[string]bool{}, files: map[string]bool{}, look: look}
	for _, e := range entries {
		l.entries[e] = true
		if file, err := l.file(e); err == nil {
			l.files[file] = true
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

// file is the program's file with links resolved.
func (l *List) file(program string) (string, error) {
	path, err := l.look(program)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is found below the current folder", program)
	}
	return filepath.EvalSymlinks(path)
}

// Command is what is to be run: exactly one of Argv and Line is set.
type Command struct {
	Argv []string
	Line string // for /bin/sh
	Dir  string // absolute: where it runs
	Env  map[string]string
}

// steering are variables that decide which program or code a name stands for.
var steering = []string{"PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "SHELLOPTS", "BASHOPTS", "CDPATH", "HASH"}

// Check returns nil when every program of the command is allowed. Otherwise it returns the fault command_not_allowed, with the detail
// "program" where allowing one program would help.
func (l *List) Check(c Command) error {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if slices.Contains(steering, name) {
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
	if file, err := l.file(wanted); err == nil && l.files[file] {
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
var harmless = map[string]bool{":": true, "[": true, "break": true, "cd": true, "continue": true, "echo": true, "exit": true, "false": true, "getopts": true, "kill": true,
	"printf": true, "pwd": true, "return": true, "set": true, "shift": true, "test": true, "times": true, "true": true, "type": true, "ulimit": true, "umask": true, "wait": true}

// assigning are those that set the variables that they are given by name.
var assigning = map[string]bool{"export": true, "readonly": true, "local": true, "declare": true, "typeset": true, "read": true, "unset": true, "mapfile": true, "readarray": true}

// line checks every command of a line for the shell, also those in substitutions, functions and loops.
func (l *List) line(text, dir string) error {
	if strings.ContainsRune(text, 0) {
		return refused("", "The command was not started: it has a NUL character.")
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return refused("", "The command was not started: it cannot be read as a line for the shell, so its programs are unknown (%s).", safetext.Cut(safetext.Line(err.Error()), 200))
	}
	defined := map[string]bool{}
	syntax.Walk(f, func(n syntax.Node) bool {
		if fn, ok := n.(*syntax.FuncDecl); ok && fn.Name != nil {
			defined[fn.Name.Value] = true
		}
		return true
	})
	var found error
	syntax.Walk(f, func(n syntax.Node) bool {
		if found != nil {
			return false
		}
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && slices.Contains(steering, n.Name.Value) {
				found = refused("", "The command was not started: it sets %s, which would decide what its programs are. Leave that variable out.", n.Name.Value)
			}
		case *syntax.CallExpr:
			found = l.call(n, dir, defined)
		}
		return found == nil
	})
	return found
}

// call checks one simple command.
func (l *List) call(n *syntax.CallExpr, dir string, defined map[string]bool) error {
	if len(n.Args) == 0 {
		return nil // assignments alone
	}
	name := n.Args[0].Lit()
	switch {
	case name == "":
		return refused("", "The command was not started: one of its programs is only known when it runs. Write the program's name as plain text.")
	case harmless[name], defined[name]: // the commands of a function are checked where it is defined
		return nil
	case assigning[name]:
		for _, arg := range n.Args[1:] {
			lit := arg.Lit()
			variable, _, _ := strings.Cut(lit, "=")
			if lit == "" && !quotedValue(arg) || slices.Contains(steering, variable) {
				return refused("", "The command was not started: %s may set a variable that decides what its programs are.", name)
			}
		}
		return nil
	}
	return l.program(name, dir)
}

// quotedValue reports whether a word is NAME= and a value in any form, with a plain NAME that steers nothing.
func quotedValue(w *syntax.Word) bool {
	first, ok := w.Parts[0].(*syntax.Lit)
	if !ok {
		return false
	}
	variable, _, ok := strings.Cut(first.Value, "=")
	return ok && !slices.Contains(steering, variable)
}
