package money

import (
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/sessions/question"
)

// Graces tell which work reached a limit: quota.Enforcer.
type Graces interface {
	Grace(workspaceID string) (quota.WorkGrace, bool)
	GraceByID(id string) (quota.WorkGrace, bool)
	// Graces are those of a team.
	Graces(teamID string) []quota.WorkGrace
}

// GraceItems are what a team's inbox shows of graces.
func GraceItems(all []quota.WorkGrace) []question.InboxItem {
	out := make([]question.InboxItem, 0, len(all))
	for _, g := range all {
		out = append(out, question.InboxItem{ID: g.ID, Kind: question.InboxBudget, WorkspaceID: g.WorkspaceID, StartedBy: g.UserID, Reason: g.Words(), Since: g.BeganAt})
	}
	return out
}

// Grace returns an open grace by its id.
func (h WorkGraces) Grace(id string) (quota.WorkGrace, bool) {
	if h.cfg.Graces == nil {
		return quota.WorkGrace{}, false
	}
	return h.cfg.Graces.GraceByID(id)
}

// GraceOf is the API's grace of a workspace; nil when nothing ends its work.
func (h WorkGraces) GraceOf(workspaceID string) *api.Grace {
	if h.cfg.Graces == nil {
		return nil
	}
	g, ok := h.cfg.Graces.Grace(workspaceID)
	if !ok {
		return nil
	}
	left := int64(0)
	if g.State == quota.GraceCounting {
		left = max(g.EndsAt-h.cfg.Ledger.Now(), 0)
	}
	return &api.Grace{Id: g.ID, Scope: api.GraceScope(g.Scope), State: api.GraceState(g.State), Reason: g.Reason, BeganAt: g.BeganAt, EndsAt: g.EndsAt, LeftMs: left}
}
