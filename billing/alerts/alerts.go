// Package alerts tells people of money: what limits of teams and users do, how the instance's budget stands, and what concerns a payment. It
// knows who looks after the money of a team, and the words of mails; when something is to be told is decided by whoever calls it. It has no
// goroutine and no lock: what it queues is part of its caller's transaction.
package alerts

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
)

// People are the users of an instance and their teams.
type People interface {
	TeamByID(ctx context.Context, teamID string) (accounts.Team, error)
	Members(ctx context.Context, teamID string) ([]accounts.TeamMember, error)
	Users(ctx context.Context, search string, pg page.Page) ([]accounts.UserInfo, string, error)
}

// Timelines are those of workspaces.
type Timelines interface {
	Notify(ctx context.Context, workspaceID, kind, text string) error
}

// KeepsMoney reports whether somebody looks after a team's money.
func KeepsMoney(r accounts.Role) bool { return r == accounts.Owner || r == accounts.Admin }
