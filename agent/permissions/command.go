package permissions

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command. Of a word that is only known when the line runs, known is false.
type word struct {
	text  string
	known bool
}

// simple is one command of a line.
type simple struct {
	words []word
	open  bool // further words may follow that nobody knows
	inner bool // another command of the line may run it
}

// line is a line for the shell, or an argv, as far as one can see what it runs.
type line struct {
	text     string
	commands []simple
	certain  bool     // the commands are all, and nothing else happens: no redirection into files, no variables, no control structure
	opaque   bool     // it may run something that the commands do not name
	why      string   // it is not certain, as text
	moved    bool     // it runs, from here on, in another folder than the worktree
	texts    []string // what programs are given to run or to interpret
}

// parse reads a line for the shell.
func parse(text string, moved bool) line {
	l := line{text: strings.TrimSpace(text), certain: true, moved: moved}
	l.read(text, 0)
	return l
}

// argv is a line of one command, which no shell reads.
func argv(args []string, moved bool) line {
	l := line{certain: true, moved: moved}
	c := simple{}
	for _, a := range args {
		c.words = append(c.words, word{text: a, known: true})
	}
	if len(args) == 0 {
		l.uncertain("there is no command")
		return l
	}
	l.add(c, 0)
	return l
}

func (l *line) uncertain(why string) {
	if l.certain {
		l.certain, l.why = false, why
	}
}

const deepest = 4 // shells that run shells

// read adds what a text for the shell runs.
func (l *line) read(text string, depth int) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil || strings.ContainsRune(text, 0) || depth > deepest {
		l.uncertain("the line cannot be read")
		l.opaque = true
		return
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil, *syntax.File, *syntax.Stmt, *syntax.BinaryCmd, *syntax.Subshell, *syntax.Block, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted, *syntax.Comment:
		case *syntax.CallExpr:
			c := simple{}
			for _, w := range n.Args {
				c.words = append(c.words, literal(w))
			}
			for _, a := range n.Assigns {
				l.uncertain("it sets variables")
				l.opaque = l.opaque || a.Name == nil || steers(a.Name.Value)
			}
			if len(c.words) > 0 {
				l.add(c, depth)
			}
		case *syntax.Redirect:
			if !harmless(n) {
				l.uncertain("it reads or writes files by redirection")
			}
		case *syntax.CmdSubst:
			l.uncertain("it has a substitution")
		default: // loops, functions, expansions and the like
			l.uncertain("it is more than commands with plain words")
		}
		return true
	})
}

// harmless reports whether a redirection reads and writes no file.
func harmless(r *syntax.Redirect) bool {
	if r.Word == nil {
		return false
	}
	to := literal(r.Word)
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		return to.known && slices.Contains([]string{"1", "2"}, to.text)
	case syntax.RdrIn, syntax.RdrOut, syntax.AppOut:
		return to.known && to.text == "/dev/null"
	}
	return false
}

// add adds a command, and what it runs in turn as far as one can see.
func (l *line) add(c simple, depth int) {
	l.commands = append(l.commands, c)
	program := c.words[0]
	if !program.known {
		l.opaque = true
		l.uncertain("one of its programs is only known when it runs")
		return
	}
	name := base(program.text)
	if l.moved && (strings.Contains(program.text, "/") || name == "git") { // a folder can have settings of Git that run programs
		l.uncertain("in another folder it is unknown which program a relative path is, and what Git's settings there run")
	}
	l.moved = l.moved || slices.Contains(movers, name)
	if name == "git" && configures(c.words[1:]) || slices.Contains(exporters, name) && slices.ContainsFunc(c.words[1:], func(w word) bool {
		variable, _, _ := strings.Cut(w.text, "=")
		return steers(variable)
	}) {
		l.opaque = true
	}
	switch {
	case slices.Contains(evaluating, name):
		l.opaque = true
	case shells.MatchString(name):
		l.shell(c, depth)
	case runs(name, c.words[1:]):
		l.opaque = l.opaque || interpreters.MatchString(name) && fed(c.words[1:], "cemEpVh")
		for _, w := range c.words[1:] {
			l.texts = append(l.texts, w.text)
		}
	default:
		return
	}
	for i := 1; i < len(c.words); i++ { // any of its words may be the program that it runs
		rest := simple{words: c.words[i:], open: name == "xargs" || name == "parallel", inner: true}
		if w := rest.words[0]; depth < deepest && w.known && shells.MatchString(base(w.text)) {
			l.shell(rest, depth+1)
		}
		l.commands = append(l.commands, rest)
	}
}

// shell adds what a shell is given to run by -c.
func (l *line) shell(c simple, depth int) {
	l.opaque = l.opaque || fed(c.words[1:], "c")
	for i, w := range c.words[1:] {
		if !w.known {
			l.opaque = true
		}
		if !strings.HasPrefix(w.text, "-") || !strings.Contains(w.text, "c") || i+2 >= len(c.words) {
			continue
		}
		inner := line{certain: true, moved: l.moved}
		if text := c.words[i+2]; text.known {
			inner.read(text.text, depth+1)
		} else {
			inner.opaque = true
		}
		for _, c := range inner.commands {
			c.inner = true
			l.commands = append(l.commands, c)
		}
		l.opaque, l.texts = l.opaque || inner.opaque, append(l.texts, inner.texts...)
	}
}

// fed reports whether a shell or an interpreter is named no file and no text by its arguments, so that it reads what another program, or a
// here-document, gives it. texts are the letters of options after which it does not.
func fed(args []word, texts string) bool {
	for i, a := range args {
		switch long := strings.HasPrefix(a.text, "--"); {
		case a.text == "-" || a.text == "-s":
			return true
		case i > 0 && (args[i-1].text == "-o" || args[i-1].text == "+o"): // what it sets
		case !a.known, !strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "+"):
			return false
		case long && slices.ContainsFunc([]string{"--version", "--help", "--eval", "--print"}, func(o string) bool { return strings.HasPrefix(a.text, o) }):
			return false
		case !long && strings.ContainsAny(a.text, texts):
			return false
		}
	}
	return true
}

// movers are commands after which a line runs in another folder.
var movers = []string{"cd", "pushd", "popd", "chdir"}

// exporters set variables for what is run after them.
var exporters = []string{"export", "readonly", "env", "local"}

var (
	steering = regexp.MustCompile(`^(GIT_.*|LD_.*|DYLD_.*|BASH_.*|PATH|IFS|ENV|SHELL|SHELLOPTS|PS4|CDPATH|PAGER|EDITOR|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|PROMPT_COMMAND|NODE_OPTIONS|NODE_PATH|PYTHON(PATH|HOME|STARTUP|INSPECT)|PERL5(LIB|OPT)|RUBY(LIB|OPT)|MAKEFLAGS|JAVA_TOOL_OPTIONS)$`)
	signing  = regexp.MustCompile(`^GIT_(AUTHOR|COMMITTER)_`)
)

// steers reports whether a variable decides which programs are run, or what others mean by their names.
func steers(variable string) bool {
	return steering.MatchString(variable) && !signing.MatchString(variable)
}

// configures reports whether Git is given settings that can run programs, or make a name mean another command.
func configures(args []word) bool {
	for i, w := range args {
		a := strings.ToLower(w.text)
		switch {
		case strings.HasPrefix(a, "alias."), strings.HasPrefix(a, "--config-env"), strings.HasPrefix(a, "--exec-path="):
			return true
		case i > 0 && args[i-1].text == "-c" && !slices.ContainsFunc(quietSettings, func(s string) bool { return strings.HasPrefix(a, s) }):
			return true
		case a != "-c" && !strings.HasPrefix(a, "-") && (i == 0 || args[i-1].text != "-c" && args[i-1].text != "-C"):
			return a == "config" && slices.ContainsFunc(args[i+1:], func(w word) bool { return strings.HasPrefix(strings.ToLower(w.text), "alias.") })
		}
	}
	return false
}

// quietSettings of Git run nothing.
var quietSettings = []string{"user.", "color.", "advice.", "core.quotepath", "init.defaultbranch", "commit.gpgsign", "log.showsignature", "gc.auto", "core.autocrlf"}

// base is the name of a program, in the form in which names are compared.
func base(program string) string { return strings.ToLower(path.Base(program)) }

var shells = regexp.MustCompile(`^(ba|da|z|k|mk|fi|c|tc|a|r)?sh$`)

// evaluating are commands of shells that run texts, or change what the names of others mean.
var evaluating = []string{".", "alias", "bind", "builtin", "command", "coproc", "declare", "enable", "eval", "exec", "fc", "hash", "source", "trap", "typeset"}

// interpreters run a text that an argument or a file holds.
var interpreters = regexp.MustCompile(`^(python|pypy|node|nodejs|deno|bun|perl|ruby|php|lua|luajit|tclsh|wish|expect|osascript|pwsh|powershell|awk|gawk|mawk|nawk|ed|ex|vi|vim|nvim|emacs|m4|gdb|lldb|busybox|toybox)[0-9.]*(\.exe)?$`)

// runners run the command that their arguments are.
var runners = []string{"env", "sudo", "doas", "su", "runuser", "xargs", "parallel", "nohup", "time", "timeout", "nice", "ionice", "chrt", "taskset", "setsid", "stdbuf", "script", "unbuffer", "watch", "entr", "ssh",
	"chroot", "unshare", "nsenter", "setpriv", "capsh", "setarch", "linux32", "linux64", "strace", "ltrace", "flock", "start-stop-daemon", "systemd-run", "at", "batch", "crontab", "dbus-run-session", "xvfb-run", "fakeroot", "proot", "bwrap", "firejail", "caffeinate", "faketime", "rlwrap", "screen", "tmux", "socat", "npx", "bunx", "uvx", "pipx", "corepack"}

// runs reports whether a program with these arguments runs what they say, rather than what the program is for.
func runs(name string, args []word) bool {
	given := func(match func(string) bool) bool {
		return slices.ContainsFunc(args, func(w word) bool { return !w.known || match(w.text) })
	}
	option := func(prefixes ...string) bool {
		return given(func(a string) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(a, p) })
		})
	}
	switch {
	case shells.MatchString(name), interpreters.MatchString(name), slices.Contains(runners, name), slices.Contains(evaluating, name):
		return true
	case name == "find" || name == "fd" || name == "fdfind":
		return option("-exec", "-ok", "-delete", "-fprint", "-fls", "--exec", "-x", "-X", "-e")
	case name == "git":
		return gitRuns(args)
	case name == "rg":
		return option("--pre", "--hostname-bin")
	case name == "tar" || name == "bsdtar":
		return option("--to-command", "--checkpoint-action", "--use-compress", "-I", "--rsh", "--info-script", "--new-volume-script", "-F")
	case name == "rsync":
		return option("-e", "--rsh", "--rsync-path")
	case name == "sed" || name == "gsed":
		return true // its scripts write files and run commands
	case name == "sort":
		return option("--compress-program")
	case name == "man" || name == "less" || name == "more":
		return true
	case name == "zip" || name == "unzip":
		return option("-T", "--unzip-command")
	}
	return false
}

// gitRuns reports whether Git is given settings, programs or another repository.
func gitRuns(args []word) bool {
	for i, w := range args {
		a := w.text
		switch {
		case !w.known:
			return true
		case i == 0 && (strings.HasPrefix(a, "-") && a != "--no-pager" && a != "--version" && a != "--no-optional-locks"):
			return true // -c, -C, --exec-path, --git-dir and the like
		case i == 1 && strings.HasPrefix(args[0].text, "-") && strings.HasPrefix(a, "-"):
			return true
		case strings.HasPrefix(a, "--upload-pack"), strings.HasPrefix(a, "--receive-pack"), strings.HasPrefix(a, "--exec"), strings.HasPrefix(a, "--open-files-in-pager"), strings.HasPrefix(a, "ext::"):
			return true
		case a == "grep" && i < 2:
			if slices.ContainsFunc(args[i+1:], func(w word) bool { return strings.HasPrefix(w.text, "-O") }) {
				return true
			}
		case i < 2 && slices.Contains([]string{"difftool", "mergetool", "bisect", "filter-branch", "submodule", "hook", "rebase", "web--browse", "instaweb", "daemon", "shell", "alias"}, a):
			return slices.Contains([]string{"difftool", "mergetool", "filter-branch", "hook", "web--browse", "instaweb", "daemon", "shell"}, a) ||
				slices.ContainsFunc(args[i+1:], func(w word) bool {
					return !w.known || w.text == "run" || w.text == "foreach" || w.text == "-x" || strings.HasPrefix(w.text, "-x")
				})
		}
	}
	return false
}

// literal is a word that a shell would pass on as it stands. Words with expansions of any kind are not known.
func literal(w *syntax.Word) word {
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if len(w.Parts) == 1 && (p.Value == "[" || p.Value == "]" || p.Value == "{" || p.Value == "}" || p.Value == "!") {
				return word{text: p.Value, known: true}
			}
			if !unquote(&b, p.Value, i == 0 && b.Len() == 0) {
				return word{}
			}
		case *syntax.SglQuoted:
			if p.Dollar || i > 0 && endsInDollar(w.Parts[i-1]) {
				return word{}
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar || i > 0 && endsInDollar(w.Parts[i-1]) {
				return word{}
			}
			for _, in := range p.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok || !unquoteDouble(&b, lit.Value) {
					return word{}
				}
			}
		default:
			return word{}
		}
	}
	return word{text: b.String(), known: true}
}

func endsInDollar(p syntax.WordPart) bool {
	l, ok := p.(*syntax.Lit)
	return ok && strings.HasSuffix(l.Value, "$")
}

// unquote adds a text without quotes; false when the shell would expand it.
func unquote(b *strings.Builder, s string, first bool) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i == len(s) {
				return false
			}
			if s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case '*', '?', '[', '{', '}', '$', '`', '!':
			return false
		case '~':
			if first && i == 0 || i > 0 && (s[i-1] == '=' || s[i-1] == ':') {
				return false
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return true
}

// unquoteDouble adds a text within double quotes.
func unquoteDouble(b *strings.Builder, s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '$' || c == '`':
			return false
		case c == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0:
			if i++; s[i] != '\n' {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return true
}
