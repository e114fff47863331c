package executortest

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// testPorts connects to programs that listen inside, as previews do.
func testPorts(t *testing.T, cfg Config) {
	program := attackerProgram(t)
	made := cfg
	made.Root = func(t *testing.T) string {
		dir := cfg.Root(t)
		b, err := os.ReadFile(program)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "listener"), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Run("what else listens on the machine is not reached", func(t *testing.T) {
		if cfg.SharedNetwork {
			t.Skip("NOT TESTED: the stand-in's machines have no network of their own")
		}
		b := newBox(t, cfg)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if conn, err := b.c.DialPort(b.ctx, l.Addr().(*net.TCPAddr).Port); fault.CodeOf(err) != "port_closed" {
			t.Errorf("a service of the machine's: %v, %v", conn, err)
		}
	})
	t.Run("a program that listens inside is reached from the host", func(t *testing.T) {
		b := newBox(t, made)
		p := b.start(guest.ProcessSpec{Argv: []string{filepath.Join(b.inside, "listener"), "serve"}})
		out := b.watch(p.ID, guest.Stdout, 0)
		out.expect("the program's port", func(s string) bool { return strings.Contains(s, "\n") })
		text, _ := out.text()
		port, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			t.Fatalf("the program says %q", text)
		}
		for _, word := range []string{"one", "two"} {
			conn, err := b.c.DialPort(b.ctx, port)
			if err != nil {
				t.Fatalf("DialPort: %v", err)
			}
			_, _ = io.WriteString(conn, word+"\n")
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || line != "you said "+word+"\n" {
				t.Errorf("%q, %v", line, err)
			}
			_ = conn.Close()
		}
		if _, err := b.c.Stop(b.ctx, p.ID, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := b.c.DialPort(b.ctx, port); fault.CodeOf(err) != "port_closed" {
			t.Errorf("once nothing listens: %v", err)
		}
	})
}
