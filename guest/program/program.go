// Package program starts other people's programs in a sandbox, so that they end with the one that started them, and keeps what they print last.
package program

import (
	"os"
	"strings"
	"sync"
)

// kept is how many bytes of what a program prints a Tail keeps.
const kept = 4 << 10

// Executable reports whether a file is a program that may be started.
func Executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Tail is an output of a program, whose end it keeps. The zero value is empty. Safe for concurrent use.
type Tail struct {
	mu sync.Mutex
	b  []byte
}

// Write adds to the output. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - kept; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// Last returns the end of the output, at most so many bytes, as UTF-8 without spaces around it.
func (t *Tail) Last(most int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.TrimSpace(strings.ToValidUTF8(string(t.b), ""))
	return strings.ToValidUTF8(s[max(0, len(s)-most):], "")
}

// LastLine returns the last line of the output, of which at most so many bytes.
func (t *Tail) LastLine(most int) string {
	s := t.Last(kept)
	s = s[strings.LastIndexByte(s, '\n')+1:]
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}
