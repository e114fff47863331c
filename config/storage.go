package config

import (
	"net/url"
	"regexp"
	"strings"
)

var (
	bucketName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{1,253}[a-zA-Z0-9]$`)
	keyPrefix  = regexp.MustCompile(`^[a-zA-Z0-9!_.*'()/-]{0,200}$`)
)

// checkArtifactStorage checks what can be known without asking the object storage.
func (d *decoder) checkArtifactStorage(s ArtifactStorage) {
	const at = "artifacts.storage."
	d.checkOneOf(at+"type", s.Type, "folder", "s3")
	if s.Type != "s3" {
		return
	}
	if !bucketName.MatchString(s.Bucket) {
		d.problem(at+"bucket", "must be the name of a bucket")
	}
	if !keyPrefix.MatchString(s.Prefix) || strings.Contains(s.Prefix, "..") || strings.Contains(s.Prefix, "//") {
		d.problem(at+"prefix", "must have at most 200 letters, digits and ! _ . * ' ( ) / -")
	}
	if u, err := url.Parse(s.Endpoint); s.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil) {
		d.problem(at+"endpoint", "must be an address such as https://s3.example.com, without a path")
	}
	if (s.AccessKeyID == "") != (s.SecretAccessKey == "") {
		d.problem(at+"secretAccessKey", "must be set together with accessKeyId; with neither, the server finds keys as AWS's own tools do")
	}
}
