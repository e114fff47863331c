package rest

import (
	"context"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/workspaces"
)

// Ptr returns nil for 0: times that have not come are null in the API.
func Ptr(ms int64) *int64 {
	if ms == 0 {
		return nil
	}
	return &ms
}

// Text returns nil for "".
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// NonZero is a value that is left out where it is zero.
func NonZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Val returns what p points to, or the zero value.
func Val[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// List maps items; the answer is never null.
func List[A, B any](items []A, fn func(A) B) []B {
	out := make([]B, 0, len(items))
	for _, it := range items {
		out = append(out, fn(it))
	}
	return out
}

// PageOf is the page that a request asks for.
func PageOf(limit *int, cursor *string) page.Page {
	return page.Page{Limit: Val(limit), Cursor: Val(cursor)}
}

// First is the first that is not empty.
func First(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// ShownName is a workspace's name as others than its owner may read it.
func ShownName(w workspaces.Workspace) string {
	if w.Private {
		return ""
	}
	return w.Name
}

// ResourceLimits are the limits of a sandbox as the API tells them.
func ResourceLimits(l executors.Limits) api.ResourceLimits {
	return api.ResourceLimits{Cpus: &l.CPUs, MemoryMb: &l.MemoryMB, Processes: &l.Processes, DiskMb: &l.DiskMB, WallMinutes: &l.WallMinutes}
}

// MemberNames returns the names of a team's members by their ids.
func MemberNames(ctx context.Context, of *directory.Service, teamID string) (map[string]string, error) {
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
