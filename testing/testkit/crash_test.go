package testkit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// burst prints numbered lines, some quickly, for as long as it takes to be killed under, and ends with END.
const burst = `i=0; while [ $i -lt 400 ]; do seq -f "line $i.%g padding padding padding padding" 1 200; i=$((i+1)); done; echo END`

// wantBurst is what burst prints through a PTY.
func wantBurst() []byte {
	var b bytes.Buffer
	for i := range 400 {
		for j := 1; j <= 200; j++ {
			fmt.Fprintf(&b, "line %d.%d padding padding padding padding\r\n", i, j)
		}
	}
	b.WriteString("END\r\n")
	return b.Bytes()
}

// kill -9 of the server in mid-stream, again and again: the same session goes on, a viewer that names its offset gets
// exactly the missing bytes, and the whole is what the program wrote.
func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Survive")
	s := h.Run(ws.ID, "sh", "-c", burst)

	var have []byte
	for round := 1; round <= 3; round++ {
		term := h.Attach(s.ID, fmt.Sprintf("from=%d", len(have)))
		target := len(have) + 300_000
		must(t, term.Until("some of the burst came", func() bool {
			from, b := term.Bytes()
			return int(from)+len(b) >= target
		}))
		h.Kill()
		from, b := term.Bytes()
		if int(from) != len(have) {
			t.Fatalf("round %d: attached at %d, the first byte is of %d", round, len(have), from)
		}
		have = append(have, b...)
		h.Boot()
	}
	term := h.Attach(s.ID, fmt.Sprintf("from=%d", len(have)))
	must(t, term.See("END\r\n"))
	_, b := term.Bytes()
	have = append(have, b...)

	want := wantBurst()
	if !bytes.Equal(have, want) {
		t.Fatalf("%d bytes came (%x), want %d (%x); first difference at %d", len(have), sha256.Sum256(have), len(want), sha256.Sum256(want), firstDifference(have, want))
	}
	if got := h.Ended(s.ID); got.State != "exited" || *got.ExitCode != 0 || got.Bytes != int64(len(want)) {
		t.Errorf("the session ended as %+v", got)
	}
	if got := h.Output(s.ID, 0); !bytes.Equal(got, want) {
		t.Errorf("/output has %d bytes, want %d", len(got), len(want))
	}
}

// What happens while no server runs is there when it is back: output, the end of a session, changes, typed input.
func TestWorkGoesOnWithoutServer(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Alone")
	gate := filepath.Join(ws.Path, "gate")
	ends := h.Run(ws.ID, "sh", "-c", `echo before; while [ ! -e "$0" ]; do sleep 0.05; done; echo after; echo made > made.txt; touch "$0.done"; exit 3`, gate)
	shell := h.Run(ws.ID, "sh", "-c", "while read l; do echo got $l; done")
	must(t, h.Attach(ends.ID, "from=0").See("before"))
	h.Kill()
	must(t, os.WriteFile(gate, nil, 0o644))
	h.Wait("the program ended without a server", func() bool { _, err := os.Stat(gate + ".done"); return err == nil })
	h.Boot()
	if s := h.Ended(ends.ID); s.State != "exited" || s.ExitCode == nil || *s.ExitCode != 3 {
		t.Errorf("ended as %+v", s)
	}
	if out := string(h.Output(ends.ID, 0)); out != "before\r\nafter\r\n" {
		t.Errorf("output %q", out)
	}
	h.Wait("the file made meanwhile is a change", func() bool { _, ok := h.Changes(ws.ID).Find("made.txt"); return ok })
	h.API("POST", "/sessions/"+shell.ID+"/input", map[string]string{"text": "again\r"}, nil)
	must(t, h.Attach(shell.ID, "from=0").See("got again"))
}

// An orderly restart says 4012 to terminals and keeps agents running.
func TestRestartKeepsSessions(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Restart")
	s := h.Run(ws.ID, "sh", "-c", "echo up; while read l; do echo got $l; done")
	term := h.Attach(s.ID, "from=0")
	must(t, term.See("up"))
	h.Terminate()
	h.Wait("the socket ends", func() bool { return term.Err() != nil })
	if err := term.Err(); !strings.Contains(err.Error(), "4012") {
		t.Errorf("the socket closed with %v, want 4012", err)
	}
	h.Boot()
	again := h.Attach(s.ID, "from=0")
	must(t, again.Type("x\r"))
	must(t, again.See("got x"))
}

// A guest that is killed takes its agents with it: the session is lost, says so, keeps its output, and the workspace works on.
func TestKilledGuest(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Lost")
	s := h.Run(ws.ID, "sh", "-c", "echo here; sleep 1000")
	must(t, h.Attach(s.ID, "from=0").See("here"))
	killGuests(t, h)
	if got := h.Ended(s.ID); got.State != "lost" || got.StateReason == "" {
		t.Errorf("ended as %+v", got)
	}
	if out := string(h.Output(s.ID, 0)); out != "here\r\n" {
		t.Errorf("output %q", out)
	}
	again := h.Run(ws.ID, "echo", "new")
	if got := h.Ended(again.ID); got.State != "exited" {
		t.Errorf("a new session in a new sandbox ended as %+v", got)
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
