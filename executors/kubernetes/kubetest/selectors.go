package kubetest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// selector tells which objects a caller wants.
type selector []func(object) bool

func (s selector) fits(o object) bool {
	for _, f := range s {
		if !f(o) {
			return false
		}
	}
	return true
}

var setBased = regexp.MustCompile(`^([^\s!=()]+)\s+(in|notin)\s+\(([^()]*)\)$`)

// parseLabels reads a selector of labels.
func parseLabels(text string) (selector, error) {
	var out selector
	for _, one := range splitSelector(text) {
		has := func(o object, k string) (string, bool) {
			l, _ := metaOf(o)["labels"].(object)
			v, ok := l[k].(string)
			return v, ok
		}
		bad := refuse(http.StatusBadRequest, "unable to parse requirement: found '%s', expected: identifier", one)
		if m := setBased.FindStringSubmatch(one); m != nil {
			var values []string
			for v := range strings.SplitSeq(m[3], ",") {
				values = append(values, strings.TrimSpace(v))
			}
			k, in := m[1], m[2] == "in"
			out = append(out, func(o object) bool {
				v, ok := has(o, k)
				return (ok && slices.Contains(values, v)) == in
			})
			continue
		}
		switch {
		case strings.Contains(one, "!="):
			k, v, _ := strings.Cut(one, "!=")
			out = append(out, func(o object) bool {
				got, ok := has(o, strings.TrimSpace(k))
				return !ok || got != strings.TrimSpace(v)
			})
		case strings.Contains(one, "="):
			k, v, _ := strings.Cut(one, "=")
			k, v = strings.TrimSpace(k), strings.TrimSpace(strings.TrimPrefix(v, "="))
			if !labelKey(k) || !labelValue.MatchString(v) {
				return nil, bad
			}
			out = append(out, func(o object) bool { got, ok := has(o, k); return ok && got == v })
		case strings.HasPrefix(one, "!"):
			out = append(out, func(o object) bool { _, ok := has(o, strings.TrimSpace(one[1:])); return !ok })
		default:
			if !labelKey(one) {
				return nil, bad
			}
			out = append(out, func(o object) bool { _, ok := has(o, one); return ok })
		}
	}
	return out, nil
}

// splitSelector splits at commas that are not within parentheses.
func splitSelector(text string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			if one := strings.TrimSpace(text[from:i]); one != "" {
				out = append(out, one)
			}
			from = i + 1
		}
	}
	return out
}

// selectable are the fields that each kind is selected by beside its name and its namespace.
var selectable = map[string][]string{
	"pods": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"},
	"events": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
	"namespaces": {"status.phase"}, "secrets": {"type"}, "nodes": {"spec.unschedulable"},
}

// parseFields reads a selector of fields.
func parseFields(r *resource, text string) (selector, error) {
	var out selector
	for one := range strings.SplitSeq(text, ",") {
		if one == "" {
			continue
		}
		k, v, ok := strings.Cut(one, "=")
		not := strings.HasSuffix(k, "!")
		k, v = strings.TrimSuffix(k, "!"), strings.TrimPrefix(v, "=")
		if !ok {
			return nil, refuse(http.StatusBadRequest, "invalid field selector %q: can't understand '%s'", text, one)
		}
		if k != "metadata.name" && k != "metadata.namespace" && !slices.Contains(selectable[r.plural], k) {
			return nil, refuse(http.StatusBadRequest, "field label not supported: %s", k)
		}
		path := strings.Split(k, ".")
		out = append(out, func(o object) bool {
			var at any = o
			for _, p := range path {
				m, _ := at.(object)
				at = m[p]
			}
			if at == nil {
				at = ""
			}
			return (fmt.Sprint(at) == v) != not
		})
	}
	return out, nil
}

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelName    = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`)
	labelValue   = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)
)

func labelKey(k string) bool {
	prefix, name, ok := strings.Cut(k, "/")
	if !ok {
		prefix, name = "", k
	}
	return len(name) <= 63 && labelName.MatchString(name) && (!ok || len(prefix) <= 253 && dnsSubdomain.MatchString(prefix))
}
