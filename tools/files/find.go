package files

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Bounds of searches.
const (
	globLimit   = 200 // files, unless the caller asks for less or more
	grepLimit   = 100 // lines or files, likewise
	searchMs    = 20_000
	maxFoundRow = 500 // bytes of a line in an answer
)

// findAnswer is what was found, for programs.
type findAnswer struct {
	Files    []foundFile `json:"files"`
	Total    int         `json:"total_files"` // also those left out
	Matches  int         `json:"matches"`     // lines that match, likewise
	Complete bool        `json:"complete"`    // everything was searched
}

type foundFile struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	Mtime   int64  `json:"mtime"`
	Matches int    `json:"matches"`
}

type globArgs struct {
	Pattern string `json:"pattern"`
	Root    string `json:"root"`
	Hidden  bool   `json:"hidden"`
	Ignored bool   `json:"ignored"`
	Limit   int    `json:"limit"`
}

type grepArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignore_case"`
	Context    int    `json:"context"`
	Mode       string `json:"mode"`
	Hidden     bool   `json:"hidden"`
	Ignored    bool   `json:"ignored"`
	Limit      int    `json:"limit"`
}

func (s *Service) glob(ctx context.Context, c tools.Caller, a globArgs) (tools.Result, error) {
	if a.Limit <= 0 {
		a.Limit = globLimit
	}
	found, err := s.search(ctx, c, a.Root, guest.SearchRequest{Glob: a.Pattern, Hidden: a.Hidden, Ignored: a.Ignored, Limit: a.Limit})
	if err != nil {
		return tools.Result{}, err
	}
	return report(c, found, func(f guest.Found) []string { return []string{shown(f.Path)} }, "No file matches.")
}

func (s *Service) grep(ctx context.Context, c tools.Caller, a grepArgs) (tools.Result, error) {
	if a.Limit <= 0 {
		a.Limit = grepLimit
	}
	lines := a.Mode == "" || a.Mode == "content"
	found, err := s.search(ctx, c, a.Path, guest.SearchRequest{Pattern: a.Pattern, Glob: a.Glob, IgnoreCase: a.IgnoreCase, Lines: lines, Context: a.Context, Hidden: a.Hidden, Ignored: a.Ignored, Limit: a.Limit})
	if err != nil {
		return tools.Result{}, err
	}
	return report(c, found, func(f guest.Found) []string {
		switch {
		case a.Mode == "count":
			return []string{fmt.Sprintf("%s: %d", shown(f.Path), f.Matches)}
		case !lines:
			return []string{shown(f.Path)}
		}
		out := []string{shown(f.Path)}
		last := 0
		for _, l := range f.Lines {
			if last > 0 && l.Number > last+1 && a.Context > 0 {
				out = append(out, "--")
			}
			mark := "-"
			if l.Match {
				mark = ":"
			}
			out = append(out, fmt.Sprintf("%6d%s %s", l.Number, mark, aroundMatch(l)))
			last = l.Number
		}
		return out
	}, "Nothing matches.")
}

// aroundMatch is a line or, of a long one, what is around its match.
func aroundMatch(l guest.FoundLine) string {
	text, _, before, after := secretfiles.Around(l, maxFoundRow)
	if before {
		text = "... " + text
	}
	if after {
		text += " [... the line is longer]"
	}
	return text
}

// search searches in the sandbox. Files of secrets are left out, and values of secrets masked.
func (s *Service) search(ctx context.Context, c tools.Caller, at string, req guest.SearchRequest) (guest.SearchAnswer, error) {
	k, err := s.begin(ctx, c)
	if err != nil {
		return guest.SearchAnswer{}, err
	}
	defer k.done()
	if req.Path, err = k.path(at); err != nil {
		return guest.SearchAnswer{}, err
	}
	req.TimeoutMs = searchMs
	found, err := k.place.Guest.Search(ctx, req)
	if err != nil {
		return found, err
	}
	items := found.Items[:0]
	for _, f := range found.Items {
		f, shown := secretfiles.Found(k.secrets, f)
		if !shown {
			found.Files, found.Matches = found.Files-1, found.Matches-f.Matches
			continue
		}
		items = append(items, f)
	}
	found.Items = items
	return found, nil
}

// report answers with what was found: rows for each file, as many as fit.
func report(c tools.Caller, found guest.SearchAnswer, rows func(guest.Found) []string, none string) (tools.Result, error) {
	return tools.Fit(c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		a := findAnswer{Files: []foundFile{}, Total: found.Files, Matches: found.Matches, Complete: found.Partial == "" && found.Skipped == 0}
		var b strings.Builder
		left := c.Limits.ResultBytes * share / 128 // the files are in the answer twice
		shownMatches := 0
		for _, f := range found.Items {
			all := rows(f)
			n := 0
			for n < len(all) && len(all[n])+1 <= left {
				left -= len(all[n]) + 1
				b.WriteString(all[n] + "\n")
				n++
			}
			if n == 0 {
				break
			}
			for _, l := range f.Lines[:min(max(n-1, 0), len(f.Lines))] {
				if l.Match {
					shownMatches++
				}
			}
			a.Files = append(a.Files, foundFile{f.Path, f.Size, f.Mtime, f.Matches})
			if n < len(all) {
				break
			}
		}
		more := found.Files - len(a.Files)
		switch lines := lineMode(found); {
		case found.Files == 0:
			b.WriteString(none + "\n")
		case lines && found.Matches > shownMatches:
			fmt.Fprintf(&b, "[%d more lines match, in %d files altogether. Narrow the search, or raise limit.]\n", found.Matches-shownMatches, found.Files)
		case more > 0:
			fmt.Fprintf(&b, "[%d more files. Narrow the search, or raise limit.]\n", more)
		}
		if found.Skipped > 0 {
			fmt.Fprintf(&b, "[%d files were not searched, because they are larger than 16 MiB.]\n", found.Skipped)
		}
		switch found.Partial {
		case guest.SearchTime:
			fmt.Fprintf(&b, "[Not everything was searched: it took longer than %d seconds. Name a folder or a glob.]\n", searchMs/1000)
		case guest.SearchFiles:
			b.WriteString("[Not everything was searched: there are too many files. Name a folder.]\n")
		}
		out, err := tools.Answer(strings.TrimSuffix(b.String(), "\n"), a)
		out.Truncated = more > 0 || lineMode(found) && found.Matches > shownMatches || !a.Complete
		return out, err
	})
}

// lineMode reports whether an answer has lines.
func lineMode(found guest.SearchAnswer) bool {
	return len(found.Items) > 0 && len(found.Items[0].Lines) > 0
}
