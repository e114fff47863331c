// Package search finds files of the guest's root, and lines in them. It lists what git lists where there is a repository, so that ignored
// files stay out, and reads regular files alone: it follows no link, waits for no FIFO, and never leaves the root.
//
// A search ends with its request, and runs in the request's goroutine and, for expressions, in a few of its own that it waits for.
package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

const (
	maxFile    = 16 << 20  // bytes of a file that is searched for lines
	maxRunning = 4         // searches at once; further ones wait
	binaryHead = 8 << 10   // a NUL in so many first bytes makes a file a binary one
	block      = 64 << 10  // bytes of whole lines between two looks at the clock
	maxLine    = 256 << 10 // so much of a line is searched: nothing ends an expression that is at work
	maxSteps   = 4000      // instructions of a compiled expression, of which each byte may take all
	maxKept    = 8 * guest.MaxFoundBytes
)

// Searcher searches below a root. Safe for concurrent use.
type Searcher struct {
	root  *os.Root
	dir   string // absolute path of the root
	slots chan struct{}
}

// New returns a Searcher of a root, which it does not close.
func New(root *os.Root) *Searcher {
	return &Searcher{root: root, dir: root.Name(), slots: make(chan struct{}, maxRunning)}
}

// Handle answers a request for a search.
func (s *Searcher) Handle(w http.ResponseWriter, r *http.Request) error {
	var req guest.SearchRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&req); err != nil {
		return fault.Wrap(err, fault.Invalid, "invalid_request", "The request cannot be read: %v.", err)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	if r.URL.Query().Get("stream") != "" {
		return s.stream(w, r, req)
	}
	a, err := s.Search(r.Context(), req)
	if err != nil {
		return err
	}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // a host that is gone needs no answer
	return nil
}

// Search searches. The error is for requests that are wrong; what took too long or is too much is in the answer.
func (s *Searcher) Search(ctx context.Context, req guest.SearchRequest) (guest.SearchAnswer, error) {
	f, err := s.newFinder(req)
	if err != nil {
		return guest.SearchAnswer{}, err
	}
	if err := f.search(ctx); err != nil {
		return guest.SearchAnswer{}, err
	}
	return f.result(), nil
}

// search runs the search within its time, and notes why it is not complete.
func (f *finder) search(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, time.Duration(f.req.TimeoutMs)*time.Millisecond)
	defer cancel()
	err := f.run(within)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		f.answer.Partial = guest.SearchTime
	case errors.Is(err, errEnough):
		f.answer.Partial = guest.SearchFiles
	case errors.Is(err, errFull):
		f.answer.Partial = guest.SearchLimit
	case err != nil:
		return err
	}
	return nil
}

// finder is one search.
type finder struct {
	s    *Searcher
	req  guest.SearchRequest // its Path in raw bytes, "." = the root
	glob *glob
	re   *regexp.Regexp // nil = files are found by their names
	all  *regexp.Regexp // finds a match in several lines wherever re finds one in a line; nil = there is no such

	// emit is given each file of a stream as it is found, by one goroutine at a time. Its error ends the search. nil = all are kept.
	emit func(guest.Found) error

	mu     sync.Mutex
	failed error // of emit
	answer guest.SearchAnswer
	kept   int // bytes of its items
}

func (s *Searcher) newFinder(req guest.SearchRequest) (*finder, error) {
	if len(req.Pattern) > guest.MaxPattern || len(req.Glob) > guest.MaxPattern {
		return nil, fault.New(fault.TooLarge, "pattern_too_long", "A pattern may have at most %d bytes.", guest.MaxPattern)
	}
	if req.Path == "" || req.Path == "." {
		req.Path = "."
	} else if err := guest.CheckPath(req.Path); err != nil {
		return nil, err
	} else if req.Path = guest.DecodePath(req.Path); throughGit(req.Path) {
		return nil, errGit()
	}
	req.Limit = min(max(req.Limit, 1), guest.MaxFound)
	req.Context = min(max(req.Context, 0), guest.MaxContext)
	if req.TimeoutMs <= 0 || req.TimeoutMs > guest.MaxSearchMs {
		req.TimeoutMs = guest.MaxSearchMs
	}
	f := &finder{s: s, req: req, answer: guest.SearchAnswer{Items: []guest.Found{}}}
	var err error
	if req.Glob != "" {
		if f.glob, err = newGlob(guest.DecodePath(req.Glob)); err != nil {
			return nil, err
		}
	}
	if req.Pattern == "" {
		return f, nil
	}
	flags := ""
	if req.IgnoreCase {
		flags = "(?i)"
	}
	if f.re, err = compile(flags + req.Pattern); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "invalid_pattern", "The expression cannot be used: %.300s. It is in the syntax of RE2; put a backslash before a character that shall stand for itself.", err)
	}
	if !strings.Contains(req.Pattern, `\A`) && !strings.Contains(req.Pattern, `\z`) && !strings.Contains(req.Pattern, `(?`) {
		f.all, _ = regexp.Compile("(?m)" + flags + req.Pattern)
	}
	return f, nil
}

// compile refuses an expression that is so large that one block of a file would take minutes.
func compile(pattern string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxSteps {
		return nil, errors.New("it repeats too much")
	}
	return regexp.Compile(pattern)
}

func (f *finder) run(ctx context.Context) error {
	at, info, err := f.s.behindLinks(f.req.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(err, fault.NotFound, "file_not_found", "There is no file or folder %q in the workspace.", guest.EncodePath(f.req.Path))
	case err != nil:
		return fault.Wrap(err, fault.Invalid, "path_escapes", "%q leads out of the workspace or in a circle, or may not be read.", guest.EncodePath(f.req.Path))
	case throughGit(at):
		return errGit()
	}
	if f.req.Path = at; !info.IsDir() {
		return f.look(ctx, at, info)
	}
	w := &walk{s: f.s, req: f.req, hidden: f.req.Hidden || asksForHidden(f.req)}
	if f.re == nil {
		w.fn = func(p string) error {
			if f.fits(p) {
				f.named(p)
			}
			return cmp.Or(f.ended(), ctx.Err())
		}
		return w.files(ctx, f.req.Path, 0)
	}
	paths := make(chan string, 64)
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		readers.Go(func() {
			for p := range paths {
				if info, err := f.s.root.Lstat(p); err == nil && ctx.Err() == nil {
					_ = f.look(ctx, p, info) // it was removed, or cannot be read
				}
			}
		})
	}
	w.fn = func(p string) error {
		if !f.fits(p) {
			return nil
		}
		if err := f.ended(); err != nil {
			return err
		}
		select {
		case paths <- p:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err = w.files(ctx, f.req.Path, 0)
	close(paths)
	readers.Wait()
	return cmp.Or(f.ended(), err, ctx.Err())
}

// ended returns why a stream takes no further file.
func (f *finder) ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// behindLinks is where a path leads inside the root: what the caller names may be a link, but .git is no less closed for it, and whoever looks for
// secrets' files in the answer knows them by their own paths.
func (s *Searcher) behindLinks(p string) (string, fs.FileInfo, error) {
	root, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return "", nil, err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(s.dir, p))
	if err != nil {
		return "", nil, err
	}
	at, err := filepath.Rel(root, real)
	if err != nil {
		return "", nil, err
	}
	info, err := s.root.Lstat(at) // which refuses what is outside
	return at, info, err
}

func errGit() error {
	return fault.New(fault.Forbidden, "git_directory", "Files of .git cannot be read or written here.")
}

// throughGit reports whether a path is .git, or below it.
func throughGit(p string) bool { return slices.ContainsFunc(strings.Split(p, "/"), inGit) }

// asksForHidden reports whether a glob names something hidden.
func asksForHidden(req guest.SearchRequest) bool {
	return strings.HasPrefix(req.Glob, ".") && !strings.HasPrefix(req.Glob, "./") || strings.Contains(req.Glob, "/.")
}

// fits reports whether the glob selects a path.
func (f *finder) fits(p string) bool {
	return f.glob.match(below(f.req.Path, p))
}

// named notes a file that was found by its name.
func (f *finder) named(p string) {
	info, err := f.s.root.Lstat(p)
	if err != nil || !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return
	}
	f.add(found(p, info))
}

func found(p string, info fs.FileInfo) guest.Found {
	return guest.Found{Path: guest.EncodePath(p), Size: info.Size(), Mtime: info.ModTime().UnixMilli()}
}

// add notes a file. Not much more is kept than the answer may have.
func (f *finder) add(one guest.Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return
	}
	f.answer.Files++
	f.answer.Matches += one.Matches
	if f.emit != nil {
		f.failed = f.emit(one)
		return
	}
	f.answer.Items = append(f.answer.Items, one)
	f.kept += cost(one.Path)
	for _, l := range one.Lines {
		f.kept += cost(l.Text)
	}
	if len(f.answer.Items) >= 2*guest.MaxFound || f.kept > maxKept {
		f.fit()
	}
}

// cost is about how many bytes a text has as JSON, with what is around it.
func cost(text string) int {
	n := 60 + len(text)
	for _, c := range []byte(text) {
		if c < ' ' || c == '<' || c == '>' || c == '&' || c == '"' || c == '\\' {
			n += 5
		}
	}
	return n
}

// fit sorts what was found, and keeps the first of it: as much as the answer may have. The caller holds mu.
func (f *finder) fit() {
	slices.SortFunc(f.answer.Items, func(a, b guest.Found) int {
		if f.req.Lines {
			return strings.Compare(a.Path, b.Path)
		}
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), strings.Compare(a.Path, b.Path))
	})
	left, size := f.req.Limit, 0
	for i := range f.answer.Items {
		one := &f.answer.Items[i]
		if size += 60 + cost(one.Path); left <= 0 || size > guest.MaxFoundBytes {
			f.keep(i)
			break
		}
		if !f.req.Lines {
			left--
			continue
		}
		for j, l := range one.Lines {
			if l.Match {
				left--
			}
			if size += cost(l.Text); left < 0 || size > guest.MaxFoundBytes {
				one.Lines = slices.Clone(one.Lines[:j])
				left = 0
				break
			}
		}
	}
	f.kept = size
}

// keep keeps the first items, and nothing of the others.
func (f *finder) keep(n int) {
	clear(f.answer.Items[n:])
	f.answer.Items = f.answer.Items[:n]
}

// look searches a file for lines.
func (f *finder) look(ctx context.Context, p string, info fs.FileInfo) error {
	if f.re == nil {
		f.named(p)
		return nil
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if info.Size() > maxFile {
		f.mu.Lock()
		f.answer.Skipped++
		f.mu.Unlock()
		return nil
	}
	b, err := f.read(p)
	if err != nil || bytes.IndexByte(b[:min(len(b), binaryHead)], 0) >= 0 {
		return err
	}
	one := found(p, info)
	f.lines(ctx, b, &one)
	if one.Matches > 0 {
		f.add(one)
	}
	return nil
}

// read reads a regular file.
func (f *finder) read(p string) ([]byte, error) {
	file, err := f.s.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	b := make([]byte, 0, min(info.Size(), maxFile)+1)
	buf := bytes.NewBuffer(b)
	_, err = buf.ReadFrom(io.LimitReader(file, maxFile))
	return buf.Bytes(), err
}

// lines finds the lines of a content that match, with those around them.
func (f *finder) lines(ctx context.Context, b []byte, into *guest.Found) {
	size := 0
	note := func(l guest.FoundLine) {
		into.Lines = append(into.Lines, l)
		size += cost(l.Text)
	}
	var before []guest.FoundLine // the last lines that are in no match's surroundings
	after := 0                   // how many lines after a match are wanted
	for n := 1; len(b) > 0 && ctx.Err() == nil; {
		end := len(b)
		if end > block {
			end = block + bytes.IndexByte(b[block:], '\n') + 1
			if end == block {
				end = len(b)
			}
		}
		lines := b[:end]
		b = b[end:]
		if f.all != nil && len(lines) <= maxLine && after == 0 && bytes.IndexByte(lines, '\r') < 0 && !f.all.Match(lines) {
			n += bytes.Count(lines, []byte("\n"))
			before = before[:0]
			for rest, k := bytes.TrimSuffix(lines, []byte("\n")), 1; k <= f.req.Context && f.req.Lines && n-k > 0; k++ {
				i := bytes.LastIndexByte(rest, '\n')
				before = append(before, part(n-k, rest[i+1:], 0, false))
				if i < 0 {
					break
				}
				rest = rest[:i]
			}
			slices.Reverse(before)
			continue
		}
		for line := range bytes.Lines(lines) {
			line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
			at := f.re.FindIndex(line[:min(len(line), maxLine)])
			if at != nil {
				into.Matches++
			}
			switch {
			case !f.req.Lines || into.Matches > f.req.Limit || size > guest.MaxFoundBytes: // the rest is counted
			case at != nil:
				for _, l := range before {
					note(l)
				}
				note(part(n, line, at[0], true))
				before, after = nil, f.req.Context
			case after > 0:
				note(part(n, line, 0, false))
				after--
			case f.req.Context > 0:
				before = append(before, part(n, line, 0, false))
				before = before[max(0, len(before)-f.req.Context):]
			}
			n++
		}
	}
}

// part is a line or, of a long one, what is around a position.
func part(n int, line []byte, at int, match bool) guest.FoundLine {
	cut := len(line) > guest.MaxFoundLine
	if cut {
		from := max(min(at-guest.MaxFoundLine/4, len(line)-guest.MaxFoundLine), 0)
		line, at = line[from:from+guest.MaxFoundLine], at-from
	}
	valid := func(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
	return guest.FoundLine{Number: n, Text: valid(line), Match: match, At: len(valid(line[:at])), Cut: cut}
}

// result is the answer within its bounds.
func (f *finder) result() guest.SearchAnswer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fit()
	return f.answer
}
