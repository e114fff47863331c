package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/parawork/parawork/internal/fault"
)

// compile reads a JSON Schema of an object.
func compile(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	if s.Type != "object" {
		return nil, errors.New(`its type must be "object"`)
	}
	return s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
}

// closed reports whether a schema rejects properties that it does not name.
func closed(r *jsonschema.Resolved) bool {
	more := r.Schema().AdditionalProperties
	return more != nil && more.Not != nil
}

// Checker returns what rejects arguments of a tool that is in no Set and do not fit, and names the field. It compiles the tool's schemas at the
// first call, as a Set does: Compile finds those that are wrong.
func Checker(s Spec) func(args json.RawMessage) error {
	arguments := compiledOnce(s)
	return func(args json.RawMessage) error {
		schema, err := arguments()
		if err != nil {
			return err
		}
		return check(s.Name, schema, args)
	}
}

// Compile compiles the schemas of a tool and returns what is wrong with them.
func Compile(s Spec) error {
	_, err := compiledOnce(s)()
	return err
}

// compiledOnce returns the schema of a tool's arguments, which is compiled when it is first needed.
func compiledOnce(s Spec) func() (*jsonschema.Resolved, error) {
	return sync.OnceValues(func() (*jsonschema.Resolved, error) {
		arguments, err := schemas(s)
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", s.Name, err)
		}
		return arguments, nil
	})
}

// check rejects arguments that do not fit a tool's schema, and names the field.
func check(name string, schema *jsonschema.Resolved, args json.RawMessage) error {
	value, err := decode(args)
	if err != nil {
		return fault.New(fault.Invalid, "tool_arguments_invalid", "The arguments of %s are not one JSON value: %s.", name, shorten(err.Error()))
	}
	if _, object := value.(map[string]any); !object {
		return fault.New(fault.Invalid, "tool_arguments_invalid", "The arguments of %s must be a JSON object.", name)
	}
	if field, found := nul(value); found {
		return misfit(name, field, `it has a NUL character (\u0000), which no text here may have`)
	}
	if err := schema.Validate(value); err != nil {
		return misfit(name, fieldOf(err.Error()), reasonOf(err.Error()))
	}
	return nil
}

func misfit(name, field, reason string) error {
	if field == "" {
		return fault.New(fault.Invalid, "tool_arguments_invalid", "The arguments of %s do not fit its schema: %s.", name, reason)
	}
	return fault.New(fault.Invalid, "tool_arguments_invalid", "The argument %q of %s does not fit: %s.", field, name, reason).With("field", field)
}

// decode reads exactly one JSON value.
func decode(raw []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if err = d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err = d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return value, nil
}

// nul finds a NUL in a text or a name: PostgreSQL stores none, and no argument of a program can have one. It builds the path of the
// field on the way back: JSON may be nested 10,000 deep, and a path for each level would take memory that grows with its square.
func nul(value any) (field string, found bool) {
	switch v := value.(type) {
	case string:
		return "", strings.IndexByte(v, 0) >= 0
	case []any:
		for _, e := range v {
			if field, found = nul(e); found {
				return field, true
			}
		}
	case map[string]any:
		for k, e := range v {
			if strings.IndexByte(k, 0) >= 0 {
				return "", true
			}
			if field, found = nul(e); found {
				return strings.TrimSuffix(k+"."+field, "."), true
			}
		}
	}
	return "", false
}

// The library names the schema it was at, then what is wrong: `validating root: validating /properties/env: type: 1 has type ...`.
const stepBefore = "validating "

var unknownOrMissing = regexp.MustCompile(`^(?:unexpected additional properties|required: missing properties:|dependentRequired\[.*?\]: missing properties) \["((?:[^"\\]|\\.)*)"`)

// steps splits the library's error into where it was and what is wrong there.
func steps(text string) (schemaPath, reason string) {
	for {
		rest, ok := strings.CutPrefix(text, stepBefore)
		if !ok {
			return schemaPath, text
		}
		at, after, ok := strings.Cut(rest, ": ")
		if !ok {
			return schemaPath, text
		}
		schemaPath, text = at, after
	}
}

// fieldOf returns the field that an error of the library is about, as a path such as env.HOME; "" for the arguments as a whole.
func fieldOf(text string) string {
	schemaPath, reason := steps(text)
	var names []string
	parts := strings.Split(schemaPath, "/")
	for i := 1; i < len(parts); i++ {
		if parts[i-1] == "properties" {
			names = append(names, parts[i])
			parts[i] = "" // a property may be called properties
		}
	}
	if m := unknownOrMissing.FindStringSubmatch(reason); m != nil {
		if name, err := strconv.Unquote(`"` + m[1] + `"`); err == nil { // the library quotes it
			names = append(names, name)
		}
	}
	return cut(strings.Join(names, "."), 200)
}

func reasonOf(text string) string {
	_, reason := steps(text)
	return shorten(strings.TrimSuffix(reason, "."))
}

// shorten omits the middle of a text: the library repeats the wrong value, which may be long.
func shorten(s string) string {
	const head, tail = 120, 160
	if len(s) <= head+tail {
		return s
	}
	return strings.ToValidUTF8(s[:head], "") + "..." + strings.ToValidUTF8(s[len(s)-tail:], "")
}

// cut returns the beginning of a text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
