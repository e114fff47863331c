package config_test

import (
	"strings"
	"testing"
)

func TestABucketOfArtifacts(t *testing.T) {
	good := `"type": "s3", "bucket": "parawork", "endpoint": "https://s3.example.com", "accessKeyId": "a", "secretAccessKey": "b"`
	for storage, want := range map[string]string{
		good:                             "",
		`"type": "s3", "bucket": "work"`: "",
		`"type": "tape"`:                 "artifacts.storage.type",
		`"type": "s3"`:                   "artifacts.storage.bucket",
		`"type": "s3", "bucket": "work", "endpoint": "s3.example.com"`:   "artifacts.storage.endpoint",
		`"type": "s3", "bucket": "work", "accessKeyId": "a"`:             "artifacts.storage.secretAccessKey",
		`"type": "s3", "bucket": "work", "prefix": "../x"`:               "artifacts.storage.prefix",
		`"type": "s3", "bucket": "work", "endpoint": "https://h/a/path"`: "artifacts.storage.endpoint",
	} {
		_, err := load(t, `{"artifacts": {"storage": {`+storage+`}}}`, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", storage, err, want)
		}
	}
}
