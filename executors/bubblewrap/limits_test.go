//go:build linux && (amd64 || arm64)

package bubblewrap_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/id"
)

// A box is bounded, counted and frozen as one, from its first instant.
func TestLimits(t *testing.T) {
	t.Parallel()
	needBoxes(t)
	tree, err := cgroup.Open("parawork-test/" + id.New("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Clear)
	if !tree.Support().All() {
		if os.Geteuid() == 0 && os.Getenv("CI") == "true" {
			t.Fatalf("limits must work here, but %s", tree.Support().Reason)
		}
		t.Skipf("NOT TESTED: no limits here: %s. %s", tree.Support().Reason, tree.Support().Cure)
	}
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: filepath.Join(t.TempDir(), "sandboxes"), GuestPath: guestPath, Groups: tree, Grace: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t)
	s.Limits = executors.Limits{CPUs: 1, MemoryMB: 128, Processes: 60, DiskMB: 20}
	sb := create(t, e, s)
	c := dial(t, sb)
	run := func(line string) guest.Process {
		p, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", line}})
		if err != nil {
			t.Fatal(err)
		}
		if p, err = c.Wait(t.Context(), p.ID); err != nil {
			t.Fatalf("%s: the guest did not survive: %v", line, err)
		}
		return p
	}
	if p := run("i=0; while [ $i -lt 100 ]; do sleep 4 & i=$((i+1)); done"); p.ExitCode == nil || *p.ExitCode == 0 {
		t.Errorf("100 processes could be started: %+v", p)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // nobody tells when they have ended
		f, err := sb.(executors.Metered).Figures()
		if err == nil && f.Processes < 30 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("they do not end: %+v, %v", f, err)
		}
	}
	if got := sh(t, c, "head -c 30000000 /dev/zero > big 2>/dev/null; stat -c %s big; rm big"); got != "20971520\n" {
		t.Errorf("a file grew to %s", got)
	}
	run("head -c 300000000 /dev/zero | tail -c 290000000 | wc -c")
	f, err := sb.(executors.Metered).Figures()
	if err != nil || f.Processes == 0 || f.OOMKills == 0 || f.MemoryPeak > 129<<20 {
		t.Errorf("figures %+v, %v", f, err)
	}
	pauser := sb.(executors.Pauser)
	if err := pauser.Pause(t.Context()); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	found, err := e.Recover(t.Context(), sb.Handle()) // a server that finds a suspended sandbox resumes it
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if _, err := dial(t, found).Hello(t.Context()); err != nil {
		t.Errorf("Hello: %v", err)
	}
	if err := pauser.Pause(t.Context()); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatalf("Destroy of a suspended sandbox: %v", err)
	}
	if names := tree.Names(); len(names) > 0 {
		t.Errorf("groups are left: %v", names)
	}
}
