package directory

import (
	"context"
	"slices"

	"github.com/parawork/parawork/accounts"
)

// OthersWork reports whether somebody besides a user may work in a team's workspaces. It counts suspended users: they may be restored.
func (s *Service) OthersWork(ctx context.Context, teamID, userID string) (bool, error) {
	members, err := s.store.Members(ctx, teamID)
	return slices.ContainsFunc(members, func(m accounts.TeamMember) bool { return m.User.ID != userID && m.Role.AtLeast(accounts.Member) }), err
}
