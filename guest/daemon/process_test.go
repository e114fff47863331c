package daemon_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
)

func TestHello(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, err := p.Hello(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != guest.Version || h.SandboxID != p.id || h.Root != p.root || h.Pid != p.cmd.Process.Pid || h.Degraded != "" {
		t.Fatalf("hello %+v", h)
	}
}

func TestPipesExitCodeAndOutput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(shell("a", `echo out; echo err >&2; exit 43`))
	got := p.wait("a")
	if got.State != guest.Exited || got.ExitCode == nil || *got.ExitCode != 43 || got.Reason != "exit" || got.Ends[guest.Stdout] != 4 {
		t.Fatalf("process %+v", got)
	}
	if out, err := p.all("a", guest.Stdout), p.all("a", guest.Stderr); out != "out\n" || err != "err\n" {
		t.Fatalf("out %q err %q", out, err)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(tty(shell("a", `stty size; tty >/dev/null && echo terminal; read x; echo "got $x"; stty size`)))
	ctx := within(t)
	o, err := p.Output(ctx, "a", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if got := until(t, o, "terminal"); !strings.HasPrefix(got, "24 80\r\n") {
		t.Fatalf("began with %q", got)
	}
	if err := p.Resize(ctx, "a", guest.Size{Cols: 132, Rows: 43}); err != nil {
		t.Fatal(err)
	}
	in, err := p.Input(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(in.Last+1, []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	got := until(t, o, "43 132")
	if !strings.Contains(got, "got hello\r\n") {
		t.Fatalf("read %q", got)
	}
	if end := p.wait("a"); end.ExitCode == nil || *end.ExitCode != 0 || end.Size != (guest.Size{Cols: 132, Rows: 43}) {
		t.Fatalf("end %+v", end)
	}
}
