// Package hostgit runs git on the host, hardened: every call has its own process group, a deadline, an output cap, an
// explicit git dir and an environment made from nothing. It knows how to call git, not what a project or a workspace is.
//
// The profile blocks what an agent-writable config could run through git (hooks, fsmonitor, pagers, prompts, protocols).
// Flags cannot block filters and merge drivers: use Scratch for work that must not see a repository's config at all.
package hostgit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/redact"
)

// Config configures a Git.
type Config struct {
	Path      string              // the program
	StateDir  string              // a folder of ours for known_hosts; made on first use
	Protocols []string            // that network calls may use, such as https and ssh
	Env       func(string) string // the server's environment, of which only an allow-list is passed on; nil = none
	Timeout   time.Duration       // of a call that sets none; default 2 min

	Log *slog.Logger // logs every call at debug level: only its subcommand, because arguments may be private; nil = no log

	// Outgoing judges every address that network calls connect to; nil = all are allowed.
	Outgoing *egress.Guard
	// Connector is a program that connects its standard input and output with HOST PORT through the tunnel its environment names
	// (egress.Connect): for ssh and git's own protocol. "" = those protocols are not available where Outgoing judges.
	Connector string
}

// Git calls git. Safe for concurrent use.
type Git struct {
	cfg     Config
	formats formats
}

// New makes a Git. It starts nothing.
func New(cfg Config) *Git {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 2 * time.Minute
	}
	if cfg.Env == nil {
		cfg.Env = func(string) string { return "" }
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Git{cfg: cfg}
}

// DefaultMax is the output cap, in bytes, of a call that sets none.
const DefaultMax = 32 << 20

// mostMemory is how many bytes a call may allocate that sets no limit: a commit of ten small objects can stand for as many files as a
// machine has bytes, and listing them takes memory for all their names.
const mostMemory = 2 << 30

// heavy are subcommands whose memory depends on the size of a repository and not on the contents of a commit: they have no limit.
var heavy = []string{"repack", "prune", "gc", "maintenance", "pack-objects", "index-pack", "bundle"}

// memory returns the limit of the call, 0 = none. What comes over the network is from a remote that people chose, not from an agent.
func (c Call) memory() int64 {
	if c.Memory != 0 || c.Network || slices.Contains(heavy, c.Args[0]) {
		return c.Memory
	}
	return mostMemory
}

// stderrKeep is how many bytes of a call's stderr are stored: the last ones.
const stderrKeep = 16 << 10

// killGrace is how long git has after SIGTERM to clean up.
const killGrace = 3 * time.Second

// Call is one call of git.
type Call struct {
	GitDir     string   // GIT_DIR; "" only for calls that need no repository
	WorkTree   string   // GIT_WORK_TREE, also the working directory; "" = none
	Dir        string   // working directory when there is no work tree; "" = the git dir
	Discover   bool     // leave GIT_DIR unset and let git find the repository of Dir, with its own ownership check
	Objects    string   // GIT_OBJECT_DIRECTORY
	Args       []string // subcommand and arguments
	Config     []string // further key=value settings
	Env        []string // further KEY=value
	Stdin      io.Reader
	Stdout     io.Writer // receives the output instead of the result; not capped
	Max        int64     // cap of the output in bytes; 0 = DefaultMax
	Timeout    time.Duration
	Progress   func(line string) // receives each line git writes to stderr, also those ended by \r
	Network    bool              // may connect to other hosts
	Passing    bool              // ends when the server is killed, as network calls do: the next start removes what it made
	Credential *Credential       // authenticates a network call to one host; nil = nothing
	Also       []string          // protocols this network call may use in addition to the configured ones
	Folders    bool              // uses only other folders of this machine, by the protocols of Also
	Memory     int64             // bytes git may allocate, where the system can limit that; 0 = mostMemory, or no limit for heavy subcommands
}

// Error is a failed call of git.
type Error struct {
	Sub    string // the subcommand
	Code   int    // exit code, -1 when ended by a signal
	Stderr string // the end of git's stderr
	Err    error  // context.DeadlineExceeded, context.Canceled, ErrTooMuch or the error of os/exec
}

func (e *Error) Error() string {
	w := e.Words()
	if e.Err != nil {
		if w == "" {
			return fmt.Sprintf("git %s: %v", e.Sub, e.Err)
		}
		return fmt.Sprintf("git %s: %v: %s", e.Sub, e.Err, w)
	}
	return fmt.Sprintf("git %s: exit %d: %s", e.Sub, e.Code, w)
}

func (e *Error) Unwrap() error { return e.Err }

// Words returns git's own message without progress and hint lines, at most 2,000 bytes of valid UTF-8 without control characters.
func (e *Error) Words() string { return Words(e.Stderr) }

// ErrTooMuch says that a call printed more than its cap.
var ErrTooMuch = errors.New("output is over the cap")

// ExitCode returns the exit code in err when git exited with one, otherwise -1.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*Error](err); ok && e.Err == nil {
		return e.Code
	}
	return -1
}

// Run runs the call and returns its output, also together with an *Error.
func (g *Git) Run(ctx context.Context, c Call) ([]byte, error) {
	if c.Network && c.Args[0] == "fetch" && c.GitDir != "" {
		return g.fetching(ctx, c)
	}
	return g.run(ctx, c)
}

func (g *Git) run(ctx context.Context, c Call) ([]byte, error) {
	if c.Timeout <= 0 {
		c.Timeout = g.cfg.Timeout
	}
	if c.Max <= 0 {
		c.Max = DefaultMax
	}
	runCtx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if began := time.Now(); g.cfg.Log.Enabled(ctx, slog.LevelDebug) {
		defer func() {
			g.cfg.Log.DebugContext(ctx, "git", "call", c.Args[0], "took_ms", time.Since(began).Milliseconds())
		}()
	}

	way, err := g.wayOut(runCtx, c)
	if err != nil {
		return nil, &Error{Sub: c.Args[0], Code: -1, Err: err}
	}
	defer way.Close()
	cmd := exec.CommandContext(runCtx, g.cfg.Path, g.args(c)...)
	cmd.Env = append(g.env(c), way.env...)
	cmd.Dir = c.dir()
	cmd.Stdin = c.Stdin
	out := &capped{max: c.Max, over: cancel}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	} else {
		cmd.Stdout = out
	}
	hide := c.Credential.hidden()
	words := &lines{fn: c.Progress, hide: hide}
	cmd.Stderr = words
	cmd.SysProcAttr = session(c.Passing || c.Network)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killGrace

	if c.Credential != nil {
		pipe, err := c.Credential.pipe()
		if err != nil {
			return nil, &Error{Sub: c.Args[0], Code: -1, Err: err}
		}
		defer pipe.Close()
		cmd.ExtraFiles = []*os.File{pipe} // 3, which the helper reads
	}
	err = cmd.Start()
	if err == nil {
		if most := c.memory(); most > 0 {
			boundMemory(cmd.Process.Pid, most)
		}
		err = cmd.Wait()
	}
	words.flush()
	if cmd.Process != nil && runCtx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that survived git's own end
	}
	if err == nil {
		return out.buf.Bytes(), nil
	}
	e := &Error{Sub: c.Args[0], Code: -1, Stderr: hide.Text(string(words.tail))}
	exit, isExit := errors.AsType[*exec.ExitError](err)
	switch refused := way.refused(); {
	case refused != "" && ctx.Err() == nil:
		e.Err = &RefusedError{Host: refused}
	case out.hit:
		e.Err = ErrTooMuch
	case ctx.Err() != nil:
		e.Err = context.Cause(ctx)
	case runCtx.Err() != nil:
		e.Err = fmt.Errorf("it took longer than %s: %w", c.Timeout, context.DeadlineExceeded)
	case isExit && exit.Exited():
		e.Code = exit.ExitCode()
	default:
		e.Err = err
	}
	return out.buf.Bytes(), e
}

// Text runs the call and returns its output without the final newline.
func (g *Git) Text(ctx context.Context, c Call) (string, error) {
	b, err := g.Run(ctx, c)
	return strings.TrimRight(string(b), "\n"), err
}

// OK runs the call and reports whether git exited with 0; exit code 1 is false, anything else an error.
func (g *Git) OK(ctx context.Context, c Call) (bool, error) {
	_, err := g.Run(ctx, c)
	if err == nil {
		return true, nil
	}
	if ExitCode(err) == 1 {
		return false, nil
	}
	return false, err
}

func (c Call) dir() string {
	switch {
	case c.WorkTree != "":
		return c.WorkTree
	case c.Dir != "":
		return c.Dir
	case c.GitDir != "":
		return c.GitDir
	}
	return os.TempDir()
}

// capped stores at most max bytes and calls over when more come.
type capped struct {
	buf  bytes.Buffer
	max  int64
	hit  bool
	over func()
}

func (w *capped) Write(p []byte) (int, error) {
	if int64(w.buf.Len()+len(p)) > w.max {
		if !w.hit {
			w.hit = true
			w.over()
		}
		return 0, ErrTooMuch
	}
	return w.buf.Write(p)
}

// lines stores the last stderrKeep bytes and passes on each line.
type lines struct {
	tail []byte
	part []byte
	fn   func(string)
	hide *redact.Masker
}

func (w *lines) Write(p []byte) (int, error) {
	w.tail = append(w.tail, p...)
	if n := len(w.tail) - stderrKeep; n > 0 {
		w.tail = append(w.tail[:0], w.tail[n:]...)
	}
	if w.fn == nil {
		return len(p), nil
	}
	for _, b := range p {
		if b == '\r' || b == '\n' {
			w.flush()
			continue
		}
		if len(w.part) < 1000 {
			w.part = append(w.part, b)
		}
	}
	return len(p), nil
}

func (w *lines) flush() {
	if w.fn != nil && len(w.part) > 0 {
		w.fn(Clean(w.hide.Text(string(w.part))))
	}
	w.part = w.part[:0]
}
