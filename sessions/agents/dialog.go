package agents

import (
	"regexp"
	"strings"
)

// Dialog is a question on the screen: a numbered list to choose from.
type Dialog struct {
	Ask
	Key  string // identifies it: constant as long as the same dialog is shown
	Foot string // the lines below the list
	keys []string
}

// Press returns the keys that choose an option, "" for an unknown option.
func (d *Dialog) Press(id string) string {
	for i, o := range d.Options {
		if o.ID == id {
			return d.keys[i]
		}
	}
	return ""
}

var dialogOption = regexp.MustCompile(`^\s*(❯|›)?\s*([1-9])\. (\S.*)$`)

const (
	dialogAbove = 40 // lines of its subject
	dialogBelow = 6  // lines below the list
)

// readDialog finds the last numbered list on the screen that has a cursor and nothing but a foot below it. top reports whether
// the dialog's subject begins below a line; without such a line it begins with the question. The caller sets the keys.
func readDialog(lines []string, cursor string, top func(string) bool) *Dialog {
	end := len(lines)
	for end > 0 && strings.TrimSpace(lines[end-1]) == "" {
		end--
	}
	lines = lines[:end]
	first := -1
	for i := len(lines) - 1; i >= max(0, len(lines)-dialogAbove); i-- {
		if m := dialogOption.FindStringSubmatch(lines[i]); m != nil && m[2] == "1" {
			first = i
			break
		}
	}
	if first < 0 {
		return nil
	}
	d := &Dialog{Ask: Ask{Kind: Choice}}
	pointed, foot := 0, []string{}
	for _, line := range lines[first:] {
		m := dialogOption.FindStringSubmatch(line)
		text := strings.TrimSpace(line)
		switch {
		case m != nil && len(foot) == 0 && m[2][0] == byte('1'+len(d.Options)):
			if m[1] == cursor {
				pointed++
			}
			d.Options = append(d.Options, Option{ID: m[2], Label: m[3]})
		case text == "" && len(foot) == 0:
			foot = append(foot, "")
		case len(foot) > 0:
			foot = append(foot, text)
		default: // a wrapped option, its description, or the foot directly below the list
			if strings.HasPrefix(line, "   ") {
				d.Options[len(d.Options)-1].Label += " " + text
			} else {
				foot = append(foot, text)
			}
		}
	}
	if pointed != 1 || len(d.Options) < 2 || len(foot) > dialogBelow {
		return nil
	}
	d.Foot = strings.Join(foot, "\n")
	d.keys = make([]string, len(d.Options))
	about := lines[max(0, first-dialogAbove):first]
	for i := len(about) - 1; i >= 0; i-- {
		if top(strings.TrimSpace(about[i])) {
			about = about[i+1:]
			break
		}
	}
	for i := len(about) - 1; i >= 0 && d.Title == ""; i-- {
		if t := strings.TrimSpace(about[i]); strings.HasSuffix(t, "?") {
			d.Title = t
			about = append(append([]string(nil), about[:i]...), about[i+1:]...)
		}
	}
	d.Detail = dedent(about)
	if d.Title == "" {
		d.Title, _, _ = strings.Cut(strings.TrimSpace(d.Detail), "\n")
	}
	d.roles()
	labels := make([]string, len(d.Options))
	for i, o := range d.Options {
		labels[i] = o.Label
	}
	d.Key = "screen/" + fingerprint(d.Title, d.Detail, labels)
	return d
}

// roles infers from the labels what the options do.
func (d *Dialog) roles() {
	allow, deny := false, false
	for i := range d.Options {
		o := &d.Options[i]
		label := strings.ToLower(o.Label)
		switch {
		case strings.HasPrefix(label, "no"), strings.HasPrefix(label, "cancel"), strings.HasPrefix(label, "deny"):
			o.Role, deny = Deny, true
		case allow && (strings.HasPrefix(label, "yes") || strings.HasPrefix(label, "allow")):
			o.Role = AllowSession
		case strings.HasPrefix(label, "yes"), strings.HasPrefix(label, "allow"):
			o.Role, allow = Allow, true
		default:
			o.Role = Plain
		}
	}
	if allow && deny {
		d.Kind, d.FreeText = Permission, true
		return
	}
	for i := range d.Options {
		d.Options[i].Role = Plain
	}
}

// dedent joins lines, without surrounding blank lines and common indentation.
func dedent(lines []string) string {
	least := -1
	for _, l := range lines {
		if t := strings.TrimLeft(l, " "); t != "" && (least < 0 || len(l)-len(t) < least) {
			least = len(l) - len(t)
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRight(l[min(max(least, 0), len(l)):], " ")
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}
