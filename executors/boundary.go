package executors

import (
	"fmt"
	"strings"
)

// Name is the boundary as people read it everywhere.
func (b Boundary) Name() string {
	switch b {
	case ProcessBoundary:
		return "Process sandbox"
	case ContainerBoundary:
		return "Container"
	case KernelBoundary:
		return "gVisor"
	case MachineBoundary:
		return "MicroVM"
	}
	return "No isolation"
}

// LeastWords is the boundary as it reads in a sentence: "at least this boundary".
func (b Boundary) LeastWords() string {
	switch b {
	case ProcessBoundary:
		return "a process sandbox"
	case ContainerBoundary:
		return "a container"
	case KernelBoundary:
		return "gVisor"
	case MachineBoundary:
		return "a micro-VM"
	}
	return "any place"
}

// Stronger returns the stronger of two boundaries; "" is the weakest.
func Stronger(a, b Boundary) Boundary {
	if a.AtLeast(b) {
		return a
	}
	return b
}

// Differences lists, in sentences for people, what changes for a workspace that moves from one executor to another.
func Differences(from, to Capabilities) []string {
	out := []string{}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch a, b := from.Boundary, to.Boundary; {
	case a == "" || b == "":
	case a == b:
		say("The boundary stays the same: %s.", strings.ToLower(b.Name()))
	case b.AtLeast(a):
		say("The boundary becomes stronger: %s instead of %s.", strings.ToLower(b.Name()), strings.ToLower(a.Name()))
	default:
		say("The boundary becomes weaker: %s instead of %s.", strings.ToLower(b.Name()), strings.ToLower(a.Name()))
	}
	switch {
	case to.Network && !from.Network:
		say("Only hosts the project allows can be reached.")
	case !to.Network && from.Network:
		say("The network is open: the project's list of allowed hosts is not enforced.")
	}
	switch {
	case to.Limits && !from.Limits:
		say("Limits of CPU, memory and processes are enforced.")
	case !to.Limits && from.Limits:
		say("Limits of CPU, memory and processes are not enforced.")
	}
	switch {
	case to.Host && !from.Host:
		say("Programs come from this server instead of from the image.")
	case !to.Host && from.Host:
		say("Programs come from the image instead of from this server.")
	}
	switch {
	case to.OwnDisk && !from.OwnDisk:
		say("The code is sent to another machine (%s), and changes made there are synced back. Files that git ignores stay on the server, except those that are copied into each workspace.", to.Name)
	case !to.OwnDisk && from.OwnDisk:
		say("The code stays on this server. Files that git ignores stay behind on the other machine.")
	}
	switch {
	case to.PriceNano > 0:
		say("It costs %s an hour while it runs.", dollars(to.PriceNano))
	case from.PriceNano > 0:
		say("It costs nothing by the hour.")
	}
	if to.Isolated != from.Isolated {
		say("Agents get another home folder: what they store there, such as logins, stays behind. Conversations of Claude Code and Codex are moved along when they are resumed.")
	}
	say("The worktree and all commits stay; running processes, /tmp and programs installed in the old place do not.")
	return out
}

// dollars formats an amount of nano-USD.
func dollars(nano int64) string {
	if cents := (nano + 5_000_000) / 10_000_000; cents >= 100 || nano%10_000_000 == 0 {
		return fmt.Sprintf("$%d.%02d", cents/100, cents%100)
	}
	return fmt.Sprintf("$%.3f", float64(nano)/1e9)
}
