package workspaces

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const maxSlug = 50 // maximum characters of a name's slug

// Slug makes a branch or folder name of text: letters and digits of any script, lower case, joined by dashes.
func Slug(name string) string {
	var b strings.Builder
	n := 0
	dash := false
	for _, r := range norm.NFKD.String(name) {
		switch {
		case r == unicode.ReplacementChar, unicode.Is(unicode.Mn, r) && r < 0x370:
			continue // drop the accents of Latin letters, keep marks of other scripts
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r):
			if dash && n > 0 {
				b.WriteByte('-')
				n++
			}
			dash = false
			if n >= maxSlug {
				return norm.NFC.String(strings.Trim(b.String(), "-"))
			}
			b.WriteRune(unicode.ToLower(r))
			n++
		default:
			dash = true
		}
	}
	if b.Len() == 0 {
		return "work"
	}
	return norm.NFC.String(b.String())
}

// insideFolder is the worktree's path in a sandbox with its own disk.
func insideFolder(p Project) string { return "/work/" + PathSlug(p.Name) }

func StateWord(w Workspace) string {
	if w.DeletedAt != 0 {
		return "deleted"
	}
	return string(w.State)
}

// PathSlug is a folder's name: ASCII only, because not every tool an agent runs copes with more.
func PathSlug(name string) string {
	keep := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, Slug(name))
	if keep = strings.Trim(keep, "-"); keep == "" {
		return "work"
	}
	return keep
}
