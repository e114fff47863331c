package accounts

import (
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// scopeOf is what each action asks of a token that is bound to scopes. An action that is not here asks for ScopeAdmin.
var scopeOf = map[Action]Scope{
	ViewTeam:        ScopeRead,
	ViewProject:     ScopeRead,
	ViewWorkspace:   ScopeRead,
	CreateWorkspace: ScopeWrite,
	EditWorkspace:   ScopeWrite,
	MergeWorkspace:  ScopeWrite,
	ViewTerminal:    ScopeAttach,
	TypeTerminal:    ScopeAttach,
	TakeTerminal:    ScopeAttach,
	AnswerQuestion:  ScopeAttach,
	ViewCosts:       ScopeBill,
}

// includes returns what else a scope allows: a token that may change a workspace or attach to its sessions must be able to find them.
var includes = map[Scope][]Scope{
	ScopeRead:   {},
	ScopeWrite:  {ScopeRead},
	ScopeAttach: {ScopeRead},
	ScopeBill:   {},
	ScopeAdmin:  {ScopeRead, ScopeWrite, ScopeAttach, ScopeBill},
}

// ScopeFor returns what a token bound to scopes needs for an action.
func ScopeFor(action Action) Scope {
	if sc, ok := scopeOf[action]; ok {
		return sc
	}
	return ScopeAdmin
}

// Has reports whether the actor's credential reaches as far as a scope.
func (a Actor) Has(sc Scope) bool {
	if a.Scopes == nil {
		return true
	}
	for _, have := range a.Scopes {
		if have == sc || slices.Contains(includes[have], sc) {
			return true
		}
	}
	return false
}

// NeedScope returns nil where the actor's credential reaches as far as a scope, else a fault.Forbidden that names it.
func NeedScope(a Actor, sc Scope) error {
	if a.Has(sc) {
		return nil
	}
	have := make([]string, len(a.Scopes))
	for i, h := range a.Scopes {
		have[i] = string(h)
	}
	return fault.New(fault.Forbidden, "wrong_scope", "This API token may not do this: it lacks the scope %s (it has %s). Make a token with that scope.", sc, strings.Join(have, ", ")).
		With("scope", string(sc)).With("scopes", have)
}

// NeedAccount returns nil where the actor's credential may change the account itself: not a token for one team.
func NeedAccount(a Actor) error {
	if err := NeedScope(a, ScopeAdmin); err != nil {
		return err
	}
	if a.TokenTeam != "" {
		return fault.New(fault.Forbidden, "wrong_scope", "This API token acts in one team only and may do nothing beyond it. Make a token for all teams.").With("scope", string(ScopeAdmin))
	}
	return nil
}

// CleanScopes checks the scopes of a new token: known ones, each once; none at all means everything its user may do.
func CleanScopes(in []Scope) ([]Scope, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := []Scope{}
	for _, sc := range in {
		if _, known := includes[sc]; !known {
			return nil, fault.New(fault.Invalid, "invalid_scope", "There is no scope %q. The scopes are workspaces:read, workspaces:write, sessions:attach, billing:read and admin.", Clip(string(sc), 40)).With("field", "scopes")
		}
		if !slices.Contains(out, sc) {
			out = append(out, sc)
		}
	}
	slices.Sort(out)
	return out, nil
}
