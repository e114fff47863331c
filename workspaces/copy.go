package workspaces

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

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/hostgit"
)

// Caps of what is copied into a new workspace.
const (
	maxPatterns  = 100
	maxCopyFiles = 10000
	maxCopyBytes = 1 << 30
)

// checkPatterns checks the patterns of ignored files a person gave.
func checkPatterns(patterns []string) error {
	if len(patterns) > maxPatterns {
		return fault.New(fault.Invalid, "pattern_invalid", "More than %d patterns.", maxPatterns)
	}
	for _, p := range patterns {
		clean := strings.TrimSuffix(strings.TrimPrefix(p, "/"), "/")
		_, err := path.Match(strings.ReplaceAll(clean, "**", "*"), "x")
		if err != nil || clean == "" || len(p) > 500 || !utf8.ValidString(p) || strings.ContainsAny(p, "\x00\n\\") || !filepath.IsLocal(clean) ||
			clean == "." || clean == "*" || clean == "**" || strings.Split(clean, "/")[0] == ".git" {
			return fault.New(fault.Invalid, "pattern_invalid",
				"%q is not a pattern for files to copy. Use names such as .env, *.local, config/secrets.json or certs/.", hostgit.Clean(p))
		}
	}
	return nil
}

// matches reports whether the file name, or a folder above it, matches the pattern. A pattern with a slash counts from the
// top; one without matches in every folder; ** stands for any folders.
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

// copyIgnored copies the ignored files the project names from its folder into a new worktree and returns their names. Only
// regular files; no link is followed on either side; nothing that exists is overwritten.
func (s *Service) copyIgnored(ctx context.Context, p Project, dest string) ([]string, error) {
	src, err := os.OpenRoot(p.Source)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "copy_failed", "The project's folder cannot be read.")
	}
	defer src.Close()
	dst, err := os.OpenRoot(dest)
	if err != nil {
		return nil, fmt.Errorf("opening the worktree: %w", err)
	}
	defer dst.Close()

	out, err := s.git.Run(ctx, hostgit.Call{GitDir: filepath.Join(p.Source, ".git"), WorkTree: p.Source,
		Args: []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"}})
	if err != nil {
		return nil, gitFault(err, fault.Unavailable, "copy_failed", "Looking for ignored files")
	}
	c := copier{ctx: ctx, src: src, dst: dst, patterns: p.CopyIgnored}
	for _, name := range strings.Split(string(out), "\x00") {
		switch {
		case name == "":
		case strings.HasSuffix(name, "/"):
			err = c.folder(strings.TrimSuffix(name, "/"))
		case c.wanted(name):
			err = c.file(name)
		}
		if err != nil {
			return c.copied, err
		}
	}
	return c.copied, nil
}

// copier copies what the patterns want from one root to another.
type copier struct {
	ctx      context.Context
	src, dst *os.Root
	patterns []string
	copied   []string
	bytes    int64
	found    func(name string) // is told of a file instead of it being copied; nil = it is copied
}

func (c *copier) wanted(name string) bool {
	for _, p := range c.patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

// folder looks into an ignored folder, but only where a pattern can match: node_modules and the like are not walked.
func (c *copier) folder(name string) error {
	if !c.canMatchBelow(name) {
		return nil
	}
	return fs.WalkDir(c.src.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err := c.ctx.Err(); err != nil {
			return context.Cause(c.ctx)
		}
		if err != nil {
			return nil // what cannot be read is not copied
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
func (c *copier) canMatchBelow(folder string) bool {
	for _, p := range c.patterns {
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
func (c *copier) file(name string) error {
	if !filepath.IsLocal(name) || !plainParents(c.src, name) {
		return nil
	}
	if c.found != nil {
		c.found(name)
		return nil
	}
	if !plainParents(c.dst, name) {
		return nil
	}
	in, err := c.src.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil // a link, or not ours to read
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	if c.bytes += fi.Size(); c.bytes > maxCopyBytes || len(c.copied) >= maxCopyFiles {
		return fault.New(fault.TooLarge, "copy_too_large", "The ignored files to copy are more than %d files or 1 GiB. Name fewer of them in the project's settings.", maxCopyFiles)
	}
	if dir := path.Dir(name); dir != "." {
		if err := c.dst.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the folder of %q: %w", name, err)
		}
	}
	out, err := c.dst.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, fi.Mode().Perm()|0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", name, err)
	}
	_, err = io.Copy(out, io.LimitReader(in, maxCopyBytes))
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full.")
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", name, err)
	}
	c.copied = append(c.copied, name)
	return nil
}

// plainParents reports whether every folder above name is a folder and no link, as far as it exists.
func plainParents(r *os.Root, name string) bool {
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
