package git

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/workspaces"
)

// Bounds of reported conflicts.
const (
	MaxConflictFiles = 25       // files whose hunks are shown
	MaxConflictBlob  = 2 << 20  // bytes of a file whose hunks are shown
	maxConflictHunks = 20       // hunks of one file
	maxConflictText  = 16 << 10 // bytes of one side of a hunk
)

// ParseConflicts parses the output of merge-tree -z after the tree: the paths with their stages, an empty entry, then messages of the form
// count, paths, kind, text.
func ParseConflicts(out string) []workspaces.Conflict {
	list := []workspaces.Conflict{}
	at := make(map[string]int)
	stages := make(map[string][4]bool)
	add := func(path, kind string) {
		if i, ok := at[path]; ok {
			if list[i].Kind == "" {
				list[i].Kind = kind
			}
			return
		}
		at[path] = len(list)
		list = append(list, workspaces.Conflict{Path: path, Kind: kind})
	}
	f := strings.Split(out, "\x00")
	for len(f) > 0 && f[0] != "" {
		if meta, path, ok := strings.Cut(f[0], "\t"); ok {
			add(path, "")
			if m := strings.Fields(meta); len(m) == 3 && len(m[2]) == 1 && m[2] >= "1" && m[2] <= "3" {
				s := stages[path]
				s[m[2][0]-'0'] = true
				stages[path] = s
			}
		}
		f = f[1:]
	}
	for f = f[min(1, len(f)):]; len(f) > 0; {
		n, err := strconv.Atoi(f[0])
		if err != nil || n < 0 || len(f) < n+3 {
			break
		}
		paths, kind := f[1:1+n], f[1+n]
		f = f[n+3:]
		inner, ok := strings.CutPrefix(kind, "CONFLICT (")
		if !ok {
			continue // "Auto-merging" and the like
		}
		inner = strings.TrimSuffix(inner, ")")
		if inner == "contents" {
			inner = "content"
		}
		for _, p := range paths {
			if _, known := at[p]; known || len(at) == 0 {
				add(p, inner)
			}
		}
	}
	for i := range list {
		c := &list[i]
		c.Kind = cmp.Or(c.Kind, "content")
		if s, ok := stages[c.Path]; ok {
			c.Ours, c.Theirs = sideWord(s[1], s[2]), sideWord(s[1], s[3])
		}
	}
	return list
}

// sideWord is what one side did with a file: base says whether it existed before, now whether that side has it.
func sideWord(base, now bool) string {
	switch {
	case base && now:
		return "changed"
	case now:
		return "added"
	case base:
		return "deleted"
	}
	return ""
}

// ConflictHunks finds the hunks between conflict markers that name both sides. No line of a file can imitate them, as it would have to know
// the commits.
func ConflictHunks(text, ours, theirs string) (hunks []workspaces.ConflictHunk, more int) {
	if !utf8.ValidString(text) {
		return nil, 0
	}
	const outside, first, base, second = 0, 1, 2, 3
	state := outside
	var a, b strings.Builder
	at, n := 0, 0
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimRight(line, "\r\n")
		switch {
		case state == outside && marks(bare, "<<<<<<< ", ours):
			state, at = first, n
			a.Reset()
			b.Reset()
		case state == first && strings.HasPrefix(bare, "||||||| "):
			state = base
		case (state == first || state == base) && bare == "=======":
			state = second
		case state == second && marks(bare, ">>>>>>> ", theirs):
			state = outside
			if len(hunks) == maxConflictHunks {
				more++
				continue
			}
			hunks = append(hunks, workspaces.ConflictHunk{Line: at, Ours: a.String(), Theirs: b.String()})
		case state == first && a.Len()+len(line) <= maxConflictText:
			a.WriteString(line)
		case state == second && b.Len()+len(line) <= maxConflictText:
			b.WriteString(line)
		}
	}
	return hunks, more
}

// marks reports whether a line is git's conflict marker of one side, which names its commit, with a path where the file was renamed.
func marks(line, mark, commit string) bool {
	rest, ok := strings.CutPrefix(line, mark+commit)
	return ok && (rest == "" || rest[0] == ':')
}

// EncodePaths converts raw paths to wire form.
func EncodePaths(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = guest.EncodePath(p)
	}
	return out
}
