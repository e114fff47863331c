package permissions

import (
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"

	"github.com/parawork/parawork/tools"
)

// Call is a call that rules decide about, as NewCall reads it.
type Call struct {
	Spec tools.Spec

	kind  kind
	line  line
	paths []place
	host  string // "" = none is known
}

// place is a path that a call names.
type place struct {
	given, real string // relative to the worktree, clean: as it is named, and where it leads over links
	known       bool   // both are certain
}

// Real finds where a path of the worktree leads: given is the path relative to the worktree, real the same with all links followed.
type Real func(path string) (given, real string, err error)

// NewCall reads a call. real may be nil where there is no sandbox to look in: then links are not followed.
func NewCall(s tools.Spec, args json.RawMessage, real Real) Call {
	c := Call{Spec: s, kind: kindOf(s)}
	switch c.kind {
	case commands:
		c.line = lineOf(args)
	case paths:
		c.paths = placesOf(s, args, real)
	case hosts:
		var a struct{ URL string }
		_ = json.Unmarshal(args, &a)
		c.host = hostOf(a.URL)
	}
	return c
}

// lineOf reads the arguments of run_command.
func lineOf(args json.RawMessage) line {
	var a struct {
		Argv    []string
		Command string
		Cwd     string
		Env     map[string]string
	}
	if json.Unmarshal(args, &a) != nil {
		return line{opaque: true, why: "its arguments cannot be read"}
	}
	var l line
	moved := path.Clean(a.Cwd) != "." // also for ""
	if len(a.Argv) > 0 {
		l = argv(a.Argv, moved)
	} else {
		l = parse(a.Command, moved)
	}
	for variable := range a.Env {
		l.uncertain("it sets variables")
		l.opaque = l.opaque || steers(variable)
	}
	if path.IsAbs(a.Cwd) || !inside(a.Cwd) {
		l.uncertain("it runs outside the worktree")
	}
	if moved || len(a.Env) > 0 { // the same text means something else there
		l.text = ""
	}
	return l
}

// inside reports whether a relative path stays below its start.
func inside(p string) bool {
	p = path.Clean(p)
	return p != ".." && !strings.HasPrefix(p, "../")
}

func placesOf(s tools.Spec, args json.RawMessage, real Real) []place {
	var a struct {
		Path  string
		Root  string
		Paths []string
	}
	if json.Unmarshal(args, &a) != nil {
		return []place{{}}
	}
	all := a.Paths
	if s.Name == "glob" {
		all = append(all, a.Root)
	} else if a.Path != "" || len(all) == 0 {
		all = append(all, a.Path)
	}
	out := make([]place, len(all))
	for i, p := range all {
		given, follows, err := p, p, error(nil)
		if real != nil {
			given, follows, err = real(p)
		}
		given, follows = path.Clean(given), path.Clean(follows)
		out[i] = place{given, follows, err == nil && !path.IsAbs(given) && inside(given) && !path.IsAbs(follows) && inside(follows)}
	}
	return out
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	h, err := idna.Lookup.ToASCII(strings.TrimSuffix(u.Hostname(), "."))
	if err != nil {
		return strings.ToLower(u.Hostname())
	}
	return h
}

// may reports whether a pattern may be meant by the call, as it is read by rules that ask or deny.
func (c Call) may(pattern string) bool {
	switch c.kind {
	case commands:
		return c.line.may(pattern)
	case paths:
		searched := ""
		if c.Spec.Name == "glob" || c.Spec.Name == "grep" {
			searched = "/x" // what is in the folder is meant, too
		}
		return slices.ContainsFunc(c.paths, func(p place) bool {
			return !p.known || slices.ContainsFunc([]string{p.given, p.real, path.Clean(p.given + searched), path.Clean(p.real + searched)}, func(p string) bool { return matchPath(fold(pattern), fold(p)) })
		})
	case hosts:
		return c.host == "" || matchHost(pattern, c.host)
	}
	return false
}

// covered reports whether rules that allow cover the whole call, and which is the first that does. why says what stood against it.
func (c Call) covered(rules []Rule) (first Rule, ok bool, why string) {
	if len(rules) == 0 {
		return Rule{}, false, ""
	}
	by := func(match func(pattern string) bool) bool {
		i := slices.IndexFunc(rules, func(r Rule) bool { return match(r.Pattern) })
		if i >= 0 && first.ID == "" {
			first = rules[i]
		}
		return i >= 0
	}
	switch c.kind {
	case commands:
		return c.line.covered(by, &first)
	case paths:
		for _, p := range c.paths {
			if !p.known || !by(func(pattern string) bool { return matchPath(pattern, p.given) && matchPath(pattern, p.real) }) {
				return Rule{}, false, ""
			}
		}
		return first, len(c.paths) > 0, ""
	case hosts:
		ok = c.host != "" && by(func(pattern string) bool { return matchHost(pattern, c.host) })
		return first, ok, ""
	}
	return Rule{}, false, ""
}

// covered reports whether each command of the line is allowed as it will run; or the line, as it stands.
func (l line) covered(by func(func(pattern string) bool) bool, first *Rule) (Rule, bool, string) {
	if l.text != "" && by(func(pattern string) bool { return pattern == l.text && exact(pattern) }) {
		return *first, true, ""
	}
	if !l.certain || l.opaque || len(l.commands) == 0 {
		return Rule{}, false, "No rule allows the command: " + l.why + "."
	}
	any := false
	for _, c := range l.commands {
		if c.inner || c.harmless() {
			continue // who runs it needs a rule that allows exactly that
		}
		if any = true; !by(func(pattern string) bool { return covers(pattern, c) }) {
			return Rule{}, false, ""
		}
	}
	return *first, any, ""
}

// harmless reports whether a command only moves within the worktree, or does nothing.
func (c simple) harmless() bool {
	switch c.words[0].text {
	case "true", "false", ":", "pwd":
		return len(c.words) == 1
	case "cd":
		return len(c.words) == 2 && c.words[1].known && !strings.HasPrefix(c.words[1].text, "-") && !path.IsAbs(c.words[1].text) && inside(c.words[1].text)
	}
	return false
}

// patternWord is a word of a pattern of commands.
type patternWord struct {
	text string
	wild []bool // by byte: it is a wildcard, * or ?
}

func (w patternWord) wildcards() bool { return slices.Contains(w.wild, true) }

func (w patternWord) star() bool { return w.text == "*" && w.wild[0] }

// commandPattern reads a pattern: words with wildcards, in quotes where they have white space. ok is false for a text that is no command
// of plain words: such a pattern means exactly that line.
func commandPattern(pattern string) (words []patternWord, ok bool) {
	var w patternWord
	quote, begun := byte(0), false
	add := func(c byte, wild bool) {
		w.text, w.wild, begun = w.text+string([]byte{c}), append(w.wild, wild), true
	}
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			add(c, false)
		case c == '\\' && i+1 < len(pattern) && (quote == 0 || strings.IndexByte("$`\"\\", pattern[i+1]) >= 0):
			i++
			add(pattern[i], false)
		case quote == '"' && (c == '$' || c == '`'), quote == 0 && strings.IndexByte("|&;<>()$`#\n", c) >= 0:
			return nil, false
		case quote == '"':
			add(c, false)
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, w)
			}
			w, begun = patternWord{}, false
		default:
			add(c, c == '*' || c == '?')
		}
	}
	if quote != 0 {
		return nil, false
	}
	if begun {
		words = append(words, w)
	}
	return words, len(words) > 0
}

// exact reports whether a pattern means one line alone.
func exact(pattern string) bool {
	words, ok := commandPattern(pattern)
	return !ok || !slices.ContainsFunc(words, patternWord.wildcards)
}

// wrongCommand says why a pattern of commands is refused; "" when it is not.
func wrongCommand(pattern string, effect Effect) string {
	words, ok := commandPattern(pattern)
	switch {
	case !ok && effect == Allow:
		return "" // exactly this line
	case !ok:
		return "a rule that asks or denies names one program with its arguments, without the shell's own characters"
	case words[0].wildcards() || words[0].text == "":
		return "it must begin with the name of a program; leave the pattern out for all commands"
	case effect == Allow && slices.ContainsFunc(words, patternWord.wildcards) && runs(base(words[0].text), known(words[1:])):
		return words[0].text + " runs what its arguments say, so that it can only be allowed with all its arguments and without wildcards"
	}
	return ""
}

// known are the words of a pattern as words of a command.
func known(pattern []patternWord) []word {
	out := make([]word, len(pattern))
	for i, w := range pattern {
		out[i] = word{w.text, true}
	}
	return out
}

// covers reports whether a pattern matches a command for certain. A last * stands for any further words, also for none.
func covers(pattern string, c simple) bool {
	words, ok := commandPattern(pattern)
	if !ok || c.open || slices.ContainsFunc(c.words, func(w word) bool { return !w.known }) {
		return false
	}
	wild := slices.ContainsFunc(words, patternWord.wildcards)
	if wild && runs(base(c.words[0].text), c.words[1:]) || words[0].wildcards() {
		return false
	}
	last := len(words) - 1
	if last > 0 && words[last].star() {
		words = words[:last]
		if len(c.words) < len(words) {
			return false
		}
	} else if len(c.words) != len(words) {
		return false
	}
	for i, w := range words {
		if !w.matches(c.words[i].text, false) {
			return false
		}
	}
	return true
}

// may reports whether some command of the line may be meant by a pattern: its program has that name, wherever it is, and the pattern's
// words are among its arguments in their order.
func (l line) may(pattern string) bool {
	words, ok := commandPattern(pattern)
	if !ok {
		return l.text == pattern
	}
	if l.opaque || slices.ContainsFunc(l.texts, func(text string) bool { return mentions(text, words) }) {
		return true
	}
	return slices.ContainsFunc(l.commands, func(c simple) bool {
		if program := c.words[0]; program.known && !words[0].matches(base(program.text), true) && !words[0].matches(program.text, true) {
			return false
		}
		rest := c.words[1:]
		for _, w := range words[1:] {
			if w.star() {
				continue
			}
			i := slices.IndexFunc(rest, func(a word) bool { return !a.known || w.matches(a.text, true) })
			switch {
			case i < 0:
				return c.open
			case rest[i].known: // one that is not known may be several words
				rest = rest[i+1:]
			}
		}
		return true
	})
}

// mentions reports whether a text that a program is given, in whatever language, names the program of a pattern and its words.
func mentions(text string, pattern []patternWord) bool {
	tokens := strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/+:@%", r))
	})
	for i, t := range tokens {
		if len(t) > 2 && t[0] == '-' && t[1] != '-' && i == 0 { // an option with its text
			tokens = append(tokens, t[2:])
		}
	}
	for i, w := range pattern {
		found := w.star() || slices.ContainsFunc(tokens, func(t string) bool { return i == 0 && w.matches(base(t), true) || w.matches(t, true) })
		if !found && (i == 0 || w.wildcards() || !strings.Contains(strings.ToLower(text), strings.ToLower(w.text))) {
			return false
		}
	}
	return true
}

// matches reports whether the word of a pattern matches a whole text.
func (w patternWord) matches(text string, folded bool) bool {
	pattern := w.text
	if folded {
		pattern, text = strings.ToLower(pattern), strings.ToLower(text)
		if len(pattern) != len(w.wild) { // some letters change their length
			pattern = w.text
		}
	}
	return wildcard(pattern, w.wild, text)
}

// wildcard matches a text against a pattern in which some bytes are wildcards: * any text, ? any character.
func wildcard(pattern string, wild []bool, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && wild[p] && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (wild[p] || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && wild[p] && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globs marks all * and ? of a text as wildcards.
func globs(pattern string) []bool {
	wild := make([]bool, len(pattern))
	for i := range pattern {
		wild[i] = pattern[i] == '*' || pattern[i] == '?'
	}
	return wild
}

// fold is a path in the form in which file systems that ignore case compare names.
func fold(p string) string { return strings.ToLower(strings.ToUpper(norm.NFC.String(p))) }

// wrongPath says why a pattern of paths is refused; "" when it is not.
func wrongPath(pattern string) string {
	switch clean := path.Clean(pattern); {
	case path.IsAbs(pattern) || !inside(pattern):
		return "it must be a path within the worktree, such as src/**"
	case clean != strings.TrimSuffix(pattern, "/"):
		return "it must have no empty, . or .. parts"
	case strings.Count(pattern, "**") > 4:
		return "it has too many **"
	}
	return ""
}

// matchPath matches a path against a pattern: ** stands for any folders, also none, * and ? for a part of a name. A pattern that ends in a
// slash means all that is in the folder.
func matchPath(pattern, p string) bool {
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return matchParts(strings.Split(pattern, "/"), strings.Split(p, "/"))
}

func matchParts(pattern, parts []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for len(pattern) > 1 && pattern[1] == "**" {
				pattern = pattern[1:]
			}
			if len(pattern) == 1 {
				return len(parts) > 0
			}
			for i := range parts {
				if matchParts(pattern[1:], parts[i:]) {
					return true
				}
			}
			return false
		}
		if len(parts) == 0 || !wildcard(pattern[0], globs(pattern[0]), parts[0]) {
			return false
		}
		pattern, parts = pattern[1:], parts[1:]
	}
	return len(parts) == 0
}

// wrongHost says why a pattern of hosts is refused; "" when it is not.
func wrongHost(pattern string) string {
	name := strings.TrimPrefix(pattern, "*.")
	switch {
	case strings.ContainsAny(name, "*?/:@ \t") || name == "":
		return "it must be a host, such as example.com, or *.example.com for all below it, without a scheme, port or path"
	case strings.ToLower(pattern) != pattern:
		return "write hosts in lower case"
	}
	return ""
}

func matchHost(pattern, host string) bool {
	below, all := strings.CutPrefix(pattern, "*.")
	if !all {
		return host == pattern
	}
	return strings.HasSuffix(host, "."+below)
}
