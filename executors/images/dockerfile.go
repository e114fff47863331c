package images

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// A Dockerfile is untrusted text, and the images it names decide whose files a build reads. So the engine never gets that text:
// parseDockerfile
// parses it, resolve.go finds and judges each image it names, and the build uses a rewritten Dockerfile with one instruction per line and
// the ids
// of those images. Where this parser and the engine's would understand a text differently, the engine still sees only what was judged.
//
// The parser is our own because BuildKit's would add grpc, containerd and protobuf to the program for what takes 200 lines here, and because
// ours may reject what it need not understand: heredocs and flags of RUN, which the engine's classic builder does not support either.

// instruction is one instruction, joined from its continuation lines.
type instruction struct {
	name  string   // in capitals
	flags []string // the words that begin with --, for instructions that take flags
	rest  string
}

func (i instruction) String() string {
	return strings.TrimRight(strings.Join(append(append([]string{i.name}, i.flags...), i.rest), " "), " ")
}

// dockerfile is a parsed Dockerfile.
type dockerfile struct {
	escape byte
	syntax string // the frontend it asks for, which is an image; the classic builder has none and does not pull it
	steps  []instruction
}

const (
	maxSteps = 1000
	blank    = " \t\v\f"
)

var (
	directive = regexp.MustCompile(`^#[ \t]*([a-zA-Z][a-zA-Z0-9]*)[ \t]*=[ \t]*(.+?)[ \t]*$`)
	heredoc   = regexp.MustCompile(`(^|[ \t])[0-9]*<<-?["']?[A-Za-z_]`)
	stageName = regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`)
	// known are all instructions, and whether they take flags.
	known = map[string]bool{"ADD": true, "ARG": false, "CMD": false, "COPY": true, "ENTRYPOINT": false, "ENV": false, "EXPOSE": false, "FROM": true,
		"HEALTHCHECK": false, "LABEL": false, "MAINTAINER": false, "ONBUILD": false, "RUN": true, "SHELL": false, "STOPSIGNAL": false, "USER": false,
		"VOLUME": false, "WORKDIR": false}
)

func invalidDockerfile(format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_dockerfile", "The Dockerfile cannot be built: "+format, args...)
}

// parseDockerfile parses a Dockerfile. It rejects what it does not understand.
func parseDockerfile(text string) (dockerfile, error) {
	d := dockerfile{escape: '\\'}
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
		if strings.ContainsAny(lines[i], "\r\x00") {
			return d, invalidDockerfile("line %d has control characters.", i+1)
		}
	}
	at := 0
	for ; at < len(lines); at++ {
		m := directive.FindStringSubmatch(lines[at])
		if m == nil {
			break
		}
		switch strings.ToLower(m[1]) {
		case "escape":
			if m[2] != "\\" && m[2] != "`" {
				return d, invalidDockerfile("%q is no valid escape character.", clip(m[2], 20))
			}
			d.escape = m[2][0]
		case "syntax":
			d.syntax = m[2]
		}
	}
	quoted := regexp.QuoteMeta(string(d.escape))
	goesOn := regexp.MustCompile(`([^` + quoted + `])` + quoted + `[ \t]*$|^` + quoted + `[ \t]*$`)
	for ; at < len(lines); at++ {
		line, first := strings.Trim(lines[at], blank), at+1
		if line == "" || line[0] == '#' {
			continue
		}
		more := goesOn.MatchString(line)
		line = goesOn.ReplaceAllString(line, "$1")
		for more && at+1 < len(lines) {
			at++
			next := strings.TrimRight(lines[at], blank)
			if bare := strings.TrimLeft(next, blank); bare == "" || bare[0] == '#' {
				continue // comments and empty lines may stand between
			}
			more = goesOn.MatchString(next)
			line += goesOn.ReplaceAllString(next, "$1")
		}
		if line = strings.Trim(line, blank); line == "" {
			continue
		}
		if goesOn.MatchString(line) || len(d.steps) >= maxSteps {
			return d, invalidDockerfile("line %d cannot be understood.", first)
		}
		in, err := parseInstruction(line, first)
		if err != nil {
			return d, err
		}
		d.steps = append(d.steps, in)
	}
	return d, nil
}

// parseInstruction parses one instruction, and rejects what the engine's classic builder does not support.
func parseInstruction(line string, number int) (instruction, error) {
	name := line
	if i := strings.IndexAny(line, blank); i >= 0 {
		name = line[:i]
	}
	in := instruction{name: strings.ToUpper(name), rest: strings.TrimLeft(line[len(name):], blank)}
	flags, ok := known[in.name]
	if !ok {
		return in, invalidDockerfile("line %d: %q is no instruction.", number, clip(name, 50))
	}
	for flags && strings.HasPrefix(in.rest, "--") {
		i := strings.IndexAny(in.rest, blank)
		if i < 0 {
			i = len(in.rest)
		}
		flag := in.rest[:i]
		in.rest = strings.TrimLeft(in.rest[i:], blank)
		if flag == "--" || strings.ContainsAny(flag, "\"'\\`") {
			return in, invalidDockerfile("line %d: the flag %q cannot be understood. Write it without quotes.", number, clip(flag, 100))
		}
		in.flags = append(in.flags, flag)
	}
	switch {
	case in.name == "RUN" && len(in.flags) > 0:
		return in, invalidDockerfile("line %d: RUN %s needs BuildKit, and Parawork builds with the engine's classic builder. Write that step without it.", number, clip(in.flags[0], 100))
	case (in.name == "RUN" || in.name == "COPY" || in.name == "ADD") && heredoc.MatchString(in.rest):
		return in, invalidDockerfile("line %d: a heredoc (<<) needs BuildKit, and Parawork builds with the engine's classic builder. Put the text into a file.", number)
	case in.name == "ADD" && fetches(in.rest):
		return in, invalidDockerfile("line %d: ADD may not download from a URL, because the engine would bypass the project's network policy. Use RUN with curl, "+
			"or write the source so that it cannot be a URL.", number)
	case in.name == "ONBUILD":
		return in, checkTrigger(in.rest)
	}
	return in, nil
}

// checkTrigger rejects triggers (ONBUILD) that name images: they run in whatever is built on the image, outside of its Dockerfile.
func checkTrigger(trigger string) error {
	if strings.ContainsAny(trigger, "\n\r\x00") {
		return invalidDockerfile("a trigger (ONBUILD) has control characters.")
	}
	in, err := parseInstruction(strings.Trim(trigger, blank), 0)
	if err == nil && (in.name == "FROM" || in.name == "ONBUILD" || flagOf(in.flags, "from") != nil) {
		err = invalidDockerfile("a trigger (ONBUILD) may not name images: %q.", clip(trigger, 200))
	}
	return err
}

// fetches says whether an ADD may download one of its sources.
func fetches(rest string) bool {
	words := strings.Fields(rest)
	if strings.HasPrefix(rest, "[") {
		words = nil
		if json.Unmarshal([]byte(rest), &words) != nil {
			return true
		}
	}
	return slices.ContainsFunc(words[:max(len(words)-1, 0)], func(w string) bool {
		i := strings.IndexAny(w, "$\"'\\`") // the rest is known only to the engine
		fixed, open := w, i >= 0
		if open {
			fixed = w[:i]
		}
		fixed = strings.ToLower(fixed)
		for _, scheme := range []string{"http://", "https://", "git://", "ssh://", "git@"} {
			if strings.HasPrefix(fixed, scheme) || open && strings.HasPrefix(scheme, fixed) {
				return true
			}
		}
		return strings.Contains(fixed, "://")
	})
}

// flagOf returns the value of a flag, nil where it is not given.
func flagOf(flags []string, name string) *string {
	for _, f := range flags {
		if key, value, _ := strings.Cut(f[2:], "="); strings.EqualFold(key, name) {
			return &value
		}
	}
	return nil
}

// arguments are the values of ARG and build arguments before the first FROM: all that a FROM can use.
type arguments struct {
	escape byte
	given  map[string]string // by whoever builds
	have   map[string]string
}

// declare processes the operands of an ARG.
func (a *arguments) declare(rest string) error {
	for _, word := range splitWords(rest, a.escape) {
		name, value, has := strings.Cut(word, "=")
		if given, ok := a.given[name]; ok {
			a.have[name] = given
			continue
		}
		if !has {
			continue
		}
		v, err := a.expand(value)
		if err != nil {
			return err
		}
		a.have[name] = v
	}
	return nil
}

// splitWords splits at blanks outside of quotes, and keeps the quotes.
func splitWords(s string, escape byte) []string {
	var out []string
	var word strings.Builder
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == escape && quote != '\'' && i+1 < len(s):
			word.WriteByte(c)
			i++
			word.WriteByte(s[i])
			continue
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		case quote == 0 && strings.IndexByte(blank, c) >= 0:
			if word.Len() > 0 {
				out = append(out, word.String())
				word.Reset()
			}
			continue
		}
		word.WriteByte(c)
	}
	if word.Len() > 0 {
		out = append(out, word.String())
	}
	return out
}

var variable = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*`)

// expand replaces variables by their values, and removes quotes.
func (a *arguments) expand(s string) (string, error) {
	var out strings.Builder
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\'' && quote != '"', c == '"' && quote != '\'':
			if quote == 0 {
				quote = c
			} else {
				quote = 0
			}
		case c == a.escape && quote != '\'' && i+1 < len(s):
			i++
			out.WriteByte(s[i])
		case c == '$' && quote != '\'':
			value, n, err := a.variable(s[i+1:])
			if err != nil {
				return "", err
			}
			out.WriteString(value)
			i += n
		default:
			out.WriteByte(c)
		}
		if out.Len() > 4096 {
			return "", invalidDockerfile("a value of ARG is too long.")
		}
	}
	return out.String(), nil
}

// variable returns the value of the variable that s begins with, without its $, and the length of its name.
func (a *arguments) variable(s string) (value string, n int, err error) {
	wrong := invalidDockerfile("the variable %q cannot be understood. Write ${NAME}, ${NAME:-default} or ${NAME:+other}.", clip("$"+s, 100))
	if !strings.HasPrefix(s, "{") {
		name := variable.FindString(s)
		if name == "" {
			return "", 0, wrong
		}
		return a.have[name], len(name), nil
	}
	name := variable.FindString(s[1:])
	depth, end := 0, -1
	for i := 0; i < len(s) && end < 0; i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				end = i
			}
		}
	}
	if name == "" || end < 0 {
		return "", 0, wrong
	}
	how, set := s[1+len(name):end], false
	value, set = a.have[name]
	if rest, ok := strings.CutPrefix(how, ":"); ok { // with the colon an empty value counts as unset
		how, set = rest, value != ""
	}
	if how == "" && s[1+len(name)] == '}' {
		return value, end + 1, nil
	}
	if how == "" || len(how) > 1000 || strings.Count(how, "${") > 5 {
		return "", 0, wrong
	}
	other, err := a.expand(how[1:])
	switch {
	case err != nil:
		return "", 0, err
	case how[0] == '-' && set, how[0] == '+' && !set:
	case how[0] == '-', how[0] == '+':
		value = other
	case how[0] == '?' && set:
	default:
		return "", 0, wrong
	}
	if how[0] == '+' && !set {
		value = ""
	}
	return value, end + 1, nil
}
