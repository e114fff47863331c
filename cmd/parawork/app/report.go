package app

import (
	"context"
	"time"

	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	done "github.com/parawork/parawork/sessions/report"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
)

// newReport makes what puts reports together.
func newReport(b *base, p *people, w *worktrees, m *money, x *sandboxes, on *work) *done.Service {
	return done.New(done.Sources{
		Workspace: w.workspaces.Records.Workspace, Project: w.workspaces.Records.Project,
		Sessions: on.sessions.List, Conversation: on.sessions.Conversation, Checks: store.NewReports(b.db).Checks, Now: time.Now,
		Place: func(ctx context.Context, executor string) string {
			if c, ok := x.capabilities(ctx, executor); ok {
				return c.Name
			}
			return executor
		},
		// Of what is merged already, the merge is reported: its branch differs from the base in nothing.
		Commits: func(ctx context.Context, id string) ([]workspaces.Commit, error) {
			if all, err := w.workspaces.Ingest.Commits(ctx, id); err != nil || len(all) > 0 {
				return all, err
			}
			_, all, err := w.workspaces.Merging.Landed(ctx, id)
			return all, err
		},
		Changes: func(ctx context.Context, id string) ([]done.Change, error) {
			set, err := on.files.Changes(ctx, id)
			if err == nil && len(set.Items) == 0 {
				return w.landedChanges(ctx, id)
			}
			out := make([]done.Change, 0, len(set.Items))
			for _, c := range set.Items {
				out = append(out, done.Change{Path: guest.DecodePath(c.Path), OldPath: guest.DecodePath(c.OldPath), Status: c.Status, Additions: c.Additions, Deletions: c.Deletions, Binary: c.Binary})
			}
			return out, err
		},
		Hosts: func(ctx context.Context, id string) (reached, refused []done.Host, gated bool, err error) {
			in, err := w.workspaces.Records.Workspace(ctx, id)
			if err != nil {
				return nil, nil, false, err
			}
			all, _, err := x.network.Hosts(ctx, id)
			if err != nil {
				return nil, nil, false, err
			}
			for _, r := range all {
				reached = append(reached, done.Host{Host: r.Host, Port: r.Port, Times: r.Times, FirstAt: r.FirstAt, LastAt: r.LastAt})
			}
			var info network.Info
			if info, err = x.network.Show(ctx, id); err != nil && !fault.Is(err, fault.NotFound) { // in the trash nothing is said of the network
				return nil, nil, false, err
			}
			for _, r := range info.Refused {
				refused = append(refused, done.Host{Host: r.Host, Port: r.Port, Times: r.Times, FirstAt: r.FirstAt, LastAt: r.LastAt, Reason: string(r.Reason)})
			}
			c, ok := x.capabilities(ctx, in.Executor)
			return reached, refused, ok && c.Isolated && c.Network, nil
		},
		Costs: func(ctx context.Context, id string) (done.Costs, error) {
			c, err := m.usage.Workspace(ctx, id)
			return done.Costs{RunMs: c.RunMs, CostNano: c.CostNano, TokensCostNano: c.TokensCostNano, TokensUnknown: c.TokensUnknown, Input: c.InputTokens, Output: c.OutputTokens}, err
		},
		Names: func(ctx context.Context, teamID string) (map[string]string, error) {
			members, err := p.directory.Members(ctx, teamID)
			out := make(map[string]string, len(members))
			for _, m := range members {
				out[m.User.ID] = m.User.Name
			}
			return out, err
		},
	})
}

// landedChanges are the files the workspace's last merge changed in its base.
func (w *worktrees) landedChanges(ctx context.Context, id string) ([]done.Change, error) {
	c, _, err := w.workspaces.Merging.Landed(ctx, id)
	out := make([]done.Change, 0, len(c.Files))
	for _, f := range c.Files {
		out = append(out, done.Change{Path: f.Path, OldPath: f.OldPath, Status: f.Status, Additions: f.Additions, Deletions: f.Deletions, Binary: f.Binary})
	}
	return out, err
}
