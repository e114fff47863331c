package app

import (
	"context"

	"github.com/parawork/parawork/executors/caches"
)

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
