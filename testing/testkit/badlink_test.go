package testkit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testkit"
	"github.com/parawork/parawork/testing/testlink"
)

// pours prints numbered lines, a little at a time so that it outlasts what happens to the network, and ends with END.
const pours = `i=0; while [ $i -lt 300 ]; do seq -f "line $i.%g padding padding padding padding" 1 100; i=$((i+1)); sleep 0.01; done; echo END`

func wantPoured() []byte {
	var b bytes.Buffer
	for i := range 300 {
		for j := 1; j <= 100; j++ {
			fmt.Fprintf(&b, "line %d.%d padding padding padding padding\r\n", i, j)
		}
	}
	b.WriteString("END\r\n")
	return b.Bytes()
}

// away is a workspace on a machine behind a bad network, in which everything goes on at once.
type away struct {
	*testkit.Instance
	t    *testing.T
	link *testlink.Link
	m    *testkit.Machine
	ws   testkit.Workspace

	pouring, shell testkit.Session
	typed          int
	asked          sync.WaitGroup
	mu             sync.Mutex
	done           []int // numbers of commands that were answered
	begun          int
}

func farAway(t *testing.T) *away {
	t.Helper()
	t.Parallel()
	a := &away{t: t, link: testlink.New(t)}
	a.Instance = testkit.StartBehind(t, a.link, testkit.Local)
	a.m = a.Connect("Work Laptop", "--dangerous")
	a.ws = a.WorkspaceOn(a.m, a.Sample(), "Far")
	a.pouring = a.Run(a.ws.ID, "sh", "-c", pours)
	a.shell = a.Run(a.ws.ID, "sh", "-c", "stty -echo; echo ready; while read l; do echo got $l; done")
	must(t, a.Attach(a.shell.ID, "from=0").See("ready"))
	return a
}

// work types lines and asks for commands, as fast as they are taken.
func (a *away) work(n int) {
	a.t.Helper()
	for range n {
		a.typed++
		// What is refused was not typed, which is checked in the end; a viewer would see it, too.
		line := fmt.Sprintf("word-%d", a.typed)
		a.Wait(line+" is taken", func() bool {
			return a.Try("POST", "/sessions/"+a.shell.ID+"/input", map[string]string{"text": line + "\r"}, nil) == nil
		})
		a.command()
	}
}

// command asks for a command that must not be done twice, in the background of the test.
func (a *away) command() {
	a.begun++
	n := a.begun
	a.asked.Go(func() {
		var got struct {
			State    string
			Reason   string `json:"state_reason"`
			ExitCode *int   `json:"exit_code"`
		}
		err := a.Try("POST", "/workspaces/"+a.ws.ID+"/exec", map[string]any{"command": fmt.Sprintf("echo %d >> counted", n), "timeout_ms": 120_000}, &got)
		if err == nil && got.State == "completed" && got.ExitCode != nil && *got.ExitCode == 0 {
			a.mu.Lock()
			a.done = append(a.done, n)
			a.mu.Unlock()
		} else {
			a.t.Logf("command %d: %+v, %v", n, got, err)
		}
	})
}

// whole checks that nothing was lost and nothing done twice.
func (a *away) whole() {
	a.t.Helper()
	a.m.Online()
	a.asked.Wait()
	if got := a.Ended(a.pouring.ID); got.State != "exited" || got.ExitCode == nil || *got.ExitCode != 0 {
		a.t.Errorf("the pouring session ended as %+v", got)
	}
	want := wantPoured()
	if got := a.Output(a.pouring.ID, 0); !bytes.Equal(got, want) {
		a.t.Errorf("%d bytes came (%x), want %d; first difference at %d", len(got), sha256.Sum256(got), len(want), firstDifference(got, want))
	}
	var lines bytes.Buffer
	lines.WriteString("ready\r\n")
	for i := 1; i <= a.typed; i++ {
		fmt.Fprintf(&lines, "got word-%d\r\n", i)
	}
	must(a.t, a.Attach(a.shell.ID, "from=0").See(fmt.Sprintf("got word-%d\r\n", a.typed)))
	if got := a.Output(a.shell.ID, 0); !bytes.Equal(got, lines.Bytes()) {
		a.t.Errorf("typed lines came as %q", got)
	}
	// Commands: each that was answered was done, none twice, and the file is on the server as it is on the machine.
	var once []string
	a.Wait("the counted commands are on the server", func() bool {
		a.API("POST", "/workspaces/"+a.ws.ID+"/sync", nil, nil)
		b, err := os.ReadFile(filepath.Join(a.ws.Path, "counted"))
		once = strings.Fields(string(b))
		return err == nil && len(once) >= len(a.done)
	})
	slices.Sort(once)
	if len(slices.Compact(slices.Clone(once))) != len(once) {
		a.t.Errorf("a command was done twice: %v", once)
	}
	for _, n := range a.done {
		if !slices.Contains(once, fmt.Sprint(n)) {
			a.t.Errorf("command %d was answered and not done: %v", n, once)
		}
	}
	if len(a.done) != a.begun {
		a.t.Errorf("%d of %d commands were answered", len(a.done), a.begun)
	}
}

// Late, reordered, duplicated and lost packets are left to TCP and have no other effect.
func TestMachineOverALossyNetwork(t *testing.T) {
	a := farAway(t)
	a.link.Set(testlink.Faults{Delay: 15 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.01, Duplicate: 0.03})
	a.work(20)
	a.link.Set(testlink.Faults{})
	a.whole()
	if r := a.m.Look(); r.State != "online" {
		t.Errorf("it is %+v", r)
	}
}

// The network is cut without a word, in both directions or in one, and the machine gets another address: it is offline, its work goes on,
// and when it is back everything is.
func TestMachineOverANetworkThatIsCut(t *testing.T) {
	a := farAway(t)
	for _, f := range []testlink.Faults{{Cut: true}, {Deaf: true}, {Mute: true}} {
		a.work(3)
		a.link.Set(f)
		a.m.Offline()
		if r := a.m.Look(); r.OfflineReason == "" {
			t.Errorf("%+v: offline without a reason: %+v", f, r)
		}
		a.link.Set(testlink.Faults{})
		a.m.Online()
	}
	a.work(3)
	a.whole()
}

func TestMachineThatMovesToAnotherNetwork(t *testing.T) {
	a := farAway(t)
	if !a.link.Packets {
		t.Skip("addresses cannot be changed here")
	}
	a.work(3)
	a.link.MoveMachine()
	a.work(3)
	a.link.MoveMachine()
	a.work(3)
	a.whole()
}

// kill -9 of the machine's program, again and again: what it runs goes on, and its next program finds everything again.
func TestKilledMachineLosesNothing(t *testing.T) {
	a := farAway(t)
	for range 3 {
		a.work(3)
		a.m.Kill()
		a.m.Offline()
		a.m.Boot()
		a.m.Online()
	}
	a.work(3)
	a.whole()
}

// kill -9 of the server while the machine works for it.
func TestKilledServerLosesNothingOnAMachine(t *testing.T) {
	a := farAway(t)
	for range 2 {
		a.work(3)
		a.asked.Wait()
		a.Kill()
		a.Boot()
		a.m.Online()
	}
	a.work(3)
	a.whole()
}
