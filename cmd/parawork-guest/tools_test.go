//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
)

// A program in the sandbox calls the tools from the command line and by MCP, each under the name that agents use.
func TestTheToolsFromASandbox(t *testing.T) {
	t.Parallel()
	r := start(t, func(cmd *exec.Cmd, _ string) []string {
		cmd.Env = append(cmd.Env, tokenEnv+"=s3cret")
		return nil
	})
	script := `export GUEST_TEST_MAIN=1; echo text | parawork note add - >out 2>err; echo "exit $?" >>out
		echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' >in; (cat in; read x </dev/tty) | parawork mcp >mcp`
	if _, err := r.c.Start(within(t), guest.ProcessSpec{ID: "a", Argv: []string{"sh", "-c", script}, Tty: true}); err != nil {
		t.Fatal(err)
	}
	conn, opening, err := r.c.AcceptTools(within(t), "h")
	if err != nil || opening != (guest.ToolOpening{Process: "a", Use: guest.UseCommand}) {
		t.Fatalf("%+v, %v", opening, err)
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	var c guest.ToolCommand
	if err != nil || json.Unmarshal(line, &c) != nil || !reflect.DeepEqual(c, guest.ToolCommand{Argv: []string{"note", "add", "-"}, Dir: r.root, Stdin: []byte("text\n")}) {
		t.Fatalf("%s, %v", line, err)
	}
	if err := json.NewEncoder(conn).Encode(guest.ToolAnswer{Exit: 2, Stdout: "added\n", Stderr: "beware\n"}); err != nil {
		t.Fatal(err)
	}

	mcp, opening, err := r.c.AcceptTools(within(t), "h")
	if err != nil || opening != (guest.ToolOpening{Process: "a", Use: guest.UseMCP}) {
		t.Fatalf("%+v, %v", opening, err)
	}
	defer mcp.Close()
	from := bufio.NewReader(mcp)
	if got, err := from.ReadString('\n'); err != nil || got != `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, want := range map[string]string{"out": "added\nexit 2\n", "err": "beware\n"} {
		if b, err := os.ReadFile(filepath.Join(r.root, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	if _, err := io.WriteString(mcp, answer); err != nil {
		t.Fatal(err)
	}
	got := func() string {
		b, err := os.ReadFile(filepath.Join(r.root, "mcp"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for ctx := within(t); got() != answer; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the agent got %q", got())
		}
	}
	in, err := r.c.Input(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("\n")); err != nil { // the agent closes its side
		t.Fatal(err)
	}
	if end, err := r.c.Wait(within(t), "a"); err != nil || end.ExitCode == nil || *end.ExitCode != 0 {
		t.Fatalf("%+v, %v", end, err)
	}
}
