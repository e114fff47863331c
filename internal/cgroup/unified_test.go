package cgroup

import (
	"errors"
	"path"
	"strings"
	"testing"
)

func mustOpen(t *testing.T, fs fsys) *Tree {
	t.Helper()
	tree, err := open(fs, "parawork/inst", true)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func mustMake(t *testing.T, tree *Tree, name string, l Limits) *Group {
	t.Helper()
	g, err := tree.Make(name, l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestUnified(t *testing.T) {
	cases := map[string]func() *kernel{
		"root of the machine": func() *kernel { return newKernel("cpuset", "cpu", "io", "memory", "pids") },
		"root, server in a service's group": func() *kernel {
			k := newKernel("cpu", "memory", "pids")
			k.enter("/system.slice/parawork.service")
			return k
		},
		"root in a container": func() *kernel {
			k := newKernel("cpu", "memory", "pids")
			k.contain = true
			return k
		},
		"a user with a delegated group": func() *kernel {
			k := newKernel("cpu", "memory", "pids")
			k.enter("/user.slice/user-1000.slice/user@1000.service/parawork.service")
			k.root, k.given = false, "/user.slice/user-1000.slice/user@1000.service/parawork.service"
			return k
		},
		"mounted elsewhere": func() *kernel {
			k := newKernel()
			delete(k.groups, k.mount)
			k2 := newKernel("cpu", "memory", "pids")
			k2.mount = "/mnt/groups"
			k2.groups[k2.mount] = k2.groups["/sys/fs/cgroup"]
			delete(k2.groups, "/sys/fs/cgroup")
			return k2
		},
	}
	for name, mk := range cases {
		t.Run(name, func(t *testing.T) {
			k := mk()
			tree := mustOpen(t, k)
			s := tree.Support()
			if s.Version != 2 || !s.All() || !s.Freeze || !s.Count || s.Reason != "" {
				t.Fatalf("support: %+v", s)
			}
			g := mustMake(t, tree, "sbx_1", Limits{CPUs: 1.5, MemoryBytes: 1 << 30, Processes: 50})
			dir := g.dir(tree.in[0])
			for file, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "pids.max": "50", "cpu.max": "150000 100000"} {
				if got := read(k, dir+"/"+file); got != want {
					t.Errorf("%s is %q, want %q", file, got, want)
				}
			}
			if err := g.Join(77); err != nil {
				t.Fatal(err)
			}
			if got := g.Processes(); len(got) != 1 || got[0] != 77 {
				t.Errorf("processes: %v", got)
			}
			if err := g.Set(Limits{}); err != nil {
				t.Fatal(err)
			}
			if got := read(k, dir+"/memory.max") + " " + read(k, dir+"/cpu.max"); got != "max max 100000" {
				t.Errorf("without limits: %q", got)
			}
			if err := g.Freeze(t.Context()); err != nil || !g.Frozen() {
				t.Fatalf("freeze: %v, frozen %v", err, g.Frozen())
			}
			// A restart: the tree is opened again by a server that may have moved, and finds the group.
			again, err := mustOpen(t, k).Find("sbx_1")
			if err != nil || !again.Frozen() {
				t.Fatalf("found again: %v", err)
			}
			if err := again.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := tree.Find("sbx_1"); !errors.Is(err, ErrNone) {
				t.Errorf("after destroy: %v", err)
			}
			if got := tree.Names(); len(got) != 0 {
				t.Errorf("names: %v", got)
			}
			tree.Clear()
			if k.Exists(path.Join(tree.in[0].base, "parawork")) {
				t.Error("the empty tree was not cleared away")
			}
			mustMake(t, tree, "sbx_2", Limits{MemoryBytes: 1 << 30}) // brings it back
		})
	}
}

func TestUnifiedFigures(t *testing.T) {
	k := newKernel("cpu", "memory", "pids")
	tree := mustOpen(t, k)
	g := mustMake(t, tree, "a", Limits{MemoryBytes: 1 << 30})
	f := k.groups[g.dir(tree.in[0])].files
	f["memory.current"], f["memory.peak"] = "5000", "9000"
	f["memory.stat"] = "anon 100\ninactive_file 1000\n"
	f["memory.events"] = "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n"
	f["cpu.stat"] = "usage_usec 2500000\nuser_usec 1\nthrottled_usec 1500000\n"
	f["pids.current"], f["pids.events"] = "12", "max 4\n"
	got, err := g.Figures()
	want := Figures{CPUMs: 2500, ThrottledMs: 1500, MemoryBytes: 4000, MemoryPeak: 9000, Processes: 12, OOMKills: 2, ForksRefused: 4}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	f["memory.current"] = "3000000"
	if err := g.Set(Limits{MemoryBytes: 2 << 20}); !errors.Is(err, ErrInUse) {
		t.Errorf("a limit below what is in use: %v", err)
	}
	if f["memory.max"] != "1073741824" {
		t.Errorf("the refused limit was set: %s", f["memory.max"])
	}
}

func TestWithout(t *testing.T) {
	stranger := newKernel("cpu", "memory", "pids")
	stranger.enter("/user.slice/session-1.scope")
	stranger.root = false
	crowded := newKernel("cpu", "memory", "pids")
	crowded.enter("/parawork.scope")
	crowded.root, crowded.given = false, "/parawork.scope"
	crowded.groups["/sys/fs/cgroup/parawork.scope"].procs[99] = true // a shell beside the server
	poor := newKernel("cpu", "pids")
	for name, c := range map[string]struct {
		k            *kernel
		reason, cure string
		limits       Limits
	}{
		"a user without a group":         {stranger, "may not", "Delegate=yes", Limits{MemoryBytes: 1}},
		"another process in the group":   {crowded, "handing", "Delegate=yes", Limits{MemoryBytes: 1}},
		"a kernel without memory groups": {poor, "memory", "cgroup_enable=memory", Limits{MemoryBytes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := mustOpen(t, c.k)
			s := tree.Support()
			if s.Memory || !strings.Contains(s.Reason, c.reason) || !strings.Contains(s.Cure, c.cure) {
				t.Fatalf("support: %+v", s)
			}
			if _, err := tree.Make("a", c.limits); err == nil {
				t.Error("made a group whose limit nobody enforces")
			}
			if got := tree.Names(); len(got) != 0 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

func TestNames(t *testing.T) {
	tree := mustOpen(t, newKernel("cpu", "memory", "pids"))
	for _, bad := range []string{"", "..", "a/b", "a b", "../x", strings.Repeat("a", 101)} {
		if _, err := tree.Make(bad, Limits{}); err == nil {
			t.Errorf("%q was taken for a name", bad)
		}
	}
	for _, bad := range []string{"/x", "..", "a/../..", ""} {
		if _, err := open(newKernel(), bad, true); err == nil {
			t.Errorf("%q was taken for a subtree", bad)
		}
	}
}

func TestMountinfo(t *testing.T) {
	text := `31 23 0:28 / /sys/fs/cgroup ro,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /mnt/odd\040place rw,relatime - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/unified ro,relatime - cgroup2 cgroup2 rw
nonsense
`
	got := parseMounts(text)
	if len(got) != 3 || got[1].point != "/mnt/odd place" || got[0].root != "/docker/abc" || !got[0].writable || got[2].writable {
		t.Fatalf("got %+v", got)
	}
	if dir := ownDir(got[0], "/docker/abc/x"); dir != "/sys/fs/cgroup/cpu,cpuacct/x" {
		t.Errorf("own folder below a container's root: %s", dir)
	}
	if dir := ownDir(got[1], "/a/"+ownLeaf); dir != "/mnt/odd place/a" {
		t.Errorf("own folder from the server's leaf: %s", dir)
	}
}
