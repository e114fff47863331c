package images

import (
	"bytes"
	"context"
	"strings"
	"sync"
)

const (
	// keepLog is how much of a build's output is stored: its end.
	keepLog = 512 << 10
	// maxLine limits one line; the rest of a longer one is dropped.
	maxLine = 4 << 10
)

// logbook stores the lines a build prints, and lets others follow them. It drops control characters, because the repository controls the
// output.
type logbook struct {
	mu     sync.Mutex
	lines  []string
	first  int // number of the first stored line
	size   int
	part   []byte // of the line that is being printed
	closed bool
	news   chan struct{} // closed when there is more
}

func newLogbook() *logbook { return &logbook{news: make(chan struct{})} }

// Write takes a build's output. It never fails.
func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\n\r")
		piece := p
		if i >= 0 {
			piece = p[:i]
		}
		if room := maxLine - len(l.part); room > 0 {
			l.part = append(l.part, piece[:min(len(piece), room)]...)
		}
		if i < 0 {
			break
		}
		if p[i] == '\n' || len(l.part) > 0 {
			l.add()
		}
		p = p[i+1:]
	}
	return n, nil
}

// add stores the finished line. The caller holds mu.
func (l *logbook) add() {
	line := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(l.part), "?"))
	l.part = l.part[:0]
	l.lines = append(l.lines, line)
	l.size += len(line) + 1
	for l.size > keepLog {
		l.size -= len(l.lines[0]) + 1
		l.lines = l.lines[1:]
		l.first++
	}
	l.wake()
}

func (l *logbook) wake() {
	close(l.news)
	l.news = make(chan struct{})
}

// close says that there will be no more output.
func (l *logbook) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.add()
	}
	l.closed = true
	l.wake()
}

// text returns all stored output.
func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.add()
	}
	if len(l.lines) == 0 {
		return ""
	}
	return strings.Join(l.lines, "\n") + "\n"
}

// follow calls fn with every line until the build has ended.
func (l *logbook) follow(ctx context.Context, fn func(string) error) error {
	for next := 0; ; {
		l.mu.Lock()
		next = max(next, l.first)
		lines := append([]string(nil), l.lines[next-l.first:]...)
		news, closed := l.news, l.closed
		l.mu.Unlock()
		for _, line := range lines {
			if err := fn(line); err != nil {
				return err
			}
		}
		next += len(lines)
		if len(lines) > 0 {
			continue
		}
		if closed {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
