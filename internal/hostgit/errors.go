package hostgit

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	progressLine = regexp.MustCompile(`:\s+\d+% \(|^(remote: )?(Enumerating|Counting|Compressing) objects`)
	webUserinfo  = regexp.MustCompile(`(?i)(https?://)[^/\s'"]*@`)
	passwords    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^:/\s'"@]*):[^/\s'"]*@`)
)

// maxWords limits git's own message where people read it.
const maxWords = 2000

// Words returns the lines of stderr a person should read: without progress, hints, credentials and control characters.
func Words(stderr string) string {
	var keep []string
	for _, l := range strings.FieldsFunc(stderr, func(r rune) bool { return r == '\n' || r == '\r' }) {
		l = strings.TrimSpace(Clean(l))
		if l == "" || strings.HasPrefix(l, "hint:") || progressLine.MatchString(l) || strings.HasPrefix(l, "Preparing worktree") {
			continue
		}
		keep = append(keep, l)
	}
	s := strings.Join(keep, "\n")
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[len(s)-maxWords:], "")
	}
	return s
}

// Clean makes a line of git's output safe to show: valid UTF-8 without control characters and without credentials in URLs.
func Clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	s = strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
	return StripUserinfo(s)
}

// StripUserinfo removes passwords from URLs in s, and from web URLs the user names too, because tokens are given that way.
func StripUserinfo(s string) string {
	return passwords.ReplaceAllString(webUserinfo.ReplaceAllString(s, "$1"), "$1@")
}

// GlobEscape makes filepath.Glob take a folder's name literally.
func GlobEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
