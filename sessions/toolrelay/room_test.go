package toolrelay

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

type noServer struct{}

func (noServer) ServeTools(context.Context, Session, guest.ToolUse, net.Conn) {}

// A session of Parawork's own agent for which its sandbox has no connection left is refused at its start.
func TestRoom(t *testing.T) {
	t.Parallel()
	r := New(Config{Server: noServer{}, Context: t.Context()})
	admit := func(id, agent, sandbox string) *admitted {
		r.Admit(id, "team", "ws", "usr", agent, sandbox)
		return r.sessions[id]
	}
	admit("ses_there", agents.Parawork, "sbx_other")
	for i := range guest.MaxToolConns - 2 { // none has connected yet
		admit(fmt.Sprint("ses_", i), agents.Parawork, "sbx_1")
	}
	if err := r.Room("sbx_1", agents.Parawork); err != nil {
		t.Fatal(err)
	}
	other := admit("ses_claude", "claude-code", "sbx_1")
	if err := r.Room("sbx_1", agents.Parawork); err != nil {
		t.Fatalf("a session without connections takes none: %v", err)
	}
	other.open = 2
	if code := fault.CodeOf(r.Room("sbx_1", agents.Parawork)); code != "tool_connections_full" {
		t.Errorf("the sandbox is full: %q", code)
	}
	for sandbox, agent := range map[string]string{"sbx_other": agents.Parawork, "sbx_1": "claude-code"} {
		if err := r.Room(sandbox, agent); err != nil {
			t.Errorf("%s in %s: %v", agent, sandbox, err)
		}
	}
	r.End("ses_0")
	if err := r.Room("sbx_1", agents.Parawork); err != nil {
		t.Errorf("one has ended: %v", err)
	}
}
