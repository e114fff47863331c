package git

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Bounds of a patch.
const patchPaths = 2_000 // files per request

// Bounds of a patch.
const patchNames = 512 << 10 // bytes of their paths: they are arguments, twice if renamed

// PatchFits returns how many of the first paths fit into one patch.
func PatchFits(paths []string) int {
	size := 0
	for i, p := range paths {
		if size += len(p) + 1; i == patchPaths || size > patchNames {
			return i
		}
	}
	return len(paths)
}

// RootNames are the allowed roots, as configured and resolved.
func (s *Repo) RootNames() []string {
	var names []string
	for _, r := range s.cfg.AllowedRoots {
		names = append(names, filepath.Clean(r))
		if rr, err := filepath.EvalSymlinks(r); err == nil && rr != filepath.Clean(r) {
			names = append(names, rr)
		}
	}
	return names
}

// LowerFirst returns the text with a lower-case first letter.
func LowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// SizeWords is a size for people.
func SizeWords(n int64) string {
	switch {
	case n < 1<<10:
		return Plural(int(n), "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// shownNames is how many files a message names.
const shownNames = 4

// SomeNames lists a few file names, in wire form, for people.
func SomeNames(names []string) string {
	shown := names[:min(len(names), shownNames)]
	out := strings.Join(shown, ", ")
	if n := len(names) - len(shown); n > 0 {
		out += " and " + Plural(n, "other", "others")
	}
	return out
}
