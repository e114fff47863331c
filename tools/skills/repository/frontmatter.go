package repository

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/parawork/parawork/internal/safetext"
)

// Front is the front matter of a skill or a command.
type Front struct {
	Name        string
	Description string
	Hint        string // argument-hint
}

const maxFront = 8 << 10 // bytes

var goodName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// GoodName reports whether a name is one of a skill: lower-case letters and digits in words with hyphens between them, at most 64
// characters.
func GoodName(name string) bool { return len(name) <= maxName && goodName.MatchString(name) }

// Split separates the front matter of a Markdown text from the rest. One that is no YAML, is too long or has references is left out.
func Split(text string) (f Front, body string) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "\ufeff"), "---\n")
	if !ok {
		return f, text
	}
	raw, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if raw, ok = strings.CutSuffix("\n"+strings.TrimRight(rest, "\n"), "\n---"); !ok {
			return f, text
		}
		body = ""
	}
	if len(raw) > maxFront {
		return f, body
	}
	var doc yaml.Node
	if yaml.Unmarshal([]byte(raw), &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return loose(raw), body
	}
	fields := doc.Content[0].Content
	for i := 0; i+1 < len(fields); i += 2 {
		if v := fields[i+1]; v.Kind == yaml.ScalarNode { // an alias is none: nothing expands
			f.set(fields[i].Value, v.Value)
		}
	}
	return f, body
}

// loose reads the fields of a front matter that is not quite YAML: many have a colon in an unquoted description.
func loose(raw string) (f Front) {
	for line := range strings.Lines(raw) {
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(name, " ") {
			f.set(name, strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return f
}

func (f *Front) set(name, value string) {
	value = safetext.Cut(safetext.OneLine(strings.TrimSpace(value)), maxAbout)
	switch name {
	case "name":
		f.Name = value
	case "description":
		f.Description = value
	case "argument-hint":
		f.Hint = value
	}
}
