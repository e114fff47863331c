package blobs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/parawork/parawork/internal/fault"
)

// S3Config names a bucket of an S3-compatible object storage.
type S3Config struct {
	Endpoint  string // such as https://s3.eu-central-1.amazonaws.com; "" = that of AWS in the region
	Region    string // "" = us-east-1
	Bucket    string
	Prefix    string // of every key, "" = none
	PathStyle bool   // the bucket is in the path, not in the host name
	AccessKey string // "" = as AWS's own tools find theirs: the environment, their file, the role of this machine
	SecretKey string
}

// S3 stores contents in a bucket. A content is uploaded from its file, in parts that are read one after the other.
type S3 struct {
	client         *minio.Client
	bucket, prefix string
}

var _ Store = (*S3)(nil)

const (
	partSize  = 16 << 20 // at most one part of an upload is in memory
	answerFor = 30 * time.Second
	cleanFor  = 20 * time.Second
	s3Tries   = 4
)

// NewS3 returns the Store in a bucket. It asks nothing of it.
func NewS3(cfg S3Config) (*S3, error) {
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = "https://s3." + cfg.Region + ".amazonaws.com"
	}
	at, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	keys := credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, "")
	if cfg.AccessKey == "" {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	}
	wire, err := minio.DefaultTransport(at.Scheme == "https")
	if err != nil {
		return nil, err
	}
	wire.ResponseHeaderTimeout = answerFor
	lookup := minio.BucketLookupAuto
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: keys, Secure: at.Scheme == "https", Region: cfg.Region, BucketLookup: lookup, Transport: wire, MaxRetries: s3Tries})
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(cfg.Prefix, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &S3{client, cfg.Bucket, prefix}, nil
}

// Check asks the storage for the bucket, as a list of at most one content: that needs the keys to be right.
func (s *S3) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanFor)
	defer cancel()
	for o := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix, MaxKeys: 1}) {
		return s.problem(o.Err)
	}
	return nil
}

// Put uploads the file, with a checksum of each part, and removes it once the storage has it.
func (s *S3) Put(ctx context.Context, key, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sent, err := s.client.PutObject(ctx, s.bucket, s.prefix+key, f, info.Size(), minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: partSize, NumThreads: 1, SendContentMd5: true})
	if err == nil && sent.Size != info.Size() {
		err = fault.New(fault.Unavailable, "artifact_storage_unavailable", "The object storage took %d of %d bytes.", sent.Size, info.Size())
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
		defer cancel()
		_ = s.client.RemoveIncompleteUpload(clean, s.bucket, s.prefix+key) // Recover does it otherwise
		return s.problem(err)
	}
	return os.Remove(file)
}

// Open opens a content, which is fetched as it is read: from where the reader is at.
func (s *S3) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	o, err := s.client.GetObject(ctx, s.bucket, s.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.problem(err)
	}
	if _, err := o.Stat(); err != nil {
		_ = o.Close() // the first error counts
		err = s.problem(err)
		if errors.Is(err, fs.ErrNotExist) { // an answer without a body does not tell whether the bucket is missing
			err = cmp.Or(s.Check(ctx), err)
		}
		return nil, err
	}
	return o, nil
}

// Delete removes a content.
func (s *S3) Delete(ctx context.Context, key string) error {
	err := s.problem(s.client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Recover removes parts of uploads that an earlier server did not complete: the storage keeps them, and bills them, without showing them.
func (s *S3) Recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanFor)
	defer cancel()
	if err := s.Check(ctx); err != nil {
		return err
	}
	done := map[string]bool{}
	for u := range s.client.ListIncompleteUploads(ctx, s.bucket, s.prefix, true) {
		if u.Err != nil {
			return s.problem(u.Err)
		}
		team, id, ok := strings.Cut(strings.TrimPrefix(u.Key, s.prefix), "/")
		if !ok || !plain(team) || !strings.HasPrefix(id, "art_") || done[u.Key] { // others may use the bucket too
			continue
		}
		done[u.Key] = true
		if err := s.client.RemoveIncompleteUpload(ctx, s.bucket, u.Key); err != nil {
			return s.problem(err)
		}
	}
	return nil
}

// problem says what is wrong in words, and with a code that stays. A content that is not there is fs.ErrNotExist.
func (s *S3) problem(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	said := minio.ToErrorResponse(err)
	switch {
	case said.Code == minio.NoSuchKey:
		return errors.Join(fs.ErrNotExist, err)
	case said.Code == minio.NoSuchBucket:
		return fault.Wrap(err, fault.Unavailable, "artifact_bucket_missing", "The object storage has no bucket %q. The server's operator must create it, or name another one in artifacts.storage.", s.bucket)
	case said.StatusCode == http.StatusUnauthorized, said.Code == "InvalidAccessKeyId", strings.HasSuffix(said.Code, "UserNotFound"), said.StatusCode == http.StatusForbidden:
		return fault.Wrap(err, fault.Unavailable, "artifact_storage_refused", "The object storage refuses this server's access to the bucket %q (%s). The server's operator must check the keys in artifacts.storage and what they allow.",
			s.bucket, said.Code)
	case said.StatusCode == http.StatusInsufficientStorage, strings.Contains(said.Code, "StorageFull"), strings.Contains(said.Code, "Quota"):
		return fault.Wrap(err, fault.Unavailable, "artifact_storage_full", "The object storage takes no more (%s). Delete artifacts that are no longer needed, or ask the server's operator for more room.", said.Code)
	}
	return fault.Wrap(err, fault.Unavailable, "artifact_storage_unavailable", "The object storage did not do what the server asked (%s). Try again in a while.", seen(said, err))
}

// seen is what was seen of a failure, without an address.
func seen(said minio.ErrorResponse, err error) string {
	if said.StatusCode != 0 {
		return "it answered " + http.StatusText(said.StatusCode)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}
