package triggers

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"github.com/parawork/parawork/internal/safetext"
)

var placeholder = regexp.MustCompile(`\{\{\s*([A-Za-z0-9_.\-]{1,200})\s*\}\}`)

const maxField = 8 << 10 // bytes of one field of an event

// Fill puts what an event says into a template: {{event.title}} becomes the field title. It returns the names that nothing was known about,
// for which nothing is written. What is put in is not looked at again: text of an event that looks like a placeholder stays as it is.
func Fill(template string, fields map[string]string) (text string, unknown []string) {
	text = placeholder.ReplaceAllStringFunc(template, func(m string) string {
		name := placeholder.FindStringSubmatch(m)[1]
		value, ok := fields[name]
		if !ok && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
		return value
	})
	return text, unknown
}

// put keeps a field of an event: text of a bounded length, without control characters.
func put(fields map[string]string, name, value string) {
	if value = safetext.Cut(safetext.Lines(value), maxField); value != "" {
		fields[name] = value
	}
}

// flatten makes fields of what another program reported: {"a": {"b": [1]}} becomes event.a.b.0 = "1". Both sizes are bounded.
func flatten(fields map[string]string, prefix string, v any, left *int) {
	if *left <= 0 || len(prefix) > 200 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			flatten(fields, prefix+"."+name, v[name], left)
		}
	case []any:
		for i, item := range v[:min(len(v), 20)] {
			flatten(fields, prefix+"."+strconv.Itoa(i), item, left)
		}
	case nil:
	case string:
		*left -= min(len(v), maxField) + len(prefix)
		put(fields, prefix, v)
	case json.Number:
		*left -= len(v) + len(prefix)
		put(fields, prefix, v.String())
	case bool:
		*left -= 5 + len(prefix)
		put(fields, prefix, strconv.FormatBool(v))
	}
}
