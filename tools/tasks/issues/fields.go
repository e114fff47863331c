package issues

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces/forge"
)

// Bounds of texts that forges take: a title of 255 characters, a body of 65,536.
const (
	maxTitle = 250 // characters
	maxText  = 60_000
	shortly  = maxText - 1500 // of a text that is cut, so that a note fits behind it
)

// typeLabels are the labels that say what type a task is.
var typeLabels = map[string]string{"bug": "bug", "feature": "feature", "enhancement": "feature", "epic": "epic", "chore": "chore"}

var priorityLabel = regexp.MustCompile(`^(?i:priority: ?|p)([0-4])$`)

// marker names the task that an issue was made for, so that a server that died before it stored the answer finds the issue again. The uid
// is in it because two servers may have a task PW-T12.
func marker(t tasks.Task) string { return fmt.Sprintf("<!-- parawork:%s %s -->", t.ID, t.UID) }

var markers = regexp.MustCompile(`<!-- parawork:PW-T[0-9]+ (tsk_[A-Za-z0-9]+) -->`)

// marked is the uid of the task an issue says it was made for.
func marked(body string) string {
	if m := markers.FindStringSubmatch(body); m != nil {
		return m[1]
	}
	return ""
}

// fieldsOf is what the issue of a task should have.
func fieldsOf(t tasks.Task) Fields {
	f := Fields{Title: title(t.Title), Description: text(t.Description, "… This text was cut here. The whole is in the task "+t.ID+"."), Type: t.Type, Priority: t.Priority, Closed: t.Status == tasks.Closed}
	f.Labels, f.Description = sorted(t.Labels), markers.ReplaceAllString(f.Description, "")
	f.Description = strings.TrimSpace(f.Description)
	return f
}

// read is what a task takes from an issue.
func read(i forge.Issue) Fields {
	f := Fields{Title: title(i.Title), Type: tasks.Types[0], Priority: tasks.DefaultPriority, Closed: i.Closed}
	if f.Title == "" {
		f.Title = fmt.Sprintf("Issue %d", i.Number)
	}
	body := strings.TrimSpace(markers.ReplaceAllString(i.Body, ""))
	f.Description = text(body, "… The issue's text was cut here. The whole is at "+i.URL)
	f.Cut = len(clean(body)) > maxText
	var labels []string
	for _, l := range i.Labels {
		switch {
		case typeLabels[strings.ToLower(l)] != "":
			f.Type = typeLabels[strings.ToLower(l)]
		case priorityLabel.MatchString(l):
			f.Priority, _ = strconv.Atoi(priorityLabel.FindStringSubmatch(l)[1])
		case storable(l):
			labels = append(labels, strings.TrimSpace(l))
		}
	}
	f.Labels = sorted(labels)
	f.Labels = f.Labels[:min(len(f.Labels), tasks.MaxLabels)]
	return f
}

// storable reports whether a task can have a label: others stay on the forge alone.
func storable(l string) bool {
	return strings.TrimSpace(l) != "" && utf8.RuneCountInString(l) <= tasks.MaxLabel && utf8.ValidString(l) && !strings.ContainsAny(l, "\"\\,<>&") && !strings.ContainsFunc(l, unicode.IsControl)
}

func sorted(list []string) []string {
	out := append([]string{}, list...)
	slices.Sort(out)
	return slices.Compact(out)
}

// clean removes what is no text: control characters, and characters that turn the direction of what follows.
func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\r\n", "\n")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s))
}

func title(s string) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if r := []rune(s); len(r) > maxTitle {
		s = strings.TrimSpace(string(r[:maxTitle-1])) + "…"
	}
	return s
}

// text bounds a description, and says behind it that it was cut.
func text(s, note string) string {
	s = clean(s)
	if len(s) <= maxText {
		return s
	}
	n := shortly
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n]) + "\n\n" + note
}

// lost is a value that gave way to the forge's.
type lost struct{ kind, text string }

// merge decides field by field: where one side has changed since base, that side wins; where both have, the forge does, and what it
// replaces of texts is returned. Of labels, what either side added or removed counts.
func merge(base, ours, theirs Fields) (Fields, []lost) {
	var gone []lost
	m := Fields{Title: pick(base.Title, ours.Title, theirs.Title), Description: pick(base.Description, ours.Description, theirs.Description), Type: pick(base.Type, ours.Type, theirs.Type),
		Priority: pick(base.Priority, ours.Priority, theirs.Priority), Closed: pick(base.Closed, ours.Closed, theirs.Closed), Cut: theirs.Cut}
	if theirs.Cut { // the whole text is on the forge alone: it must not be replaced by its beginning
		m.Description = theirs.Description
	}
	if m.Title != ours.Title && ours.Title != base.Title {
		gone = append(gone, lost{"lost_title", ours.Title})
	}
	if m.Description != ours.Description && ours.Description != base.Description {
		gone = append(gone, lost{"lost_description", ours.Description})
	}
	for _, l := range sorted(append(slices.Clone(ours.Labels), theirs.Labels...)) {
		had, here, there := slices.Contains(base.Labels, l), slices.Contains(ours.Labels, l), slices.Contains(theirs.Labels, l)
		if pick(had, here, there) {
			m.Labels = append(m.Labels, l)
		}
	}
	m.Labels = sorted(m.Labels)
	m.Labels = m.Labels[:min(len(m.Labels), tasks.MaxLabels)]
	return m, gone
}

// pick is the three-way choice: the side that changed, and the forge where both did.
func pick[T comparable](base, ours, theirs T) T {
	if theirs == base {
		return ours
	}
	return theirs
}

func (f Fields) equal(o Fields) bool {
	return f.Title == o.Title && f.Description == o.Description && f.Type == o.Type && f.Priority == o.Priority && f.Closed == o.Closed && slices.Equal(f.Labels, o.Labels)
}

// changeOf is what to change of an issue so that it has the fields a task has where they differ from base.
func changeOf(t tasks.Task, base, ours Fields, raw forge.Issue) (c forge.IssueChange, any bool) {
	theirs := read(raw)
	if ours.Title != base.Title && ours.Title != theirs.Title {
		c.Title, any = &ours.Title, true
	}
	if ours.Description != base.Description && ours.Description != theirs.Description && !theirs.Cut {
		body := bodyOf(t, ours)
		c.Body, any = &body, true
	}
	if ours.Closed != base.Closed && ours.Closed != theirs.Closed {
		c.Closed, any = &ours.Closed, true
	}
	if labels := labelsOf(base, ours, raw.Labels); !slices.Equal(sorted(labels), sorted(raw.Labels)) {
		c.Labels, any = &labels, true
	}
	return c, any
}

// bodyOf is the text of an issue, with the mark that it stands for a task.
func bodyOf(t tasks.Task, f Fields) string {
	return strings.TrimSpace(f.Description + "\n\n" + marker(t))
}

// labelsOf changes an issue's labels by what a task's fields changed since base. Labels a task cannot have stay.
func labelsOf(base, ours Fields, raw []string) []string {
	out := slices.Clone(raw)
	if out == nil {
		out = []string{}
	}
	drop := func(matches func(string) bool) { out = slices.DeleteFunc(out, matches) }
	add := func(l string) {
		if !slices.ContainsFunc(out, func(o string) bool { return strings.EqualFold(o, l) }) {
			out = append(out, l)
		}
	}
	if now := read(forge.Issue{Labels: raw}); ours.Type != base.Type && ours.Type != now.Type {
		drop(func(l string) bool { return typeLabels[strings.ToLower(l)] != "" })
		if ours.Type != tasks.Types[0] {
			add(ours.Type)
		}
	}
	if now := read(forge.Issue{Labels: raw}); ours.Priority != base.Priority && ours.Priority != now.Priority {
		drop(priorityLabel.MatchString)
		if ours.Priority != tasks.DefaultPriority {
			add("priority:" + strconv.Itoa(ours.Priority))
		}
	}
	for _, l := range base.Labels {
		if !slices.Contains(ours.Labels, l) {
			drop(func(o string) bool { return strings.TrimSpace(o) == l })
		}
	}
	for _, l := range ours.Labels {
		if !slices.Contains(base.Labels, l) {
			add(l)
		}
	}
	return out
}
