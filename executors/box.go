package executors

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// defaultBoxOutput bounds each output of a BoxCommand that names no bound.
const defaultBoxOutput = 4 << 20

var noProcess guest.Process

// Run runs a small tool in the place: bounded in time and output, not recorded. See Manager.RunInBox.
func (p *Place) Run(ctx context.Context, b BoxCommand) (BoxResult, error) {
	if err := checkArgv(b.Argv, b.Env); err != nil {
		return BoxResult{}, err
	}
	if b.MaxOutput <= 0 {
		b.MaxOutput = defaultBoxOutput
	}
	timeout := b.timeout()
	defer p.Use()()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout+overtime,
		fault.New(fault.Timeout, "command_timeout", "%s took longer than %s.", b.Argv[0], timeout))
	defer cancel()
	if err := checkCwd(b.Cwd); err != nil {
		return BoxResult{}, err
	}
	spec := guest.ProcessSpec{ID: id.New("box"), Argv: b.Argv, Cwd: b.Cwd, Env: b.Env, Stdin: len(b.Stdin) > 0,
		TimeoutMs: timeout.Milliseconds()}
	started, err := p.Guest.Start(ctx, spec)
	if err == nil && started.State == guest.Exited && started.ExitCode == nil && started.Signal == "" {
		err = errors.New(started.Reason)
	}
	defer p.forget(ctx, spec.ID)
	if err != nil {
		return BoxResult{}, fmt.Errorf("starting %s in sandbox %s: %w", b.Argv[0], p.SandboxID, causeOr(ctx, err))
	}
	var res BoxResult
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
		g.Go(func() error { return p.feed(gctx, spec.ID, b.Stdin) })
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

// forget ends what is left of a process and lets the guest forget it.
func (p *Place) forget(ctx context.Context, processID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace+drainIdle)
	defer cancel()
	if proc, err := p.Guest.Process(ctx, processID); err == nil && proc.State == guest.Running {
		_, _ = p.Guest.Stop(ctx, processID, 0) // Remove says what matters
	}
	_ = p.Guest.Remove(ctx, processID) // a guest that is gone has forgotten
}

// collect reads one output to its end, at most limit bytes.
func (p *Place) collect(ctx context.Context, processID string, s guest.Stream, limit int64) ([]byte, error) {
	out, err := p.Guest.SharedOutput(ctx, processID, s, 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if out.From > 0 {
		return nil, fault.New(fault.TooLarge, "output_too_large", "The output is longer than what the sandbox keeps.")
	}
	b, err := io.ReadAll(io.LimitReader(out, limit+1))
	if int64(len(b)) > limit {
		return b[:limit], fault.New(fault.TooLarge, "output_too_large", "The output is longer than %d bytes.", limit)
	}
	return b, err
}

// pass hands on standard output as it comes, at most limit bytes. What was taken is acknowledged, so that the sandbox need not keep it.
func (p *Place) pass(ctx context.Context, processID string, w io.Writer, limit int64) error {
	out, err := p.Guest.SharedOutput(ctx, processID, guest.Stdout, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	if out.From > 0 {
		return fault.New(fault.TooLarge, "output_too_large", "The output is longer than what the sandbox keeps.")
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
		if off-acked >= ackEvery {
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

// feed writes stdin and closes it. A process that does not want it all has decided so: that is no error.
func (p *Place) feed(ctx context.Context, processID string, stdin []byte) error {
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
