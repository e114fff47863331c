package filesync

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
)

// errLie reports that a guest sent something an honest guest never sends.
var errLie = errors.New("the sandbox reported changes that cannot be true")

var (
	commitID  = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	fileHash  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	gitMode   = regexp.MustCompile(`^[0-7]{6}$`)
	maxNumber = 1<<31 - 1
)

// statuses lists the valid statuses of a change.
var statuses = map[string]bool{
	"added": true, "modified": true, "deleted": true, "renamed": true, "untracked": true, "type_changed": true, "conflicted": true,
}

const (
	maxSize   = 1 << 53 // largest integer JavaScript represents exactly
	maxBranch = 1024
	maxWords  = 4096
)

// checkSet checks one record of a guest against the base it was requested for. It cleans texts meant for people and rejects
// anything else that is invalid.
func checkSet(set *guest.ChangeSet, base string) error {
	switch {
	case set.Base != base:
		return fmt.Errorf("%w: another base", errLie)
	case set.Head != "" && !commitID.MatchString(set.Head):
		return fmt.Errorf("%w: a head that is no commit", errLie)
	case len(set.Branch) > maxBranch:
		return fmt.Errorf("%w: a branch name too long", errLie)
	}
	set.Branch = clean(set.Branch, maxBranch)
	set.Error = clean(set.Error, maxWords)
	for i := range set.Upserts {
		if err := checkChange(&set.Upserts[i]); err != nil {
			return err
		}
	}
	for _, path := range set.Removes {
		if !validPath(path) {
			return fmt.Errorf("%w: an invalid path", errLie)
		}
	}
	return nil
}

func checkChange(c *guest.Change) error {
	switch {
	case !validPath(c.Path), c.OldPath != "" && !validPath(c.OldPath):
		return fmt.Errorf("%w: an invalid path", errLie)
	case !statuses[c.Status]:
		return fmt.Errorf("%w: an unknown status", errLie)
	case c.Mode != "" && !gitMode.MatchString(c.Mode), c.OldMode != "" && !gitMode.MatchString(c.OldMode):
		return fmt.Errorf("%w: an invalid mode", errLie)
	case c.Size < 0 || c.Size > maxSize:
		return fmt.Errorf("%w: an impossible size", errLie)
	case c.Additions < 0 || c.Additions > maxNumber, c.Deletions < 0 || c.Deletions > maxNumber:
		return fmt.Errorf("%w: impossible counts", errLie)
	case c.Hash != "" && !fileHash.MatchString(c.Hash):
		return fmt.Errorf("%w: an invalid hash", errLie)
	}
	return nil
}

// validPath reports whether a path is valid and in its canonical wire form.
func validPath(path string) bool {
	return utf8.ValidString(path) && guest.CheckPath(path) == nil && guest.EncodePath(guest.DecodePath(path)) == path
}

// clean makes untrusted text safe to store and show: valid UTF-8, bounded, without control characters.
func clean(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	s = strings.ToValidUTF8(s, "?")
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// checkInfo checks what a guest reports about a file.
func checkInfo(i *guest.FileInfo) error {
	switch {
	case i.Path != "" && i.Path != "." && !validPath(i.Path):
		return fmt.Errorf("%w: an invalid path", errLie)
	case len(i.Name) > 4*guest.MaxPath || strings.ContainsAny(i.Name, "/\x00") || !utf8.ValidString(i.Name):
		return fmt.Errorf("%w: an invalid name", errLie)
	case i.Size < 0 || i.Size > maxSize:
		return fmt.Errorf("%w: an impossible size", errLie)
	case i.Hash != "" && !fileHash.MatchString(i.Hash):
		return fmt.Errorf("%w: an invalid hash", errLie)
	case len(i.Link) > 4*guest.MaxPath:
		return fmt.Errorf("%w: an invalid link", errLie)
	}
	switch i.Type {
	case "file", "dir", "symlink", "other":
	default:
		return fmt.Errorf("%w: an unknown type of file", errLie)
	}
	i.Link = strings.ToValidUTF8(i.Link, "\uFFFD")
	return nil
}
