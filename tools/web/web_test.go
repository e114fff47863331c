package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/tools/web"
)

// sandbox is a sandbox of one workspace whose program for pages prints what the address asks for.
type sandbox struct{ running chan struct{} }

func (s sandbox) Exec(ctx context.Context, r command.Request) (command.Command, error) {
	if r.TeamID != "team_1" || r.WorkspaceID != "ws_1" {
		return command.Command{}, fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	if strings.Join(r.Argv[:3], " ") != guest.Self+" fetch --max-bytes" || r.Argv[4] != "--" || r.TimeoutMs == 0 {
		return command.Command{}, fmt.Errorf("it runs %q", r.Argv)
	}
	ended := func(code int, out string) (command.Command, error) {
		return command.Command{State: command.Completed, ExitCode: &code, Stdout: []byte(out), Stderr: []byte("usage:\x1b[31m ...")}, nil
	}
	switch _, path, _ := strings.Cut(r.Argv[5], "//"); path {
	case "slow":
		s.running <- struct{}{}
		<-ctx.Done()
		return command.Command{}, context.Cause(ctx)
	case "long":
		return ended(0, `{"url":"http://long","status":200,"mime":"text/plain","bytes":9}`+"\n"+strings.Repeat("a \"line\"\n", 20_000))
	case "refused":
		return ended(0, `{"url":"http://refused","error":"refused is not on the list.\n\u001b[1m","refused":true}`+"\n")
	case "down":
		return ended(0, `{"url":"http://down","error":"connection refused"}`+"\n")
	case "missing":
		return ended(0, `{"url":"http://missing","status":404,"mime":"text/plain","bytes":4}`+"\nnone")
	case "old":
		return ended(2, "")
	case "lies":
		return ended(0, "nonsense")
	}
	return ended(0, `{"url":"http://page","status":200,"mime":"text/html","title":"A title","bytes":100}`+"\nIts text.")
}

func TestTool(t *testing.T) {
	t.Parallel()
	s := sandbox{make(chan struct{}, 10)}
	caller := tools.Caller{TeamID: "team_1", WorkspaceID: "ws_1", UserID: "usr_1"}
	stranger := caller
	stranger.TeamID = "team_other"
	tool := web.New(s)
	tooltest.Run(t, tooltest.Subject{Tool: tool, Caller: caller, Stranger: stranger, Quick: json.RawMessage(`{"url":"http://page"}`), Large: json.RawMessage(`{"url":"http://long"}`),
		Slow: json.RawMessage(`{"url":"http://slow"}`), Began: func(context.Context) error { <-s.running; return nil }, Stopped: func(context.Context) error { return nil }})
	set, err := tools.New(tools.Config{Tools: []tools.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{"page": "http://page (status 200, text/html, 100 bytes): A title\n\nIts text.", "down": "http://down could not be fetched: connection refused.", "missing": "http://missing (status 404, text/plain, 4 bytes)\n\nnone"} {
		r, err := set.Call(t.Context(), caller, "web_fetch", json.RawMessage(`{"url":"http://`+url+`"}`))
		if err != nil || r.Content[0].Text != want || r.IsError != (url != "page") {
			t.Errorf("%s: %+v, %v", url, r, err)
		}
	}
	for url, want := range map[string]string{"refused": "web_host_refused", "old": "web_fetch_failed", "lies": "web_fetch_failed"} {
		_, err := set.Call(t.Context(), caller, "web_fetch", json.RawMessage(`{"url":"http://`+url+`"}`))
		if fault.CodeOf(err) != want || strings.Contains(err.Error(), "\x1b") || url == "refused" && !strings.Contains(err.Error(), "refused is not on the list.") {
			t.Errorf("%s: %q", url, err)
		}
	}
}
