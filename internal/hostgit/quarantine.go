package hostgit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/atomicfile"
)

// Quarantine receives a pack from an untrusted sender. Its objects lie in a folder of their own, which nothing else reads, until everything
// in them was checked; Keep moves them into the repository, Close deletes them.
type Quarantine struct {
	scratch *Scratch
	gitDir  string
	dir     string // GIT_OBJECT_DIRECTORY while they are checked
	objects string
	sees    []string // object folders that the new objects may refer to
	noted   func()   // removes the note that it lies in the repository
}

// QuarantineLimits limit a quarantine.
type QuarantineLimits struct {
	Bytes  int64 // of the pack as it comes
	Blob   int64 // of one file
	Memory int64 // of git, in bytes; 0 = none
	Time   time.Duration
}

// ErrRefused says that the received objects are invalid. Words say which and why.
var ErrRefused = errors.New("the objects were refused")

// incoming is git's own name for such a folder: git's clean-up recognizes it.
const incoming = "tmp_objdir-incoming-"

// staleAfter is the age at which an unused quarantine folder is deleted.
const staleAfter = 24 * time.Hour

// Quarantine begins one for the repository gitDir, with its scratch repository below parent. sees are the object folders that the new
// objects may refer to, none = the repository's own: the sender must not reach, by its name alone, an object it could not read. Close it in
// any case.
func (g *Git) Quarantine(ctx context.Context, parent, gitDir string, sees ...string) (*Quarantine, error) {
	scratch, err := g.Scratch(ctx, parent, gitDir)
	if err != nil {
		return nil, err
	}
	in := &Quarantine{scratch: scratch, gitDir: gitDir, objects: scratch.objects, sees: sees}
	if len(sees) == 0 {
		in.sees = []string{scratch.objects}
	}
	in.sweep()
	in.dir = filepath.Join(in.objects, incoming+rand.Text())
	if in.noted, err = g.noteWriting(writing{Objects: in.objects, Dir: in.dir}); err == nil {
		err = os.Mkdir(in.dir, 0o700)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(in.dir, "pack"), 0o700)
	}
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

// sweep removes what a killed server left.
func (in *Quarantine) sweep() {
	old, _ := filepath.Glob(filepath.Join(GlobEscape(in.objects), incoming+"*"))
	for _, dir := range old {
		if fi, err := os.Lstat(dir); err == nil && fi.IsDir() && time.Since(fi.ModTime()) > staleAfter {
			_ = os.RemoveAll(dir)
		}
	}
}

// Close deletes what was not kept.
func (in *Quarantine) Close() error {
	var err error
	if in.dir != "" {
		err = os.RemoveAll(in.dir)
	}
	if in.noted != nil && err == nil {
		in.noted()
	}
	return errors.Join(err, in.scratch.Close())
}

// call returns a call that sees only the new objects and those they may refer to.
func (in *Quarantine) call(l QuarantineLimits, args ...string) Call {
	quoted := make([]string, len(in.sees))
	for i, dir := range in.sees {
		quoted[i] = quoteAlternate(dir)
	}
	return Call{GitDir: in.scratch.dir, Objects: in.dir, Args: args, Timeout: l.Time, Memory: l.Memory,
		Env: append([]string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + strings.Join(quoted, ":")}, in.scratch.env...)}
}

// quoteAlternate quotes a folder as git reads it in a list of alternates.
func quoteAlternate(dir string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(dir) + `"`
}

// Take reads a pack to its end and checks every object in it as strictly as git can. When content is a file, git itself reads it, and closes
// a pipe as soon as it has seen enough.
func (in *Quarantine) Take(ctx context.Context, pack io.Reader, l QuarantineLimits) error {
	c := in.call(l, "index-pack", "--stdin", "--fix-thin", "--strict", fmt.Sprintf("--max-input-size=%d", l.Bytes))
	// A large file is checked as a stream, instead of in memory.
	c.Config = []string{"core.bigFileThreshold=16m", "pack.threads=2"}
	c.Stdin = pack
	_, err := in.scratch.git.Run(ctx, c)
	return refusal(err)
}

// refusal converts git's verdict to ErrRefused; an error that is not about the objects stays as it is.
func refusal(err error) error {
	g, ok := errors.AsType[*Error](err)
	if !ok || g.Err != nil || strings.Contains(g.Stderr, "No space left") || strings.Contains(g.Stderr, "Out of diskspace") {
		return err
	}
	return fmt.Errorf("%w: %s", ErrRefused, g.Words())
}

// Check makes sure that tips are what the sender says, and that everything they reach exists and is of acceptable size. It skips what known
// commits reach, and what refs of the repository reach where the new objects may refer to all of that. tips says of each name whether it
// must be a commit; a tag may be anything.
func (in *Quarantine) Check(ctx context.Context, tips map[string]bool, l QuarantineLimits, known ...string) error {
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
	out, err := in.scratch.git.Run(ctx, c)
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
			return fmt.Errorf("%w: %s does not exist", ErrRefused, names[i])
		}
		if tips[id] && kind != "commit" {
			return fmt.Errorf("%w: %s is a %s, not a commit", ErrRefused, id, kind)
		}
	}
	for _, id := range known {
		walk.WriteString("^" + id + "\n")
	}
	if in.sees[0] == in.objects {
		refs, err := in.scratch.git.Run(ctx, Call{GitDir: in.gitDir, Max: 256 << 20, Args: []string{"for-each-ref", "--format=^%(objectname)"}})
		if err != nil {
			return err
		}
		walk.Write(refs)
	}
	large := &finder{mark: '~'}
	// A dangling ref of the repository is not the sender's fault: skip those. The tips were checked above.
	c = in.call(l, "rev-list", "--objects", "--stdin", "--ignore-missing", fmt.Sprintf("--filter=blob:limit=%d", l.Blob), "--filter-print-omitted")
	c.Stdin, c.Stdout = &walk, large
	if _, err := in.scratch.git.Run(ctx, c); err != nil {
		return refusal(err)
	}
	large.end()
	if large.found != "" {
		return fmt.Errorf("%w: a file is larger than %d MiB (%s)", ErrRefused, l.Blob>>20, large.found)
	}
	return nil
}

// finder looks for the first line that begins with a mark, and stores nothing else.
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

// Size returns the size of the objects in bytes.
func (in *Quarantine) Size() int64 {
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

// mode is the mode of pack files in the repository: as accessible as the others.
func (in *Quarantine) mode() fs.FileMode {
	mode := fs.FileMode(0o400)
	if fi, err := os.Stat(in.objects); err == nil {
		mode |= fi.Mode().Perm() & 0o044
	}
	return mode
}

// openMode is the mode of world-readable packs.
const openMode fs.FileMode = 0o444

// CopyTo also adds the received packs to a world-readable object folder: as hard links, where the packs may be world-readable in the
// repository as well. Call it before Keep.
func (in *Quarantine) CopyTo(objects string) error {
	return eachPack(filepath.Join(in.dir, "pack"), filepath.Join(objects, "pack"), func(from, to string) error {
		if in.mode() == openMode && os.Chmod(from, openMode) == nil && os.Link(from, to) == nil {
			return nil
		}
		return copyFile(from, to, openMode)
	})
}

// Keep moves the objects into the repository.
func (in *Quarantine) Keep() error {
	mode := in.mode()
	return eachPack(filepath.Join(in.dir, "pack"), filepath.Join(in.objects, "pack"), func(from, to string) error { return move(from, to, mode) })
}

// KeepPacks moves the packs that git has made in a folder of ours into a world-readable object folder.
func KeepPacks(from, objects string) error {
	return eachPack(from, filepath.Join(objects, "pack"), func(from, to string) error { return move(from, to, openMode) })
}

// LinkPacks hard-links the packs of an object folder into another, which is world-readable. It fails where they are on different disks, or
// not world-readable.
func LinkPacks(from, to string) error {
	return eachPack(filepath.Join(from, "pack"), filepath.Join(to, "pack"), func(from, to string) error {
		if fi, err := os.Lstat(from); err != nil || !fi.Mode().IsRegular() || fi.Mode().Perm()&openMode != openMode {
			return errors.Join(err, fmt.Errorf("%s is not open to all", from))
		}
		return os.Link(from, to)
	})
}

func move(from, to string, mode fs.FileMode) error {
	if err := os.Chmod(from, mode); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// eachPack puts the pack files of one folder into another, which may not exist. Git finds a pack by its index, so the index comes last. It
// skips existing files, because packs are named by their content.
func eachPack(from, to string, put func(from, to string) error) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	rank := func(name string) int { return slices.Index([]string{".pack", ".rev", ".idx"}, filepath.Ext(name)) }
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return rank(a.Name()) - rank(b.Name()) })
	for _, e := range entries {
		if name := filepath.Join(to, e.Name()); rank(e.Name()) >= 0 && !fileExists(name) {
			if err := put(filepath.Join(from, e.Name()), name); err != nil {
				return err
			}
		}
	}
	return atomicfile.SyncDir(to)
}

// copyFile makes a copy atomically, and syncs it to disk.
func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.CopyDurable(to, in, mode)
}
