// Package environ checks the arguments and the environment that a request gives a new session, and finds the secrets in the environment.
package environ

import (
	"regexp"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
)

var (
	name       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	secretName = regexp.MustCompile(`(?i)(^|_)([a-z0-9]*(key|token|secret|pass|passwd|password|passphrase|credential)|auth)s?(_|$)`)
)

// Check reports what no program can be started with. Errors: invalid_session.
func Check(argv []string, env map[string]string) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_session", format, args...)
	}
	size := 0
	for _, a := range argv {
		if size += len(a) + 1; strings.ContainsRune(a, 0) {
			return bad("An argument holds a NUL character.")
		}
	}
	if size > guest.MaxArgv/2 {
		return bad("The arguments are too long in total.")
	}
	size = 0
	for k, v := range env {
		if !name.MatchString(k) {
			return bad("%q is not a valid name for an environment variable.", safetext.Cut(safetext.Line(k), 60))
		}
		if size += len(k) + len(v) + 2; strings.ContainsRune(v, 0) {
			return bad("The environment variable %s holds a NUL character.", k)
		}
	}
	if size > guest.MaxEnv/2 {
		return bad("The environment is too large.")
	}
	return nil
}

// Secrets returns the values whose names sound secret.
func Secrets(env map[string]string) []string {
	var out []string
	for k, v := range env {
		if secretName.MatchString(k) {
			out = append(out, v)
		}
	}
	return out
}
