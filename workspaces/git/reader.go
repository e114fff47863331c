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

// reader reads a repository in this process with go-git's decoders: a ref, a commit, a folder or a small file takes less time than git's
// program takes to start. It serves one call and remembers nothing after it, since a repository changes at any time.
//
// Whatever it is not sure of it leaves to git's program, by an error: reftables, SHA-256 and other extensions, objects of alternates or of
// promisors, histories that are cut, links in place of files, damage. Repositories may be hostile, and go-git's own storage inflates objects
// and resolves chains of deltas without bound. So every size is read before its content, chains are walked in a loop of few steps, no index is
// loaded, and an answer counts only if its content has the name it was asked by.
type reader struct {
	own     *os.Root // the git dir, with HEAD
	common  *os.Root // with refs and objects: another folder where own is a linked worktree's
	shallow bool     // commits lack parents that they name
	packed  []byte   // packed-refs, read when it is needed
	packs   []*pack  // found when they are needed
	listed  bool
	opened  []io.Closer
	left    int64 // bytes that may still be inflated
}

// errNotInProcess says that git's program is to answer.
var errNotInProcess = errors.New("not read in this process")

// Bounds of what is read in this process.
const (
	mostObject = 256 << 10 // bytes of one object, or of one delta on the way to it: to check the name of more takes as long as git's start
	mostRefs   = 1 << 20   // bytes of packed-refs
	mostConfig = 64 << 10  // bytes of a config
	mostPacks  = 64        // packs that an object is looked for in
	mostDeltas = 64        // deltas on the way to an object: git makes 50
	mostLinks  = 5         // symbolic refs and tags on the way to a commit, as git has it
	mostSteps  = 16        // commits of each side that are read to compare two
	mostPaths  = 8         // paths that are looked up
	mostFiles  = 64        // files of a folder
	mostBlobs  = 8         // files whose contents are read, together of no more than one object's bytes
	mostWork   = 16 << 20  // bytes that are inflated for one call
	oneRead    = 4 << 10   // what each object counts for at least
)

// inProcess has fn read the repository. An error of any kind means that git's program is to be asked.
func inProcess[T any](ctx context.Context, gitDir string, fn func(*reader) (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil { // a decoder may stumble over what somebody wrote to make it
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

// plain opens a file for reading, and nothing that is none: neither a pipe, which nobody may ever write to, nor a link, as os.Root follows those
// that stay inside, whatever the flags.
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

// file reads a small file. One that grows meanwhile is somebody's who writes it in place, as git does not.
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

// hashOf is a name git gives, in SHA-1.
func hashOf(id string) (plumbing.Hash, error) {
	if len(id) != 40 || !IsCommitID(id) {
		return plumbing.ZeroHash, errNotInProcess
	}
	return plumbing.NewHash(id), nil
}

// described ends what git takes for another way to name a commit when it knows no such ref.
var described = regexp.MustCompile(`-g[0-9a-f]+$`)

// ref is what a full name of a ref stands for, "" when there is none.
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

// noRef makes sure that git, too, finds nothing by a name that is no ref: it tries others that end with it.
func (r *reader) noRef(name string) error {
	if name == "HEAD" || described.MatchString(name) || bytes.Contains(r.packed, []byte("/"+name)) {
		return errNotInProcess
	}
	for _, there := range [...]string{"HEAD", "objects", "refs"} { // else it is no repository
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
