package changes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
)

// repo is where a worktree keeps its git data. It is found once and pinned: an agent that replaces the .git file later cannot
// redirect us.
type repo struct {
	root      string // the worktree, without links
	gitDir    string // of this worktree: HEAD, index
	commonDir string // of the repository: objects, refs, config

	packed     map[string]string // packed-refs, by ref name
	packedStat fileStat
}

// errNotRepo reports that Root is not a git worktree.
func errNotRepo(root string, cause error) error {
	return fault.Wrap(cause, fault.Invalid, "not_a_repository", "%s is not a git worktree, so its changes cannot be determined.", root)
}

// findRepo finds the git directories of a worktree.
func findRepo(root, gitDir string) (*repo, error) {
	if gitDir == "" {
		var err error
		if gitDir, err = readGitFile(root); err != nil {
			return nil, err
		}
	}
	gitDir, err := filepath.EvalSymlinks(gitDir)
	if err != nil {
		return nil, errNotRepo(root, err)
	}
	if gitDir, err = filepath.Abs(gitDir); err != nil {
		return nil, errNotRepo(root, err)
	}
	r := &repo{root: root, gitDir: gitDir, commonDir: gitDir}
	switch b, err := readSmall(filepath.Join(gitDir, "commondir"), 4096); {
	case err == nil:
		common := strings.TrimRight(string(b), "\n")
		if !filepath.IsAbs(common) {
			common = filepath.Join(gitDir, common)
		}
		r.commonDir = filepath.Clean(common)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, errNotRepo(root, err)
	}
	if st, err := os.Stat(filepath.Join(r.commonDir, "objects")); err != nil || !st.IsDir() {
		return nil, errNotRepo(root, err)
	}
	return r, nil
}

// readGitFile follows Root/.git, a folder or a file that names one.
func readGitFile(root string) (string, error) {
	dotGit := filepath.Join(root, ".git")
	st, err := os.Lstat(dotGit)
	if err != nil {
		return "", errNotRepo(root, err)
	}
	if !st.Mode().IsRegular() {
		return dotGit, nil
	}
	b, err := readSmall(dotGit, 16<<10)
	if err != nil {
		return "", errNotRepo(root, err)
	}
	dir, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
	if !ok {
		return "", errNotRepo(root, errors.New("its .git file names no folder"))
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	return dir, nil
}

// readSmall reads a regular file of at most limit bytes, and never blocks on a FIFO.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, nil
}

// head is the content of HEAD: a commit ("" before the first) and a branch ("" when detached).
type head struct{ commit, branch string }

// readHead reads HEAD and what it points to, without running git.
func (r *repo) readHead() (head, error) {
	b, err := readSmall(filepath.Join(r.gitDir, "HEAD"), 4096)
	if err != nil {
		return head{}, fmt.Errorf("reading HEAD: %w", err)
	}
	text := strings.TrimSpace(string(b))
	ref, symbolic := strings.CutPrefix(text, "ref:")
	if !symbolic {
		if !commitID.MatchString(text) {
			return head{}, errors.New("reading HEAD: it names neither a branch nor a commit")
		}
		return head{commit: text}, nil
	}
	ref = strings.TrimSpace(ref)
	h := head{branch: strings.TrimPrefix(ref, "refs/heads/")}
	h.commit, err = r.resolve(ref, 5)
	return h, err
}

// resolve finds the commit of a ref, "" when it does not exist (an unborn branch).
func (r *repo) resolve(ref string, depth int) (string, error) {
	if depth == 0 || !safeRef(ref) {
		return "", fmt.Errorf("resolving HEAD: %q is not a ref", ref)
	}
	// A linked worktree has its own refs in addition to the shared ones.
	for _, dir := range []string{r.gitDir, r.commonDir} {
		b, err := readSmall(filepath.Join(dir, filepath.FromSlash(ref)), 4096)
		if err != nil {
			continue
		}
		text := strings.TrimSpace(string(b))
		if next, ok := strings.CutPrefix(text, "ref:"); ok {
			return r.resolve(strings.TrimSpace(next), depth-1)
		}
		if commitID.MatchString(text) {
			return text, nil
		}
	}
	if err := r.readPacked(); err != nil {
		return "", err
	}
	return r.packed[ref], nil
}

// safeRef reports whether a ref name stays inside refs/.
func safeRef(ref string) bool {
	if !strings.HasPrefix(ref, "refs/") || strings.IndexByte(ref, 0) >= 0 || len(ref) > 1024 {
		return false
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || strings.HasPrefix(part, ".") {
			return false
		}
	}
	return true
}

// maxPacked bounds packed-refs: half a million refs.
const maxPacked = 64 << 20

// readPacked reads packed-refs when the file has changed.
func (r *repo) readPacked() error {
	path := filepath.Join(r.commonDir, "packed-refs")
	st, err := lstat(path)
	if err != nil {
		r.packed, r.packedStat = nil, fileStat{}
		return nil
	}
	if st == r.packedStat {
		return nil
	}
	b, err := readSmall(path, maxPacked)
	if err != nil {
		return fmt.Errorf("reading packed refs: %w", err)
	}
	packed := make(map[string]string)
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		id, ref, ok := bytes.Cut(bytes.TrimRight(line, "\r"), []byte{' '})
		// Only branches: HEAD points to nothing else, and tags can be many.
		if ok && bytes.HasPrefix(ref, []byte("refs/heads/")) && commitID.Match(id) {
			packed[string(ref)] = string(id)
		}
	}
	r.packed, r.packedStat = packed, st
	return nil
}
