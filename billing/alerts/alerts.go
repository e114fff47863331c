// Package alerts notifies people about money: what limits of teams and users do, the state of the instance's budget, and payments. It
// knows who manages a team's payments and writes the mails; its callers decide when to send one. It has no goroutine and no lock: it queues
// messages in its caller's transaction.
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
