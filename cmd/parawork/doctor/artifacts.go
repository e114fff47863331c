package doctor

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/tools/artifacts/blobs"
)

// artifacts says whether the bucket of artifacts answers. It needs no word where they are in the data folder.
func (r *report) artifacts(ctx context.Context, cfg *config.Config) {
	contents, err := instance.ArtifactContents(cfg)
	bucket, ok := contents.(*blobs.S3)
	if err == nil && !ok {
		return
	}
	if err == nil {
		err = bucket.Check(ctx)
	}
	if err != nil {
		r.say(minor, "artifacts", err.Error(), "Until then artifacts are neither saved nor read; all else works.")
		return
	}
	r.say(good, "artifacts", fmt.Sprintf("the bucket %s answers", cfg.Artifacts.Storage.Bucket), "")
}
