package secrets

import (
	"context"
	"fmt"
)

// What a session is given is in the environment of its processes and in files of its sandbox. Everybody who works in the same workspace
// runs programs there as the same user, and can read it. A team's and a project's secrets are for all of them; a person's own are not, so
// they are given where nobody else may work, or where their owner has agreed.

// givesOwn reports whether a user's own secrets are given to what they start.
func (s *Service) givesOwn(ctx context.Context, a Ask) (bool, error) {
	if a.Private || s.cfg.Others == nil {
		return true, nil
	}
	others, err := s.cfg.Others(ctx, a.TeamID, a.UserID)
	if err != nil {
		return false, fmt.Errorf("reading who else may work in a team: %w", err)
	}
	if !others {
		return true, nil
	}
	return s.Agreed(ctx, a.WorkspaceID, a.UserID)
}

// Agreed reports whether a user has agreed that others who work in a workspace could read their own secrets there.
func (s *Service) Agreed(ctx context.Context, workspaceID, userID string) (bool, error) {
	return s.cfg.Store.Agreed(ctx, workspaceID, userID)
}

// Own is how a user's own secrets stand in a workspace.
type Own struct {
	Count  int  // variables and files of theirs
	Others bool // somebody else may work there
	Agreed bool
}

// Given reports whether what the user starts there is given them.
func (o Own) Given() bool { return !o.Others || o.Agreed }

// Own tells how the secrets of a.UserID stand where a runs.
func (s *Service) Own(ctx context.Context, a Ask) (Own, error) {
	all, err := s.cfg.Store.SessionSecrets(ctx, Owner{UserID: a.UserID})
	if err != nil {
		return Own{}, fmt.Errorf("reading secrets: %w", err)
	}
	var o Own
	for _, k := range all {
		if k.Kind != Git {
			o.Count++
		}
	}
	if o.Agreed, err = s.Agreed(ctx, a.WorkspaceID, a.UserID); err != nil || a.Private || s.cfg.Others == nil {
		return o, err
	}
	o.Others, err = s.cfg.Others(ctx, a.TeamID, a.UserID)
	return o, err
}

// Agree notes whether a.UserID agrees that others who work where a runs could read their own secrets there. It holds for what is started
// from then on, and lets others in beside what runs already.
func (s *Service) Agree(ctx context.Context, a Ask, agreed bool) error {
	var at int64
	if agreed {
		at = s.now()
	}
	return s.cfg.Store.SetAgreed(ctx, a.TeamID, a.WorkspaceID, a.UserID, at)
}
