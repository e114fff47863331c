package accounts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
)

// CleanEmail returns an address in the form it is stored in. It checks the shape, not whether mail arrives. Errors: invalid_email.
func CleanEmail(s string) (string, error) {
	valid := utf8.ValidString(s) // ToLower would replace invalid bytes
	s = strings.ToLower(strings.TrimSpace(s))
	local, domain, ok := strings.Cut(s, "@")
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`<>,;:"\()[]`, r)
	}
	if !ok || local == "" || domain == "" || len(s) > 254 || !valid || strings.Contains(domain, "@") ||
		strings.ContainsFunc(s, odd) || strings.HasPrefix(domain, ".") || strings.HasSuffix(domain, ".") {
		return "", fault.New(fault.Invalid, "invalid_email", "That is not an e-mail address such as ada@example.com.").With("field", "email")
	}
	return s, nil
}

// CleanName returns a name for people: one line, without control characters.
func CleanName(field, s string) (string, error) {
	s = strings.TrimSpace(s)
	bad := !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	if s == "" || utf8.RuneCountInString(s) > 100 || bad {
		return "", fault.New(fault.Invalid, "invalid_name", "The %s needs 1 to 100 characters on one line.", field).With("field", field)
	}
	return s, nil
}

// Clip returns at most n bytes of s as valid text without control characters.
func Clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
