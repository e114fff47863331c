package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
)

// makeWithin bounds a making: its owner may have to be asked, and an image to be pulled.
const makeWithin = 30 * time.Minute

// Capabilities returns what the machine last reported about itself, within the bounds of its mode.
func (e *member) Capabilities(context.Context) (executors.Capabilities, error) {
	h := e.m.Hello
	c := executors.Capabilities{Kind: e.Kind(), Name: e.name(), Available: true, Boundary: boundary(h), Isolation: cmp.Or(clean(h.Isolation, maxWords), isolation(h)),
		Limits: h.Mode != wire.Direct, Warning: clean(h.Warning, maxWords), Brief: brief(e.name(), h), Pause: h.Pause, Ports: true, OwnDisk: true,
		SharedHome: h.SharedHome || h.Mode == wire.Direct, StartMs: min(max(h.StartMs, 0), time.Hour.Milliseconds()), MakeMs: makeWithin.Milliseconds()}
	c.Programs = h.Programs
	c.Isolated = c.Boundary != executors.NoBoundary
	no := func(reason, cure string) { c.Available, c.Reason, c.Cure = false, reason, cure }
	switch {
	case !e.m.Online:
		no(since(e.m.OfflineAt, e.f.cfg.Now()), "Start it there again: parawork runner.")
		c.Away, c.AwaySince = true, e.m.OfflineAt
	case e.m.Leaving:
		no("it syncs and ends its sandboxes, then goes offline", "Start it there again afterwards: parawork runner.")
	case h.Version < wire.Version-1 || h.Version > wire.Version || h.Version < 1:
		no("its program speaks another protocol version than this server", "Update the program there: parawork runner update.")
	case h.Access == wire.ReadOnly:
		no("its owner does not allow starting anything there: access is read_only", "Its owner can change that in runner.json on the machine.")
	case !h.Available:
		no(cmp.Or(clean(h.Reason, maxWords), "it makes no sandboxes now"), clean(h.Cure, maxWords))
	}
	return c, nil
}

// isolation describes how a machine isolates agents where it does not say so itself.
func isolation(h wire.Hello) string {
	switch h.Mode {
	case wire.Docker:
		return "A container on the machine"
	case wire.Bubblewrap:
		return "A sandbox of the machine's kernel"
	}
	return "No isolation: agents have the rights of the machine's owner"
}

// boundary returns the machine's reported isolation: never stronger than its mode allows.
func boundary(h wire.Hello) executors.Boundary {
	said := executors.Boundary(h.Boundary)
	if !slices.Contains(executors.Boundaries, said) {
		said = executors.NoBoundary
	}
	switch h.Mode {
	case wire.Docker:
		return said
	case wire.Bubblewrap:
		if said.AtLeast(executors.ProcessBoundary) {
			return executors.ProcessBoundary
		}
	}
	return executors.NoBoundary
}

// brief returns what agents read about the machine they work on.
func brief(name string, h wire.Hello) string {
	var b strings.Builder
	word := func(s string) string { return cmp.Or(clean(s, maxName), "unknown") }
	fmt.Fprintf(&b, "You work on %q, a person's own machine, not on a server: %s on %s", name, word(h.Release), word(h.Arch))
	switch h.Mode {
	case wire.Docker:
		fmt.Fprintf(&b, ", inside a container made from %s. Programs you install there are gone when the container is.", word(h.Image))
	case wire.Bubblewrap:
		b.WriteString(", inside a sandbox of its kernel: its programs are there, read-only; other people's files are not.")
	default:
		fmt.Fprintf(&b, " (%s), WITHOUT any isolation: every command runs with its owner's full rights, beside their files, logins and running programs. "+
			"Stay inside the working folder. Do not delete, change or read anything outside it, install nothing system-wide, and stop no process you did not start, unless you are asked to.", word(h.OS))
	}
	switch h.Network {
	case "none":
		b.WriteString(" There is no network.")
	case "allow":
		b.WriteString(" The network reaches only what its owner lists.")
	case "host":
		b.WriteString(" The network is the machine's own, with the devices around it: reach for nothing there that the task does not need.")
	}
	if h.Access == wire.Ask {
		b.WriteString(" Its owner is asked before something is started or written; a refusal is final.")
	}
	return b.String()
}
