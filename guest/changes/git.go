package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// call is one run of git.
type call struct {
	args    []string
	config  []string // key=value, on top of the shadow's
	env     []string // on top of the profile
	dir     string
	stdin   []byte
	stdout  io.Writer // nil = collected and returned, up to maxOutput
	timeout time.Duration
	locks   bool // git may write the index it uses (always a private copy)
}

// maxOutput bounds the output of one call of git: 200,000 changes with long names fit.
const maxOutput = 256 << 20

// errTimeout reports that git did not finish in time.
var errTimeout = errors.New("git did not finish in time")

// errOutput reports that git printed more than maxOutput.
var errOutput = errors.New("git's answer is too large")

// gitError is a failure reported by git.
type gitError struct {
	what  string
	words string
	err   error
}

func (e *gitError) Error() string {
	if e.words != "" {
		return e.what + ": " + e.words
	}
	return fmt.Sprintf("%s: %v", e.what, e.err)
}

func (e *gitError) Unwrap() error { return e.err }

// meter adds up the cost of a poll: CPU time of git, and the wall time spent waiting for it, which is not ours.
type meter struct {
	cpu, waited time.Duration
}

// cost is the CPU time of a poll that took wall: git's and our own.
func (m *meter) cost(wall time.Duration) time.Duration { return m.cpu + max(wall-m.waited, 0) }

// profile is the environment of every call: nothing inherited, nothing of the user's or the system's configuration, no prompt,
// editor, pager, lazy fetch, replaced object or transport.
func profile(gitDir, workTree, objects string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin",
		"HOME=/nonexistent",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=false",
		"GIT_EDITOR=false",
		"GIT_PAGER=cat",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_LITERAL_PATHSPECS=1",
		"GIT_ALLOW_PROTOCOL=none",
		"GIT_DIR=" + gitDir,
		"GIT_WORK_TREE=" + workTree,
	}
	if objects != "" {
		env = append(env, "GIT_OBJECT_DIRECTORY="+objects)
	}
	return env
}

// hardening is put before every subcommand. The configuration says the same; this applies even if that file was tampered with.
var hardening = []string{"--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false", "-c", "gc.auto=0"}

// run runs git in a process group of its own, and kills the group when ctx or the timeout ends.
func (s *shadow) run(ctx context.Context, m *meter, c call) ([]byte, error) {
	what := "git " + c.args[0]
	timeout := c.timeout
	if timeout == 0 {
		timeout = s.timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()

	args := slices.Clone(hardening)
	for _, kv := range c.config {
		args = append(args, "-c", kv)
	}
	args = append(args, c.args...)
	cmd := exec.CommandContext(ctx, s.gitPath, args...)
	cmd.Dir = s.repo.root
	cmd.Env = append(s.env[:len(s.env):len(s.env)], c.env...)
	if !c.locks {
		cmd.Env = append(cmd.Env, "GIT_OPTIONAL_LOCKS=0")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	var out capped
	out.limit, out.over = maxOutput, cancel
	cmd.Stdout = &out
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	stderr := &tail{limit: 4096}
	cmd.Stderr = stderr

	begin := time.Now()
	err := cmd.Run()
	if m != nil {
		m.waited += time.Since(begin)
		if cmd.ProcessState != nil {
			m.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
	}
	switch {
	case out.exceeded:
		return nil, &gitError{what: what, err: errOutput}
	case err == nil:
		return out.buf.Bytes(), nil
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		return nil, &gitError{what: what, err: cause}
	}
	if errors.Is(err, os.ErrNotExist) {
		if _, serr := os.Stat(s.repo.root); serr != nil {
			return nil, &gitError{what: what, words: "the worktree is gone", err: err}
		}
	}
	return nil, &gitError{what: what, words: stderr.String(), err: err}
}

// capped collects output up to a limit and ends the call beyond it.
type capped struct {
	buf      bytes.Buffer
	limit    int
	over     func()
	exceeded bool
}

func (c *capped) Write(p []byte) (int, error) {
	if c.buf.Len()+len(p) > c.limit {
		c.exceeded = true
		c.over()
		return 0, errOutput
	}
	return c.buf.Write(p)
}

// tail keeps the first bytes of git's error output, made printable.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := t.limit - len(t.buf); room > 0 {
		t.buf = append(t.buf, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.ToValidUTF8(strings.TrimSpace(string(t.buf)), "?")
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
