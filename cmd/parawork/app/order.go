package app

import (
	"context"

	"github.com/parawork/parawork/internal/resident"
	"github.com/parawork/parawork/internal/tenant"
)

// component is a part that works by itself while the server runs.
type component struct {
	name string
	run  func(context.Context) error
}

// components are what works besides the server, in the order in which they end: each before what it uses.
func (a *App) components() []component {
	list := []component{
		{"suspension", a.suspension.Run},       // ends sessions and sandboxes
		{"enforce", a.enforcer.Run},            // suspends and wakes sandboxes
		{"automations", a.triggers.Run},        // asks for jobs
		{"tending", a.tending.Run},             // prompts agents, pushes
		{"resets", a.resets.Run},               // prompts agents
		{"jobs", a.jobs.Run},                   // asks for sandboxes, workspaces and sessions
		{"sandboxes", a.toolbox.sandboxes.Run}, // deletes workspaces
		{"agent", a.toolbox.agent.Run},         // calls tools, asks in sessions
		{"subagents", a.subagents.Run},         // asks for workspaces and sessions
		{"runs", a.runs.Run},                   // too
		{"first sessions", a.starts.Run},       // too
		{"reviews", a.reviews.Run},             // too
		{"issues", a.issues.Run},               // asks forges
		{"forge", a.forge.Run},                 // fetches what the forge merged
		{"disk", a.disk.Run},
		{"browsers", a.browsers.Run},   // save artifacts
		{"artifacts", a.artifacts.Run}, // reads in sandboxes
		{"checks", a.checks.Run},       // has commands run, and lands what they say is good
		{"overlap", a.overlap.Run},
		{"images", a.images.Run},
		{"workspaces", a.workspaces.Run}, // a creation that is cut needs sessions and sandboxes to clean up
		{"payments", a.payments.Run},     // has mail sent
		{"reports", a.reports.Run},       // too
		{"mail", a.mail.Run},
		{"notify", a.notify.Run},
		{"tasks", a.tasks.Run},
		{"checkpoints", a.checkpoints.Run}, // reads sessions, takes snapshots
		{"edits", a.toolbox.edits.Run},     // reads sessions and snapshots
		{"languages", a.languages.Run},     // uses files and sandboxes
		{"code", a.code.Run},               // saves artifacts
		{"commands", a.commands.Run},
		{"sessions", a.sessions.Run},
		{"sync", a.files.Run},
		{"gate", a.gate.Run},
		{"network", a.network.Run},
		{"limits", a.meters.Run},
		{"executors", a.places.Run},
		{"counters", a.counters.Run}, // saves what ending sandboxes counted
		{"ledger", a.ledger.Run},
		{"machines", a.machines.Run}, // what leads to them has ended by then
		{"facts", a.toolbox.memory.Run},
		{"tool calls", a.toolCalls.Run},
		{"audit", a.audit.Run},
		{"memory", resident.New(a.log).Run},
	}
	if a.caches != nil {
		list = append(list, component{"caches", a.caches.Run})
	}
	if a.line != nil {
		list = append(list, component{"events", a.line.Run})
	}
	return list
}

// step is one thing that is taken up again at a start.
type step struct {
	what string // in words
	do   func(context.Context) error
}

// recovery are the steps of a start, in their order: each finds what the ones before it recovered. It is not the order in which components
// end, reversed: commands, workspaces, images, graces and checks are recovered after sessions.
func (a *App) recovery() []step {
	return []step{
		{"sweeping secrets", a.secrets.Sweep},
		{"recovering the ledger", a.ledger.Recover},
		{"reading the counters", a.counters.Recover},
		{"reading the prices", a.prices.Load},
		{"recovering tokens", a.recoverTokens},
		{"recovering machines", a.machines.Recover},
		{"recovering sandboxes", a.places.Recover},
		{"recovering sessions", a.sessions.Recover},
		{"recovering commands", a.commands.Recover},
		{"recovering workspaces", a.workspaces.Recover},
		{"recovering builds of images", a.images.Recover},
		{"recovering graces", a.enforcer.Recover},
		{"recovering checks", a.checks.Recover},
		{"closing tool calls", a.toolCalls.Recover},
		{"cleaning up artifacts", a.artifacts.Recover},
		{"recovering subagents", a.subagents.Recover},
		{"recovering code", a.code.Recover},
		{"continuing turns of the agent", a.toolbox.agent.Recover},
		{"recovering jobs", a.jobs.Recover},
	}
}

// recoverTokens adds the prices that came with the program, and marks what an earlier server left in the middle.
func (a *App) recoverTokens(ctx context.Context) error {
	ctx = tenant.All(ctx, "prices and cut requests are the instance's")
	if err := a.tokens.Seed(ctx); err != nil {
		return err
	}
	return a.tokens.Recover(ctx)
}
