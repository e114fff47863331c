package executortest

import (
	"bufio"
	"encoding/json"
	"slices"
	"testing"

	"github.com/parawork/parawork/guest"
)

// testTools proves that a program finds the tools' command line, and that its calls reach the host.
func testTools(t *testing.T, cfg Config) {
	t.Run("the command line", func(t *testing.T) {
		b := newBox(t, cfg)
		h, err := b.c.Hello(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !h.Tools {
			if h.Hooks {
				t.Fatalf("hello %+v", h)
			}
			t.Skip("a guest in the test's own process has no program for its sandbox")
		}
		p := b.tty("parawork one; parawork two")
		sc := b.watch(p.ID, guest.Terminal, 0)
		for _, word := range []string{"one", "two"} {
			conn, opening, err := b.c.AcceptTools(b.ctx, "h")
			if err != nil || opening != (guest.ToolOpening{Process: p.ID, Use: guest.UseCommand}) {
				t.Fatalf("%+v, %v", opening, err)
			}
			line, err := bufio.NewReader(conn).ReadBytes('\n')
			var c guest.ToolCommand
			if err != nil || json.Unmarshal(line, &c) != nil || !slices.Equal(c.Argv, []string{word}) {
				t.Fatalf("%s, %v", line, err)
			}
			if err := json.NewEncoder(conn).Encode(guest.ToolAnswer{Stdout: "answer to " + word + "\n"}); err != nil {
				t.Fatal(err)
			}
			sc.expectText("answer to " + word)
			_ = conn.Close()
		}
		if end := b.wait(p.ID); end.ExitCode == nil || *end.ExitCode != 0 {
			t.Errorf("ended as %+v", end)
		}
	})
}
