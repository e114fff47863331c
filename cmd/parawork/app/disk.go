package app

import (
	"context"

	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/workspaces/disk"
)

// buildDisk joins who counts what work takes on disk with the rooms it lies in. They are there.
func (h *App) buildDisk(publisher events.Publisher) {
	cfg := disk.Config{Work: h.workspaces, Events: publisher, Log: h.log.With("room", "disk")}
	if h.caches != nil {
		cfg.Caches = cacheRoom{h.caches}
	}
	h.disk = disk.New(cfg)
}

// cacheRoom counts a team's caches together.
type cacheRoom struct{ *caches.Caches }

// Bytes is what a team's caches take on disk.
func (c cacheRoom) Bytes(ctx context.Context, teamID string) (n int64, err error) {
	sizes, err := c.Sizes(ctx, teamID)
	for _, s := range sizes {
		n += s.Bytes
	}
	return n, err
}
