package instance

import (
	"fmt"
	"path/filepath"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/tools/artifacts/blobs"
)

// ArtifactContents is where artifacts' contents are kept: a folder of the data folder, or a bucket.
func ArtifactContents(cfg *config.Config) (blobs.Store, error) {
	s := cfg.Artifacts.Storage
	if s.Type != "s3" {
		return blobs.NewFolder(filepath.Join(cfg.DataDir, "artifacts", "contents")), nil
	}
	bucket, err := blobs.NewS3(blobs.S3Config{Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix, PathStyle: s.PathStyle, AccessKey: s.AccessKeyID, SecretKey: s.SecretAccessKey})
	if err != nil {
		return nil, fmt.Errorf("artifacts.storage: %w", err)
	}
	return bucket, nil
}
