package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Bounds of a patch.
const patchContext = 1_000_000 // context lines of a hunk

// Patch returns the unified diff of two trees, of the named paths (raw bytes) only; of all when none is named. A renamed file is found by
// its new name. It leaves out secrets' files and masks secrets' values. The caller closes the reader, which returns git's error.
func (s *Service) Patch(ctx context.Context, workspaceID string, from, to git.Tree, paths []string, lines int, ignoreSpace bool) (io.ReadCloser, error) {
	p, err := s.repo.ProjectOf(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	if n := git.PatchFits(paths); n < len(paths) {
		return nil, fault.New(fault.TooLarge, "too_many_paths", "Ask for the differences of at most %d files at once.", n)
	}
	if !git.IsCommitID(from.Tree) || !git.IsCommitID(to.Tree) {
		return nil, fault.New(fault.Invalid, "invalid_revision", "Both sides of a comparison must be known.")
	}
	o := git.CompareOptions{IgnoreSpace: ignoreSpace, Renames: true}
	secrets, err := s.secretFiles.Together(ctx, workspaceID, from.Owner, to.Owner)
	if err != nil {
		return nil, err
	}
	want := paths
	if len(paths) > 0 || secretfiles.Some(secrets) {
		c, err := s.repo.Compare(ctx, workspaceID, from, to, o)
		if err != nil {
			return nil, err
		}
		if secretfiles.Some(secrets) {
			shown, all := secretfiles.ShownOnly(secrets, c, paths)
			switch {
			case all:
			case len(shown) == 0:
				return io.NopCloser(strings.NewReader("")), nil
			default:
				paths, want = shown, shown
			}
		}
		was := make(map[string]string)
		for _, f := range c.Files {
			if f.OldPath != "" {
				was[f.Path] = f.OldPath
			}
		}
		for _, name := range paths {
			if old := was[name]; old != "" {
				want = append(want[:len(want):len(want)], old)
			}
		}
	}
	scratch, err := s.repo.ScratchOf(ctx, p)
	if err != nil {
		return nil, err
	}
	args := git.DiffArgs(o, "-p", "--full-index", "-U"+strconv.Itoa(min(max(lines, 0), patchContext)), "--src-prefix=a/", "--dst-prefix=b/", from.Tree, to.Tree, "--")
	return secretfiles.ReadCloser(secrets, s.gitReader(ctx, scratch, hostgit.Call{Args: append(args, want...)}, "Comparing two trees")), nil
}

// gitReader runs git in a scratch repository and streams its output. Closing it ends git and removes the repository.
func (s *Service) gitReader(ctx context.Context, scratch *hostgit.Scratch, call hostgit.Call, doing string) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	g := &gitPipe{PipeReader: r, cancel: cancel, done: make(chan struct{})}
	call.Stdout = w
	go func() { // ends with git, which ends with ctx or when its output is closed: Close waits for it
		defer close(g.done)
		_, err := scratch.Run(ctx, call)
		_ = scratch.Close()
		if err != nil {
			err = git.GitFault(err, fault.Unavailable, "repository_unreadable", doing)
		}
		w.CloseWithError(err)
	}()
	return g
}

type gitPipe struct {
	*io.PipeReader
	cancel func()
	done   chan struct{}
}

func (g *gitPipe) Close() error {
	g.cancel()
	err := g.PipeReader.Close()
	<-g.done
	return err
}

// FileAt returns a file of a tree, or a link's target; not a secret's file, and with secrets' values masked. The caller closes it.
func (s *Service) FileAt(ctx context.Context, workspaceID string, t git.Tree, path string) (io.ReadCloser, int64, error) {
	p, err := s.repo.ProjectOf(ctx, workspaceID)
	if err != nil {
		return nil, 0, err
	}
	missing := fault.New(fault.NotFound, "file_not_found", "There is no such file in it.")
	if path == "" || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.ContainsRune(path, 0) {
		return nil, 0, missing
	}
	secrets, err := s.secretFiles.Together(ctx, workspaceID, t.Owner)
	if err != nil {
		return nil, 0, err
	}
	if secretfiles.Has(secrets, path, "") {
		return nil, 0, secretfiles.ErrSecretFile
	}
	scratch, err := s.repo.ScratchOf(ctx, p)
	if err != nil {
		return nil, 0, err
	}
	out, err := scratch.Run(ctx, hostgit.Call{Args: []string{"ls-tree", "-z", "-l", "--full-tree", t.Tree, "--", path}})
	if err != nil {
		_ = scratch.Close()
		return nil, 0, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for the file")
	}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if rec == "" {
			continue
		}
		f, err := git.TreeRecord(rec)
		if err != nil {
			_ = scratch.Close()
			return nil, 0, err
		}
		if secretfiles.Has(secrets, "", f.OID) {
			_ = scratch.Close()
			return nil, 0, secretfiles.ErrSecretFile
		}
		if f.Path == path && !f.Module() && f.Mode != 0o040000 {
			return secretfiles.ReadCloser(secrets, s.gitReader(ctx, scratch, hostgit.Call{Args: []string{"cat-file", "blob", f.OID}}, "Reading the file")), f.Size, nil
		}
	}
	_ = scratch.Close()
	return nil, 0, missing
}

// Hit is a line of a comparison that contains the search text.
type Hit struct {
	Path string // raw bytes; the new path of a renamed file
	Side string // old, new
	Line int
	Text string // at most maxHitText bytes of it
}

const (
	maxHits    = 1_000
	maxHitText = 400
)

// SearchDiff searches the changed lines of two trees, and the three around each, for text; capitals in the diff match small letters. more
// reports that there are further hits.
func (s *Service) SearchDiff(ctx context.Context, workspaceID string, from, to git.Tree, text string, ignoreSpace bool) (hits []Hit, more bool, err error) {
	if text = strings.TrimRight(text, "\r\n"); text == "" || len(text) > 1000 || strings.ContainsAny(text, "\n\x00") {
		return nil, false, fault.New(fault.Invalid, "invalid_parameter", "Search for text within one line, of at most 1,000 bytes.").With("field", "q")
	}
	c, err := s.repo.Compare(ctx, workspaceID, from, to, git.CompareOptions{IgnoreSpace: ignoreSpace, Renames: true})
	if err != nil {
		return nil, false, err
	}
	r, err := s.Patch(ctx, workspaceID, from, to, nil, 3, ignoreSpace)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	find := patchSearch{want: []byte(strings.ToLower(text)), byName: make(map[string]string, 2*len(c.Files))}
	for _, f := range c.Files {
		find.byName[quoteC("b/"+f.Path)] = f.Path
		find.byName[quoteC("a/"+f.Path)] = f.Path // of a deleted file
	}
	err = find.run(bufio.NewReaderSize(r, 256<<10))
	if errors.Is(err, errEnough) {
		return find.hits, true, nil
	}
	return find.hits, false, err
}

var errEnough = errors.New("enough was found")

// patchSearch reads a unified diff and collects the lines that contain want.
type patchSearch struct {
	want     []byte // in lower case
	byName   map[string]string
	hits     []Hit
	path     string
	old, new int // the next line number of each side
	left     [2]int
}

func (p *patchSearch) run(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // ignore the rest of a line longer than the buffer
			head := bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			line = head
		}
		if len(line) > 0 {
			if perr := p.line(bytes.TrimSuffix(line, []byte("\n"))); perr != nil {
				return perr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *patchSearch) line(l []byte) error {
	if p.left[0] <= 0 && p.left[1] <= 0 { // between hunks
		switch {
		case bytes.HasPrefix(l, []byte("diff --git ")):
			p.path = ""
		case bytes.HasPrefix(l, []byte("+++ ")), bytes.HasPrefix(l, []byte("--- ")):
			if name, ok := p.byName[strings.TrimSuffix(string(l[4:]), "\t")]; ok {
				p.path = name
			}
		case bytes.HasPrefix(l, []byte("@@ -")):
			p.old, p.left[0], p.new, p.left[1] = hunkHead(string(l))
		}
		return nil
	}
	if len(l) == 0 || l[0] == '\\' {
		return nil
	}
	h := Hit{Path: p.path, Side: "new", Line: p.new}
	switch l[0] {
	case '-':
		h.Side, h.Line = "old", p.old
		p.old++
		p.left[0]--
	case '+':
		p.new++
		p.left[1]--
	default:
		p.old++
		p.new++
		p.left[0]--
		p.left[1]--
	}
	at := bytes.Index(bytes.ToLower(l[1:]), p.want)
	if at < 0 {
		return nil
	}
	if len(p.hits) == maxHits {
		return errEnough
	}
	text := l[1:]
	if len(text) > maxHitText {
		begin := min(max(0, at-maxHitText/4), len(text)-maxHitText)
		text = text[begin : begin+maxHitText]
	}
	h.Text = strings.ToValidUTF8(string(text), "\uFFFD")
	p.hits = append(p.hits, h)
	return nil
}

// hunkHead parses "@@ -a,b +c,d @@".
func hunkHead(l string) (oldAt, oldLines, newAt, newLines int) {
	f := strings.Fields(l)
	if len(f) < 3 {
		return 0, 0, 0, 0
	}
	part := func(s string) (int, int) {
		a, b, two := strings.Cut(s[1:], ",")
		at, _ := strconv.Atoi(a)
		n := 1
		if two {
			n, _ = strconv.Atoi(b)
		}
		return at, n
	}
	oldAt, oldLines = part(f[1])
	newAt, newLines = part(f[2])
	return oldAt, oldLines, newAt, newLines
}

// quoteC quotes a name as git does in a patch with core.QuotePath=false.
func quoteC(name string) string {
	plain := true
	var b strings.Builder
	for _, c := range []byte(name) {
		esc := ""
		switch c {
		case '"':
			esc = `\"`
		case '\\':
			esc = `\\`
		case '\a':
			esc = `\a`
		case '\b':
			esc = `\b`
		case '\t':
			esc = `\t`
		case '\n':
			esc = `\n`
		case '\v':
			esc = `\v`
		case '\f':
			esc = `\f`
		case '\r':
			esc = `\r`
		default:
			if c < ' ' || c == 0x7f {
				esc = `\` + sandboxgit.LeftPad(strconv.FormatInt(int64(c), 8))
			}
		}
		if esc == "" {
			b.WriteByte(c)
			continue
		}
		plain = false
		b.WriteString(esc)
	}
	if plain {
		return name
	}
	return `"` + b.String() + `"`
}
