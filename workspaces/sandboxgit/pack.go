package sandboxgit

import (
	"context"
	"os"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces/git"
)

// pack streams a pack of the objects named in ask.
func (b *Sandbox) pack(ctx context.Context, ask string, to *os.File) error {
	broken := &noted{w: to}
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: b.Argv("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"), Stdin: []byte(ask),
		Stdout: broken, MaxOutput: maxSyncPack + 1<<20})
	switch {
	case broken.err != nil:
		return errPipe
	case err != nil:
		return err
	case r.ExitCode != 0:
		return packFault(&git.CommandError{Sub: "pack-objects", Result: r})
	}
	return nil
}
