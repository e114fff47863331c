package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// askArtifact sends a request and returns the answer with its body.
func askArtifact(t *testing.T, h *harness, token, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if method == http.MethodPost && strings.Contains(path, "?name=") {
		req.Header.Set("Content-Type", "application/octet-stream")
	} else if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

// An uploaded artifact is downloaded whole and in parts, shown only where that is safe, and shared by a link that can be revoked.
func TestArtifactsOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	member, viewer, outsider := p.tokens["member"], p.tokens["viewer"], p.tokens["outsider"]
	const base = "/api/v1"
	at := base + "/workspaces/" + p.ids["workspace"] + "/artifacts"
	page := "<script>parent.document.title = 'x'</script>"
	resp, body := askArtifact(t, h, member, "POST", at+"?name=page.html", page)
	var a struct {
		ID     string
		MIME   string
		SHA256 string
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || resp.StatusCode != http.StatusCreated || a.MIME != "text/html" {
		t.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	if resp, body := askArtifact(t, h, viewer, "POST", at+"?name=x", "x"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer saves: %d %s", resp.StatusCode, body)
	}
	if resp, body := askArtifact(t, h, member, "POST", at+"?name=../x", "x"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong name: %d %s", resp.StatusCode, body)
	}
	if resp, body := askArtifact(t, h, member, "POST", at+"?name=x", "x", "X-Content-Sha256", strings.Repeat("0", 64)); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "artifact_hash_mismatch") {
		t.Errorf("a wrong hash: %d %s", resp.StatusCode, body)
	}
	content := base + "/artifacts/" + a.ID + "/content"
	resp, body = askArtifact(t, h, viewer, "GET", content, "")
	if body != page || resp.Header.Get("ETag") != `"`+a.SHA256+`"` || resp.Header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("downloaded as %v: %s", resp.Header, body)
	}
	resp, body = askArtifact(t, h, viewer, "GET", content, "", "Range", "bytes=1-6")
	if resp.StatusCode != http.StatusPartialContent || body != "script" {
		t.Errorf("a part: %d %q", resp.StatusCode, body)
	}
	if resp, _ = askArtifact(t, h, viewer, "GET", content, "", "If-None-Match", `"`+a.SHA256+`"`); resp.StatusCode != http.StatusNotModified {
		t.Errorf("unchanged: %d", resp.StatusCode)
	}
	resp, _ = askArtifact(t, h, viewer, "GET", content+"?preview=true", "")
	policy := resp.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "sandbox allow-scripts; default-src 'none'") || strings.Contains(policy, "allow-same-origin") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a page is shown under %q", policy)
	}
	if resp, _ := askArtifact(t, h, outsider, "GET", content, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another team reads: %d", resp.StatusCode)
	}
	resp, body = askArtifact(t, h, member, "POST", base+"/artifacts/"+a.ID+"/links", `{"name":"Ana"}`)
	var l struct{ ID, URL string }
	if err := json.Unmarshal([]byte(body), &l); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	shared := l.URL[strings.Index(l.URL, base):]
	if resp, body := askArtifact(t, h, "", "GET", shared, ""); body != page || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") || resp.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("by the link: %d %v", resp.StatusCode, resp.Header)
	}
	if resp, body := askArtifact(t, h, member, "DELETE", base+"/artifact-links/"+l.ID, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := askArtifact(t, h, "", "GET", shared, ""); resp.StatusCode != http.StatusGone {
		t.Errorf("a revoked link: %d", resp.StatusCode)
	}
	if resp, body := askArtifact(t, h, viewer, "GET", at, ""); !strings.Contains(body, `"name":"page.html"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for path, body := range map[string]string{ // none may be attached that is not of the workspace
		"/merge":              `{"strategy":"merge","dry_run":true,"artifacts":["` + a.ID + `","art_other"]}`,
		"/pull-request":       `{"artifacts":[{"id":"` + a.ID + `","link_minutes":60},{"id":"art_other"}]}`,
		"/pull-request/merge": `{"strategy":"merge","expected_head":"` + strings.Repeat("a", 40) + `","artifacts":["art_other"]}`,
	} {
		if resp, got := askArtifact(t, h, member, "POST", base+"/workspaces/"+p.ids["workspace"]+path, body); resp.StatusCode != http.StatusNotFound || !strings.Contains(got, "artifact_not_found") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, got)
		}
	}
	if resp, body := askArtifact(t, h, member, "DELETE", base+"/artifacts/"+a.ID, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := askArtifact(t, h, viewer, "GET", content, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted one: %d", resp.StatusCode)
	}
}
