package network

import (
	"context"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostname"
)

// Narrow checks a policy that a new workspace of the project may have of its own, and normalizes it. Such a policy takes away from what the
// project's workspaces reach and adds nothing; its list stands alone, without the hosts that agents need. Open becomes the zero Policy. None
// stays none where the project has no network either: the project may get one, and not every executor enforces the project's policy.
func (s *Service) Narrow(ctx context.Context, teamID, projectID string, p Policy) (Policy, error) {
	p, err := CheckPolicy(p)
	if err != nil || p.Mode == "" {
		return Policy{}, err
	}
	if p.Mode != executors.NetworkAllow {
		p.Allow = nil
	}
	slices.Sort(p.Allow)
	p.WithoutAgents = true
	all, err := s.cfg.Store.ProjectPolicies(ctx, teamID)
	if err != nil {
		return Policy{}, err
	}
	mode, _, names, err := s.effective(ctx, Said{TeamID: teamID, ProjectID: projectID, Project: all[projectID]}, s.cfg.Store.BaseURLs)
	if err != nil {
		return Policy{}, err
	}
	switch {
	case mode == executors.NetworkOpen && p.Mode == executors.NetworkOpen:
		return Policy{}, nil
	case mode == executors.NetworkOpen, p.Mode == executors.NetworkNone:
		return p, nil
	case mode == executors.NetworkNone:
		return Policy{}, wider("Workspaces of this project have no network.")
	case p.Mode == executors.NetworkOpen:
		return Policy{}, wider("Workspaces of this project reach the hosts of a list only: ask for mode allow with hosts of that list.")
	}
	for _, n := range expand(p.Allow, FromWorkspace) {
		if !covered(n.Name, names) {
			return Policy{}, wider("The host %s is not among those that workspaces of this project may reach.", n.Name).With("host", n.Name)
		}
	}
	return p, nil
}

func wider(format string, args ...any) *fault.Error {
	return fault.New(fault.Forbidden, "network_wider", format, args...).With("field", "network")
}

// narrowed applies a workspace's own policy to what its project lets it reach.
func narrowed(own Policy, mode executors.NetworkMode, source string, names []Name, allowed []string) (executors.NetworkMode, string, []Name) {
	switch {
	case own.Mode == "", own.Mode == executors.NetworkOpen, mode == executors.NetworkNone:
		return mode, source, names
	case own.Mode == executors.NetworkNone:
		return executors.NetworkNone, FromWorkspace, nil
	}
	list := expand(slices.Concat(own.Allow, allowed), FromWorkspace)
	if mode == executors.NetworkAllow {
		list = slices.DeleteFunc(list, func(n Name) bool { return !covered(n.Name, names) })
	}
	return executors.NetworkAllow, FromWorkspace, list
}

// expand replaces presets by their hosts.
func expand(list []string, from string) []Name {
	var out []Name
	for _, name := range list {
		if hosts, is := presets[name]; is {
			for _, h := range hosts {
				out = append(out, Name{h, FromPreset, name})
			}
			continue
		}
		out = append(out, Name{name, from, ""})
	}
	return out
}

// covered reports whether everything that an entry allows is allowed by one entry of a list.
func covered(name string, list []Name) bool {
	p, err := hostname.Parse(name)
	return err == nil && slices.ContainsFunc(list, func(n Name) bool {
		q, err := hostname.Parse(n.Name)
		return err == nil && q.Covers(p) && (p.Port() == q.Port() || p.Port() != 0 && executors.MayPort(executors.NetworkAllow, q.Port(), p.Port()))
	})
}
