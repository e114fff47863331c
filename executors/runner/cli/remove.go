package cli

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/internal/fault"
)

// remove disconnects this machine from the server: it syncs the machine's work, ends its sandboxes, and deletes its key and its folder.
func (p *Program) remove(ctx context.Context, args []string) error {
	var w which
	fl := flag.NewFlagSet("parawork runner remove", flag.ContinueOnError)
	w.flags(fl)
	lose := fl.Bool("lose-work", false, "also when the files in the sandboxes cannot be synced to the server")
	yes := fl.Bool("yes", false, "do not ask")
	if _, err := p.parse(fl, args, 0); err != nil {
		return err
	}
	id, err := p.find(w)
	if err != nil {
		return err
	}
	kept, err := keptWork(id)
	if err != nil {
		return err
	}
	if !*yes {
		if err := p.sure(fmt.Sprintf("Forget that this machine is %q at %s? %s", id.Name, id.Server, plural(len(kept), "The work of 1 workspace is on it.", "The work of %d workspaces is on it."))); err != nil {
			return err
		}
	}
	if err := p.emptied(ctx, id, *lose); err != nil {
		return err
	}
	if _, err := p.removeService(ctx, id); err != nil {
		return err
	}
	l, err := waitLock(ctx, id.Dir)
	if err != nil {
		return err
	}
	defer l.release()
	if _, err := p.endAll(ctx, id); err != nil {
		return fmt.Errorf("ending what runs: %w", err)
	}
	if kept, err = keptWork(id); err != nil {
		return err
	}
	if len(kept) > 0 && !*lose {
		return fault.New(fault.Conflict, "runner_not_removed", "Work of %s is still in %s, and the server may not have it. Start the program once with --remove while the server can be reached, or add --lose-work.",
			plural(len(kept), "1 workspace", "%d workspaces"), p.short(filepath.Join(id.Dir, "workspaces")))
	}
	if err := id.Remove(); err != nil { // the key first: what remains after a crash belongs to no machine
		return err
	}
	if err := os.RemoveAll(id.Dir); err != nil {
		return fmt.Errorf("removing %s: %w", id.Dir, err)
	}
	p.say("Forgotten. Also revoke %q on the server's Machines page, if it is still listed there.", id.Name)
	return nil
}

// keptWork lists the workspaces whose work lies in a machine's folder.
func keptWork(id *identity.Identity) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(id.Dir, "workspaces"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}

// emptied makes the running program sync everything to the server.
func (p *Program) emptied(ctx context.Context, id *identity.Identity, lose bool) error {
	var out left
	err := request(ctx, id.Dir, "POST", "/leave", leave{Remove: true}, &out)
	for _, line := range out.Words {
		p.say("%s", line)
	}
	if errors.Is(err, errNotRunning) || err != nil && lose {
		return nil
	}
	return err
}

// sure asks for confirmation.
func (p *Program) sure(question string) error {
	if !p.Terminal {
		return fault.New(fault.Invalid, codeFlags, "%s Add --yes.", question)
	}
	fmt.Fprintf(p.Stdout, "%s [y/N] ", question)
	line, _ := bufio.NewReader(p.Stdin).ReadString('\n') // the end of the input is no yes
	if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
		p.say("Nothing was changed.")
		return errReported
	}
	return nil
}
