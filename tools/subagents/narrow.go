package subagents

import (
	"context"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
)

// Modes of Parawork's own agent limit what it may change.
var modes = []string{"build", "plan", "ask", "review"}

// keeps reports whether an agent in one mode may have another one work in a mode: it must not be able to do more there.
func keeps(caller, other string) bool {
	return caller == "build" || caller == other || other == "ask"
}

// moded gives a subagent its mode: the one that was asked for, or that of its caller.
func (s *Service) moded(ctx context.Context, c Caller, a *Subagent) error {
	if a.Mode != "" && a.Agent != agents.Parawork {
		return bad("mode", "Only the agent %s has modes. Leave the mode out, or name that agent.", agents.Parawork)
	}
	if a.Mode != "" && !slices.Contains(modes, a.Mode) {
		return bad("mode", "The mode must be build, plan, ask or review.")
	}
	t, ok, err := s.threadOf(ctx, c.SessionID)
	if err != nil || !ok {
		return err
	}
	a.ToReturn = true
	if a.Agent == agents.Parawork {
		if a.Mode == "" {
			a.Mode = t.Mode
		}
		if a.Model == "" {
			a.Model = t.Model
		}
	}
	return within(t, *a)
}

// within rejects work of a subagent that its caller may not do itself in its mode.
func within(caller Thread, a Subagent) error {
	mode := a.Mode
	if a.Agent != agents.Parawork || mode == "" {
		mode = "build"
	}
	if !keeps(caller.Mode, mode) {
		return fault.New(fault.Forbidden, "subagent_mode", "In %s mode you can have agents work only that change no more than you may: the agent %s in the same mode, or in mode ask.", caller.Mode, agents.Parawork).
			With("mode", caller.Mode)
	}
	return nil
}

// threadOf returns what is known of a session of Parawork's own agent; false for others.
func (s *Service) threadOf(ctx context.Context, sessionID string) (Thread, bool, error) {
	if s.cfg.Threads == nil || sessionID == "" {
		return Thread{}, false, nil
	}
	return s.cfg.Threads.SessionThread(ctx, sessionID)
}

// checkTools rejects names that are neither those of groups nor of tools.
func (s *Service) checkTools(names []string) error {
	if len(names) > MaxTools {
		return bad("tools", "At most %d groups and tools can be named.", MaxTools)
	}
	for _, name := range names {
		if !isGroup(name) && s.groupOf(name) == "" {
			return bad("tools", "There is no tool, and no group of tools, named %q.", safetext.Cut(safetext.Line(name), 60))
		}
	}
	return nil
}

func isGroup(name string) bool {
	return slices.ContainsFunc(tools.Groups(), func(g tools.Group) bool { return g.Name == name })
}

func (s *Service) groupOf(tool string) string {
	if s.cfg.GroupOf == nil {
		return ""
	}
	return s.cfg.GroupOf(tool)
}

// narrowed are those of the tools that are asked for which the caller has itself. nil = all.
func (s *Service) narrowed(has, wanted []string) []string {
	switch {
	case has == nil:
		return wanted
	case wanted == nil:
		return has
	}
	out := []string{}
	for _, name := range wanted {
		if slices.Contains(has, name) || slices.Contains(has, s.groupOf(name)) {
			out = append(out, name)
			continue
		}
		for _, own := range has { // of a group, the tools that the caller has
			if s.groupOf(own) == name {
				out = append(out, own)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ToolsFor returns the only groups and tools that the agent of a session may use because it is a subagent; nil when it may use all.
func (s *Service) ToolsFor(ctx context.Context, sessionID string) ([]string, error) {
	a, err := s.cfg.Store.SubagentOfSession(ctx, sessionID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return a.Tools, err
}
