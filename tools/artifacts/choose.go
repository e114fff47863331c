package artifacts

import (
	"context"
	"errors"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// MaxChosen is how many artifacts can be attached to one pull request or merge.
const MaxChosen = 20

// Choice is an artifact to attach to a pull request or a merge.
type Choice struct {
	ID          string
	LinkMinutes int // how long a link lasts with which anyone downloads it; 0 = no link
}

// Chosen is an artifact to attach, and the link that was made to it. Without one, Token is "".
type Chosen struct {
	Artifact
	Link  Link
	Token string
}

// Choose returns artifacts of a workspace in the order of the choices, and makes the links that were asked for. When it fails, there are
// no links. Errors: artifact_not_found, too_many_artifacts, those of CreateLink.
func (s *Service) Choose(ctx context.Context, actor accounts.Actor, workspaceID, linkName string, choices []Choice) ([]Chosen, error) {
	if len(choices) > MaxChosen {
		return nil, fault.New(fault.Invalid, "too_many_artifacts", "At most %d artifacts can be attached at once.", MaxChosen).With("field", "artifacts")
	}
	var out []Chosen
	seen := map[string]bool{}
	for _, c := range choices {
		a, err := s.Get(ctx, c.ID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err != nil || a.WorkspaceID != workspaceID || seen[c.ID] {
			return nil, fault.New(fault.NotFound, "artifact_not_found", "The workspace has no artifact %.100q, or it is attached twice. List the workspace's artifacts to see their ids.", c.ID).With("field", "artifacts")
		}
		seen[c.ID] = true
		if c.LinkMinutes != 0 {
			if err := accounts.Can(actor, accounts.ShareSession, accounts.Object{TeamID: a.TeamID, OwnerID: a.OwnerID, Private: a.Private}); err != nil {
				return nil, err
			}
		}
		out = append(out, Chosen{Artifact: a})
	}
	for i, c := range choices {
		if c.LinkMinutes == 0 {
			continue
		}
		l, token, err := s.CreateLink(ctx, actor, out[i].Artifact, linkName, c.LinkMinutes)
		if err != nil {
			return nil, errors.Join(err, s.RevokeChosen(ctx, actor, out))
		}
		out[i].Link, out[i].Token = l, token
	}
	return out, nil
}

// RevokeChosen ends the links that Choose made.
func (s *Service) RevokeChosen(ctx context.Context, actor accounts.Actor, chosen []Chosen) error {
	var all error
	for _, c := range chosen {
		if c.Token != "" {
			all = errors.Join(all, s.RevokeLink(context.WithoutCancel(ctx), actor, c.Link))
		}
	}
	return all
}
