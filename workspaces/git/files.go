package git

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// maxPlain bounds one file copied into a private git dir: an index of about ten million files.
const maxPlain = 1 << 30

// CopyPlain copies a regular file with its modification time, which git compares with those of the files.
func CopyPlain(from, to *os.Root, name string) error {
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxPlain {
		return errors.Join(err, fmt.Errorf("%s is not a file that can be copied", name))
	}
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, fi.Size())
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return to.Chtimes(name, fi.ModTime(), fi.ModTime())
}

// Below reports whether p is root or below it. Both are clean.
func Below(p, root string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root+string(filepath.Separator))
}

// FileEntry is a file in a tree or an index; the zero value is no file.
type FileEntry struct {
	Mode, OID string
	Size      int64 // -1 = unknown
}

// Is reports whether there is a file.
func (e FileEntry) Is() bool { return e.OID != "" }

// Plain reports whether it is an ordinary file.
func (e FileEntry) Plain() bool { return e.Mode == "100644" || e.Mode == "100755" }

// Link reports whether it is a symbolic link.
func (e FileEntry) Link() bool { return e.Mode == "120000" }

// Module reports whether it is a submodule.
func (e FileEntry) Module() bool { return e.Mode == "160000" }

// Perm is the permission a file is written with.
func (e FileEntry) Perm() uint32 {
	if e.Mode == "100755" {
		return 0o755
	}
	return 0o644
}

// MaxArgs bounds the paths of one command line, in bytes.
const MaxArgs = 512 << 10

// EachBatch passes on paths in batches that fit on a command line.
func EachBatch(paths []string, fn func([]string) error) error {
	for len(paths) > 0 {
		n, size := 0, 0
		for n < len(paths) && (n == 0 || size+len(paths[n]) < MaxArgs) {
			size += len(paths[n]) + 1
			n++
		}
		if err := fn(paths[:n]); err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

// TreeFiles looks paths up in a tree of the repository. A path of a folder is an error.
func (s *Repo) TreeFiles(ctx context.Context, p workspaces.Project, tree string, paths []string) (map[string]FileEntry, error) {
	out := make(map[string]FileEntry, len(paths))
	few, err := inProcess(ctx, p.GitDir, func(r *reader) ([]hostgit.TreeFile, error) { return r.files(ctx, tree, paths, false) })
	if err == nil {
		paths = nil // all found
	}
	for _, f := range few {
		e := FileEntry{Mode: fmt.Sprintf("%06o", f.Mode), OID: f.OID, Size: f.Size}
		if e.Mode == "040000" || e.Module() {
			e.Size = -1
		}
		out[f.Path] = e
	}
	err = EachBatch(paths, func(some []string) error {
		list, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: append([]string{"ls-tree", "-z", "-l", "--full-tree", tree, "--"}, some...),
			Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
		if err != nil {
			return GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the files of "+tree)
		}
		return ParseTree(string(list), out)
	})
	for name, e := range out {
		if e.Mode == "040000" {
			return nil, fault.New(fault.Invalid, "is_a_folder", "%q is a folder. Choose its files.", name)
		}
	}
	return out, err
}

// ParseTree parses the output of ls-tree -z -l.
func ParseTree(list string, out map[string]FileEntry) error {
	for e := range strings.SplitSeq(list, "\x00") {
		if e == "" {
			continue
		}
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 || !IsCommitID(f[2]) {
			return fmt.Errorf("ls-tree answered %q", e)
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			size = -1
		}
		out[name] = FileEntry{Mode: f[0], OID: f[2], Size: size}
	}
	return nil
}

// BlobHash starts a hash of git's object id for a content of this size, with the algorithm of like.
func BlobHash(like string, size int64) hash.Hash {
	var h hash.Hash
	if len(like) == 64 {
		h = sha256.New()
	} else {
		h = sha1.New() // #nosec G401: git's object id
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

// GitName is git's object id of a content, with the hash algorithm of like.
func GitName(like string, b []byte) string {
	h := BlobHash(like, int64(len(b)))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// LinkedDir is git's own folder of the workspace's worktree, "" when it is gone.
func LinkedDir(p workspaces.Project, w workspaces.Workspace) string {
	dir, err := AdminDir(p.GitDir, w.Path)
	if err != nil {
		return ""
	}
	return dir
}
