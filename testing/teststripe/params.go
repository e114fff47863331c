package teststripe

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fail is an error of the API.
type fail struct {
	status               int
	kind, code, param    string
	message, declineCode string
}

// problem is an error in what was asked, or one of the service's own (5xx).
func problem(status int, code, param, message string) *fail {
	kind := "invalid_request_error"
	if status >= 500 {
		kind = "api_error"
	}
	return &fail{status: status, kind: kind, code: code, param: param, message: message}
}

func missing(kind, id string) *fail {
	return problem(http.StatusNotFound, "resource_missing", "id", fmt.Sprintf("No such %s: '%s'", strings.ReplaceAll(kind, ".", " "), id))
}

func wrong(param, message string) *fail {
	return problem(http.StatusBadRequest, "", param, message)
}

func (f *fail) body() []byte {
	e := obj{"type": f.kind, "message": f.message}
	if f.code != "" {
		e["code"], e["doc_url"] = f.code, "https://stripe.com/docs/error-codes/"+strings.ReplaceAll(f.code, "_", "-")
	}
	if f.param != "" {
		e["param"] = f.param
	}
	if f.declineCode != "" {
		e["decline_code"] = f.declineCode
	}
	b, _ := json.Marshal(obj{"error": e})
	return b
}

// redacted shows the end of a key only, as Stripe does.
func redacted(key string) string {
	if len(key) < 12 {
		return strings.Repeat("*", len(key))
	}
	return key[:8] + strings.Repeat("*", len(key)-12) + key[len(key)-4:]
}

// param is what a route takes: a path such as recurring.interval, * for the numbers of a list, ** for anything below.
type param struct {
	path                   string
	required, whole, truth bool
	below                  bool
}

// parseSpec reads names of parameters: "email metadata.** items.*.price! limit# prorate?". A name that ends in ! is required, # is a whole
// number, ? is true or false.
func parseSpec(spec string) []param {
	out := []param{{path: "expand.*"}}
	for _, f := range strings.Fields(spec) {
		p := param{}
		for {
			if rest, ok := strings.CutSuffix(f, "!"); ok {
				f, p.required = rest, true
			} else if rest, ok := strings.CutSuffix(f, "#"); ok {
				f, p.whole = rest, true
			} else if rest, ok := strings.CutSuffix(f, "?"); ok {
				f, p.truth = rest, true
			} else {
				break
			}
		}
		p.path, p.below = strings.CutSuffix(f, ".**")
		out = append(out, p)
	}
	return out
}

var listIndex = regexp.MustCompile(`^\d*$`)

// parts splits a[b][0][c].
func parts(name string) ([]string, bool) {
	head, rest, nested := strings.Cut(name, "[")
	out := []string{head}
	for nested {
		var part string
		var ok bool
		if part, rest, ok = strings.Cut(rest, "]"); !ok {
			return nil, false
		}
		out = append(out, part)
		if rest == "" {
			return out, true
		}
		if rest[0] != '[' {
			return nil, false
		}
		rest = rest[1:]
	}
	return out, head != ""
}

// check refuses parameters a route does not take, and reads them as a tree: lists are maps by number.
func check(form url.Values, spec []param) (obj, *fail) {
	tree := obj{}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		way, ok := parts(name)
		if !ok {
			return nil, problem(http.StatusBadRequest, "parameter_unknown", name, "Received unknown parameter: "+name)
		}
		shape := slices.Clone(way)
		for i := range shape {
			if i > 0 && listIndex.MatchString(shape[i]) {
				shape[i] = "*"
			}
		}
		path := strings.Join(shape, ".")
		i := slices.IndexFunc(spec, func(p param) bool {
			return p.path == path || p.below && (strings.HasPrefix(path, p.path+".") || path == p.path)
		})
		if i < 0 {
			return nil, problem(http.StatusBadRequest, "parameter_unknown", name, "Received unknown parameter: "+name)
		}
		p := spec[i]
		for n, value := range form[name] {
			if p.whole {
				if _, err := strconv.ParseInt(value, 10, 64); err != nil && !(value == "" || value == "now") {
					return nil, problem(http.StatusBadRequest, "parameter_invalid_integer", name, "Invalid integer: "+value)
				}
			}
			if p.truth && value != "true" && value != "false" {
				return nil, wrong(name, "Invalid boolean: "+value)
			}
			put(tree, way, n, value)
		}
		if len(form[name]) > 1 && shape[len(shape)-1] != "*" {
			return nil, wrong(name, "Invalid string: given "+strconv.Itoa(len(form[name]))+" times")
		}
		seen[path] = true
	}
	for _, p := range spec {
		if p.required && !seen[p.path] && !(p.below && tree[p.path] != nil) {
			return nil, problem(http.StatusBadRequest, "parameter_missing", p.path, "Missing required param: "+p.path+".")
		}
	}
	return tree, nil
}

// put stores the nth value of a name.
func put(tree obj, way []string, n int, value string) {
	for i, part := range way {
		if part == "" {
			part = strconv.Itoa(n)
		}
		if i == len(way)-1 {
			tree[part] = value
			return
		}
		next, ok := tree[part].(obj)
		if !ok {
			next = obj{}
			tree[part] = next
		}
		tree = next
	}
}

// sub is the tree below a name; nil when there is none.
func sub(tree obj, name string) obj {
	o, _ := tree[name].(obj)
	return o
}

// text is a leaf.
func text(tree obj, name string) string {
	v, _ := tree[name].(string)
	return v
}

// whole is a leaf that is a whole number.
func whole(tree obj, name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(text(tree, name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// items are the parts of a list, in order.
func items(tree obj, name string) []obj {
	list := sub(tree, name)
	var at []int
	for k := range list {
		if n, err := strconv.Atoi(k); err == nil {
			at = append(at, n)
		}
	}
	slices.Sort(at)
	var out []obj
	for _, n := range at {
		if o, ok := list[strconv.Itoa(n)].(obj); ok {
			out = append(out, o)
		}
	}
	return out
}

// texts are the leaves of a list, in order.
func texts(tree obj, name string) []string {
	list := sub(tree, name)
	out := make([]string, 0, len(list))
	for n := range len(list) {
		out = append(out, text(list, strconv.Itoa(n)))
	}
	return out
}

// metadata merges what was given into an object's: an empty value takes a key away.
func metadata(o obj, given obj) *fail {
	have, ok := o["metadata"].(obj)
	if !ok {
		have = obj{}
		o["metadata"] = have
	}
	for k, v := range given {
		value, ok := v.(string)
		switch {
		case !ok || len(k) > 40 || len(value) > 500:
			return wrong("metadata", "Metadata has keys of at most 40 and values of at most 500 characters")
		case value == "":
			delete(have, k)
		default:
			have[k] = value
		}
	}
	if len(have) > 50 {
		return wrong("metadata", "You can set at most 50 metadata keys")
	}
	return nil
}
