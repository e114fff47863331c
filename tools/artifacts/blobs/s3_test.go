package blobs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/artifacts/blobs"
)

// bucket starts a versitygw, a real S3 server on a folder, and makes a bucket in it. Install it with
// go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
func bucket(t *testing.T) (blobs.S3Config, *minio.Client) {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		t.Skip("versitygw is not installed: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	data, meta := t.TempDir(), t.TempDir()
	cmd := exec.Command(program, "--access", "key", "--secret", "secret", "--port", at, "posix", "--sidecar", meta, data)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c, err := minio.New(at, &minio.Options{Creds: credentials.NewStaticV4("key", "secret", ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for { // until it listens
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err == nil {
			conn.Close()
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if err := c.MakeBucket(ctx, "artifacts", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return blobs.S3Config{Endpoint: "http://" + at, Bucket: "artifacts", Prefix: "pw", PathStyle: true, AccessKey: "key", SecretKey: "secret"}, c
}

func open(t *testing.T, cfg blobs.S3Config) *blobs.S3 {
	t.Helper()
	s, err := blobs.NewS3(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// file makes a file with so many bytes that are not the same anywhere.
func file(t *testing.T, size int) (string, []byte) {
	t.Helper()
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	name := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, b
}

func TestABucketKeepsContents(t *testing.T) {
	cfg, raw := bucket(t)
	s := open(t, cfg)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 10, 40 << 20} { // the last one in parts
		key := blobs.Key("team_1", "art_1")
		name, want := file(t, size)
		if err := s.Put(t.Context(), key, name); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d bytes: the file is still there: %v", size, err)
		}
		r, err := s.Open(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
		r.Close()
	}
	_, want := file(t, 40<<20)
	r, err := s.Open(t.Context(), blobs.Key("team_1", "art_1"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, request := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	request.Header.Set("Range", "bytes=30000000-30000099")
	http.ServeContent(w, request, "", time.Time{}, r)
	if w.Code != http.StatusPartialContent || !bytes.Equal(w.Body.Bytes(), want[30000000:30000100]) {
		t.Errorf("a range: %d with %d bytes", w.Code, w.Body.Len())
	}
	if _, err := raw.StatObject(t.Context(), "artifacts", "pw/team_1/art_1", minio.StatObjectOptions{}); err != nil {
		t.Errorf("the object is not below the prefix: %v", err)
	}
	for range 2 { // what is gone is gone
		if err := s.Delete(t.Context(), blobs.Key("team_1", "art_1")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Open(t.Context(), blobs.Key("team_1", "art_1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading a deleted content: %v", err)
	}
}

func TestABucketSaysWhatIsWrong(t *testing.T) {
	cfg, _ := bucket(t)
	gone, wrong, foreign, nobody := cfg, cfg, cfg, cfg
	gone.Bucket = "no-such-bucket"
	wrong.SecretKey = "other"
	foreign.AccessKey = "stranger"
	nobody.Endpoint = "http://127.0.0.1:1"
	for code, cfgs := range map[string][]blobs.S3Config{"artifact_bucket_missing": {gone}, "artifact_storage_refused": {wrong, foreign}, "artifact_storage_unavailable": {nobody}} {
		for _, cfg := range cfgs {
			s := open(t, cfg)
			name, _ := file(t, 10)
			_, opened := s.Open(t.Context(), "team_1/art_1")
			for what, err := range map[string]error{"check": s.Check(t.Context()), "put": s.Put(t.Context(), "team_1/art_1", name), "open": opened, "recover": s.Recover(t.Context())} {
				if fault.CodeOf(err) != code || !fault.Is(err, fault.Unavailable) {
					t.Errorf("%s: got %v, want %s", what, err, code)
				}
			}
			if _, err := os.Stat(name); err != nil {
				t.Errorf("the file is gone although it was not stored: %v", err)
			}
		}
	}
}

// TestAnUploadThatFailsLeavesNothing lets the storage refuse the third part, in the words of storages that are full or whose keys were
// withdrawn.
func TestAnUploadThatFailsLeavesNothing(t *testing.T) {
	cfg, raw := bucket(t)
	for code, answer := range map[string]struct {
		status int
		code   string
	}{"artifact_storage_full": {http.StatusInsufficientStorage, "XMinioStorageFull"}, "artifact_storage_refused": {http.StatusForbidden, "AccessDenied"}} {
		var refused atomic.Bool
		proxy := passing(t, cfg.Endpoint, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("partNumber") != "3" {
				return false
			}
			refused.Store(true)
			w.WriteHeader(answer.status)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>`+answer.code+`</Code><Message>no</Message></Error>`)
			return true
		})
		through := cfg
		through.Endpoint = proxy
		name, _ := file(t, 40<<20)
		if err := open(t, through).Put(t.Context(), "team_1/art_2", name); fault.CodeOf(err) != code || !refused.Load() {
			t.Errorf("got %v, want %s", err, code)
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the file is gone although it was not stored: %v", err)
		}
		if keys := incomplete(t, raw); len(keys) > 0 {
			t.Errorf("parts of %v are left", keys)
		}
	}
}

func TestAStartRemovesUploadsThatWereNotCompleted(t *testing.T) {
	cfg, raw := bucket(t)
	core := minio.Core{Client: raw}
	for _, key := range []string{"pw/team_1/art_3", "pw/other", "pw/team_1/other", "else/team_1/art_3"} {
		if _, err := core.NewMultipartUpload(t.Context(), "artifacts", key, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, cfg).Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := incomplete(t, raw); strings.Join(keys, " ") != "else/team_1/art_3 pw/other pw/team_1/other" {
		t.Errorf("uploads that are left: %q", keys)
	}
}

func incomplete(t *testing.T, raw *minio.Client) (keys []string) {
	t.Helper()
	for u := range raw.ListIncompleteUploads(t.Context(), "artifacts", "", true) {
		if u.Err != nil {
			t.Fatal(u.Err)
		}
		keys = append(keys, u.Key)
	}
	return keys
}

// passing is a proxy that keeps the host name, which is signed, and answers some requests itself.
func passing(t *testing.T, to string, own func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if own(w, r) {
			return
		}
		out := r.Clone(r.Context())
		out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", strings.TrimPrefix(to, "http://")
		answer, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		for k, v := range answer.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
