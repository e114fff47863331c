package executors

import (
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// maxReason bounds the guest's words in a record.
const maxReason = 1000

// ReasonOf is the sentence for the person where there is one, else the error's words.
func ReasonOf(err error) string { return fault.Words(err, err.Error()) }

// CleanReason makes foreign words fit for a record: valid, without control characters, bounded.
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

// ErrStopping is what everybody is told who asks for something while the server stops.
func ErrStopping() error {
	return fault.New(fault.Unavailable, "stopping", "The server is stopping. Try again in a moment.")
}
