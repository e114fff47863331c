package search

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
)

// Bounds of a list of files.
const (
	maxFiles   = 200_000
	maxDepth   = 64       // folders in folders
	maxGitList = 64 << 20 // bytes
)

// errEnough ends a walk.
var errEnough = errors.New("there are more files than one search looks at")

// walk lists the files of one search.
type walk struct {
	s      *Searcher
	req    guest.SearchRequest
	hidden bool
	seen   int // files
	fn     func(p string) error

	entries int // of folders that were listed here, whatever they are: a tree may have no file at all
}

// files calls fn with each file at or below a path of the root: regular ones, and such as may turn out to be something else.
func (w *walk) files(ctx context.Context, at string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if depth > maxDepth {
		return nil
	}
	if !w.req.Ignored {
		if repo, ok := w.s.repositoryOf(at); ok && (depth == 0 || repo == at) {
			if listed, err := w.listed(ctx, repo, at, depth); listed || err != nil {
				return err
			}
		}
	}
	entries, err := w.s.folder(at)
	if err != nil {
		return nil // it was removed, or may not be read
	}
	if w.entries += len(entries); w.entries > maxFiles {
		return errEnough
	}
	for _, e := range entries {
		p := path.Join(at, e.Name())
		switch {
		case w.skips(p, e.Name()):
		case e.IsDir():
			if err := w.files(ctx, p, depth+1); err != nil {
				return err
			}
		case e.Type().IsRegular():
			if err := w.take(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// skips reports whether a name is not looked at.
func (w *walk) skips(p, name string) bool {
	return inGit(name) || !w.hidden && strings.HasPrefix(name, ".") && p != w.req.Path
}

func inGit(name string) bool { return strings.EqualFold(name, ".git") }

func (w *walk) take(p string) error {
	if w.seen++; w.seen > maxFiles {
		return errEnough
	}
	return w.fn(p)
}

// listed lists what git knows or does not ignore at or below a path of a repository. false means that git cannot say.
func (w *walk) listed(ctx context.Context, repo, at string, depth int) (bool, error) {
	rel := "."
	if at != repo {
		rel = strings.TrimPrefix(at, strings.TrimPrefix(repo+"/", "./"))
	}
	out, err := w.s.git(ctx, repo, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", rel)
	if err != nil {
		return false, context.Cause(ctx)
	}
	if len(out) == 0 && at != repo { // who names an ignored folder wants what is in it
		return false, nil
	}
	// A file with conflicts is listed once for each side.
	for last := ""; len(out) > 0; {
		name, rest, _ := bytes.Cut(out, []byte{0})
		out = rest
		p := path.Join(repo, string(name))
		if p == last {
			continue
		}
		last = p
		if w.hides(p) {
			continue
		}
		if bytes.HasSuffix(name, []byte("/")) { // a repository in this one
			err = w.files(ctx, p, depth+1)
		} else {
			err = w.take(p)
		}
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

// hides reports whether a part of a path below the searched one makes that it is not looked at.
func (w *walk) hides(p string) bool {
	rest := below(w.req.Path, p)
	for part := range strings.SplitSeq(rest, "/") {
		if inGit(part) || !w.hidden && strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// below is a path relative to the folder it is in.
func below(folder, p string) string {
	if folder == "." {
		return p
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, folder), "/")
}

// folder lists a folder of the root.
func (s *Searcher) folder(at string) ([]fs.DirEntry, error) {
	f, err := s.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxFiles + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// repositoryOf returns the folder of the repository that a path of the root is in.
func (s *Searcher) repositoryOf(at string) (string, bool) {
	for {
		if _, err := s.root.Lstat(path.Join(at, ".git")); err == nil {
			return at, true
		}
		if at == "." {
			return "", false
		}
		at = path.Dir(at)
	}
}

// git runs git in a folder of the root. Nothing of its configuration may start a program.
func (s *Searcher) git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return s.gitWith(ctx, dir, nil, args...)
}

func (s *Searcher) gitWith(ctx context.Context, dir string, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false",
		"-c", "gc.auto=0", "-c", "safe.directory=*"}, args...)...)
	cmd.Dir = filepath.Join(s.dir, filepath.FromSlash(dir))
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin", "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1", "GIT_ALLOW_PROTOCOL=none", "GIT_OPTIONAL_LOCKS=0",
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(cmd.Dir)} // a folder without a repository of its own is not part of one outside
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &capped{}
	cmd.Stdin, cmd.Stdout = stdin, out
	if stdin != nil { // commands that read paths there know no literal ones
		cmd.Env = append(cmd.Env, "GIT_LITERAL_PATHSPECS=0")
	}
	err := cmd.Run()
	return out.Bytes(), err
}

// capped collects an output up to maxGitList.
type capped struct{ bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if c.Len()+len(p) > maxGitList {
		return 0, errEnough
	}
	return c.Buffer.Write(p)
}
