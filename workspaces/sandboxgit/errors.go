package sandboxgit

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/git"
)

// PlainRef reports whether git accepts the full name of a ref. It is stricter than git in cases nobody needs.
func PlainRef(name string) bool {
	if len(name) > 400 || !strings.HasPrefix(name, "refs/") || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\\uFFFD", r) })
}

// CheckPath rejects paths outside of a worktree, and git's own folder.
func CheckPath(p string) error {
	clean := strings.TrimSuffix(p, "/")
	if clean == "" || strings.ContainsRune(p, 0) || len(p) > 4096 || path.IsAbs(p) || path.Clean(clean) != clean || clean == ".." ||
		strings.HasPrefix(clean, "../") || slices.ContainsFunc(strings.Split(clean, "/"), func(s string) bool { return strings.EqualFold(s, ".git") }) {
		return fault.New(fault.Invalid, "path_invalid", "%q is not a path inside the workspace.", p)
	}
	return nil
}

// TidyMessage ends a message with exactly one newline and converts it to Unix line ends.
func TidyMessage(m string) string {
	return strings.TrimSpace(strings.ReplaceAll(m, "\r\n", "\n")) + "\n"
}

// FirstLine is the first line of a text.
func FirstLine(m string) string {
	l, _, _ := strings.Cut(strings.TrimSpace(m), "\n")
	if r := []rune(l); len(r) > 100 {
		l = string(r[:100])
	}
	return strings.TrimSpace(l)
}

// indexInfo is the input of update-index --index-info. Removals come first: a file may replace a folder.
func indexInfo(set map[string]git.FileEntry) []byte {
	var in bytes.Buffer
	like := 40
	for _, e := range set {
		if e.Is() {
			like = len(e.OID)
		}
	}
	for name, e := range set {
		if !e.Is() {
			fmt.Fprintf(&in, "0 %s\t%s\x00", strings.Repeat("0", like), name)
		}
	}
	for name, e := range set {
		if e.Is() {
			fmt.Fprintf(&in, "%s %s\t%s\x00", e.Mode, e.OID, name)
		}
	}
	return in.Bytes()
}

// ErrNotPlain means that a name is not a regular file's.
var ErrNotPlain = errors.New("not a regular file")

// ChangedFault is the error that a file is not what the user saw.
func ChangedFault(path string) error {
	return fault.New(fault.Conflict, "part_changed", "%q has changed since you saw it. Refresh, and look at it again.", path).With("path", guest.EncodePath(path))
}
