package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/tools"
)

// form is a tool as a command line.
type form struct {
	spec   tools.Spec
	verb   string
	fields []field // in the order of the schema
}

// field is one argument of a tool.
type field struct {
	name     string
	kind     string // JSON type
	item     string // JSON type of the items of an array and of the values of an object
	enum     []string
	initial  string // the default, as JSON
	about    string
	required bool
}

func (f field) option() string { return "--" + strings.ReplaceAll(f.name, "_", "-") }

// property is what is read of the schema of an argument.
type property struct {
	Type        json.RawMessage            `json:"type"`
	Enum        []any                      `json:"enum"`
	Default     json.RawMessage            `json:"default"`
	Description string                     `json:"description"`
	Items       *property                  `json:"items"`
	Values      json.RawMessage            `json:"additionalProperties"`
	Properties  map[string]json.RawMessage `json:"properties"`
}

// formOf reads the schema of a tool's arguments.
func formOf(s tools.Spec) (form, error) {
	f := form{spec: s, verb: verbOf(s.Name)}
	var schema struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(s.Arguments, &schema); err != nil {
		return f, fmt.Errorf("schema of %s: %w", s.Name, err)
	}
	if len(schema.Properties) == 0 {
		return f, nil
	}
	d := json.NewDecoder(bytes.NewReader(schema.Properties))
	if _, err := d.Token(); err != nil { // {
		return f, fmt.Errorf("schema of %s: %w", s.Name, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return f, fmt.Errorf("schema of %s: %w", s.Name, err)
		}
		var p property
		if err := d.Decode(&p); err != nil {
			return f, fmt.Errorf("schema of %s: %w", s.Name, err)
		}
		n := fmt.Sprint(name)
		f.fields = append(f.fields, fieldOf(n, p, slices.Contains(schema.Required, n)))
	}
	return f, nil
}

func fieldOf(name string, p property, required bool) field {
	f := field{name: name, kind: typeOf(p.Type), about: p.Description, required: required}
	enum := p.Enum
	switch f.kind {
	case "array":
		f.item = "string"
		if p.Items != nil {
			f.item = typeOf(p.Items.Type)
			enum = p.Items.Enum
		}
	case "object":
		var values property
		if err := json.Unmarshal(p.Values, &values); err == nil && len(p.Properties) == 0 {
			f.item = typeOf(values.Type)
		}
	}
	for _, e := range enum {
		f.enum = append(f.enum, fmt.Sprint(e))
	}
	if len(p.Default) > 0 && string(p.Default) != "null" {
		f.initial = string(p.Default)
		if s, err := strconv.Unquote(f.initial); err == nil {
			f.initial = s
		}
	}
	return f
}

// typeOf returns the JSON type of a schema, the first one that is not null; without one it is a text.
func typeOf(raw json.RawMessage) string {
	var one string
	var many []string
	switch {
	case json.Unmarshal(raw, &one) == nil && one != "":
		return one
	case json.Unmarshal(raw, &many) == nil:
		for _, t := range many {
			if t != "null" {
				return t
			}
		}
	}
	return "string"
}

func (f form) field(name string) (field, bool) {
	for _, a := range f.fields {
		if a.name == name {
			return a, true
		}
	}
	return field{}, false
}

// parse reads the words behind the verb as the tool's arguments.
func (f form) parse(in Input, words []string) (json.RawMessage, error) {
	p := parser{form: f, in: in, values: map[string]any{}}
	if err := p.read(words); err != nil {
		return nil, err
	}
	for _, a := range f.fields {
		if _, given := p.values[a.name]; a.required && !given {
			return nil, usage(f.verb, "%s is missing.", f.placeOf(a))
		}
	}
	return json.Marshal(p.values)
}

// placeOf names an argument as the user writes it.
func (f form) placeOf(a field) string {
	if slices.Contains(f.spec.Command.Positional, a.name) {
		return placeholder(a.name)
	}
	return a.option()
}

func placeholder(name string) string { return strings.ToUpper(name) }

// parser is the reading of one command line.
type parser struct {
	form
	in     Input
	values map[string]any
	placed int // words that were placed by position
}

func (p *parser) read(words []string) error {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			for _, rest := range words[i+1:] {
				if err := p.place(rest, true); err != nil {
					return err
				}
			}
			return nil
		case w == "--json":
		case strings.HasPrefix(w, "--"):
			name, value, given := strings.Cut(w[2:], "=")
			a, negated, ok := p.optionNamed(name)
			if !ok {
				return usage(p.verb, "There is no option --%s. Words that begin with a dash and are no options come after --.", shorten(name))
			}
			if negated && given {
				return usage(p.verb, "--%s takes no value.", shorten(name))
			}
			if a.kind == "boolean" && !given {
				if err := p.set(a, strconv.FormatBool(!negated), false); err != nil {
					return err
				}
				continue
			}
			if !given {
				if i++; i >= len(words) {
					return usage(p.verb, "%s needs a value.", a.option())
				}
				value = words[i]
			}
			if err := p.set(a, value, true); err != nil {
				return err
			}
		case strings.HasPrefix(w, "-") && w != "-":
			return usage(p.verb, "There is no option %s. Words that begin with a dash and are no options come after --.", shorten(w))
		default:
			if err := p.place(w, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// optionNamed finds the argument that an option names: --no-x is the boolean x, switched off.
func (p *parser) optionNamed(name string) (a field, negated, ok bool) {
	name = strings.ReplaceAll(name, "-", "_")
	if a, ok = p.field(name); ok {
		return a, false, true
	}
	if rest, cut := strings.CutPrefix(name, "no_"); cut {
		a, ok = p.field(rest)
		return a, true, ok && a.kind == "boolean"
	}
	return field{}, false, false
}

// place takes a word by its position. A literal "-" after "--" is no standard input.
func (p *parser) place(word string, literal bool) error {
	positions := p.spec.Command.Positional
	at := min(p.placed, len(positions)-1)
	if at < 0 {
		return usage(p.verb, "%q is one word too many: %s takes only options.", shorten(word), p.verb)
	}
	a, _ := p.field(positions[at])
	if p.placed >= len(positions) && a.kind != "array" {
		return usage(p.verb, "%q is one word too many. Put quotes around a text of several words.", shorten(word))
	}
	p.placed++
	if a.kind == "array" {
		return p.add(a, word)
	}
	if literal {
		return p.setText(a, word)
	}
	return p.set(a, word, false)
}

// set sets an argument to a word of the command line. Of an option's array the word may have several items.
func (p *parser) set(a field, word string, split bool) error {
	if word == "-" && p.spec.Command.Stdin == a.name {
		if !utf8.Valid(p.in.Stdin) || bytes.IndexByte(p.in.Stdin, 0) >= 0 {
			return usage(p.verb, "Standard input is not UTF-8 text, and %s takes only that.", p.placeOf(a))
		}
		word, split = string(p.in.Stdin), false
	}
	switch {
	case a.kind == "array" && split:
		for _, item := range strings.Split(word, ",") {
			if err := p.add(a, strings.TrimSpace(item)); err != nil {
				return err
			}
		}
		return nil
	case a.kind == "array":
		return p.add(a, word)
	case a.kind == "object" && a.item != "":
		return p.setPair(a, word)
	}
	return p.setText(a, word)
}

func (p *parser) setText(a field, word string) error {
	if _, twice := p.values[a.name]; twice {
		return usage(p.verb, "%s is given twice.", p.placeOf(a))
	}
	v, err := p.value(a, a.kind, word)
	if err != nil {
		return err
	}
	p.values[a.name] = v
	return nil
}

// add adds an item to an array.
func (p *parser) add(a field, word string) error {
	items, _ := p.values[a.name].([]any)
	if items == nil {
		items = []any{}
	}
	if word == "" && a.item != "string" || word == "" && len(a.enum) > 0 {
		p.values[a.name] = items // an empty list
		return nil
	}
	v, err := p.value(a, a.item, word)
	if err != nil {
		return err
	}
	p.values[a.name] = append(items, v)
	return nil
}

// setPair adds NAME=VALUE to an object of values of one type.
func (p *parser) setPair(a field, word string) error {
	name, word, ok := strings.Cut(word, "=")
	if !ok || name == "" {
		return usage(p.verb, "%s takes NAME=VALUE.", a.option())
	}
	v, err := p.value(a, a.item, word)
	if err != nil {
		return err
	}
	pairs, _ := p.values[a.name].(map[string]any)
	if pairs == nil {
		pairs = map[string]any{}
	}
	pairs[name] = v
	p.values[a.name] = pairs
	return nil
}

// value reads a word as a value of a JSON type.
func (p *parser) value(a field, kind, word string) (any, error) {
	if len(a.enum) > 0 && !slices.Contains(a.enum, word) {
		return nil, usage(p.verb, "%s takes one of %s, and not %q.", p.placeOf(a), strings.Join(a.enum, ", "), shorten(word))
	}
	switch kind {
	case "integer":
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, usage(p.verb, "%s takes a whole number, and not %q.", p.placeOf(a), shorten(word))
		}
		return n, nil
	case "number":
		var n json.Number
		if json.Unmarshal([]byte(word), &n) != nil || n == "" || word[0] == '"' {
			return nil, usage(p.verb, "%s takes a number, and not %q.", p.placeOf(a), shorten(word))
		}
		return n, nil
	case "boolean":
		b, err := strconv.ParseBool(word)
		if err != nil {
			return nil, usage(p.verb, "%s takes true or false, and not %q.", p.placeOf(a), shorten(word))
		}
		return b, nil
	case "object", "array":
		if !json.Valid([]byte(word)) {
			return nil, usage(p.verb, "%s takes JSON.", p.placeOf(a))
		}
		return json.RawMessage(word), nil
	}
	if slices.Contains(p.spec.Command.Paths, a.name) && !path.IsAbs(word) && p.in.Dir != "" {
		return path.Join(p.in.Dir, word), nil
	}
	return word, nil
}
