// Package ignored copies files that git ignores and a project needs all the same, such as .env, from one folder to another. Patterns select
// them. It copies only regular files, follows no link on either side, and overwrites nothing.
package ignored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Caps of what is copied.
const (
	MaxPatterns = 100
	MaxFiles    = 10_000
	MaxBytes    = 1 << 30
)

// ErrTooLarge says that the files exceed the limits.
var ErrTooLarge = errors.New("more files than are copied")

// Valid reports whether a pattern is valid: a name or path with *, ? and **, which leads nowhere else and does not match everything.
func Valid(pattern string) bool {
	clean := strings.TrimSuffix(strings.TrimPrefix(pattern, "/"), "/")
	_, err := path.Match(strings.ReplaceAll(clean, "**", "*"), "x")
	return err == nil && clean != "" && len(pattern) <= 500 && utf8.ValidString(pattern) && !strings.ContainsAny(pattern, "\x00\n\\") && filepath.IsLocal(clean) &&
		clean != "." && clean != "*" && clean != "**" && strings.Split(clean, "/")[0] != ".git"
}

// matches reports whether the file name, or a folder above it, matches the pattern. A pattern with a slash is anchored at the top; one
// without matches in every folder; ** matches any folders.
func matches(pattern, name string) bool {
	anchored := strings.Contains(strings.TrimSuffix(pattern, "/"), "/")
	folder := strings.HasSuffix(pattern, "/")
	pattern = strings.Trim(pattern, "/")
	parts := strings.Split(name, "/")
	for n := 1; n <= len(parts); n++ {
		if folder && n == len(parts) {
			break // a folder's pattern does not match a file
		}
		if anchored {
			if matchParts(strings.Split(pattern, "/"), parts[:n]) {
				return true
			}
		} else if ok, _ := path.Match(pattern, parts[n-1]); ok {
			return true
		}
	}
	return false
}

func matchParts(pattern, parts []string) bool {
	if len(pattern) == 0 {
		return len(parts) == 0
	}
	if pattern[0] == "**" {
		for i := 0; i <= len(parts); i++ {
			if matchParts(pattern[1:], parts[i:]) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 {
		return false
	}
	ok, _ := path.Match(pattern[0], parts[0])
	return ok && matchParts(pattern[1:], parts[1:])
}

// Copier copies the files that match the patterns from one root to another.
type Copier struct {
	From, To *os.Root
	Patterns []string
	Found    func(name string) // is called with a file instead of copying it; nil = copy
	Owner    int               // user and group of the copies; 0 = the process's own

	copied []string
	bytes  int64
}

// Copied are the names of the copied files.
func (c *Copier) Copied() []string { return c.copied }

// Take processes one line of ls-files --others --ignored --directory: a file, or a folder with a slash at the end.
func (c *Copier) Take(ctx context.Context, line string) error {
	switch {
	case line == "":
		return nil
	case strings.HasSuffix(line, "/"):
		return c.folder(ctx, strings.TrimSuffix(line, "/"))
	case c.wanted(line):
		return c.file(line)
	}
	return nil
}

func (c *Copier) wanted(name string) bool {
	for _, p := range c.Patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

// folder scans an ignored folder, but only where a pattern can match: it does not walk node_modules and the like.
func (c *Copier) folder(ctx context.Context, name string) error {
	if !c.canMatchBelow(name) {
		return nil
	}
	return fs.WalkDir(c.From.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return nil // unreadable folders are skipped
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && c.wanted(p) {
			return c.file(p)
		}
		return nil
	})
}

// canMatchBelow reports whether an anchored pattern reaches into the folder, or one names the folder or one above it.
func (c *Copier) canMatchBelow(folder string) bool {
	for _, p := range c.Patterns {
		if matches(p, folder+"/x") || matches(strings.TrimSuffix(p, "/"), folder) {
			return true
		}
		if strings.Contains(strings.TrimSuffix(p, "/"), "/") && reaches(strings.Split(strings.Trim(p, "/"), "/"), strings.Split(folder, "/")) {
			return true
		}
	}
	return false
}

// reaches reports whether something below the folder can match the pattern.
func reaches(pattern, folder []string) bool {
	for i, part := range folder {
		if i >= len(pattern) {
			return false
		}
		if pattern[i] == "**" {
			return true
		}
		if ok, _ := path.Match(pattern[i], part); !ok {
			return false
		}
	}
	return len(pattern) > len(folder)
}

// file copies one regular file.
func (c *Copier) file(name string) error {
	if !filepath.IsLocal(name) || !PlainParents(c.From, name) {
		return nil
	}
	if c.Found != nil {
		c.Found(name)
		return nil
	}
	if !PlainParents(c.To, name) {
		return nil
	}
	in, err := c.From.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil // a link, or not ours to read
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	if c.bytes += fi.Size(); c.bytes > MaxBytes || len(c.copied) >= MaxFiles {
		return ErrTooLarge
	}
	if err := c.folders(path.Dir(name)); err != nil {
		return fmt.Errorf("making the folder of %q: %w", name, err)
	}
	out, err := c.To.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, fi.Mode().Perm()|0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", name, err)
	}
	if c.Owner > 0 {
		err = out.Chown(c.Owner, c.Owner)
	}
	if err == nil {
		_, err = io.Copy(out, io.LimitReader(in, MaxBytes))
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", name, err)
	}
	c.copied = append(c.copied, name)
	return nil
}

// folders makes a folder and those above it.
func (c *Copier) folders(dir string) error {
	if dir == "." {
		return nil
	}
	if err := c.folders(path.Dir(dir)); err != nil {
		return err
	}
	err := c.To.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && c.Owner > 0 {
		err = c.To.Lchown(dir, c.Owner, c.Owner)
	}
	return err
}

// PlainParents reports whether every existing folder above name is a folder and no link.
func PlainParents(r *os.Root, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		fi, err := r.Lstat(dir)
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !fi.IsDir() {
			return false
		}
	}
	return true
}

// Wants reports whether one of the patterns matches the file name, a path with slashes.
func Wants(patterns []string, name string) bool {
	c := Copier{Patterns: patterns}
	return c.wanted(name)
}

// Reaches reports whether one of the patterns can match something below the folder.
func Reaches(patterns []string, folder string) bool {
	c := Copier{Patterns: patterns}
	return c.canMatchBelow(folder)
}
