package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/screen"
)

// exportsAtOnce is how many exports the server makes at a time: each uses a core while its reader is fast.
const exportsAtOnce = 4

// Format of an export.
type Format string

// The formats of an export.
const (
	Asciicast Format = "asciicast" // asciicast v2: a line of JSON for the header and one for each piece of output
	PlainText Format = "text"      // the lines a terminal would show, with wrapped lines joined
	RawBytes  Format = "raw"
)

// Export is a session's output in some format. The caller reads and closes it.
type Export struct {
	io.ReadCloser
	Size int64 // -1: unknown before it is read
}

// Export returns everything a session has printed so far. Reading it slows no session. Errors: not_found.
func (s *Recordings) Export(ctx context.Context, id string, f Format) (Export, error) {
	rec, err := s.open(ctx, id)
	if err != nil {
		return Export{}, err
	}
	first, end := rec.log.Bounds()
	x := exporter{rec: rec, first: first, end: end, row: rec.host.Row()}
	write := map[Format]func(context.Context, io.Writer) error{Asciicast: x.asciicast, PlainText: x.text, RawBytes: x.raw}[f]
	select {
	case s.exports <- struct{}{}:
	default:
		rec.Close()
		return Export{}, fault.New(fault.Unavailable, "exports_busy", "%d exports are already being made. Try again in a moment.", exportsAtOnce)
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	if !s.cfg.Tasks.Go(func() {
		defer func() { <-s.exports; rec.Close() }()
		out := bufio.NewWriterSize(w, 32<<10)
		_ = w.CloseWithError(errors.Join(write(ctx, out), out.Flush()))
	}) {
		cancel()
		<-s.exports
		rec.Close()
		return Export{}, context.Cause(s.cfg.Context)
	}
	return Export{pipe{r, cancel}, -1}, nil
}

// pipe ends its writer when it is closed.
type pipe struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (p pipe) Close() error {
	p.cancel()
	return p.PipeReader.Close()
}

type exporter struct {
	rec        *reader
	first, end int64
	row        Row
}

func (x *exporter) raw(ctx context.Context, w io.Writer) error {
	return show(ctx, x.rec, x.first, x.end, func(int, int) {}, w.Write)
}

// castHead is the first line of an asciicast.
type castHead struct {
	Version   int               `json:"version"`
	Width     uint16            `json:"width"`
	Height    uint16            `json:"height"`
	Timestamp int64             `json:"timestamp"`
	Title     string            `json:"title,omitempty"`
	Env       map[string]string `json:"env"`
}

// asciicast writes the output with the times at which it came and the terminal's sizes.
func (x *exporter) asciicast(ctx context.Context, w io.Writer) error {
	size := dimsAt(x.rec, x.first)
	c := &cast{enc: json.NewEncoder(w), began: x.row.StartedAt}
	c.enc.SetEscapeHTML(false)
	head := castHead{Version: 2, Width: size.Cols, Height: size.Rows, Timestamp: x.row.StartedAt / 1000, Title: strings.ToValidUTF8(x.row.AgentName, ""),
		Env: map[string]string{"TERM": "xterm-256color"}}
	if err := c.enc.Encode(head); err != nil {
		return err
	}
	off, last := x.first, x.row.StartedAt
	var fail error
	upTo := func(to, at int64) bool {
		fail = show(ctx, x.rec, off, to, func(int, int) {}, func(p []byte) (int, error) { return len(p), c.output(at, p) })
		off = max(off, to)
		return fail == nil
	}
	err := x.rec.notes.Scan(0, func(e journal.Entry) bool {
		if e.Offset > x.end {
			return false
		}
		switch e.Kind {
		case journal.Time:
			if last = max(last, e.At); e.Offset > off {
				return upTo(e.Offset, last)
			}
		case journal.Size:
			var d journal.Dims
			if e.Offset <= x.first || json.Unmarshal(e.Data, &d) != nil || d == size {
				return true
			}
			size = d
			// Earlier output may have a time mark later than this one: it must not come after the size.
			if e.Offset > off && !upTo(e.Offset, max(last, e.At)) {
				return false
			}
			fail = c.event(max(last, e.At), "r", fmt.Sprintf("%dx%d", d.Cols, d.Rows))
			return fail == nil
		}
		return true
	})
	if err := errors.Join(fail, err); err != nil {
		return err
	}
	if off < x.end && !upTo(x.end, max(last, x.row.EndedAt)) { // without a time mark
		return fail
	}
	return c.flush()
}

// cast writes the events of an asciicast.
type cast struct {
	enc   *json.Encoder
	began int64
	at    int64
	rest  []byte // the beginning of a character whose end has not come
}

// output writes bytes as text: it holds back an incomplete character until its end comes.
func (c *cast) output(at int64, p []byte) error {
	if len(c.rest) > 0 {
		p = append(bytes.Clone(c.rest), p...)
		c.rest = c.rest[:0]
	}
	whole := len(p)
	for i := 1; i <= min(utf8.UTFMax-1, len(p)); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-i:]) {
				whole = len(p) - i
			}
			break
		}
	}
	c.rest = append(c.rest, p[whole:]...)
	if whole == 0 {
		return nil
	}
	return c.event(at, "o", string(p[:whole]))
}

func (c *cast) flush() error {
	if len(c.rest) == 0 {
		return nil
	}
	return c.event(c.at, "o", string(c.rest))
}

func (c *cast) event(at int64, kind, data string) error {
	c.at = max(c.at, at, c.began)
	return c.enc.Encode([3]any{json.Number(fmt.Sprintf("%.3f", float64(c.at-c.began)/1000)), kind, strings.ToValidUTF8(data, "\ufffd")})
}

// textPiece is how much output is shown at a time: its lines fit the screen's scrollback, however short they are.
const textPiece = 16 << 10

// text writes the lines that scroll off a terminal as they do, then the final screen.
func (x *exporter) text(ctx context.Context, w io.Writer) error {
	size := dimsAt(x.rec, x.first)
	shown := screen.New(screen.Config{Cols: int(size.Cols), Rows: int(size.Rows), Scrollback: textPiece + screen.MaxRows})
	var fail error
	open := false
	say := func(text string, goesOn bool) {
		if fail != nil {
			return
		}
		if open = goesOn; !goesOn {
			text += "\n"
		}
		_, fail = io.WriteString(w, text)
	}
	err := show(ctx, x.rec, x.first, x.end, func(cols, rows int) {
		shown.Resize(cols, rows)
		shown.TakeLines(say)
	}, func(p []byte) (int, error) {
		for n := len(p); len(p) > 0 && fail == nil; n = len(p) {
			n = min(n, textPiece)
			_, _ = shown.Write(p[:n]) // a screen never returns an error
			shown.TakeLines(say)
			p = p[n:]
		}
		return 0, fail
	})
	if err := errors.Join(err, fail); err != nil {
		return err
	}
	for _, line := range shown.LastLines(screen.MaxRows) {
		say(line, false)
	}
	if open {
		say("", false)
	}
	return fail
}
