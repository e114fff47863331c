// Package app joins the packages of the program into a server, and runs it. It knows all of them and has no rules of its own. Build shows the whole
// system; what of it cannot be an argument of a constructor is in links.go, and the orders that matter are in order.go and participants.go.
package app

import (
	"context"
	"log/slog"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
)

// Options are what an App is built with.
type Options struct {
	Config  *config.Config
	Kinds   executors.Descriptors // of places
	Log     *slog.Logger
	Env     func(string) string
	Version string                               // of this program
	Guest   func(dataDir string) (string, error) // finds the program that runs in sandboxes, or unpacks it
}

// App is the whole system, joined: what is lower is higher up.
type App struct {
	doubt string // why only operators may look, and how to go on; "" = the database is what it was

	*base      // the database, keys, events, settings
	*allowance // what may be used, and what it costs
	*people    // accounts, sign-in, secrets and notifications
	*worktrees // projects, workspaces and their files
	*money     // what was used, and who pays
	*sandboxes // where work runs
	*work      // what goes on in workspaces
	*limits    // what ends or stops work
	*toolbox   // what agents may call
	*automations

	*front // what the outside sees
}

// Build opens the store and makes all parts of the system, each of what was made before it. Nothing runs yet. Close gives back what it opened.
func Build(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	guest, err := o.Guest(o.Config.DataDir)
	if err != nil {
		return nil, err
	}
	if a.base, err = openBase(ctx, o); err != nil {
		return nil, err
	}
	a.allowance = newAllowance(a.base)
	a.people = newPeople(a.base, a.quota)
	if a.worktrees, err = newWorktrees(a.base, a.people); err != nil {
		return nil, err
	}
	a.money = newMoney(a.base, a.allowance, a.people, a.worktrees)
	if a.sandboxes, err = newSandboxes(a.base, a.allowance, a.people, a.worktrees, a.money, guest); err != nil {
		return nil, err
	}
	a.work = newWork(a.base, a.allowance, a.people, a.worktrees, a.money, a.sandboxes)
	a.work.starts = newStarts(a)
	a.limits = newLimits(a.base, a.allowance, a.people, a.worktrees, a.sandboxes, a.work)
	if a.toolbox, err = newToolbox(a, o.Version); err != nil {
		return nil, err
	}
	a.automations = newAutomations(a)
	if a.front, err = newFront(a); err != nil {
		return nil, err
	}
	for _, l := range a.links() {
		l.join()
	}
	if err := a.settings.Load(ctx); err != nil {
		return nil, err
	}
	if err := a.addRegions(ctx, a.base); err != nil {
		return nil, err
	}
	return a, nil
}

// Close gives back what Build opened, the last first.
func (a *App) Close() {
	if f := a.front; f != nil {
		if err := f.web.Close(); err != nil {
			a.log.Debug("the folder of the web app was not closed", "error", err)
		}
	}
	if s := a.sandboxes; s != nil {
		s.close(a.log)
	}
	if b := a.base; b != nil {
		if err := b.db.Close(); err != nil {
			b.log.Warn("database not closed", "error", err)
		}
	}
}
