package testkit_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	pages "github.com/parawork/parawork/guest/browser"
	"github.com/parawork/parawork/testing/testkit"
)

// The browser goes on over a kill -9 of the server, and is found again with the page that was open in it.
func TestTheBrowserOutlivesTheServer(t *testing.T) {
	if _, err := pages.Find(os.Getenv("PATH")); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	needsBubblewrap(t)
	t.Parallel()
	h := testkit.Start(t)
	ws := h.WorkspaceIn("bubblewrap", h.Sample(), "Pages")
	call := func(tool string, args map[string]any) string {
		t.Helper()
		var r struct {
			Content []struct{ Text string }
			IsError bool `json:"is_error"`
		}
		h.API("POST", "/workspaces/"+ws.ID+"/tools/"+tool, map[string]any{"arguments": args}, &r)
		if r.IsError || len(r.Content) == 0 {
			t.Fatalf("%s: %+v", tool, r)
		}
		return r.Content[0].Text
	}
	call("browser_open", map[string]any{"url": "data:text/html,<title>Form</title><input aria-label=Name>"})
	ref := regexp.MustCompile(`e\d+`).FindString(call("browser_snapshot", map[string]any{}))
	call("browser_type", map[string]any{"ref": ref, "text": "still here"})
	h.Kill()
	h.Boot()
	if got := call("browser_snapshot", map[string]any{}); !strings.Contains(got, "still here") {
		t.Errorf("after the restart the page is\n%s", got)
	}
}
