package server

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A page that an agent saved is shown on an origin where neither its reader's cookie nor the API is.
func TestPagesAreShownOnAnOriginOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) {
		c.PublicURL, c.ContentURL = "https://parawork.example.com", "https://content.example.com:8443"
	})
	h.serve()
	p := h.people(t)
	const base, page = "/api/v1", "<script>parent.document.title = 'x'</script>"
	save := func(name, content string) string {
		_, body := askArtifact(t, h, p.tokens["member"], "POST", base+"/workspaces/"+p.ids["workspace"]+"/artifacts?name="+name, content)
		var a struct{ ID string }
		if err := json.Unmarshal([]byte(body), &a); err != nil || a.ID == "" {
			t.Fatalf("%s: %v", body, err)
		}
		return a.ID
	}
	// ask follows no redirect, and asks the server of this test by the host name of an address.
	ask := func(token, address string) (*http.Response, string) {
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+at.EscapedPath()+"?"+at.RawQuery, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = at.Host
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
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
	const own = "https://parawork.example.com" + base
	html := save("page.html", page)
	resp, _ := ask(p.tokens["viewer"], own+"/artifacts/"+html+"/content?preview=true")
	to := resp.Header.Get("Location")
	if resp.StatusCode != http.StatusFound || !strings.HasPrefix(to, "https://content.example.com:8443/content/"+html+"/") {
		t.Fatalf("a page is shown at %d %q", resp.StatusCode, to)
	}
	resp, body := ask("", to)
	policy := resp.Header.Get("Content-Security-Policy")
	if body != page || !strings.HasPrefix(policy, "sandbox allow-scripts;") || !strings.HasSuffix(policy, "frame-ancestors https://parawork.example.com") || len(resp.Cookies()) > 0 {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if resp, body := ask(p.tokens["outsider"], own+"/artifacts/"+html+"/content?preview=true"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another team is sent on: %d %s", resp.StatusCode, body)
	}
	if resp, _ := ask(p.tokens["member"], "https://content.example.com:8443"+base+"/artifacts/"+html); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the API on the origin of contents: %d", resp.StatusCode)
	}
	// A download, and what has no scripts, stays where it is.
	if resp, body := ask(p.tokens["viewer"], own+"/artifacts/"+html+"/content"); resp.StatusCode != http.StatusOK || body != page {
		t.Errorf("a download: %d", resp.StatusCode)
	}
	if resp, body := ask(p.tokens["viewer"], own+"/artifacts/"+save("notes.txt", "notes")+"/content?preview=true"); resp.StatusCode != http.StatusOK || body != "notes" {
		t.Errorf("a text: %d %s", resp.StatusCode, body)
	}
	if resp, _ := askArtifact(t, h, p.tokens["member"], "DELETE", base+"/artifacts/"+html, ""); resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp.StatusCode)
	}
	if resp, _ := ask("", to); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted artifact: %d", resp.StatusCode)
	}
}
