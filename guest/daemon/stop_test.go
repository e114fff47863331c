//go:build linux

package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// pids reads what a script has written down of its children.
func (p *place) pids(files ...string) []int {
	p.t.Helper()
	var out []int
	for _, f := range files {
		eventually(p.t, f+" was written", func() bool {
			b, err := os.ReadFile(filepath.Join(p.root, f))
			var pid int
			if n, _ := fmt.Sscanf(string(b), "%d\n", &pid); err != nil || n != 1 || !strings.HasSuffix(string(b), "\n") {
				return false
			}
			out = append(out, pid)
			return true
		})
	}
	p.seen = append(p.seen, out...)
	return out
}

func (p *place) gone(pids []int) {
	p.t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			p.t.Errorf("process %d is still alive", pid)
		}
	}
}

// Agents start their tools in sessions of their own; some put themselves into the background, ignore TERM, or drop their
// environment. Stop ends them all.
func TestStopEndsEveryDescendant(t *testing.T) {
	t.Parallel()
	for _, term := range []bool{false, true} {
		p := newPlace(t)
		spec := shell("a", `
			setsid sh -c 'echo $$ > session; exec sleep 1000' &
			setsid sh -c 'trap "" TERM HUP; echo $$ > stubborn; while :; do sleep 1000; done' &
			(setsid sh -c 'echo $$ > orphan; exec sleep 1000' &)
			(setsid env -i sh -c 'echo $$ > bare; exec sleep 1000' &)
			sh -c 'echo $$ > stopped; kill -STOP $$; sleep 1000' &
			echo $$ > lead
			wait; sleep 1000`)
		if term {
			spec = tty(spec)
		}
		p.start(spec)
		pids := p.pids("lead", "session", "stubborn", "orphan", "bare", "stopped")
		begin := time.Now()
		got, err := p.Stop(within(t), "a", 300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if got.State != guest.Exited || got.Reason != "stopped" {
			t.Errorf("process %+v", got)
		}
		if took := time.Since(begin); took < 300*time.Millisecond {
			t.Errorf("the stubborn one had only %v", took)
		}
		p.gone(pids)
	}
}

// What one process started is not another's.
func TestStopLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(shell("a", `(setsid sh -c 'echo $$ > a; exec sleep 1000' &); sleep 1000`))
	p.start(shell("b", `(setsid sh -c 'echo $$ > b; exec sleep 1000' &); sleep 1000`))
	pids := p.pids("a", "b")
	if _, err := p.Stop(within(t), "a", time.Second); err != nil {
		t.Fatal(err)
	}
	p.gone(pids[:1])
	if !alive(pids[1]) {
		t.Error("the other's was ended too")
	}
	if got, err := p.Process(within(t), "b"); err != nil || got.State != guest.Running {
		t.Errorf("b is %+v, %v", got, err)
	}
}

// A shell at a terminal ignores TERM, but nobody waits for the whole grace.
func TestStopShellAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(tty(guest.ProcessSpec{ID: "a", Argv: []string{"bash", "--norc", "-i"}, Env: map[string]string{"PS1": "ready> "}}))
	o, err := p.Output(within(t), "a", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	until(t, o, "ready> ")
	begin := time.Now()
	if _, err := p.Stop(within(t), "a", 90*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 60*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Somebody left behind holds the terminal: the process ends all the same, and Stop still ends them.
func TestGrandchildHoldsTheTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(tty(shell("a", `(trap '' HUP; echo $$; sh -c 'trap "" HUP; echo $$ > left; exec sleep 1000') & while ! [ -s left ]; do sleep 0.01; done; echo bye; exit 7`)))
	begin := time.Now()
	got := p.wait("a")
	if got.ExitCode == nil || *got.ExitCode != 7 {
		t.Fatalf("process %+v", got)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if out := p.all("a", guest.Terminal); !strings.HasSuffix(out, "bye\r\n") {
		t.Errorf("output %q", out)
	}
	left := p.pids("left")
	if !alive(left[0]) {
		t.Fatal("nobody was left")
	}
	if _, err := p.Stop(within(t), "a", time.Second); err != nil {
		t.Fatal(err)
	}
	p.gone(left)
}

// A command leaves something running in the background that holds its pipes and goes on writing: the command ends, and what
// it left is not killed by a closed pipe.
func TestBackgroundOfACommandGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(shell("a", `sh -c 'echo $$ > left; for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.1; done; echo done > finished; exec sleep 1000' & echo bye`))
	if got := p.wait("a"); got.ExitCode == nil || *got.ExitCode != 0 {
		t.Fatalf("process %+v", got)
	}
	left := p.pids("left")
	eventually(t, "what was left has finished", func() bool {
		_, err := os.Stat(filepath.Join(p.root, "finished"))
		return err == nil
	})
	if _, err := p.Stop(within(t), "a", time.Second); err != nil {
		t.Fatal(err)
	}
	p.gone(left)
}

func TestSignalReachesEveryDescendant(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(shell("a", `setsid sh -c 'trap "echo caught > other; exit" USR1; echo $$ > child; while :; do sleep 0.05; done' & trap 'echo caught > own' USR1; echo $$ > lead; wait; wait; sleep 1000`))
	p.pids("lead", "child")
	if err := p.Signal(within(t), "a", "usr1"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"own", "other"} {
		eventually(t, f+" was caught", func() bool {
			b, _ := os.ReadFile(filepath.Join(p.root, f))
			return string(b) == "caught\n"
		})
	}
	if err := p.Signal(within(t), "a", "SIGSEGV"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a signal that must not be sent: %v", err)
	}
	if _, err := p.Stop(within(t), "a", 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(within(t), "a", "TERM"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a signal to an ended process: %v", err)
	}
}

// Orphans that end are collected, and the ends of our own processes are not taken away from those who wait for them.
func TestOrphansAreCollected(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for i := range 20 {
		p.start(shell(fmt.Sprint("a", i), fmt.Sprintf(`for i in 1 2 3; do (setsid sleep 0.0%d &); done; exit %d`, i%10, i)))
	}
	for i := range 20 {
		if got := p.wait(fmt.Sprint("a", i)); got.ExitCode == nil || *got.ExitCode != i {
			t.Fatalf("process %+v", got)
		}
	}
	eventually(t, "no zombie is left", func() bool {
		zombies, err := zombiesOf(p.cmd.Process.Pid)
		return err == nil && zombies == 0
	})
}

func zombiesOf(parent int) (n int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if f[0] == "Z" && f[1] == fmt.Sprint(parent) {
			n++
		}
	}
	return n, nil
}
