package masks

import (
	"slices"

	"github.com/parawork/parawork/internal/safetext"
)

// OwnSecretsHere returns the users whose own secrets running sessions of a workspace were given: everybody who works there could
// read them.
func (m *Masks) OwnSecretsHere(workspaceID string) (userIDs []string) {
	for _, s := range m.of(workspaceID) {
		if s.given.Own && !s.host.Ended() && !slices.Contains(userIDs, s.row.CreatedBy) {
			userIDs = append(userIDs, s.row.CreatedBy)
		}
	}
	slices.Sort(userIDs)
	return userIDs
}

// WantedBeside shows viewers of running sessions that hold a user's own secrets that these prevented somebody else from working
// there; "" clears the notice.
func (m *Masks) WantedBeside(workspaceID, userID, name string) {
	notice := ""
	if name != "" {
		notice = safetext.Cut(safetext.Line(name), 80) + " wants to work in this workspace, and could then read the secrets of your own that this session was given. Agree in the workspace's menu, or end the session."
	}
	for _, s := range m.of(workspaceID) {
		if s.given.Own && s.row.CreatedBy == userID {
			s.host.Notify(notice)
		}
	}
}
