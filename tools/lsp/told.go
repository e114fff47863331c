package lsp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/lsp/languages"
)

// Bounds of what is remembered of callers.
const (
	maxCallers    = 200  // the one that asked longest ago is forgotten
	maxTold       = 500  // files of one caller
	maxIdentities = 5000 // diagnostics of one caller: those of further files count as new each time
	maxLines      = 20   // of a report
)

// told remembers what callers got, so that a report after an edit says only what is new.
type told struct {
	mu      sync.Mutex
	callers map[string]*caller
	clock   uint64
}

type caller struct {
	used  uint64
	files map[string]toldFile
	known int // diagnostics of all files

	late     []string        // files whose problems were not known in time after an edit
	notReady map[string]bool // languages of which the caller knows that
}

func (c *caller) forget(file string) {
	c.known -= len(c.files[file].known)
	delete(c.files, file)
}

type toldFile struct {
	stamp string            // of the change that the file was when it was reported
	known map[identity]bool // its diagnostics
}

// of returns what a caller got. Called with mu held.
func (t *told) of(name string) *caller {
	if t.callers == nil {
		t.callers = map[string]*caller{}
	}
	t.clock++
	c := t.callers[name]
	if c == nil {
		if len(t.callers) >= maxCallers {
			oldest := ""
			for n, c := range t.callers {
				if oldest == "" || c.used < t.callers[oldest].used {
					oldest = n
				}
			}
			delete(t.callers, oldest)
		}
		c = &caller{files: map[string]toldFile{}}
		t.callers[name] = c
	}
	c.used = t.clock
	return c
}

// mark sets New in the diagnostics that a caller has not got before, and remembers them.
func (t *told) mark(name string, files []File, stamps map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(name)
	for i := range files {
		f := &files[i]
		if f.NotReady != "" {
			continue // it is reported when it is known
		}
		before := c.files[f.Path]
		now := toldFile{stamp: stamps[f.Path], known: map[identity]bool{}}
		for j := range f.Items {
			d := &f.Items[j]
			id := d.identity()
			d.New, now.known[id] = !before.known[id], true
		}
		c.forget(f.Path)
		if len(c.files) < maxTold && c.known+len(now.known) <= maxIdentities {
			c.files[f.Path] = now
			c.known += len(now.known)
		}
	}
}

// changed returns the files of which a caller has no report as they are now.
func (t *told) changed(name string, changes []guest.Change) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(name)
	now := map[string]bool{}
	var out []string
	for _, ch := range changes {
		now[ch.Path] = true
		if _, has := languages.Of(ch.Path); !has || ch.Status == "deleted" {
			continue
		}
		if before, was := c.files[ch.Path]; !was || before.stamp != stampOf(ch) {
			out = append(out, ch.Path)
		}
	}
	for file, f := range c.files { // set back to the base, or reported without having changed
		if !now[file] && f.stamp != "" {
			c.forget(file)
		}
	}
	slices.Sort(out)
	return out
}

// Report is what a caller gets to know about files.
type Report struct {
	Files    []File
	Unlisted int // changed files that were left out
}

// Report returns the diagnostics of files, or without paths those of the files that changed since the caller asked last. What the caller was
// not get before is marked as new. name identifies the caller.
func (s *Service) Report(ctx context.Context, teamID, workspaceID, name string, paths []string) (Report, error) {
	p, err := s.admit(ctx, teamID, workspaceID)
	if err != nil {
		return Report{}, err
	}
	changes, err := s.cfg.Files.Changed(ctx, workspaceID)
	if err != nil {
		return Report{}, err
	}
	stamps := map[string]string{}
	for _, c := range changes {
		stamps[c.Path] = stampOf(c)
	}
	all := make([]string, len(paths))
	for i, file := range paths {
		if all[i], err = inside(p, file); err != nil {
			return Report{}, err
		}
	}
	if len(paths) == 0 {
		all = s.told.changed(name, changes)
	}
	files, err := s.Diagnostics(ctx, teamID, workspaceID, all)
	if err != nil {
		return Report{}, err
	}
	if len(paths) == 1 && files[0].NotReady != "" && files[0].Language == "" {
		return Report{}, fault.New(fault.Invalid, "language_unknown", "No language server knows files such as %.200s.", paths[0])
	}
	s.told.mark(name, files, stamps)
	return Report{Files: files, Unlisted: len(all) - len(files)}, nil
}

// Diagnostics returns all of a report: new ones first, errors before the rest.
func (r Report) Diagnostics() []Diagnostic {
	out := []Diagnostic{}
	for _, f := range r.Files {
		out = append(out, f.Items...)
	}
	slices.SortStableFunc(out, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(newRank(a), newRank(b)), cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)))
	})
	return out
}

func newRank(d Diagnostic) int {
	if d.New {
		return 0
	}
	return 1
}

// Words formats a report for an agent, in at most maxLines lines: of hints nothing, of the rest what is new; everything when whole.
func (r Report) Words(whole bool) string {
	var list []string
	known, hints := 0, 0
	for _, d := range r.Diagnostics() {
		switch {
		case !whole && severityRank(d.Severity) >= severityRank("information"):
			hints++
		case !whole && !d.New:
			known++
		default:
			list = append(list, d.Words())
		}
	}
	var notes []string
	for _, f := range r.Files {
		if f.NotReady != "" {
			notes = append(notes, fmt.Sprintf("%s: not checked: %s.", f.Path, f.NotReady))
		}
	}
	if r.Unlisted > 0 {
		notes = append(notes, fmt.Sprintf("%d more changed files were not checked.", r.Unlisted))
	}
	notes = notes[:min(len(notes), maxLines/2)]
	switch {
	case len(r.Files) == 0:
		return "No file that a language server knows has changed since you asked last."
	case len(list) == 0 && len(notes) < len(r.Files):
		if whole || known == 0 {
			list = append(list, "No problems.")
		} else {
			list = append(list, "No new problems.")
		}
	}
	if known > 0 {
		notes = append(notes, fmt.Sprintf("%d known problems remain.", known))
	}
	if room := maxLines - len(notes); len(list) > room {
		list = append(list[:room-1], fmt.Sprintf("%d more problems.", len(list)-room+1))
	}
	return strings.Join(append(list, notes...), "\n")
}

// Words formats a diagnostic as compilers do, in one line.
func (d Diagnostic) Words() string {
	text := fmt.Sprintf("%s:%d:%d: %s: %s", d.Path, d.Line, d.Character, d.Severity, strings.Join(strings.Fields(d.Message), " "))
	if d.Code != "" || d.Source != "" {
		text += " (" + strings.TrimSpace(d.Source+" "+d.Code) + ")"
	}
	return text
}
