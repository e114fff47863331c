package app

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/origin"
)

// pusher pushes workspaces for forges.
type pusher struct{ origin *origin.Service }

func (p pusher) push(ctx context.Context, actor accounts.Actor, workspaceID string) (forge.Pushed, error) {
	res, err := p.origin.Push(ctx, actor, workspaceID, workspaces.PushRequest{})
	return forge.Pushed{Branch: res.Branch, Commit: res.Commit}, err
}

// workspaceLinks are the pages of workspaces where the server has an address that others know.
type workspaceLinks struct {
	directory *directory.Service
	publicURL string
}

func (l workspaceLinks) of(ctx context.Context, w workspaces.Workspace) string {
	base := l.publicURL
	if base == "" {
		return ""
	}
	team, err := l.directory.TeamByID(ctx, w.TeamID)
	if err != nil {
		return ""
	}
	return strings.TrimRight(base, "/") + "/" + team.Slug + "/w/" + w.Key()
}

// asked is what people asked agents for.
type asked struct {
	sessions *sessions.Service
	secrets  *secrets.Service
}

// of is what people asked a workspace's agents for, the oldest first, without what must not be shown.
func (a asked) of(ctx context.Context, w workspaces.Workspace, userID string) ([]string, error) {
	rows, err := a.sessions.List(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	hidden, err := a.secrets.Masks(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: userID})
	if err != nil {
		return nil, err
	}
	masks := redact.New(append(hidden, a.sessions.ShareMasks(w.ID, nil)...)...)
	var out []string
	add := func(text string) {
		if text = strings.TrimSpace(masks.Text(text)); text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, row := range slices.Backward(rows) { // newest first
		add(row.Prompt)
		queue, err := a.sessions.ListPrompts(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		for _, p := range queue {
			if p.State == sessions.PromptSent {
				add(p.Text)
			}
		}
	}
	return out, nil
}
