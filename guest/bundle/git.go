package bundle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// checkoutTime bounds one call of git.
const checkoutTime = 30 * time.Minute

// percent matches git's own progress, such as "Updating files: 12% (1200/10000)".
var percent = regexp.MustCompile(`\((\d+)/(\d+)\)`)

// checkout writes the files of HEAD and an index that contains them.
func (u *unpacker) checkout(ctx context.Context) error {
	return u.git(ctx, nil, func(line string) {
		if m := percent.FindStringSubmatch(line); m != nil {
			done, _ := strconv.ParseInt(m[1], 10, 64)
			all, _ := strconv.ParseInt(m[2], 10, 64)
			u.notify(guest.UnpackCheckout, done, all, false)
		}
	}, "read-tree", "--reset", "-u", "-v", "HEAD")
}

// git runs git on the worktree that is being created. It ignores the user's and the system's configuration, so that no filter
// runs.
func (u *unpacker) git(ctx context.Context, stdin []byte, progress func(string), args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, checkoutTime)
	defer cancel()
	workers := min(max(runtime.NumCPU(), 2), 8)
	cmd := exec.CommandContext(ctx, u.s.cfg.GitPath, append([]string{"--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
		"-c", "submodule.recurse=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "checkout.workers=" + strconv.Itoa(workers),
		"-c", "checkout.thresholdForParallelism=1"}, args...)...)
	root := u.s.cfg.Root
	cmd.Dir = root
	cmd.Env = []string{"PATH=" + searchPath(), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_ALLOW_PROTOCOL=none", "GIT_LFS_SKIP_SMUDGE=1",
		"GIT_PROGRESS_DELAY=0", "GIT_DIR=" + filepath.Join(root, u.gitDir), "GIT_WORK_TREE=" + root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	words := &said{fn: progress}
	cmd.Stderr = words
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return fault.Wrap(err, fault.Unavailable, "git_missing", "The sandbox has no git. Use an image or template that has it.")
	case strings.Contains(words.String(), "No space left"):
		return syscall.ENOSPC
	}
	return fault.Wrap(err, fault.Unavailable, "bundle_failed", "git %s failed in the sandbox: %s", args[0], words.String())
}

// searchPath is the PATH to look up git in.
func searchPath() string {
	if p := os.Getenv("PATH"); p != "" {
		return p
	}
	return "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
}

// said keeps the end of git's output, and passes on each line.
type said struct {
	tail []byte
	part []byte
	fn   func(string)
}

// keepWords is how many bytes of git's output are kept.
const keepWords = 2000

func (w *said) Write(p []byte) (int, error) {
	for _, c := range p {
		if c == '\r' || c == '\n' {
			if w.fn != nil {
				w.fn(string(w.part))
			}
			if !percent.Match(w.part) {
				w.tail = append(append(w.tail, w.part...), '\n')
				w.tail = w.tail[max(0, len(w.tail)-keepWords):]
			}
			w.part = w.part[:0]
		} else if len(w.part) < 1000 {
			w.part = append(w.part, c)
		}
	}
	return len(p), nil
}

func (w *said) String() string {
	s := strings.ToValidUTF8(strings.TrimSpace(string(w.tail)+string(w.part)), "?")
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
