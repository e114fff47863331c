package filesync

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's own names of contents
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// BaseFile is one file of a commit. Path is raw.
type BaseFile struct {
	Path string
	Mode string // as git writes it: 100644, 100755, 120000, 160000; 040000 = a folder
	Size int64
	OID  string // git's object ID of the content
}

// file reports whether it is a file or a link, as opposed to a folder or submodule.
func (b BaseFile) file() bool { return b.Mode == modeFile || b.Mode == modeExec || b.Mode == modeLink }

// Modes as git writes them.
const (
	modeFile = "100644"
	modeExec = "100755"
	modeLink = "120000"
)

// HostDiff requests the diff of one file on the host against a commit. Paths are raw.
type HostDiff struct {
	Base, Path, OldPath string
	Mode                string    // mode of what is on the host now; "" = nothing is
	Content             io.Reader // what is on the host now
	Size                int64     // size of Content
	Context             int       // lines around a hunk
}

// Trees knows host worktrees and the commits they are built on. No method touches a worktree.
type Trees interface {
	// Worktree is the absolute path of the workspace's worktree on the host; an error when it has none now.
	Worktree(ctx context.Context, workspaceID string) (string, error)
	// Team is the workspace's team.
	Team(ctx context.Context, workspaceID string) (string, error)
	// BaseFiles returns the entries of paths in a commit, including folders and submodules; all files of it when paths is nil.
	BaseFiles(ctx context.Context, workspaceID, commit string, paths []string) ([]BaseFile, error)
	// BaseDiff returns the paths that differ between two commits.
	BaseDiff(ctx context.Context, workspaceID, from, to string) ([]string, error)
	// BaseBlobs passes the contents of files to fn, one after the other. fn need not read a content to its end.
	BaseBlobs(ctx context.Context, workspaceID string, files []BaseFile, fn func(BaseFile, io.Reader) error) error
	// HostDiff writes the unified diff of one path in the form a sandbox's guest writes it.
	HostDiff(ctx context.Context, workspaceID string, d HostDiff, w io.Writer) error
}

// namer computes git's object ID of a content of known size, in the object format of a repository whose IDs are as long as like.
func namer(like string, size int64) hash.Hash {
	h := sha1.New() //nolint:gosec // git's own names of contents
	if len(like) == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

// nameOf is git's object ID of a content.
func nameOf(like string, b []byte) string {
	h := namer(like, int64(len(b)))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}
