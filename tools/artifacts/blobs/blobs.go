// Package blobs stores the contents of artifacts, each under a key of its team's id and its own.
package blobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/internal/atomicfile"
)

// Store holds contents. A content never changes under its key. Implementations are safe for concurrent use.
type Store interface {
	// Put stores the file at a path of this server; the file is Store's afterwards. When it returns, the content is durable. When it
	// fails, the file is still there.
	Put(ctx context.Context, key, file string) error
	// Open opens a content; fs.ErrNotExist when there is none. The caller closes it.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, error)
	// Delete removes a content; a missing one is not an error.
	Delete(ctx context.Context, key string) error
	// Recover removes what an earlier server began to store and did not complete.
	Recover(ctx context.Context) error
}

// Key is the key of an artifact's content.
func Key(teamID, artifactID string) string { return teamID + "/" + artifactID }

// Folder stores contents in a folder of this server. Put takes files of the same filesystem.
type Folder struct{ dir string }

var _ Store = (*Folder)(nil)

// NewFolder returns the Store in a folder, which it creates when something is put into it.
func NewFolder(dir string) *Folder { return &Folder{dir} }

// path is where a key's content is. Keys are made of ids; anything else is a bug of the caller.
func (f *Folder) path(key string) (string, error) {
	team, id, ok := strings.Cut(key, "/")
	if !ok || !plain(team) || !plain(id) {
		return "", fmt.Errorf("%q is not the key of a content", key)
	}
	return filepath.Join(f.dir, team, id), nil
}

// plain reports whether a part of a key names one file in a folder.
func plain(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsAny(s, "/\\\x00") && s[0] != '.'
}

// Put moves the file to its place.
func (f *Folder) Put(_ context.Context, key, file string) error {
	to, err := f.path(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := syncFile(file); err != nil {
		return err
	}
	if err := os.Rename(file, to); err != nil {
		return err
	}
	return errors.Join(atomicfile.SyncDir(filepath.Dir(to)), atomicfile.SyncDir(f.dir))
}

func syncFile(name string) error {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Open opens a content.
func (f *Folder) Open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	name, err := f.path(key)
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// Delete removes a content.
func (f *Folder) Delete(_ context.Context, key string) error {
	name, err := f.path(key)
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Recover has nothing to do: a file is in its place, or not.
func (f *Folder) Recover(context.Context) error { return nil }
