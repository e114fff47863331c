// Package schema describes settings as data: what each is called in config.json and in the API, what it may be, and how a form shows it. Whoever
// has settings of its own (a kind of place to run) declares a Schema, and everything that reads, checks, keeps or shows them is driven by it.
package schema

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Type is what a setting is made of.
type Type string

// The types of settings. The last three are only in config.json: the API has no settings of these types.
const (
	Text    Type = "text"
	Number  Type = "number" // a whole number, never negative
	Boolean Type = "boolean"
	Secret  Type = "secret" // config.json may also name a file that holds it, under the key with File behind it
	Choice  Type = "choice" // one of Options
	List    Type = "list"   // texts; in the API one text with a line for each
	Map     Type = "map"    // texts by name; they are hidden wherever the configuration is printed
	Cores   Type = "cores"  // a number of CPUs, or a share of the machine such as "80%"
	Path    Type = "path"   // a folder; a relative one counts from the folder of config.json
)

// Field is one setting.
type Field struct {
	Key      string // in config.json, below the object of the Schema, such as apiKey; a dot leads into an object
	Name     string // in the API, such as api_key; "" = only config.json says it
	Type     Type
	Default  any   // string, int, bool or []string, as the type asks for; nil = empty
	Optional bool  // of a Boolean: config.json may leave it open (null), which is neither yes nor no; of a Secret: it works without one
	Min, Max int64 // of a Number, in the unit of config.json; Max 0 = no bound
	Scale    int64 // of a Number: so many of config.json's unit are one of the API's, such as 60 for seconds that are shown as minutes; 0 = 1
	// Env is an environment variable that other programs know as well: it fills what is not said.
	Env string
	// Address says that the secret is sent there: the API takes another one only together with the secret, and a secret of config.json or the
	// environment goes to no address that was entered elsewhere.
	Address bool
	URL     bool                   // of a Text: a URL that may hold a password, which is hidden where the configuration is printed
	Check   func(value any) string // says what is wrong with a value that is not empty, such as "must name a template"; optional
	Label   string                 // in a form
	Hint    string
	Unit    string // of a Number in the API, such as minutes
	Example string // shown in an empty field
	Options []Option
	Rare    bool // most operators never need it
}

// WebAddress is the Check of a Text that is an address of http or https without a login, a query and a fragment, such as the example.
func WebAddress(example string) func(any) string {
	return func(v any) string {
		u, err := url.Parse(v.(string))
		if v != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
			return "must be an address such as " + example
		}
		return ""
	}
}

// Option is a value of a Choice.
type Option struct{ Value, Label string }

// Schema are settings that belong together, in the order people read them.
type Schema []Field

// Find returns the field of a key.
func (s Schema) Find(key string) (Field, bool) {
	i := slices.IndexFunc(s, func(f Field) bool { return f.Key == key })
	if i < 0 {
		return Field{}, false
	}
	return s[i], true
}

// Named returns the field that the API calls so.
func (s Schema) Named(name string) (Field, bool) {
	i := slices.IndexFunc(s, func(f Field) bool { return f.Name == name && name != "" })
	if i < 0 {
		return Field{}, false
	}
	return s[i], true
}

// Shown are the fields that the API has.
func (s Schema) Shown() Schema {
	return slices.DeleteFunc(slices.Clone(s), func(f Field) bool { return f.Name == "" })
}

// Secret returns the secret that the API has; false without one.
func (s Schema) Secret() (Field, bool) {
	i := slices.IndexFunc(s, func(f Field) bool { return f.Type == Secret && f.Name != "" })
	if i < 0 {
		return Field{}, false
	}
	return s[i], true
}

// Validate refuses a Schema that contradicts itself: a mistake of whoever wrote it.
func (s Schema) Validate() error {
	secrets := 0
	for i, f := range s {
		twice := func(o Field) bool { return o.Key == f.Key || o.Name == f.Name && f.Name != "" }
		switch {
		case f.Key == "":
			return fmt.Errorf("setting %d has no key", i+1)
		case slices.ContainsFunc(s[:i], twice):
			return fmt.Errorf("setting %s stands there twice", f.Key)
		case f.Name != "" && f.Label == "":
			return fmt.Errorf("setting %s is shown in a form and has no label", f.Key)
		case f.Name != "" && slices.Contains([]Type{Map, Cores, Path}, f.Type):
			return fmt.Errorf("setting %s is of type %s, which the API does not have", f.Key, f.Type)
		}
		if f.Type == Secret && f.Name != "" {
			secrets++
		}
	}
	if secrets > 1 {
		return fmt.Errorf("%d secrets are entered in the form, and one is kept", secrets)
	}
	return nil
}

// Defaults are the values where nobody says anything.
func (s Schema) Defaults() Values {
	v := Values{schema: s, by: make(map[string]any, len(s))}
	for _, f := range s {
		v.by[f.Key] = f.start()
	}
	return v
}

// start is the default in the form in which Values hold it.
func (f Field) start() any {
	switch f.Type {
	case Number:
		n, _ := f.Default.(int)
		return int64(n)
	case Boolean:
		b, said := f.Default.(bool)
		if f.Optional && !said {
			return nil
		}
		return b
	case List:
		l, _ := f.Default.([]string)
		return append([]string{}, l...)
	case Map:
		return map[string]string{}
	case Cores:
		return 0.0
	}
	t, _ := f.Default.(string)
	return t
}

// Values are what holds of the settings of a Schema. They are never changed: With returns others.
type Values struct {
	schema Schema
	by     map[string]any // by key: string, int64, bool or nil, []string, map[string]string, float64
}

// Schema is what the values are of.
func (v Values) Schema() Schema { return v.schema }

// With are the values with another one of a key, in the form the type asks for.
func (v Values) With(key string, value any) Values {
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	by := maps.Clone(v.by)
	if by == nil {
		by = make(map[string]any)
	}
	by[key] = value
	return Values{v.schema, by}
}

// Equal reports whether both hold the same.
func (v Values) Equal(o Values) bool { return reflect.DeepEqual(v.by, o.by) }

// Value is what holds for a key, as it is.
func (v Values) Value(key string) any { return v.by[key] }

// Text is a text, a secret, a path or a choice. It and the other getters panic on a key that the Schema does not have.
func (v Values) Text(key string) string { return get[string](v, key) }

// Number is a whole number, in the unit of config.json.
func (v Values) Number(key string) int64 { return get[int64](v, key) }

// Cores is a number of CPUs.
func (v Values) Cores(key string) float64 { return get[float64](v, key) }

// On reports whether a Boolean is true.
func (v Values) On(key string) bool { return get[bool](v, key) }

// Said reports whether an optional Boolean is said at all.
func (v Values) Said(key string) bool { return v.by[key] != nil }

// List are texts.
func (v Values) List(key string) []string { return get[[]string](v, key) }

// Map are texts by name.
func (v Values) Map(key string) map[string]string { return get[map[string]string](v, key) }

func get[T any](v Values, key string) T {
	if _, ok := v.schema.Find(key); !ok {
		panic(fmt.Sprintf("schema: no setting has the key %q", key))
	}
	t, _ := v.by[key].(T)
	return t
}

// Problem is what is wrong with a value, in words that go on after the setting's name.
type Problem struct {
	Field Field
	Words string
}

// Problems are what is wrong with the values.
func (v Values) Problems() []Problem {
	var out []Problem
	for _, f := range v.schema {
		if words := f.wrong(v.by[f.Key]); words != "" {
			out = append(out, Problem{f, words})
		}
	}
	return out
}

func (f Field) wrong(value any) string {
	if n, ok := value.(int64); ok && f.Type == Number {
		switch {
		case n < f.Min:
			return fmt.Sprintf("must be at least %d, not %d", f.Min, n)
		case f.Max > 0 && n > f.Max:
			return fmt.Sprintf("must be at most %d, not %d", f.Max, n)
		}
	}
	if f.Type == Choice && !slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == value }) {
		var all []string
		for _, o := range f.Options {
			all = append(all, o.Value)
		}
		return fmt.Sprintf("must be one of %s, not %q", strings.Join(all, ", "), value)
	}
	if f.Check == nil {
		return ""
	}
	return f.Check(value)
}

// Bounds of what the API takes.
const (
	mostText   = 8192
	mostNumber = 1_000_000_000
)

func (f Field) scale() int64 { return max(f.Scale, 1) }

// Out is a value as the API shows it: a number that does not come out even is rounded up, and texts are lines.
func (f Field) Out(value any) any {
	switch v := value.(type) {
	case int64:
		return (v + f.scale() - 1) / f.scale()
	case []string:
		return strings.Join(v, "\n")
	}
	return value
}

// In is a value of the API as Values hold it. The words say what is wrong with it, "" = nothing.
func (f Field) In(value any) (any, string) {
	switch f.Type {
	case Number:
		n, ok := value.(float64) // as JSON has it
		if i, whole := value.(int64); whole {
			n, ok = float64(i), true
		}
		if !ok || n != math.Trunc(n) || math.Abs(n) > mostNumber {
			return nil, fmt.Sprintf("must be a whole number, at most %d", int64(mostNumber))
		}
		return int64(n) * f.scale(), ""
	case Boolean:
		if b, ok := value.(bool); ok {
			return b, ""
		}
		return nil, "must be true or false"
	}
	t, ok := value.(string)
	switch {
	case !ok:
		return nil, "must be a text"
	case len(t) > mostText:
		return nil, fmt.Sprintf("must not be longer than %d letters", mostText)
	}
	if f.Type == List {
		lines := []string{}
		for line := range strings.Lines(t) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return lines, ""
	}
	return strings.TrimSpace(t), ""
}

// Bounds are the least and the most of a number in the API's unit; the most is 0 where there is none.
func (f Field) Bounds() (least, most int64) {
	return (f.Min + f.scale() - 1) / f.scale(), f.Max / f.scale()
}
