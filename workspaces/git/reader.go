package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
)

// reader reads a repository in this process with go-git's decoders: reading a ref, a commit, a folder or a small file takes less time than
// starting git. It serves one call and caches nothing beyond it, since a repository can change at any time.
//
// When it is not sure, it returns an error and git's program answers instead: reftables, SHA-256 and other extensions, objects of
// alternates or promisors, shallow histories, links in place of files, damage. Repositories may be hostile, and go-git's own storage
// inflates objects and resolves delta chains without bound. So reader checks every size before the content, follows chains in a loop with
// few steps, loads no index, and verifies the object id of what it read.
type reader struct {
	own     *os.Root // the git dir, with HEAD
	common  *os.Root // with refs and objects: differs from own in a linked worktree
	shallow bool     // shallow: some commits lack parents that they name
	packed  []byte   // packed-refs, read on demand
	packs   []*pack  // found on demand
	listed  bool
	opened  []io.Closer
	left    int64 // bytes that may still be inflated
}

// errNotInProcess means that git's program must answer.
var errNotInProcess = errors.New("not read in this process")

// Bounds of reads in this process.
const (
	mostObject = 256 << 10 // bytes of one object, or of one delta in its chain: hashing more takes as long as starting git
	mostRefs   = 1 << 20   // bytes of packed-refs
	mostConfig = 64 << 10  // bytes of a config
	mostPacks  = 64        // packs searched for an object
	mostDeltas = 64        // length of a delta chain: git makes 50
	mostLinks  = 5         // symbolic refs and tags followed to a commit, git's own limit
	mostSteps  = 16        // commits read on each side to compare two
	mostPaths  = 8         // paths looked up
	mostFiles  = 64        // files of a folder
	mostBlobs  = 8         // files whose contents are read, together at most one object's bytes
	mostWork   = 16 << 20  // bytes inflated per call
	oneRead    = 4 << 10   // minimum each object counts for
)

// inProcess has fn read the repository. An error of any kind means that git's program must be asked.
func inProcess[T any](ctx context.Context, gitDir string, fn func(*reader) (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil { // a crafted repository may make a decoder panic
			err = fmt.Errorf("%w: %v", errNotInProcess, p)
		}
	}()
	if ctx.Err() != nil {
		return v, ctx.Err()
	}
	r := &reader{left: mostWork}
	defer r.close()
	if err := r.open(gitDir); err != nil {
		return v, err
	}
	return fn(r)
}

func (r *reader) close() {
	for _, c := range r.opened {
		_ = c.Close()
	}
}

func (r *reader) root(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err == nil {
		r.opened = append(r.opened, root)
	}
	return root, err
}

func (r *reader) open(gitDir string) (err error) {
	if r.own, err = r.root(gitDir); err != nil {
		return err
	}
	r.common = r.own
	to, err := r.file(r.own, "commondir", mostConfig)
	switch main := filepath.Dir(filepath.Dir(gitDir)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case strings.TrimSpace(string(to)) != "../.." || filepath.Join(main, "worktrees", filepath.Base(gitDir)) != gitDir:
		return errNotInProcess
	default:
		if r.common, err = r.root(main); err != nil {
			return err
		}
	}
	config, err := r.file(r.common, "config", mostConfig)
	if err != nil || bytes.Contains(bytes.ToLower(config), []byte("[extensions")) {
		return errNotInProcess
	}
	if _, err := r.common.Lstat("reftable"); !errors.Is(err, fs.ErrNotExist) {
		return errNotInProcess
	}
	_, err = r.common.Lstat("shallow")
	r.shallow = !errors.Is(err, fs.ErrNotExist)
	return nil
}

// plain opens a regular file for reading. It rejects pipes, which might block forever, and links, because os.Root follows those that stay
// inside, whatever the flags.
func plain(root *os.Root, name string) (*os.File, int64, error) {
	fi, err := root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, errNotInProcess
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	if fi, err = f.Stat(); err == nil && !fi.Mode().IsRegular() {
		err = errNotInProcess
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// file reads a small file. It rejects one that grows meanwhile: git does not write files in place.
func (r *reader) file(root *os.Root, name string, most int64) ([]byte, error) {
	f, size, err := plain(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, errNotInProcess
	}
	b := make([]byte, size+1)
	n, err := io.ReadFull(f, b)
	if int64(n) != size || !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, errors.Join(errNotInProcess, err)
	}
	return b[:n], nil
}

// hashOf parses a SHA-1 object id.
func hashOf(id string) (plumbing.Hash, error) {
	if len(id) != 40 || !IsCommitID(id) {
		return plumbing.ZeroHash, errNotInProcess
	}
	return plumbing.NewHash(id), nil
}

// described matches the suffix of a git describe name, which git resolves when it knows no such ref.
var described = regexp.MustCompile(`-g[0-9a-f]+$`)

// ref is the object id a full ref name refers to, "" when there is none.
func (r *reader) ref(name string) (string, error) {
	for range mostLinks {
		root := r.common
		switch {
		case name == "HEAD":
			root = r.own
		case !strings.HasPrefix(name, "refs/"), plumbing.ReferenceName(name).Validate() != nil,
			strings.HasPrefix(name, "refs/bisect/"), strings.HasPrefix(name, "refs/worktree/"), strings.HasPrefix(name, "refs/rewritten/"):
			return "", errNotInProcess
		}
		b, err := r.file(root, name, mostConfig)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return r.packedRef(name)
		}
		if err != nil {
			return "", err
		}
		text := strings.TrimRight(string(b), " \t\r\n")
		to, symbolic := strings.CutPrefix(text, "ref: ")
		if !symbolic {
			_, err := hashOf(text)
			return text, err
		}
		name = to
	}
	return "", errNotInProcess
}

func (r *reader) packedRef(name string) (string, error) {
	if r.packed == nil {
		b, err := r.file(r.common, "packed-refs", mostRefs)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		r.packed = b
	}
	i := bytes.Index(r.packed, []byte(" "+name+"\n"))
	if i < 0 {
		return "", r.noRef(name)
	}
	line := r.packed[bytes.LastIndexByte(r.packed[:i], '\n')+1 : i]
	_, err := hashOf(string(line))
	return string(line), err
}

// noRef makes sure that git finds nothing either for a name that is no ref: git tries other names that end with it.
func (r *reader) noRef(name string) error {
	if name == "HEAD" || described.MatchString(name) || bytes.Contains(r.packed, []byte("/"+name)) {
		return errNotInProcess
	}
	for _, there := range [...]string{"HEAD", "objects", "refs"} { // else it is not a repository
		if _, err := r.common.Lstat(there); err != nil {
			return err
		}
	}
	for _, other := range [...]string{"refs/refs", "refs/tags/refs", "refs/heads/refs", "refs/remotes/refs"} {
		if _, err := r.common.Lstat(other); !errors.Is(err, fs.ErrNotExist) {
			return errNotInProcess
		}
	}
	return nil
}
