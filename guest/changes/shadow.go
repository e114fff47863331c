package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/atomicfile"
)

// shadow is a private git directory for one worktree. It has the repository's objects and the worktree's HEAD and index, but a
// configuration written by us: so nothing the agent configures (fsmonitor, hooks, filters, diff drivers, includes, lazy fetch,
// another worktree) is ever used, and git may write its caches without a lock the agent could meet.
type shadow struct {
	dir     string
	repo    *repo
	gitPath string
	timeout time.Duration
	env     []string

	config    [2]fileStat         // of the config files from which ours was made
	copies    map[string]fileStat // of the small files that were copied, by their name in the shadow
	indexFrom fileStat            // of the worktree's index from which our copy was made
	foreign   bool                // our copy contains what another git remembers of folders: do not believe it
	head      head
	headText  string // content of the shadow's HEAD
}

func newShadow(dir string, r *repo, gitPath string, timeout time.Duration) (*shadow, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the private git folder: %w", err)
	}
	if rel, err := filepath.Rel(r.root, dir); err == nil && filepath.IsLocal(rel) {
		return nil, fmt.Errorf("the private git folder %s must not be inside the worktree", dir)
	}
	for _, sub := range []string{"refs", "objects", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("creating the private git folder: %w", err)
		}
	}
	return &shadow{
		dir: dir, repo: r, gitPath: gitPath, timeout: timeout,
		env:    profile(dir, r.root, filepath.Join(r.commonDir, "objects")),
		copies: make(map[string]fileStat),
	}, nil
}

// prepare updates the shadow from the worktree's git directory. It writes nothing when nothing changed.
func (s *shadow) prepare(ctx context.Context, m *meter) error {
	if err := s.prepareHead(); err != nil {
		return err
	}
	if err := s.prepareConfig(ctx, m); err != nil {
		return err
	}
	for name, from := range map[string]string{
		"info/exclude":         filepath.Join(s.repo.commonDir, "info", "exclude"),
		"info/attributes":      filepath.Join(s.repo.commonDir, "info", "attributes"),
		"info/sparse-checkout": filepath.Join(s.repo.gitDir, "info", "sparse-checkout"),
	} {
		if err := s.prepareCopy(name, from); err != nil {
			return err
		}
	}
	return s.prepareIndex()
}

// prepareHead makes the shadow's HEAD name the commit itself, so that no refs are needed.
func (s *shadow) prepareHead() error {
	h, err := s.repo.readHead()
	if err != nil {
		return err
	}
	s.head = h
	text := h.commit + "\n"
	if h.commit == "" {
		text = "ref: refs/heads/unborn\n"
	}
	if text == s.headText {
		return nil
	}
	if err := s.write("HEAD", []byte(text)); err != nil {
		return err
	}
	s.headText = text
	return nil
}

// kept are the keys of the repository's configuration that determine how git sees the worktree's files and that cannot start
// anything. Values are single words; anything else is ignored.
var kept = map[string]bool{
	"core.filemode": true, "core.symlinks": true, "core.ignorecase": true, "core.precomposeunicode": true,
	"core.autocrlf": true, "core.eol": true, "core.trustctime": true, "core.checkstat": true,
	"core.sparsecheckout": true, "core.sparsecheckoutcone": true, "extensions.objectformat": true,
}

// maxConfig bounds a configuration file.
const maxConfig = 1 << 20

// prepareConfig rewrites the shadow's configuration when one of the repository's own differs.
func (s *shadow) prepareConfig(ctx context.Context, m *meter) error {
	paths := [2]string{filepath.Join(s.repo.commonDir, "config"), filepath.Join(s.repo.gitDir, "config.worktree")}
	var now [2]fileStat
	for i, p := range paths {
		now[i], _ = lstat(p)
	}
	if now == s.config && s.config[0].exists() {
		return nil
	}
	values := make(map[string]string)
	for i, p := range paths {
		if i == 1 && values["extensions.worktreeconfig"] != "true" {
			break
		}
		if err := s.readConfig(ctx, m, p, values); err != nil {
			return err
		}
	}
	if err := s.write("config", renderConfig(values)); err != nil {
		return err
	}
	s.config = now
	return nil
}

// readConfig reads one configuration file, without its includes, into values. We read the bytes and pass them to git, so that it
// never blocks on a FIFO.
func (s *shadow) readConfig(ctx context.Context, m *meter, path string, values map[string]string) error {
	b, err := readSmall(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the repository's configuration: %w", err)
	}
	out, err := s.run(ctx, m, call{args: []string{"config", "--file", "-", "--no-includes", "-z", "--list"}, stdin: b})
	if err != nil {
		return err
	}
	for rec := range bytes.SplitSeq(out, []byte{0}) {
		key, value, ok := bytes.Cut(rec, []byte{'\n'})
		if !ok {
			value = []byte("true") // a key without "=" means true
		}
		if k := string(key); kept[k] || k == "extensions.worktreeconfig" {
			if v := strings.ToLower(string(value)); plainWord(v) {
				values[k] = v
			}
		}
	}
	return nil
}

func plainWord(v string) bool {
	for _, c := range v {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return v != ""
}

// bigFile is the size in bytes over which a file is not compared line by line.
const bigFile = 8 << 20

func renderConfig(values map[string]string) []byte {
	var b bytes.Buffer
	version := 0
	if values["extensions.objectformat"] != "" {
		version = 1
	}
	// status.showUntrackedFiles must match the call, or git does not use the untracked cache.
	fmt.Fprintf(&b, `[core]
	repositoryFormatVersion = %d
	bare = false
	untrackedCache = true
	fsmonitor = false
	hooksPath = /dev/null
	quotePath = false
	bigFileThreshold = %d
[status]
	showUntrackedFiles = all
[diff]
	autoRefreshIndex = false
[gc]
	auto = 0
`, version, bigFile)
	for key := range kept {
		if v := values[key]; v != "" {
			section, name, _ := strings.Cut(key, ".")
			fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, v)
		}
	}
	return b.Bytes()
}

// prepareCopy copies a small file of the repository that affects what git sees, when it differs from last time.
func (s *shadow) prepareCopy(name, from string) error {
	now, err := lstat(from)
	if err != nil {
		now = fileStat{}
	}
	if now == s.copies[name] {
		return nil
	}
	b, err := readSmall(from, maxConfig)
	if err != nil {
		// Unreadable, a FIFO or too large: git works without it, as it does without the file.
		b = nil
	}
	if err := s.write(name, b); err != nil {
		return err
	}
	s.copies[name] = now
	return nil
}

// prepareIndex copies the worktree's index when it has changed.
func (s *shadow) prepareIndex() error {
	// Only we use it: a lock can only be left over from a call that was killed.
	_ = os.Remove(s.path("index.lock"))
	from := filepath.Join(s.repo.gitDir, "index")
	for range 3 {
		now, err := lstat(from)
		if errors.Is(err, fs.ErrNotExist) {
			s.indexFrom = fileStat{}
			if err := os.Remove(s.path("index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing the copy of the index: %w", err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the index: %w", err)
		}
		if now == s.indexFrom {
			if _, err := os.Lstat(s.path("index")); err == nil {
				return nil
			}
		}
		if err := s.copyShared(); err != nil {
			return err
		}
		var found finder
		got, err := copyFile(s.path("index"), from, &found)
		s.foreign = found.yes
		if err != nil {
			return fmt.Errorf("copying the index: %w", err)
		}
		if got == now {
			s.indexFrom = now
			return nil
		}
	}
	s.indexFrom = fileStat{} // it keeps changing: use the last copy, and copy again next time
	return nil
}

// copyShared copies the shared parts of a split index, which the index names relative to the git directory.
func (s *shadow) copyShared() error {
	shared, err := filepath.Glob(filepath.Join(globEscape(s.repo.gitDir), "sharedindex.*"))
	if err != nil || len(shared) == 0 {
		return nil
	}
	for _, from := range shared[:min(len(shared), 16)] {
		to := s.path(filepath.Base(from))
		if _, err := os.Lstat(to); err == nil {
			continue // named by its content
		}
		if _, err := copyFile(to, from); err != nil {
			return fmt.Errorf("copying the shared index: %w", err)
		}
	}
	return nil
}

func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// maxIndex bounds the index: some ten million files.
const maxIndex = 1 << 30

// copyFile copies a regular file with its modification time, which git compares with those of the files to decide which to read
// again. It returns the stat of the copied file.
func copyFile(to, from string, tee ...io.Writer) (fileStat, error) {
	src, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fileStat{}, err
	}
	defer src.Close()
	st, err := fstat(src.Fd())
	if err != nil {
		return fileStat{}, err
	}
	if !st.regular() || st.size > maxIndex {
		return fileStat{}, fmt.Errorf("%s is not a regular file of sensible size", from)
	}
	tmp := to + ".tmp"
	dst, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fileStat{}, err
	}
	_, err = io.Copy(io.MultiWriter(append(tee, dst)...), io.LimitReader(src, maxIndex))
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chtimes(tmp, time.Unix(0, st.mtime), time.Unix(0, st.mtime))
	}
	if err == nil {
		err = os.Rename(tmp, to)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fileStat{}, err
	}
	return st, nil
}

// finder searches written bytes for the name of the index section in which git remembers the contents of folders. A file's name
// may contain it as well, which costs one look at all folders.
type finder struct {
	yes  bool
	last []byte // the end of the previous write
}

func (f *finder) Write(p []byte) (int, error) {
	const name = "UNTR"
	if !f.yes {
		seam := append(f.last, p[:min(len(p), len(name)-1)]...)
		f.yes = bytes.Contains(seam, []byte(name)) || bytes.Contains(p, []byte(name))
		if len(p) >= len(name) {
			seam = p
		}
		f.last = bytes.Clone(seam[max(0, len(seam)-len(name)+1):])
	}
	return len(p), nil
}

func (s *shadow) path(name string) string { return filepath.Join(s.dir, name) }

// write replaces a small file of the shadow.
func (s *shadow) write(name string, b []byte) error {
	to := s.path(name)
	if err := atomicfile.Write(to, b, 0o600); err != nil {
		return fmt.Errorf("writing the private git folder: %w", err)
	}
	return nil
}
