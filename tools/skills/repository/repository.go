// Package repository reads what a repository tells agents: instructions (AGENTS.md), skills (folders with a SKILL.md) and commands (files
// with a prompt each). It reads in the workspace's sandbox, by the rules of the file API: no link leads out of the worktree, and nobody
// reads a secret's file. Whoever can push to the repository writes these files, so their number and sizes are bounded, and control
// characters are removed.
//
// It keeps nothing. Goroutines: the files of a list are read several at once, by goroutines that end before the call does.
package repository

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Bounds.
const (
	MaxFile    = 32 << 10 // bytes of a file that is read
	maxLooked  = 1 << 20  // bytes of a file of which anything is read
	MaxSkills  = 64       // of a repository
	maxEntries = 500      // of a folder that are looked at
	maxName    = 64
	maxAbout   = 400 // characters of a description
	atOnce     = 8   // files that are read at the same time
)

// Sandboxes finds and makes sandboxes.
type Sandboxes interface {
	// Ensure returns the workspace's live sandbox, and wakes or makes it when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
}

// Config configures a Reader. Sandboxes is required.
type Config struct {
	Sandboxes Sandboxes
	// Secrets returns the secrets a workspace was ever given; nil = none.
	Secrets func(ctx context.Context, workspaceID string) (workspaces.SecretFiles, error)
}

// Reader reads in the sandboxes of workspaces. Safe for concurrent use.
type Reader struct{ cfg Config }

// New returns a Reader. It panics if a dependency is missing.
func New(cfg Config) *Reader {
	if cfg.Sandboxes == nil {
		panic("repository: Sandboxes is required")
	}
	return &Reader{cfg}
}

// File is a text of a repository.
type File struct {
	Path string // relative to the worktree
	Text string
}

// work is one call in a sandbox.
type work struct {
	place   *executors.Place
	secrets workspaces.SecretFiles
	done    func()
}

func (r *Reader) begin(ctx context.Context, workspaceID string) (*work, error) {
	w := &work{}
	var err error
	if r.cfg.Secrets != nil {
		if w.secrets, err = r.cfg.Secrets(ctx, workspaceID); err != nil {
			return nil, err
		}
	}
	if w.place, err = r.cfg.Sandboxes.Ensure(ctx, workspaceID); err != nil {
		return nil, err
	}
	w.done = w.place.Use()
	return w, nil
}

// read returns the beginning of a text file; false when there is no such file that may be read.
func (w *work) read(ctx context.Context, name string) (text string, ok bool, err error) {
	if guest.CheckPath(name) != nil {
		return "", false, nil
	}
	f, info, err := w.place.Guest.ReadFileUpTo(ctx, name, maxLooked)
	if err != nil {
		return "", false, missing(err)
	}
	defer f.Close()
	if secretfiles.HasSum(w.secrets, path.Clean(guest.DecodePath(name)), info.Hash) {
		return "", false, nil
	}
	raw, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return "", false, missing(err)
	}
	text = strings.ToValidUTF8(string(raw), "")
	if strings.ContainsRune(text, 0) {
		return "", false, nil
	}
	text = safetext.Lines(w.secrets.Values.Text(text, w.secrets.Hides))
	if info.Size > int64(len(raw)) {
		text += "\n[The rest of the file is left out.]"
	}
	return text, true, nil
}

// missing turns the error of what is not there, or may not be read, into nil.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, kind := range []fault.Kind{fault.NotFound, fault.Invalid, fault.Forbidden, fault.Conflict, fault.TooLarge} {
		if fault.Is(err, kind) {
			return nil
		}
	}
	return err
}

// list returns the entries of a folder; none where there is no folder.
func (w *work) list(ctx context.Context, folder string) ([]guest.FileInfo, error) {
	l, err := w.place.Guest.List(ctx, folder)
	if err != nil {
		return nil, missing(err)
	}
	return l.Items[:min(len(l.Items), maxEntries)], nil
}

// each calls do for 0 to n-1, several at once, and returns the first error.
func each(n int, do func(i int) error) error {
	var all sync.WaitGroup
	var once sync.Once
	var first error
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := do(i); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return first
}
