package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Intake takes a pack from somebody who is not trusted. Its objects lie in a folder of their own, which nobody else reads, until
// everything in them was checked; Keep makes them the repository's, Close throws them away.
type Intake struct {
	desk    *Desk
	gitDir  string
	dir     string // GIT_OBJECT_DIRECTORY while they are checked
	objects string
}

// IntakeLimits bound an intake.
type IntakeLimits struct {
	Bytes  int64 // of the pack as it comes
	Blob   int64 // of one file
	Memory int64 // of git, in bytes; 0 = none
	Time   time.Duration
}

// ErrRefused says that what came was not what it should be. Words tell what of it.
var ErrRefused = errors.New("the objects were refused")

// incoming is how git itself names such a folder: its own clean-up knows it.
const incoming = "tmp_objdir-incoming-"

// staleAfter is how old the folder of an intake is that nobody works at any more.
const staleAfter = 24 * time.Hour

// Intake begins one for the repository gitDir, with its desk below parent. Close it in any case.
func (g *Git) Intake(ctx context.Context, parent, gitDir string) (*Intake, error) {
	desk, err := g.Desk(ctx, parent, gitDir)
	if err != nil {
		return nil, err
	}
	in := &Intake{desk: desk, gitDir: gitDir, objects: desk.objects}
	in.sweep()
	if in.dir, err = os.MkdirTemp(in.objects, incoming); err == nil { // 0700: sandboxes that borrow the objects do not see it
		err = os.Mkdir(filepath.Join(in.dir, "pack"), 0o700)
	}
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

// sweep removes what a server that was killed left.
func (in *Intake) sweep() {
	old, _ := filepath.Glob(filepath.Join(GlobEscape(in.objects), incoming+"*"))
	for _, dir := range old {
		if fi, err := os.Lstat(dir); err == nil && fi.IsDir() && time.Since(fi.ModTime()) > staleAfter {
			_ = os.RemoveAll(dir)
		}
	}
}

// Close throws away what was not kept.
func (in *Intake) Close() error {
	var err error
	if in.dir != "" {
		err = os.RemoveAll(in.dir)
	}
	return errors.Join(err, in.desk.Close())
}

// call is a call that sees the new objects and the repository's, and nothing else of either.
func (in *Intake) call(l IntakeLimits, args ...string) Call {
	return Call{GitDir: in.desk.dir, Objects: in.dir, Args: args, Timeout: l.Time, Memory: l.Memory,
		Env: append([]string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoteAlternate(in.objects)}, in.desk.env...)}
}

// quoteAlternate writes a folder as git reads it in a list.
func quoteAlternate(dir string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(dir) + `"`
}

// Take reads a pack to its end and checks every object in it as strictly as git can. A file is read by git itself, which then ends
// who writes into a pipe as soon as it has had enough.
func (in *Intake) Take(ctx context.Context, pack io.Reader, l IntakeLimits) error {
	c := in.call(l, "index-pack", "--stdin", "--fix-thin", "--strict", fmt.Sprintf("--max-input-size=%d", l.Bytes))
	// A large file is checked as it streams by, instead of in memory.
	c.Config = []string{"core.bigFileThreshold=16m", "pack.threads=2"}
	c.Stdin = pack
	_, err := in.desk.git.Run(ctx, c)
	return refusal(err)
}

// refusal turns git's own verdict into ErrRefused; what is not about the objects stays what it is.
func refusal(err error) error {
	g, ok := errors.AsType[*Error](err)
	if !ok || g.Err != nil || strings.Contains(g.Stderr, "No space left") || strings.Contains(g.Stderr, "Out of diskspace") {
		return err
	}
	return fmt.Errorf("%w: %s", ErrRefused, g.Words())
}

// Check makes sure that tips are what they are said to be, and that everything they reach is there and of sensible size. Commits the
// repository itself refers to are not walked again. tips says of each name whether it must be a commit; a tag may be anything.
func (in *Intake) Check(ctx context.Context, tips map[string]bool, l IntakeLimits) error {
	if len(tips) == 0 {
		return nil
	}
	var ask, walk bytes.Buffer
	var names []string
	for id := range tips {
		names = append(names, id)
	}
	slices.Sort(names)
	for _, id := range names {
		ask.WriteString(id + "\n")
		walk.WriteString(id + "\n")
	}
	c := in.call(l, "cat-file", "--batch-check=%(objectname) %(objecttype)")
	c.Stdin = &ask
	out, err := in.desk.git.Run(ctx, c)
	if err != nil {
		return refusal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(names) {
		return fmt.Errorf("cat-file answered %d lines for %d names", len(lines), len(names))
	}
	for i, line := range lines {
		id, kind, _ := strings.Cut(line, " ")
		if id != names[i] || kind == "missing" {
			return fmt.Errorf("%w: %s is not there", ErrRefused, names[i])
		}
		if tips[id] && kind != "commit" {
			return fmt.Errorf("%w: %s is a %s, not a commit", ErrRefused, id, kind)
		}
	}
	known, err := in.desk.git.Run(ctx, Call{GitDir: in.gitDir, Max: 256 << 20, Args: []string{"for-each-ref", "--format=^%(objectname)"}})
	if err != nil {
		return err
	}
	walk.Write(known)
	large := &finder{mark: '~'}
	// A ref of the repository's that points to nothing is not the sandbox's fault: those are passed over. The tips were seen above.
	c = in.call(l, "rev-list", "--objects", "--stdin", "--ignore-missing", fmt.Sprintf("--filter=blob:limit=%d", l.Blob), "--filter-print-omitted")
	c.Stdin, c.Stdout = &walk, large
	if _, err := in.desk.git.Run(ctx, c); err != nil {
		return refusal(err)
	}
	large.end()
	if large.found != "" {
		return fmt.Errorf("%w: a file is larger than %d MiB (%s)", ErrRefused, l.Blob>>20, large.found)
	}
	return nil
}

// finder looks for the first line that begins with a mark, and keeps nothing else.
type finder struct {
	mark  byte
	line  []byte
	found string
}

func (f *finder) Write(p []byte) (int, error) {
	for _, c := range p {
		if c == '\n' {
			f.end()
		} else if len(f.line) < 70 {
			f.line = append(f.line, c)
		}
	}
	return len(p), nil
}

func (f *finder) end() {
	if len(f.line) > 1 && f.line[0] == f.mark && f.found == "" {
		f.found = string(f.line[1:])
	}
	f.line = f.line[:0]
}

// Size is how many bytes the objects take.
func (in *Intake) Size() int64 {
	var sum int64
	entries, err := os.ReadDir(filepath.Join(in.dir, "pack"))
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			sum += fi.Size()
		}
	}
	return sum
}

// Keep makes the objects the repository's: a pack is known to git from when its index is there, which comes last.
func (in *Intake) Keep() error {
	from := filepath.Join(in.dir, "pack")
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	to := filepath.Join(in.objects, "pack")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o400)
	if fi, err := os.Stat(in.objects); err == nil {
		mode |= fi.Mode().Perm() & 0o044 // as open as the others
	}
	rank := func(name string) int { return slices.Index([]string{".pack", ".rev", ".idx"}, filepath.Ext(name)) }
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return rank(a.Name()) - rank(b.Name()) })
	for _, e := range entries {
		if rank(e.Name()) < 0 {
			continue
		}
		name := filepath.Join(to, e.Name())
		if fileExists(name) {
			continue // named by its content
		}
		if err := os.Chmod(filepath.Join(from, e.Name()), mode); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, e.Name()), name); err != nil {
			return err
		}
	}
	return syncDir(to)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
