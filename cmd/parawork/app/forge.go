package app

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
)

// buildForge joins the room of pull requests.
func (h *App) buildForge() {
	out := egress.New(egress.Config{Allow: h.cfg.Outgoing.Networks(), Streams: true})
	h.forge = forge.New(forge.Config{Store: store.NewForge(h.db), Workspaces: h.workspaces, Origin: h.origin, Credentials: h.secrets, People: h.directory, Events: h.publisher,
		HTTP: out.Transport, CheckURL: out.Check, Prompts: h.askedOf, Link: h.workspaceLink, Log: h.log.With("room", "forge"),
		Gate: func(ctx context.Context, w workspaces.Workspace, head string) error {
			return h.checks.GateOf(ctx, w, head)
		},
		Push: func(ctx context.Context, actor accounts.Actor, workspaceID string) (forge.Pushed, error) {
			res, err := h.origin.Push(ctx, actor, workspaceID, workspaces.PushRequest{})
			return forge.Pushed{Branch: res.Branch, Commit: res.Commit}, err
		}})
}

// workspaceLink is a workspace's page where the server has an address that others know.
func (h *App) workspaceLink(ctx context.Context, w workspaces.Workspace) string {
	base := h.cfg.Server.PublicURL
	if base == "" {
		return ""
	}
	team, err := h.directory.TeamByID(ctx, w.TeamID)
	if err != nil {
		return ""
	}
	return strings.TrimRight(base, "/") + "/" + team.Slug + "/w/" + w.Key()
}

// askedOf is what people asked a workspace's agents for, the oldest first, without what must not be shown.
func (h *App) askedOf(ctx context.Context, w workspaces.Workspace, userID string) ([]string, error) {
	rows, err := h.sessions.List(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	hidden, err := h.secrets.Masks(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: userID})
	if err != nil {
		return nil, err
	}
	masks := redact.New(append(hidden, h.sessions.ShareMasks(w.ID, nil)...)...)
	var out []string
	add := func(text string) {
		if text = strings.TrimSpace(masks.Text(text)); text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, row := range slices.Backward(rows) { // newest first
		add(row.Prompt)
		queue, err := h.sessions.ListPrompts(ctx, row.ID)
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
