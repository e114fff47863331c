package executors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// defaultBoxOutput limits each output of a SandboxCommand that sets no limit.
const defaultBoxOutput = 4 << 20

// SandboxCommand is a bounded, unrecorded command: how other packages run small tools inside a sandbox.
type SandboxCommand struct {
	Argv      []string
	Env       map[string]string
	Stdin     []byte
	Cwd       string
	TimeoutMs int64 // 0 = DefaultTimeout
	MaxOutput int64 // bytes of each output; more is an error; 0 = 4 MiB
	// Stdout receives the output as it comes, instead of the result. An error it returns ends the command, and Run returns it.
	Stdout io.Writer
}

// SandboxResult is how a SandboxCommand ended.
type SandboxResult struct {
	ExitCode int // -1 when ended by a signal
	Signal   string
	Stdout   []byte
	Stderr   []byte
}

// timeout returns how long a SandboxCommand may take.
func (b SandboxCommand) timeout() time.Duration {
	if b.TimeoutMs <= 0 {
		return DefaultTimeout
	}
	return time.Duration(b.TimeoutMs) * time.Millisecond
}

// Limits on a command's time.
const (
	DefaultTimeout = 30 * time.Second
	MaxTimeout     = 7 * 24 * time.Hour
)

// Timing of the host's dealings with the guest's processes.
const (
	// StopGrace is how long a cancelled command may take to exit after SIGTERM.
	StopGrace = 2 * time.Second
	// Overtime is how much longer than a command's timeout the host waits for the guest to end it.
	Overtime = 10 * time.Second
	// DrainIdle is how long the output of an ended command may be silent before the host stops waiting for its end.
	DrainIdle = 5 * time.Second
	// AckEvery is how many bytes are read between two acknowledgements.
	AckEvery = 256 << 10
	// SettleTimeout bounds the writes and clean-ups that must happen even though the caller has left.
	SettleTimeout = 30 * time.Second
)

// Run runs a small tool in the sandbox: bounded in time and output, not recorded. See Manager.RunInSandbox.
func (p *Place) Run(ctx context.Context, b SandboxCommand) (SandboxResult, error) {
	if err := CheckArgv(b.Argv, b.Env); err != nil {
		return SandboxResult{}, err
	}
	if b.MaxOutput <= 0 {
		b.MaxOutput = defaultBoxOutput
	}
	timeout := b.timeout()
	defer p.Use()()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout+Overtime,
		fault.New(fault.Timeout, "command_timeout", "%s took longer than %s.", b.Argv[0], timeout))
	defer cancel()
	if err := CheckCwd(b.Cwd); err != nil {
		return SandboxResult{}, err
	}
	spec := guest.ProcessSpec{ID: id.New("box"), Argv: b.Argv, Cwd: b.Cwd, Env: b.Env, Stdin: len(b.Stdin) > 0,
		TimeoutMs: timeout.Milliseconds()}
	started, err := p.Guest.Start(ctx, spec)
	if err == nil && started.State == guest.Exited && started.ExitCode == nil && started.Signal == "" {
		err = errors.New(started.Reason)
	}
	defer p.forget(ctx, spec.ID)
	if err != nil {
		return SandboxResult{}, fmt.Errorf("starting %s in sandbox %s: %w", b.Argv[0], p.SandboxID, causeOr(ctx, err))
	}
	var res SandboxResult
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if b.Stdout != nil {
			return p.pass(gctx, spec.ID, b.Stdout, b.MaxOutput)
		}
		res.Stdout, err = p.collect(gctx, spec.ID, guest.Stdout, b.MaxOutput)
		return
	})
	g.Go(func() (err error) { res.Stderr, err = p.collect(gctx, spec.ID, guest.Stderr, b.MaxOutput); return })
	if spec.Stdin {
		g.Go(func() error { return p.Feed(gctx, spec.ID, b.Stdin) })
	}
	if err := g.Wait(); err != nil {
		return res, fmt.Errorf("running %s in sandbox %s: %w", b.Argv[0], p.SandboxID, causeOr(ctx, err))
	}
	proc, err := p.Guest.Wait(ctx, spec.ID)
	if err != nil {
		return res, fmt.Errorf("waiting for %s in sandbox %s: %w", b.Argv[0], p.SandboxID, causeOr(ctx, err))
	}
	if proc.Reason == "timeout" {
		return res, fault.New(fault.Timeout, "command_timeout", "%s took longer than %s.", b.Argv[0], timeout)
	}
	res.ExitCode, res.Signal = -1, proc.Signal
	if proc.ExitCode != nil && proc.Signal == "" {
		res.ExitCode = *proc.ExitCode
	}
	return res, nil
}

// causeOr prefers the reason why ctx ended over the error that followed from it.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// forget ends a process that still runs and makes the guest forget it.
func (p *Place) forget(ctx context.Context, processID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopGrace+DrainIdle)
	defer cancel()
	if proc, err := p.Guest.Process(ctx, processID); err == nil && proc.State == guest.Running {
		_, _ = p.Guest.Stop(ctx, processID, 0) // the error of Remove is the one that matters
	}
	_ = p.Guest.Remove(ctx, processID) // a guest that is gone has nothing to forget
}

// collect reads one output to its end, at most limit bytes.
func (p *Place) collect(ctx context.Context, processID string, s guest.Stream, limit int64) ([]byte, error) {
	out, err := p.Guest.SharedOutput(ctx, processID, s, 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if out.From > 0 {
		return nil, fault.New(fault.TooLarge, "output_too_large", "The output is longer than the sandbox can buffer.")
	}
	b, err := io.ReadAll(io.LimitReader(out, limit+1))
	if int64(len(b)) > limit {
		return b[:limit], fault.New(fault.TooLarge, "output_too_large", "The output is longer than %d bytes.", limit)
	}
	return b, err
}

// pass forwards standard output as it comes, at most limit bytes. It acknowledges what it forwarded, so that the sandbox can drop it.
func (p *Place) pass(ctx context.Context, processID string, w io.Writer, limit int64) error {
	out, err := p.Guest.SharedOutput(ctx, processID, guest.Stdout, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	if out.From > 0 {
		return fault.New(fault.TooLarge, "output_too_large", "The output is longer than the sandbox can buffer.")
	}
	buf := make([]byte, 64<<10)
	var off, acked int64
	for {
		n, err := out.Read(buf)
		if off += int64(n); off > limit {
			return fault.New(fault.TooLarge, "output_too_large", "The output is longer than %d bytes.", limit)
		}
		if _, werr := w.Write(buf[:n]); werr != nil {
			return werr
		}
		if off-acked >= AckEvery {
			acked = off
			if err := p.Guest.Ack(ctx, processID, guest.Stdout, off); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Feed writes stdin and closes it. A process may stop reading early: that is no error.
func (p *Place) Feed(ctx context.Context, processID string, stdin []byte) error {
	in, err := p.Guest.Input(ctx, processID)
	if err != nil {
		return err
	}
	defer in.Close()
	const frame = 64 << 10
	for seq := uint64(1); len(stdin) > 0; seq++ {
		n := min(frame, len(stdin))
		if err := in.Write(seq, stdin[:n]); err != nil {
			return p.unlessEnded(ctx, processID, err)
		}
		stdin = stdin[n:]
	}
	if err := p.Guest.CloseStdin(ctx, processID); err != nil {
		return p.unlessEnded(ctx, processID, err)
	}
	return nil
}

func (p *Place) unlessEnded(ctx context.Context, processID string, err error) error {
	if proc, perr := p.Guest.Process(ctx, processID); perr == nil && proc.State == guest.Exited {
		return nil
	}
	return err
}

// CheckArgv rejects an impossible program, arguments or environment.
func CheckArgv(argv []string, env map[string]string) error {
	if len(argv) == 0 || argv[0] == "" {
		return fault.New(fault.Invalid, "invalid_command", "Give the command to run: argv (a list) or command (a line).")
	}
	total := 0
	for _, a := range argv {
		if strings.IndexByte(a, 0) >= 0 {
			return fault.New(fault.Invalid, "invalid_command", "An argument contains a NUL byte.")
		}
		total += len(a) + 1
	}
	if total > guest.MaxArgv {
		return fault.New(fault.TooLarge, "command_too_large", "The arguments are longer than %d bytes.", guest.MaxArgv)
	}
	total = 0
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return fault.New(fault.Invalid, "invalid_env", "The environment has an invalid name or value: %q.", k)
		}
		total += len(k) + len(v) + 2
	}
	if total > guest.MaxEnv {
		return fault.New(fault.TooLarge, "env_too_large", "The environment is longer than %d bytes.", guest.MaxEnv)
	}
	return nil
}

// CheckCwd rejects a path that cannot be a folder inside the root, judging the path alone; Place.Folder also rejects symbolic links that
// lead out.
func CheckCwd(cwd string) error {
	if strings.IndexByte(cwd, 0) >= 0 || len(cwd) > guest.MaxPath {
		return fault.New(fault.Invalid, "invalid_cwd", "cwd is not the path of a folder.")
	}
	if c := path.Clean(cwd); c == ".." || strings.HasPrefix(c, "../") {
		return errCwdOutside
	}
	return nil
}
