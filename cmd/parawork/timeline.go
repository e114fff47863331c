package main

import (
	"context"

	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
)

// watcher shows workspaces what differs in their files.
type watcher struct{ files *filesync.Service }

// Look looks at a workspace's files where its sandbox runs.
func (w watcher) Look(ctx context.Context, workspaceID string) (workspaces.Seen, bool, error) {
	base, paths, ok, err := w.files.LookAround(ctx, workspaceID)
	return workspaces.Seen{Base: base, Paths: paths}, ok, err
}
