// Package toolgroups stores which groups of tools a project has switched on, and says what they cost its agents.
//
// It starts no goroutine and holds no lock.
package toolgroups

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// Store stores the groups that a project has switched other than their default.
type Store interface {
	// ToolGroups returns them by name: whether each is on.
	ToolGroups(ctx context.Context, projectID string) (map[string]bool, error)
	// SetToolGroups replaces them.
	SetToolGroups(ctx context.Context, projectID string, switched map[string]bool) error
}

// Service switches groups. Safe for concurrent use.
type Service struct {
	store Store
	specs []tools.Spec
}

// New returns a Service for these tools.
func New(store Store, specs []tools.Spec) *Service { return &Service{store, specs} }

// Selection returns which groups are on in a project.
func (s *Service) Selection(ctx context.Context, projectID string) (tools.Selection, error) {
	switched, err := s.store.ToolGroups(ctx, projectID)
	if err != nil {
		return tools.Selection{}, err
	}
	return selectionOf(switched), nil
}

func selectionOf(switched map[string]bool) (sel tools.Selection) {
	for name, on := range switched {
		if on {
			sel.On = append(sel.On, name)
		} else {
			sel.Off = append(sel.Off, name)
		}
	}
	return sel
}

// Group is a group as a project has it.
type Group struct {
	tools.Group
	On            bool
	Tools         []tools.Spec
	Listed        int // of the tools, in the list that MCP clients are shown while the group is on
	ContextTokens int // what those cost an agent at every turn
}

// Overview is what a project has on, and what that costs.
type Overview struct {
	Groups        []Group // those that have tools
	Listed        int     // tools in the list that MCP clients are shown
	ContextTokens int     // what those cost an agent at every turn
}

// Overview returns a project's groups.
func (s *Service) Overview(ctx context.Context, projectID string) (Overview, error) {
	sel, err := s.Selection(ctx, projectID)
	if err != nil {
		return Overview{}, err
	}
	return s.overview(sel), nil
}

func (s *Service) overview(sel tools.Selection) (o Overview) {
	for _, g := range tools.Groups() {
		of := Group{Group: g, On: sel.Has(g.Name)}
		for _, spec := range s.specs {
			if spec.Group != g.Name {
				continue
			}
			of.Tools = append(of.Tools, spec)
			if !spec.Unlisted {
				of.Listed++
				of.ContextTokens += spec.ContextTokens()
			}
		}
		if len(of.Tools) == 0 {
			continue
		}
		if of.On {
			o.Listed += of.Listed
			o.ContextTokens += of.ContextTokens
		}
		o.Groups = append(o.Groups, of)
	}
	return o
}

// Set switches exactly these groups on in a project, and all others off. Running agents see it with their next request.
func (s *Service) Set(ctx context.Context, projectID string, on []string) (Overview, error) {
	switched := map[string]bool{}
	known := tools.Groups()
	for _, name := range on {
		if !slices.ContainsFunc(known, func(g tools.Group) bool { return g.Name == name }) {
			names := make([]string, len(known))
			for i, g := range known {
				names[i] = g.Name
			}
			return Overview{}, fault.New(fault.Invalid, "tool_group_unknown", "There is no group of tools with this name. There are: %s.", strings.Join(names, ", ")).With("field", "enabled")
		}
	}
	for _, g := range known {
		if has := slices.Contains(on, g.Name); has == g.Off { // other than its default
			switched[g.Name] = has
		}
	}
	o := s.overview(selectionOf(switched))
	if o.Listed > tools.MaxListed {
		return Overview{}, fault.New(fault.Invalid, "tool_groups_too_many", "With these groups agents would be shown %d tools, and each costs them context at every turn: %d are allowed. Switch a group off.",
			o.Listed, tools.MaxListed).With("listed", o.Listed).With("max_listed", tools.MaxListed)
	}
	return o, s.store.SetToolGroups(ctx, projectID, switched)
}
