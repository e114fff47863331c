package work

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// Bounds of FindProjectPaths.
const (
	defaultPaths = 20
	maxPaths     = 200
)

func (h Projects) FindProjectPaths(ctx context.Context, req api.FindProjectPathsRequestObject) (api.FindProjectPathsResponseObject, error) {
	limit := cmp.Or(rest.Val(req.Params.Limit), defaultPaths)
	if limit < 1 || limit > maxPaths {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "limit must be a number from 1 to %d.", maxPaths).With("field", "limit")
	}
	p, err := h.cfg.Workspaces.Records.Project(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	branch := cmp.Or(rest.Val(req.Params.Branch), p.DefaultBranch)
	if err := h.cfg.Workspaces.Repo.CheckBase(ctx, branch); err != nil {
		return nil, err
	}
	commit, err := h.cfg.Workspaces.Repo.LookUpBase(ctx, p, branch)
	if err != nil {
		return nil, err
	}
	files, err := h.cfg.Workspaces.Repo.CommitFiles(ctx, req.Id, commit, "")
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.Path
	}
	return api.FindProjectPaths200JSONResponse{Items: rest.List(bestPaths(paths, rest.Val(req.Params.Q), limit), guest.EncodePath)}, nil
}

// bestPaths returns the paths that have the characters of query in their order, the best first: a name that begins with it, a name that
// has it, a path that has it, then the rest; short before long.
func bestPaths(paths []string, query string, limit int) []string {
	type match struct {
		path string
		rank int
	}
	q := strings.ToLower(query)
	var found []match
	for _, p := range paths {
		if rank := rankPath(strings.ToLower(p), q); rank >= 0 {
			found = append(found, match{p, rank})
		}
	}
	slices.SortFunc(found, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.path), len(b.path)), strings.Compare(a.path, b.path))
	})
	found = found[:min(len(found), limit)]
	out := make([]string, len(found))
	for i, m := range found {
		out[i] = m.path
	}
	return out
}

// rankPath is how well path fits q, 0 for the best; -1 when it does not.
func rankPath(path, q string) int {
	name := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasPrefix(name, q):
		return 0
	case strings.Contains(name, q):
		return 1
	case strings.Contains(path, q):
		return 2
	}
	rest := path
	for _, r := range q {
		var ok bool
		if _, rest, ok = strings.Cut(rest, string(r)); !ok {
			return -1
		}
	}
	return 3
}
