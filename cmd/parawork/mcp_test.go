package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What is missing or wrong is said before an agent waits for an answer, and never on standard output.
func TestMCPSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code":"invalid_token","message":"The API token is not valid.","request_id":"r"}`)
	}))
	t.Cleanup(refusing.Close)
	for _, c := range []struct {
		env  map[string]string
		args []string
		code int
		text string
	}{
		{nil, nil, 2, "PARAWORK_SERVER"},
		{map[string]string{"PARAWORK_SERVER": "parawork.example.com", "PARAWORK_TOKEN": "x"}, nil, 2, "write it as https://"},
		{map[string]string{"PARAWORK_SERVER": "https://parawork.example.com/x", "PARAWORK_TOKEN": "x"}, nil, 2, "is not the address"},
		{nil, []string{"--server", "https://parawork.example.com"}, 2, "PARAWORK_TOKEN"},
		{map[string]string{"PARAWORK_TOKEN": "x"}, []string{"--server", refusing.URL}, 1, "The API token is not valid."},
		{nil, []string{"--help"}, 0, "usage: parawork mcp"},
	} {
		r := run(c.env, "", append([]string{"mcp"}, c.args...)...)
		if r.code != c.code || r.out != "" || !strings.Contains(r.errout, c.text) {
			t.Errorf("%v: code %d, out %q, error %q", c.args, r.code, r.out, r.errout)
		}
	}
}

// An agent on this computer calls tools with the token of the environment, in the team of the command line, and is named to the server. When
// it goes, the program ends.
func TestMCPOnALaptop(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("X-Parawork-Client")}, " ")
		_ = json.NewEncoder(w).Encode(map[string]any{"items": []any{map[string]any{"id": "prj_1", "name": "site", "state": "ready", "default_branch": "main"}}})
	}))
	t.Cleanup(server.Close)
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	var errout bytes.Buffer
	p := program{stdin: toServer, stdout: fromServer, stderr: &errout, env: func(k string) string { return map[string]string{"PARAWORK_TOKEN": "pw_user_x"}[k] }}
	ended := make(chan int, 1)
	go func() {
		ended <- p.run(context.Background(), []string{"mcp", "--server", server.URL, "--team", "harbour"})
		_ = fromServer.Close()
	}()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "claude-code", Version: "2"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "project_list"})
	if err != nil || r.IsError || !strings.HasPrefix(r.Content[0].(*mcp.TextContent).Text, "site (prj_1): ready") {
		t.Errorf("%+v, %v", r, err)
	}
	for _, want := range []string{"GET /api/v1/me Bearer pw_user_x ", "GET /api/v1/teams/harbour/projects Bearer pw_user_x claude-code 2 (MCP)"} {
		if got := <-asked; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	_ = fromClient.Close()
	select {
	case code := <-ended:
		if code != 0 || errout.Len() > 0 {
			t.Errorf("ended with %d: %s", code, errout.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the program did not end with its client")
	}
	_ = c.Close()
}

// A redirect does not carry the token to another server.
func TestNoRedirectTakesTheToken(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("another server was asked: %s", r.URL) }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	t.Cleanup(server.Close)
	r := run(map[string]string{"PARAWORK_TOKEN": "x"}, "", "mcp", "--server", server.URL)
	if !strings.Contains(r.errout, fmt.Sprint(http.StatusFound)) {
		t.Errorf("%d %s", r.code, r.errout)
	}
}
