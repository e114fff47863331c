package reviews

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Lines that are gone from their file may have moved to another: search the lines added to other files.

// Limits of such a search.
const (
	maxInto  = 500      // files
	maxAdded = 8 << 20  // bytes of their differences
	maxName  = 16 << 10 // bytes of a diff line that names a file
	ownLines = 20       // letters and digits that identify lines without their surroundings
)

// run is a run of lines added to a file.
type run struct {
	path  string // raw
	start int    // number of the first line
	lines []string
}

// elsewhere searches the lines added to files other than path for a comment's lines; it returns left when there is no match, or several
// equally good ones.
func (l *looker) elsewhere(ctx context.Context, c Comment, from, to Tree, path string, left spot) (spot, error) {
	if c.Line == 0 {
		return left, nil
	}
	runs, err := l.added(ctx, from, to)
	if err != nil {
		return left, err
	}
	want := splitQuoted(c.Quoted)
	known := letters(want) >= ownLines
	best, score, ties := left, 0, 0
	for _, r := range runs {
		if r.path == path {
			continue
		}
		for i := range places(r.lines, want, sameButSpace) {
			if err := ctx.Err(); err != nil {
				return left, err
			}
			n := 1 + likeness(r.lines, i, len(want), c.Around)
			if n == 1 && !known {
				continue
			}
			switch {
			case n > score:
				best, score, ties = spot{path: r.path, line: r.start + i}, n, 0
			case n == score:
				ties++
			}
		}
	}
	if ties > 0 {
		return left, nil
	}
	return best, nil
}

// letters counts the letters and digits of lines.
func letters(lines []string) int {
	n := 0
	for _, l := range lines {
		for _, r := range l {
			if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127 {
				n++
			}
		}
	}
	return n
}

// added returns the lines added to files between two trees; none when there are too many to read.
func (l *looker) added(ctx context.Context, from, to Tree) ([]run, error) {
	d, err := l.diff(ctx, from, to)
	if err != nil || d.read {
		return d.added, err
	}
	if len(d.into) > 0 && len(d.into) <= maxInto {
		patch, err := l.s.cfg.Trees.Patch(ctx, l.workspaceID, from, to, d.into)
		if err != nil {
			return nil, err
		}
		d.added, err = readAdded(patch)
		_ = patch.Close() // stop reading beyond the limit
		if err != nil {
			return nil, err
		}
	}
	d.read = true
	l.diffs[[2]string{from.Tree, to.Tree}] = d
	return d.added, nil
}

// readAdded parses the lines added in a patch without context, up to maxAdded bytes.
func readAdded(r io.Reader) ([]run, error) {
	in := bufio.NewReaderSize(io.LimitReader(r, maxAdded), 64<<10)
	var out []run
	path, left := "", 0 // lines of the hunk: they may look like headers
	for {
		line, err := in.ReadSlice('\n')
		text := string(line[:min(len(line), maxName)])
		whole := len(line) <= maxName
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
			whole = false
		}
		text = strings.TrimSuffix(text, "\n")
		switch {
		case left > 0 && strings.HasPrefix(text, `\`):
		case left > 0:
			left--
			if after, ok := strings.CutPrefix(text, "+"); ok && path != "" {
				at := &out[len(out)-1]
				at.lines = append(at.lines, kept(strings.TrimSuffix(after, "\r")))
			}
		case strings.HasPrefix(text, "+++ "):
			if path = ""; whole {
				path = patchName(text[len("+++ "):])
			}
		default:
			m := hunkHead.FindStringSubmatch(text)
			if m == nil {
				break
			}
			h := hunkOf(m)
			left = h.oldLines + h.newLines
			if path != "" {
				out = append(out, run{path: path, start: h.newStart})
			}
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// patchName parses the path in the header of a patch, "" for no file: git quotes names with special bytes, and puts a tab after those with
// spaces.
func patchName(s string) string {
	if strings.HasPrefix(s, `"`) {
		q, err := strconv.Unquote(strings.TrimRight(s, "\t"))
		if err != nil {
			return ""
		}
		s = q
	} else {
		s = strings.TrimSuffix(s, "\t")
	}
	name, ok := strings.CutPrefix(s, "b/")
	if !ok {
		return ""
	}
	return name
}
