package sessions

import (
	"slices"

	"github.com/parawork/parawork/internal/safetext"
)

// OwnSecretsHere returns whose own secrets running sessions of a workspace were given: everybody who works there could read them.
func (s *Service) OwnSecretsHere(workspaceID string) (userIDs []string) {
	for _, l := range s.livesOf(workspaceID) {
		l.mu.Lock()
		if l.ownSecrets && !l.row.State.Ended() && !slices.Contains(userIDs, l.row.CreatedBy) {
			userIDs = append(userIDs, l.row.CreatedBy)
		}
		l.mu.Unlock()
	}
	slices.Sort(userIDs)
	return userIDs
}

// WantedBeside tells who looks at the running sessions with a user's own secrets that somebody else was kept from working beside them; ""
// takes that back.
func (s *Service) WantedBeside(workspaceID, userID, name string) {
	notice := ""
	if name != "" {
		notice = safetext.Cut(safetext.Line(name), 80) + " wants to work in this workspace, and could then read the secrets of your own that this session was given. Agree in the workspace's menu, or end the session."
	}
	for _, l := range s.livesOf(workspaceID) {
		l.mu.Lock()
		if l.ownSecrets && l.row.CreatedBy == userID && l.notice != notice {
			l.notice = notice
			l.bump()
		}
		l.mu.Unlock()
	}
}

// livesOf returns the sessions of a workspace that are in memory.
func (s *Service) livesOf(workspaceID string) []*live {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*live
	for _, l := range s.lives {
		if l.workspaceID == workspaceID {
			out = append(out, l)
		}
	}
	return out
}
