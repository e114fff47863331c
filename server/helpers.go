package server

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/workspaces"
)

// ptr returns nil for 0: times that have not come are null in the API.
func ptr(ms int64) *int64 {
	if ms == 0 {
		return nil
	}
	return &ms
}

// text returns nil for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// val returns what p points to, or the zero value.
func val[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// list maps items; the answer is never null.
func list[A, B any](items []A, fn func(A) B) []B {
	out := make([]B, 0, len(items))
	for _, it := range items {
		out = append(out, fn(it))
	}
	return out
}

func pageOf(limit *int, cursor *string) page.Page {
	return page.Page{Limit: val(limit), Cursor: val(cursor)}
}

// first is the first that is not empty.
func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// shownName is a workspace's name as others than its owner may read it.
func shownName(w workspaces.Workspace) string {
	if w.Private {
		return ""
	}
	return w.Name
}

func resourceLimits(l executors.Limits) api.ResourceLimits {
	return api.ResourceLimits{Cpus: &l.CPUs, MemoryMb: &l.MemoryMB, Processes: &l.Processes, DiskMb: &l.DiskMB, WallMinutes: &l.WallMinutes}
}

// memberNames returns the names of a team's members by their ids.
func memberNames(ctx context.Context, of *accounts.Service, teamID string) (map[string]string, error) {
	members, err := of.Members(ctx, teamID)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(members))
	for _, m := range members {
		out[m.User.ID] = m.User.Name
	}
	return out, nil
}
