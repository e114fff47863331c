package changes

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// errFormat reports that git's output does not match its manual.
var errFormat = errors.New("git's output cannot be parsed")

// dirty is one path of `git status`: it differs from HEAD, or is not tracked.
type dirty struct {
	path     string // raw
	x, y     byte   // against HEAD in the index, and against the index in the worktree; '?' when untracked
	unmerged bool
	nested   bool // an untracked repository; path is without its final slash
}

func (d dirty) untracked() bool { return d.x == '?' }

// parseStatus reads `git status --porcelain=v2 -z`. It stops after limit paths and then returns more.
func parseStatus(b []byte, limit int) (paths []dirty, more bool, err error) {
	next := func() ([]byte, bool) {
		rec, rest, ok := bytes.Cut(b, []byte{0})
		b = rest
		return rec, ok
	}
	for len(b) > 0 {
		rec, ok := next()
		if !ok || len(rec) < 2 || rec[1] != ' ' {
			return nil, false, fmt.Errorf("%w: a status record ends early", errFormat)
		}
		if rec[0] == '#' || rec[0] == '!' {
			continue
		}
		d, renamed, err := parseDirty(rec)
		if err != nil {
			return nil, false, err
		}
		if renamed {
			if _, ok := next(); !ok {
				return nil, false, fmt.Errorf("%w: a rename has no old name", errFormat)
			}
		}
		if len(paths) >= limit {
			return paths, true, nil
		}
		paths = append(paths, d)
	}
	return paths, false, nil
}

// parseDirty reads one record of a path.
func parseDirty(rec []byte) (d dirty, renamed bool, err error) {
	fields := 0
	switch rec[0] {
	case '?':
		path := rec[2:]
		d = dirty{x: '?', y: '?'}
		if n := len(path); n > 1 && path[n-1] == '/' {
			d.nested, path = true, path[:n-1]
		}
		if len(path) == 0 {
			return d, false, fmt.Errorf("%w: an empty path", errFormat)
		}
		d.path = string(path)
		return d, false, nil
	case '1':
		fields = 8
	case '2':
		fields, renamed = 9, true
	case 'u':
		fields, d.unmerged = 10, true
	default:
		return d, false, fmt.Errorf("%w: a record of kind %q", errFormat, rec[0])
	}
	parts := bytes.SplitN(rec, []byte{' '}, fields+1)
	if len(parts) != fields+1 || len(parts[1]) != 2 || len(parts[fields]) == 0 {
		return d, false, fmt.Errorf("%w: a record of its status is too short", errFormat)
	}
	d.x, d.y, d.path = parts[1][0], parts[1][1], string(parts[fields])
	return d, renamed, nil
}

// rawChange is one record of `git diff --raw -z`.
type rawChange struct {
	oldMode, newMode string // "" for none
	oldID            string
	newID            string // all zeros when the worktree's file was not hashed
	status           byte   // A D M R C T U
	score            int    // of a rename
	path, oldPath    string // raw; oldPath only of renames and copies
}

// counts is one record of `git diff --numstat -z`.
type counts struct {
	additions, deletions int
	binary               bool
}

// parseDiff reads `git diff --raw --numstat -z`, either part of which may be absent. Counts are by new path.
func parseDiff(b []byte) ([]rawChange, map[string]counts, error) {
	var raws []rawChange
	nums := make(map[string]counts)
	next := func() (string, bool) {
		rec, rest, ok := bytes.Cut(b, []byte{0})
		b = rest
		return string(rec), ok
	}
	for len(b) > 0 {
		if b[0] == ':' {
			rec, ok := next()
			r, err := parseRaw(rec)
			if !ok || err != nil {
				return nil, nil, fmt.Errorf("%w: %q", errFormat, clip(rec))
			}
			if r.path, ok = next(); !ok || r.path == "" {
				return nil, nil, fmt.Errorf("%w: a difference without a path", errFormat)
			}
			if r.status == 'R' || r.status == 'C' {
				r.oldPath = r.path
				if r.path, ok = next(); !ok || r.path == "" {
					return nil, nil, fmt.Errorf("%w: a rename without a new path", errFormat)
				}
			}
			raws = append(raws, r)
			continue
		}
		rec, ok := next()
		c, path, err := parseNum(rec)
		if !ok || err != nil {
			return nil, nil, fmt.Errorf("%w: %q", errFormat, clip(rec))
		}
		if path == "" { // a rename: old and new follow
			if _, ok = next(); !ok {
				return nil, nil, fmt.Errorf("%w: a count without a path", errFormat)
			}
			if path, ok = next(); !ok || path == "" {
				return nil, nil, fmt.Errorf("%w: a count without a path", errFormat)
			}
		}
		nums[path] = c
	}
	return raws, nums, nil
}

// parseRaw reads ":100644 100755 <id> <id> M" or the like.
func parseRaw(rec string) (rawChange, error) {
	f := bytes.Fields([]byte(rec))
	if len(f) != 5 || len(f[0]) != 7 || len(f[1]) != 6 || len(f[4]) == 0 {
		return rawChange{}, errFormat
	}
	r := rawChange{oldMode: string(f[0][1:]), newMode: string(f[1]), oldID: string(f[2]), newID: string(f[3]), status: f[4][0]}
	for _, m := range []string{r.oldMode, r.newMode} {
		if _, err := strconv.ParseUint(m, 8, 32); err != nil {
			return rawChange{}, errFormat
		}
	}
	if len(f[4]) > 1 {
		n, err := strconv.ParseUint(string(f[4][1:]), 10, 16)
		if err != nil {
			return rawChange{}, errFormat
		}
		r.score = int(n)
	}
	if bytes.IndexByte([]byte("ADMRCTUX"), r.status) < 0 {
		return rawChange{}, errFormat
	}
	if r.oldMode == "000000" {
		r.oldMode = ""
	}
	if r.newMode == "000000" {
		r.newMode = ""
	}
	return r, nil
}

// parseNum reads "3\t1\tpath"; the path is empty before a rename's two.
func parseNum(rec string) (counts, string, error) {
	f := bytes.SplitN([]byte(rec), []byte{'\t'}, 3)
	if len(f) != 3 {
		return counts{}, "", errFormat
	}
	if string(f[0]) == "-" && string(f[1]) == "-" {
		return counts{binary: true}, string(f[2]), nil
	}
	add, err := strconv.ParseUint(string(f[0]), 10, 31)
	if err != nil {
		return counts{}, "", errFormat
	}
	del, err := strconv.ParseUint(string(f[1]), 10, 31)
	if err != nil {
		return counts{}, "", errFormat
	}
	return counts{additions: int(add), deletions: int(del)}, string(f[2]), nil
}

// clip shortens output that cannot be parsed, to show it.
func clip(s string) string { return s[:min(len(s), 80)] }
