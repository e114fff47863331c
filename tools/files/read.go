package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

const bom = "\xef\xbb\xbf"

// Kinds of what can be read.
const (
	kindText   = "text"
	kindImage  = "image"
	kindBinary = "binary"
	kindFolder = "folder"
)

// readAnswer is what a file is, for programs. The text is in the content alone.
type readAnswer struct {
	Path  string `json:"path"`
	Kind  string `json:"kind"`
	Size  int64  `json:"size"`
	MIME  string `json:"mime,omitempty"`
	First int    `json:"first_line,omitempty"`
	Last  int    `json:"last_line,omitempty"`
	Lines int    `json:"total_lines,omitempty"` // of a folder: its entries
}

type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset_line"`
	Limit  int    `json:"limit_lines"`
}

func (s *Service) read(ctx context.Context, c tools.Caller, a readArgs) (tools.Result, error) {
	k, err := s.begin(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	defer k.done()
	p, err := k.path(a.Path)
	if err != nil {
		return tools.Result{}, err
	}
	if p == "" {
		return k.folder(ctx, p)
	}
	if err := k.open(p, ""); err != nil {
		return tools.Result{}, err
	}
	r, info, err := k.place.Guest.ReadFileUpTo(ctx, p, maxRead)
	switch fault.CodeOf(err) {
	case "is_a_directory":
		return k.folder(ctx, p)
	case "file_too_large":
		return tools.Result{}, fault.Wrap(err, fault.TooLarge, "file_too_large", "%s is larger than %d MiB, which is the most that is read. Find its lines with grep, or run a command such as head, tail or sed.", shown(p), maxRead>>20)
	}
	if err != nil {
		return tools.Result{}, err
	}
	defer r.Close()
	if err := k.open(p, info.Hash); err != nil {
		return tools.Result{}, err
	}
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return tools.Result{}, err
	}
	if bytes.IndexByte(head, 0) >= 0 {
		s.seen.put(k.key(), p, sight{hash: info.Hash})
		return k.binary(in, head, info)
	}
	return k.text(in, info, a)
}

// binary answers with an image, or says what a file is.
func (k *work) binary(r io.Reader, head []byte, info guest.FileInfo) (tools.Result, error) {
	a := readAnswer{Path: info.Path, Kind: kindBinary, Size: info.Size, MIME: http.DetectContentType(head)}
	switch a.MIME {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		a.Kind = kindImage
	}
	words := fmt.Sprintf("%s is a binary file (%s, %d bytes).", shown(info.Path), a.MIME, info.Size)
	if bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		words += " It may be a text in UTF-16, which a command such as iconv can convert."
	}
	if a.Kind != kindImage {
		return tools.Answer(words, a)
	}
	most := int64(k.c.Limits.Image(aside))
	if info.Size > most {
		return tools.Answer(fmt.Sprintf("%s is an image (%s, %d bytes), too large to be shown here: an answer may have %d. Make it smaller with a command.", shown(info.Path), a.MIME, info.Size, most), a)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return tools.Result{}, err
	}
	out, err := tools.Answer(fmt.Sprintf("%s: %s, %d bytes.", shown(info.Path), a.MIME, info.Size), a)
	out.Content = append(out.Content, tools.Content{MIME: a.MIME, Data: data})
	return out, err
}

// text answers with lines of a text, with their numbers. It reads the whole file: only that proves its hash.
func (k *work) text(r io.Reader, info guest.FileInfo, a readArgs) (tools.Result, error) {
	masked := k.secrets.Values.Reader(r, k.secrets.Hides)
	in := bufio.NewReaderSize(masked, 64<<10)
	first, limit := max(a.Offset, 1), a.Limit
	if limit <= 0 {
		limit = maxLines
	}
	left := k.c.Limits.ResultBytes - aside - 2*len(info.Path)
	f := facts{valid: true, ended: true}
	var b strings.Builder
	last := first - 1
	full := false
	for {
		line, size, err := f.next(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return tools.Result{}, err
		}
		if f.lines < first || full {
			continue
		}
		row := fmt.Sprintf("%6d\t%s", f.lines, strings.ToValidUTF8(line, "\uFFFD"))
		if size > len(line) {
			row += fmt.Sprintf(" [... %d more bytes]", size-len(line))
		}
		if len(row)+1 > left || f.lines >= first+limit {
			full = true
			continue
		}
		left -= len(row) + 1
		last = f.lines
		b.WriteString(row + "\n")
	}
	k.s.seen.put(k.key(), info.Path, sight{hash: info.Hash, masked: masked.Found()})
	for _, note := range f.notes(first, last) {
		b.WriteString("[" + note + "]\n")
	}
	if masked.Found() {
		b.WriteString("[Values of secrets are masked with *.]\n")
	}
	out, err := tools.Answer(strings.TrimSuffix(b.String(), "\n"), readAnswer{Path: info.Path, Kind: kindText, Size: info.Size, First: min(first, f.lines), Last: last, Lines: f.lines})
	out.Truncated = last < f.lines
	return out, err
}

// facts are what is noticed of a text while it is read.
type facts struct {
	lines int
	crlf  int  // lines that end with it
	bom   bool // it begins with a mark of its encoding
	valid bool // it is UTF-8
	ended bool // its last line ends with a line feed
}

// next reads the next line: its beginning, without its end, and its size.
func (f *facts) next(in *bufio.Reader) (line string, size int, err error) {
	var b []byte
	last := byte(0) // before the line feed
	for {
		piece, err := in.ReadSlice('\n')
		if len(piece) == 0 && size == 0 && err != nil {
			return "", 0, err
		}
		if len(piece) > 1 {
			last = piece[len(piece)-2]
		}
		end := err == nil
		if !end && len(piece) > 0 {
			last = piece[len(piece)-1]
		}
		text := bytes.TrimSuffix(piece, []byte("\n"))
		size += len(text)
		if len(b) <= maxLine+utf8.UTFMax {
			b = append(b, text[:min(len(text), maxLine+2*utf8.UTFMax)]...)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return "", 0, err
		}
		if end || errors.Is(err, io.EOF) {
			f.ended = end
			break
		}
	}
	if f.lines++; f.lines == 1 && bytes.HasPrefix(b, []byte(bom)) {
		f.bom = true
		b, size = b[len(bom):], size-len(bom)
	}
	if f.ended && last == '\r' && size > 0 {
		f.crlf++
		size--
	}
	b = b[:min(len(b), size)]
	if len(b) > maxLine {
		n := maxLine
		for n > maxLine-utf8.UTFMax && !utf8.RuneStart(b[n]) {
			n--
		}
		b = b[:n]
	}
	f.valid = f.valid && utf8.Valid(b)
	return string(b), size, nil
}

// notes are what the reader must know beside the lines from first to last.
func (f *facts) notes(first, last int) []string {
	var out []string
	switch {
	case f.lines == 0:
		out = append(out, "The file is empty.")
	case first > f.lines:
		out = append(out, fmt.Sprintf("The file has only %d lines.", f.lines))
	case last < f.lines:
		out = append(out, fmt.Sprintf("Lines %d to %d of %d. Read on with offset_line %d.", first, last, f.lines, last+1))
	case first > 1:
		out = append(out, fmt.Sprintf("Lines %d to %d of %d: the end.", first, last, f.lines))
	}
	if !f.ended && last == f.lines {
		out = append(out, "No line feed at the end of the file.")
	}
	switch {
	case f.crlf > 0 && f.crlf >= f.lines-1:
		out = append(out, "Lines end with CRLF, which edits keep.")
	case f.crlf > 0:
		out = append(out, fmt.Sprintf("%d of the lines end with CRLF, the others with LF.", f.crlf))
	}
	if f.bom {
		out = append(out, "The file begins with a byte order mark, which edits keep.")
	}
	if !f.valid {
		out = append(out, "The file is not valid UTF-8: \uFFFD stands for bytes that cannot be shown. Edits keep them where they do not touch them.")
	}
	return out
}

// folder lists a folder.
func (k *work) folder(ctx context.Context, p string) (tools.Result, error) {
	list, err := k.place.Guest.List(ctx, p)
	if err != nil {
		return tools.Result{}, err
	}
	name := shown(p)
	if p == "" {
		name = "The worktree"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is a folder with %d entries", name, len(list.Items))
	if list.Truncated {
		b.WriteString(" or more")
	}
	b.WriteString(".\n")
	left := k.c.Limits.ResultBytes - aside - 2*len(p) - b.Len()
	n := 0
	for _, e := range list.Items {
		row := shown(e.Name)
		switch e.Type {
		case "dir":
			row += "/"
		case "symlink":
			row += " -> " + shown(e.Link)
		case "file":
			row += fmt.Sprintf("  %d bytes", e.Size)
		default:
			row += "  (no file: a pipe, socket or device)"
		}
		if n == maxFolder || len(row)+1 > left {
			break
		}
		left -= len(row) + 1
		n++
		b.WriteString(row + "\n")
	}
	if n < len(list.Items) {
		fmt.Fprintf(&b, "[%d more. Find them with glob.]\n", len(list.Items)-n)
	}
	out, err := tools.Answer(strings.TrimSuffix(k.hide(b.String()), "\n"), readAnswer{Path: p, Kind: kindFolder, Lines: len(list.Items)})
	out.Truncated = n < len(list.Items) || list.Truncated
	return out, err
}
