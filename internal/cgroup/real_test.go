package cgroup

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realTree is this machine's own groups, or a loud skip. In CI, which runs as root, nothing is skipped.
func realTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := Open("parawork/test-" + strconv.Itoa(os.Getpid()) + t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if s := tree.Support(); !s.All() || !s.Freeze {
		if os.Geteuid() == 0 || os.Getenv("CI") == "true" {
			t.Fatalf("this machine runs as root but has no groups: %s. %s", s.Reason, s.Cure)
		}
		t.Skipf("NOT TESTED: %s. %s", s.Reason, s.Cure)
	}
	t.Cleanup(func() {
		for _, name := range tree.Names() {
			g, err := tree.Find(name)
			if err == nil {
				err = g.Destroy(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		}
		tree.Clear()
	})
	return tree
}

// startIn runs a shell script in the group: it waits for its stdin to end, which is after it has joined.
func startIn(t *testing.T, g *Group, script string) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read line; "+script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if err := g.Join(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "go\n")
	return cmd, in
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestRealMemory(t *testing.T) {
	t.Parallel()
	tree := realTree(t)
	g := mustMake(t, tree, "mem", Limits{MemoryBytes: 64 << 20})
	// The child is killed, not the shell that waits for it.
	cmd, in := startIn(t, g, `(exec sh -c 'echo 900 > /proc/self/oom_score_adj; x=$(head -c 200000000 /dev/zero | tr "\0" a); echo ${#x}'); echo told; exit 3`)
	_ = in.Close()
	err := cmd.Wait()
	f, ferr := g.Figures()
	if ferr != nil || f.OOMKills < 1 {
		t.Errorf("kills for want of memory: %+v, %v (ended: %v)", f, ferr, err)
	}
	if f.MemoryPeak < 48<<20 || f.MemoryPeak > 65<<20 {
		t.Errorf("peak %d is not near the limit", f.MemoryPeak)
	}
}

func TestRealProcesses(t *testing.T) {
	t.Parallel()
	tree := realTree(t)
	g := mustMake(t, tree, "pids", Limits{Processes: 20})
	_, in := startIn(t, g, `f() { f | f & }; f; read more`)
	defer in.Close()
	until(t, "refused forks", func() bool { f, _ := g.Figures(); return f.ForksRefused > 0 })
	if f, _ := g.Figures(); f.Processes > 20 {
		t.Errorf("%d processes, more than allowed", f.Processes)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := g.Destroy(ctx); err != nil { // although it forks against its end
		t.Fatal(err)
	}
}

func TestRealCPU(t *testing.T) {
	t.Parallel()
	tree := realTree(t)
	g := mustMake(t, tree, "cpu", Limits{CPUs: 0.1})
	_, in := startIn(t, g, `while :; do :; done`)
	defer in.Close()
	until(t, "being held back", func() bool { f, _ := g.Figures(); return f.ThrottledMs > 100 && f.CPUMs > 10 })
	if err := g.Set(Limits{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the group running freely", func() bool {
		before, _ := g.Figures()
		time.Sleep(50 * time.Millisecond)
		after, _ := g.Figures()
		return after.ThrottledMs == before.ThrottledMs && after.CPUMs-before.CPUMs > 10
	})
}

func TestRealFreezeAndKill(t *testing.T) {
	t.Parallel()
	tree := realTree(t)
	g := mustMake(t, tree, "freeze", Limits{})
	// A grandchild in a session of its own, whose parent has left.
	_, in := startIn(t, g, `setsid sh -c 'while :; do :; done' & setsid sh -c 'while :; do :; done' & read more`)
	defer in.Close()
	until(t, "three processes", func() bool { return len(g.Processes()) >= 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := g.Freeze(ctx); err != nil || !g.Frozen() {
		t.Fatal(err)
	}
	before, _ := g.Figures()
	time.Sleep(50 * time.Millisecond)
	if after, _ := g.Figures(); after.CPUMs > before.CPUMs+5 {
		t.Errorf("a frozen group used %d ms", after.CPUMs-before.CPUMs)
	}
	if err := g.Unfreeze(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "going on", func() bool { f, _ := g.Figures(); return f.CPUMs > before.CPUMs+10 })
	if err := g.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(ctx); err != nil { // frozen as it is
		t.Fatal(err)
	}
	if left := g.Processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := g.Remove(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestRealOld is the way of kernels without a v2 hierarchy.
func TestRealOld(t *testing.T) {
	t.Parallel()
	tree := realTree(t)
	var old []hierarchy
	for _, h := range tree.in {
		if !h.v2 {
			old = append(old, h)
		}
	}
	all := *tree
	if len(old) < 2 {
		t.Skip("NOT TESTED: this machine has only the v2 hierarchy")
	}
	tree.in = old
	g := mustMake(t, tree, "old", Limits{MemoryBytes: 1 << 30, Processes: 100})
	t.Cleanup(func() { *tree = all })
	_, in := startIn(t, g, `setsid sh -c 'while :; do sh -c : ; done' & read more`)
	defer in.Close()
	until(t, "two processes", func() bool { return len(g.Processes()) >= 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := g.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	if !g.Frozen() {
		t.Error("not frozen")
	}
	for _, bytes := range []int64{1 << 29, 1 << 31, 0, 1 << 28} { // down, up, away, again
		if err := g.Set(Limits{MemoryBytes: bytes}); err != nil {
			t.Fatalf("memory to %d: %v", bytes, err)
		}
	}
	if err := g.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestRealUnified proves that a process may be started in a group of the v2 hierarchy, be it without controllers.
func TestRealUnified(t *testing.T) {
	t.Parallel()
	tree := realTree(t)
	var v2 []hierarchy
	for _, h := range tree.in {
		if h.v2 {
			v2 = append(v2, h)
		}
	}
	if len(v2) == 0 {
		t.Skip("NOT TESTED: this machine has no v2 hierarchy")
	}
	all := *tree
	tree.in = v2
	t.Cleanup(func() { *tree = all })
	g := mustMake(t, tree, "unified", Limits{})
	dir, err := g.FD()
	if err != nil || dir == nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("sh", "-c", `setsid sleep 1000 & cat /proc/self/cgroup; wait`)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "two processes", func() bool { return len(g.Processes()) >= 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := g.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not ended")
	}
}
