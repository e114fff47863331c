package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// decoder fills a Config from a tree and notes every problem by the path of its key.
type decoder struct {
	agents   map[string]string // those Parawork knows by itself, as Load says
	given    map[string]bool   // paths of keys that were given, by the file or by a twin
	fromFile map[string]bool   // those given by the file
	problems []string
	kinds    []Kind
	tree     reflect.Value // of the settings of places
}

func (d *decoder) problem(path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	d.problems = append(d.problems, text)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// decode sets dst, which holds the defaults, from n.
func (d *decoder) decode(path string, n node, dst reflect.Value) {
	if s, short := n.value.(string); short && dst.Type() == reflect.TypeFor[AgentPrompt]() {
		d.given[path], d.fromFile[path] = true, true
		dst.Set(reflect.ValueOf(AgentPrompt{Delivery: s}))
		return
	}
	if dst.Kind() == reflect.Struct {
		d.object(path, n, dst)
		return
	}
	d.given[path], d.fromFile[path] = true, true
	switch dst.Kind() {
	case reflect.Pointer: // optional: null = not given
		if n.value == nil {
			dst.SetZero()
			return
		}
		dst.Set(reflect.New(dst.Type().Elem()))
		d.decode(path, n, dst.Elem())
	case reflect.String:
		if s, ok := n.value.(string); ok {
			dst.SetString(s)
			return
		}
		d.problem(path, "must be a string, not %s", kindOf(n))
	case reflect.Bool:
		if b, ok := n.value.(bool); ok {
			dst.SetBool(b)
			return
		}
		d.problem(path, "must be true or false, not %s", kindOf(n))
	case reflect.Int, reflect.Int64, reflect.Float64:
		if s, text := n.value.(string); text && dst.Type() == reflect.TypeFor[Cores]() {
			d.number(path, s, dst)
			return
		}
		num, ok := n.value.(json.Number)
		if !ok {
			d.problem(path, "must be a number, not %s", kindOf(n))
			return
		}
		d.number(path, num.String(), dst)
	case reflect.Slice:
		d.list(path, n, dst)
	case reflect.Map:
		d.mapping(path, n, dst)
	}
}

func (d *decoder) number(path, text string, dst reflect.Value) {
	if share, ok := strings.CutSuffix(text, "%"); ok && dst.Type() == reflect.TypeFor[Cores]() {
		f, err := strconv.ParseFloat(share, 64)
		if err != nil || !(f > 0 && f <= 100) {
			d.problem(path, "must be a number of cores, or a share of the machine such as \"80%%\", not %q", text)
			return
		}
		dst.SetFloat(f / 100 * float64(runtime.NumCPU()))
		return
	}
	if dst.Kind() == reflect.Float64 {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			d.problem(path, "must be a number, not %q", text)
			return
		}
		dst.SetFloat(f)
		return
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		d.problem(path, "must be a whole number, not %q", text)
		return
	}
	dst.SetInt(i)
}

func (d *decoder) list(path string, n node, dst reflect.Value) {
	items, ok := n.value.([]node)
	if !ok {
		d.problem(path, "must be an array, not %s", kindOf(n))
		return
	}
	if dst.Type().Elem().Kind() == reflect.Struct {
		out := reflect.MakeSlice(dst.Type(), len(items), len(items))
		for i, item := range items {
			d.decode(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i))
		}
		dst.Set(out)
		return
	}
	out := make([]string, 0, len(items))
	for i, item := range items {
		s, ok := item.value.(string)
		if !ok {
			d.problem(fmt.Sprintf("%s[%d]", path, i), "must be a string, not %s", kindOf(item))
			continue
		}
		out = append(out, s)
	}
	dst.Set(reflect.ValueOf(out))
}

// mapping fills a map of texts, or of structs: an entry that has defaults keeps those it does not name.
func (d *decoder) mapping(path string, n node, dst reflect.Value) {
	o, ok := n.value.(object)
	if !ok {
		d.problem(path, "must be an object, not %s", kindOf(n))
		return
	}
	if dst.Type().Elem().Kind() == reflect.String {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	for _, key := range o.keys {
		v := reflect.New(dst.Type().Elem()).Elem()
		if old := dst.MapIndex(reflect.ValueOf(key)); old.IsValid() {
			v.Set(old)
		} else if v.Type() == reflect.TypeFor[Agent]() {
			v.Set(reflect.ValueOf(newAgent()))
		} else if v.Type() == reflect.TypeFor[SignInProvider]() {
			v.Set(reflect.ValueOf(newSignInProvider()))
		}
		d.decode(join(path, key), o.values[key], v)
		dst.SetMapIndex(reflect.ValueOf(key), v)
	}
}

func (d *decoder) object(path string, n node, dst reflect.Value) {
	o, ok := n.value.(object)
	if !ok {
		d.problem(path, "must be an object, not %s", kindOf(n))
		return
	}
	known := fields(dst.Type())
	for _, key := range o.keys {
		i := slices.IndexFunc(known, func(f field) bool { return f.key == key })
		if i >= 0 {
			d.decode(join(path, key), o.values[key], dst.Field(known[i].index))
			continue
		}
		if k := slices.IndexFunc(d.kinds, func(k Kind) bool { return k.Name == key }); k >= 0 && path == placesPath {
			d.decode(join(path, key), o.values[key], d.tree.Field(k))
			continue
		}
		d.unknown(path, key)
	}
}

// unknown says that a key is not known, and which one may be meant.
func (d *decoder) unknown(path, key string) {
	full := join(path, key)
	if best := d.nearest(full, path); best != "" {
		d.problem("", "%q is not a key Parawork knows. Did you mean %q?", full, best)
		return
	}
	d.problem("", "%q is not a key Parawork knows. docs/config.md lists them all.", full)
}

// field is a key of a struct.
type field struct {
	key    string
	index  int
	secret string // "", "all", "url" or "values"
	file   string // the key of the secret this one names the file of
}

func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("json"); key != "-" {
			out = append(out, field{key, i, f.Tag.Get("secret"), f.Tag.Get("file")})
		}
	}
	return out
}

func kindOf(n node) string {
	switch n.value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []node:
		return "an array"
	}
	return "an object"
}

// Keys returns the path of every key, with <name> for the name of an agent, in the order of the types, then those of places.
func Keys(kinds []Kind) []string {
	return append(keysOf("", reflect.TypeFor[Config]()), placeKeys(kinds)...)
}

func keysOf(path string, t reflect.Type) []string {
	var out []string
	for _, f := range fields(t) {
		full, ft := join(path, f.key), t.Field(f.index).Type
		switch {
		case ft.Kind() == reflect.Struct:
			out = append(out, keysOf(full, ft)...)
		case ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Struct:
			out = append(out, keysOf(full+".<name>", ft.Elem())...)
		case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
			out = append(out, keysOf(full+"[]", ft.Elem())...)
		default:
			out = append(out, full)
		}
	}
	return out
}

// nearest returns the known key that key most likely means: the same word elsewhere, or the fewest letters apart. "" when none
// is near.
func (d *decoder) nearest(full, path string) string {
	key := full[strings.LastIndexByte(full, '.')+1:]
	best, least := "", 1000
	for _, known := range allPaths(d.kinds) {
		parent, last := "", known
		if i := strings.LastIndexByte(known, '.'); i >= 0 {
			parent, last = known[:i], known[i+1:]
		}
		n := distance(strings.ToLower(key), strings.ToLower(last))
		if n > max(1, len(key)/3) {
			continue
		}
		n *= 2
		if parent != pattern(path) {
			n += 3 // rather one of the same object
		}
		if n < least {
			best, least = known, n
		}
	}
	return strings.Replace(best, "<name>", nameOf(path), 1)
}

// allPaths returns Keys and the objects that hold them.
func allPaths(kinds []Kind) []string {
	var out []string
	for _, k := range Keys(kinds) {
		for i := range len(k) {
			if parent := strings.TrimSuffix(k[:i], "[]"); k[i] == '.' && !slices.Contains(out, parent) && !strings.HasSuffix(parent, "<name>") {
				out = append(out, parent)
			}
		}
		out = append(out, k)
	}
	return out
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// named are the objects whose keys people choose.
var named = []string{"agents.", "accounts.providers."}

// pattern turns agents.codex into agents.<name>, and the number of an item into [].
func pattern(path string) string {
	for _, head := range named {
		rest, ok := strings.CutPrefix(path, head)
		if !ok {
			continue
		}
		_, below, deeper := strings.Cut(rest, ".")
		if !deeper {
			return head + "<name>"
		}
		return head + "<name>." + indexes.ReplaceAllString(below, "[]")
	}
	return path
}

// nameOf returns the key that people chose in a path.
func nameOf(path string) string {
	for _, head := range named {
		if rest, ok := strings.CutPrefix(path, head); ok {
			name, _, _ := strings.Cut(rest, ".")
			return name
		}
	}
	return "<name>"
}

// distance is the number of letters to insert, remove, replace or swap with a neighbour to turn a into b.
func distance(a, b string) int {
	prev2, prev := []int(nil), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}
