package server

import (
	"archive/zip"
	"bytes"
	"io"
	"net/url"
	"strings"
	"testing"
)

// People find files of a workspace, search in them, create folders and download them.
func TestFilesAreFoundAndDownloaded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	at := "/api/v1/workspaces/" + p.ids["workspace"]
	auth := bearer(p.tokens["owner"])
	call := func(method, path, body string, want int) string {
		t.Helper()
		header := auth
		if method == "PUT" {
			header = append(header[:len(header):len(header)], "Content-Type", "application/octet-stream")
		}
		resp := h.do(method, at+path, body, header...)
		if resp.StatusCode != want {
			t.Fatalf("%s %s: %d %s, want %d", method, path, resp.StatusCode, resp.body, want)
		}
		return string(resp.body)
	}
	q := url.QueryEscape
	for name, content := range map[string]string{"src/a.go": "one\nNeedle here\n", "src/deep/b.go": "needle\n", "src/run.log": "needle\n"} {
		call("PUT", "/files?path="+q(name), content, 200)
	}
	if got := call("GET", "/paths", "", 200); !strings.Contains(got, `"src/a.go","src/deep/b.go"`) {
		t.Errorf("paths: %s", got)
	}
	found := call("GET", "/find?q=needle", "", 200)
	if strings.Count(found, "event: file\n") != 3 || !strings.Contains(found, `"text":"Needle here"`) || !strings.Contains(found, "event: end\n") {
		t.Errorf("found: %s", found)
	}
	if got := call("GET", "/find?case=true&q=Needle", "", 200); strings.Count(got, "event: file\n") != 1 {
		t.Errorf("with case: %s", got)
	}
	call("GET", "/find?regex=true&q="+q("("), "", 400)
	call("GET", "/find?q=needle&path="+q("../"), "", 400)
	call("GET", "/find?q=ref&path=.git", "", 403)

	call("POST", "/folders", `{"path":"new/folder"}`, 201)
	call("POST", "/folders", `{"path":"src"}`, 409)
	call("POST", "/folders", `{"path":".git/x"}`, 403)
	raw := []byte(call("GET", "/download?path=src/deep", "", 200))
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil || len(z.File) != 1 || z.File[0].Name != "b.go" {
		t.Fatalf("archive: %v, %+v", err, z)
	}
	f, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "needle\n" {
		t.Errorf("in the archive: %q, %v", b, err)
	}
	call("GET", "/download?path=.git", "", 403)

	call("DELETE", "/files?recursive=true&path="+q("../x"), "", 400)
	call("DELETE", "/files?recursive=true&path=.git", "", 403)
}
