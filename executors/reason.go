package executors

import (
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// maxReason limits the guest's words in a record.
const maxReason = 1000

// ReasonOf returns the sentence for people where err has one, else the error's text.
func ReasonOf(err error) string { return fault.Words(err, err.Error()) }

// CleanReason makes untrusted text fit for a record: valid, without control characters, limited in length.
func CleanReason(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "..."
	}
	return s
}

// ErrStopping is returned for every request while the server stops.
func ErrStopping() error {
	return fault.New(fault.Unavailable, "stopping", "The server is stopping. Try again in a moment.")
}
