package hostgit

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Scratch is a temporary git dir of our own over the objects of another repository: reading and merging objects there sees no config,
// attributes, hooks, filters, merge drivers or refs an agent could have written.
type Scratch struct {
	git     *Git
	dir     string
	objects string
	env     []string
}

// Scratch makes a scratch repository in a new folder below parent over the repository gitDir. Close it.
func (g *Git) Scratch(ctx context.Context, parent, gitDir string) (*Scratch, error) {
	return g.ScratchOver(ctx, parent, gitDir, filepath.Join(gitDir, "objects"))
}

// ScratchOver makes a scratch repository over another object folder, of the same format as the repository's.
func (g *Git) ScratchOver(ctx context.Context, parent, gitDir, objects string) (*Scratch, error) {
	format, err := g.objectFormat(ctx, gitDir)
	if err != nil {
		return nil, fmt.Errorf("reading the object format: %w", err)
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "scratch-")
	if err != nil {
		return nil, err
	}
	d := &Scratch{git: g, dir: dir, objects: objects}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if format != "sha1" {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = " + format + "\n"
	}
	for _, f := range [...]struct{ name, text string }{{"HEAD", "ref: refs/heads/none\n"}, {"config", config}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o600); err != nil {
			_ = d.Close()
			return nil, err
		}
	}
	for _, sub := range [...]string{"refs/heads", "objects/info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			_ = d.Close()
			return nil, err
		}
	}
	if shallow := filepath.Join(gitDir, "shallow"); fileExists(shallow) {
		d.env = []string{"GIT_SHALLOW_FILE=" + shallow}
	}
	return d, nil
}

// formats caches the object formats of repositories, so that a scratch repository needs no call of git.
type formats struct {
	mu sync.Mutex
	of map[string]format
}

type format struct {
	name   string
	config fs.FileInfo // the file that says it: another repository may have the same path later
}

// formatsMost limits the cache.
const formatsMost = 10_000

func (g *Git) objectFormat(ctx context.Context, gitDir string) (string, error) {
	fi, err := os.Stat(filepath.Join(gitDir, "config"))
	if err != nil {
		fi = nil // git reports what is wrong with that
	}
	g.formats.mu.Lock()
	known, ok := g.formats.of[gitDir]
	g.formats.mu.Unlock()
	if ok && fi != nil && os.SameFile(known.config, fi) && known.config.ModTime().Equal(fi.ModTime()) && known.config.Size() == fi.Size() {
		return known.name, nil
	}
	name, err := g.Text(ctx, Call{GitDir: gitDir, Args: []string{"rev-parse", "--show-object-format"}})
	if err != nil || fi == nil {
		return name, err
	}
	g.formats.mu.Lock()
	defer g.formats.mu.Unlock()
	if g.formats.of == nil || len(g.formats.of) >= formatsMost {
		g.formats.of = make(map[string]format)
	}
	g.formats.of[gitDir] = format{name, fi}
	return name, nil
}

// Isolate makes objects written in the scratch repository stay in it, so that they go when it is closed: for trying what a result would be.
func (d *Scratch) Isolate() error {
	if strings.ContainsAny(d.objects, "\n\"") {
		return fmt.Errorf("hostgit: %q cannot be an alternate", d.objects)
	}
	own := filepath.Join(d.dir, "objects")
	if err := os.MkdirAll(filepath.Join(own, "pack"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "info", "alternates"), []byte(d.objects+"\n"), 0o600); err != nil {
		return err
	}
	d.objects = own
	return nil
}

// Dir returns the scratch repository's folder: its contents are git's.
func (d *Scratch) Dir() string { return d.dir }

// Close removes the scratch repository. Objects written to the underlying repository stay there.
func (d *Scratch) Close() error { return os.RemoveAll(d.dir) }

// Run runs git in the scratch repository. It sets Call.GitDir and Objects.
func (d *Scratch) Run(ctx context.Context, c Call) ([]byte, error) {
	c.GitDir, c.Objects = d.dir, d.objects
	c.Env = append(c.Env[:len(c.Env):len(c.Env)], d.env...)
	if len(c.Args) > 0 && c.Args[0] == "fast-import" {
		return d.importing(ctx, c)
	}
	return d.git.Run(ctx, c)
}

// Text is Run without the final newline.
func (d *Scratch) Text(ctx context.Context, args ...string) (string, error) {
	b, err := d.Run(ctx, Call{Args: args})
	return strings.TrimRight(string(b), "\n"), err
}

func fileExists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}
