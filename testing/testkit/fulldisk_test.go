package testkit_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/testing/testforge"
	"github.com/parawork/parawork/testing/testkit"
)

// smallDisk mounts one of that size on a folder.
func smallDisk(t *testing.T, options string) func(dir string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root can make a small disk: what a full one does is NOT TESTED here")
	}
	return func(dir string) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			t.Skipf("a small disk could not be mounted (%v): what a full one does is NOT TESTED here", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
}

// noise is what cannot be made smaller.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return b
}

// fillDisk takes all room of a disk but some, until empty is called.
func fillDisk(t *testing.T, dir string, spare int64) (empty func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	must(t, err)
	for chunk := make([]byte, 64<<10); ; {
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if spare > 0 {
		fi, err := f.Stat()
		must(t, err)
		must(t, f.Truncate(max(fi.Size()-spare, 0)))
	}
	must(t, f.Close())
	return func() { must(t, os.Remove(name)) }
}

// fillInodes takes every name a disk has room for.
func fillInodes(t *testing.T, dir string) (empty func()) {
	t.Helper()
	many := filepath.Join(dir, "many")
	must(t, os.Mkdir(many, 0o700))
	for i := 0; ; i++ {
		f, err := os.Create(filepath.Join(many, fmt.Sprint(i)))
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		must(t, err)
		must(t, f.Close())
	}
	return func() { must(t, os.RemoveAll(many)) }
}

// filesOf are the files below a folder with what they hold, but git's own.
func filesOf(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == ".git" {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, root)] = fmt.Sprintf("%d %x", len(b), sha256.Sum256(b))
		return err
	}))
	return out
}

// On a disk that is full, or that has no room for another name, the real server says so in one code, writes nothing by half, goes on answering,
// and does what it was asked for once there is room.
func TestAFullDiskOfTheServer(t *testing.T) {
	t.Parallel()
	hub, env := startForge(t, testforge.Gitea)
	h := testkit.StartWith(t, testkit.With{Env: env, Disk: smallDisk(t, "size=160m,nr_inodes=6000")}, reachForge,
		`"agents":{"reader":{"command":"/bin/sh","defaultArgs":["-c","echo up; while read l; do echo got $l; done"],"prompt":"paste"}}`)
	p := h.Sample()
	ws, other, torn := h.Workspace(p, "Work"), h.Workspace(p, "Other"), h.Workspace(p, "Torn")
	d := &death{Instance: h, t: t}
	put := func(ws testkit.Workspace, name string, b []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(ws.Path, name), b, 0o600))
	}
	commit := func(ws testkit.Workspace, name, text string) {
		t.Helper()
		put(ws, name, []byte(text))
		h.API("POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": "Write " + name, "paths": []string{name}}, nil)
	}
	there := h.Workspace(forgeProject(h, hub), "There")
	commit(there, "one.txt", "one\n")
	commit(other, "same.txt", "theirs\n")
	commit(ws, "notes.txt", numbered(nil))
	commit(ws, "large", string(noise(1<<20)))
	commit(torn, "same.txt", "mine\n")
	h.API("POST", "/workspaces/"+other.ID+"/merge", map[string]any{"strategy": "merge"}, nil)
	put(other, "taken", noise(3<<20))
	h.API("POST", "/workspaces/"+torn.ID+"/update/resolve", map[string]any{"how": "shell", "strategy": "merge"}, nil)
	put(torn, "same.txt", noise(1<<20))
	put(ws, "notes.txt", []byte(numbered(map[int]string{3: "three", 37: "thirty-seven"})))
	put(ws, "large", noise(2<<20))
	var reader testkit.Session
	h.API("POST", "/workspaces/"+torn.ID+"/sessions", map[string]any{"agent": "reader", "cols": 80, "rows": 24}, &reader)
	must(t, h.Attach(reader.ID, "from=0").See("up"))
	on := func(ws testkit.Workspace, rest string) string { return "/workspaces/" + ws.ID + rest }
	var hunks struct{ Hunks []map[string]any }
	h.API("GET", on(ws, "/parts?path=notes.txt&from=head&to=now"), nil, &hunks)
	hunk := map[string]any{}
	for _, k := range []string{"old_start", "old_lines", "new_start", "new_lines"} {
		hunk[k] = hunks.Hunks[0][k]
	}
	post := func(ws testkit.Workspace, rest string, body any) func() error {
		return func() error { return h.Try("POST", on(ws, rest), body, nil) }
	}
	reviews := func() string {
		_, b, err := h.Do("GET", on(torn, "/reviews"), nil)
		must(t, err)
		return string(b)
	}
	ops := []struct {
		name string
		ws   testkit.Workspace
		do   func() error
		make func() // something for it to do; may be nil
		end  func() // what must hold once it was done
	}{
		{name: "stage", ws: ws, do: post(ws, "/stage", map[string]any{"parts": []any{map[string]any{"path": "large"}}}), end: func() {
			if out := d.execIn(ws, "git", "diff", "--cached", "--name-only"); out != "large\n" {
				t.Errorf("staged: %q", out)
			}
		}},
		{name: "commit of a hunk", ws: ws, do: post(ws, "/commit", map[string]any{"message": "three", "parts": map[string]any{"from": "head", "parts": []any{map[string]any{"path": "notes.txt", "hunks": []any{hunk}}}}}), end: func() {
			if out := d.execIn(ws, "sh", "-c", "git log --format=%s -2; git show --format= | grep '^+[a-z]'; git diff --cached --name-only"); out != "three\nWrite large\n+three\nlarge\n" {
				t.Errorf("committed: %q", out)
			}
		}},
		{name: "discard", ws: ws, do: post(ws, "/discard", map[string]any{"parts": []any{map[string]any{"path": "large"}, map[string]any{"path": "notes.txt"}}}), end: func() {
			if out := d.execIn(ws, "git", "status", "--porcelain"); out != "" {
				t.Errorf("discarded: %q", out)
			}
		}},
		{name: "take", ws: ws, do: post(ws, "/take", map[string]any{"from_workspace": other.ID, "paths": []string{"taken"}}), end: func() {
			if b, _ := os.ReadFile(filepath.Join(ws.Path, "taken")); !bytes.Equal(b, noise(3<<20)) {
				t.Errorf("%d bytes were taken", len(b))
			}
		}},
		{name: "write", ws: ws, do: func() error {
			resp, out, err := h.Do("PUT", testkit.FilePath(ws.ID, "dir/written"), bytes.NewReader(noise(5<<20)))
			if err == nil && resp.StatusCode >= 300 {
				return fmt.Errorf("%d %s", resp.StatusCode, out)
			}
			return err
		}, end: func() {
			if b, _ := os.ReadFile(filepath.Join(ws.Path, "dir/written")); !bytes.Equal(b, noise(5<<20)) {
				t.Errorf("%d bytes were written", len(b))
			}
		}},
		{name: "rename", ws: ws, do: post(ws, "/rename", map[string]any{"from": "dir/written", "to": "deeper/still/written"})},
		{name: "snapshot", ws: ws, do: func() error {
			return h.Try("POST", on(ws, "/snapshots"), map[string]any{"title": "full"}, nil)
		}, make: func() { put(ws, "late", noise(512<<10)) }},
		{name: "finish", ws: torn, do: post(torn, "/update/resolve", map[string]any{"how": "finish"}), end: func() {
			if out := d.execIn(torn, "sh", "-c", "git status --porcelain; git rev-list --count HEAD.."+torn.Base); out != "0\n" {
				t.Errorf("finished: %q", out)
			}
		}},
		{name: "review", ws: torn, do: post(torn, "/review/send", map[string]any{"verdict": "comment", "body": "Mind the gap", "session_id": reader.ID}), end: func() {
			if n := strings.Count(reviews(), "Mind the gap"); n != 1 {
				t.Errorf("%d reviews are stored", n)
			}
			must(t, h.Attach(reader.ID, "from=0").See("Mind the gap"))
		}},
		{name: "pull request", ws: there, do: post(there, "/pull-request", map[string]any{"title": "There"}), end: func() {
			if n := len(hub.Pulls(forgeRepo)); n != 1 {
				t.Errorf("%d pull requests were opened", n)
			}
		}},
		{name: "move", ws: ws, do: func() error {
			if err := h.Try("POST", on(ws, "/move"), map[string]any{"to": "bubblewrap"}, nil); err != nil {
				return err
			}
			m := moved(t, h, ws.ID)
			if m.State != "done" {
				return fmt.Errorf("507 disk_full of the move: %s %s", m.State, m.Reason)
			}
			return nil
		}, end: func() {
			if at := executorOf(h, ws.ID); at != "bubblewrap" {
				t.Errorf("it is in %s", at)
			}
		}},
	}
	if !haveBubblewrap() {
		ops = ops[:len(ops)-1]
	}
	refs := func() string {
		out := d.gitOf(ws, "for-each-ref", "--format=%(refname) %(objectname)")
		var kept []string
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "refs/parawork/snapshots/") && !strings.HasPrefix(line, "refs/parawork/agent/") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	for _, op := range ops {
		ways := []struct {
			name string
			fill func() func()
		}{
			{"no room", func() func() { return fillDisk(t, h.DataDir(), 0) }},
			{"hardly any room", func() func() { return fillDisk(t, h.DataDir(), 48<<10) }},
			{"no names", func() func() { return fillInodes(t, h.DataDir()) }},
		}
		if op.make != nil {
			op.make()
		}
		done := false
		for _, way := range ways {
			was, stood := filesOf(t, op.ws.Path), refs()
			empty := way.fill()
			err := op.do()
			alive := h.Try("GET", "/workspaces/"+op.ws.ID, nil, nil)
			empty()
			t.Logf("%s with %s: %v", op.name, way.name, err)
			if alive != nil {
				t.Errorf("%s with %s: the server answers %v", op.name, way.name, alive)
			}
			if err == nil {
				done = true
				break
			}
			if !strings.Contains(err.Error(), "507") || !strings.Contains(err.Error(), "disk_full") && !strings.Contains(err.Error(), "disk is full") {
				t.Errorf("%s with %s: %v", op.name, way.name, err)
			}
			if now := filesOf(t, op.ws.Path); !maps.Equal(now, was) {
				t.Errorf("%s with %s left %v where was %v", op.name, way.name, slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(was)))
			}
			if now := refs(); now != stood {
				t.Errorf("%s with %s left\n%s\nwhere was\n%s", op.name, way.name, now, stood)
			}
		}
		if !done {
			h.Wait(op.name+" goes with room again", func() bool {
				err := op.do()
				if err != nil {
					t.Logf("%s with room again: %v", op.name, err)
				}
				return err == nil
			})
		}
		if op.end != nil {
			op.end()
		}
	}
	if out := d.execIn(ws, "git", "fsck", "--no-dangling", "--no-progress"); strings.Contains(out, "missing") || strings.Contains(out, "broken") {
		t.Errorf("git fsck: %s", out)
	}
	if resp, _, err := h.Do("GET", on(ws, "/report"), nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the report: %v", err)
	}
}

// A machine's disk that is full: what is to move there stays where it was, what is to move away from it goes or stays, whole, and once there is
// room it goes.
func TestAFullDiskOfAMachine(t *testing.T) {
	t.Parallel()
	if !*everyplace {
		t.Skip("it takes long: see docs/testing.md")
	}
	mount := smallDisk(t, "size=48m")
	h := testkit.Start(t, bothPlaces)
	v := &voyage{travels: &travels{Instance: h, t: t}, d: &death{Instance: h, t: t}, at: "local"}
	home := filepath.Join(h.Dir, "machine-Laptop")
	must(t, os.Mkdir(home, 0o755))
	mount(home)
	v.machine = h.Connect("Laptop", "--dangerous")
	v.open()
	v.ws = h.WorkspaceIn("local", h.Sample(), "Precious")
	v.d.ws = v.ws
	must(t, os.WriteFile(filepath.Join(v.ws.Path, "large"), noise(4<<20), 0o600))
	v.work()
	for _, to := range []string{"runner", "local"} {
		for _, spare := range []int64{0, 3 << 20} {
			empty := fillDisk(t, home, spare)
			var m move
			if err := h.Try("POST", "/workspaces/"+v.ws.ID+"/move", v.to(to), nil); err == nil {
				m = moved(t, h, v.ws.ID)
			} else if !strings.Contains(err.Error(), "507") {
				t.Errorf("to %s with %d bytes to spare: %v", to, spare, err)
			}
			t.Logf("to %s with %d bytes to spare: %s %s", to, spare, m.State, m.Reason)
			if m.State == "failed" && !strings.Contains(m.Reason, "disk") {
				t.Errorf("to %s with %d bytes to spare: %s", to, spare, m.Reason)
			}
			empty()
			at := map[bool]string{true: to, false: v.at}[m.State == "done"]
			v.whole(fmt.Sprintf("a move to %s with %d bytes to spare", to, spare), at)
		}
		if v.at != to {
			h.API("POST", "/workspaces/"+v.ws.ID+"/move", v.to(to), nil)
			v.whole("a move to "+to+" with room", to)
		}
		if out := v.sh(t, v.ws, "wc -c <large"); strings.TrimSpace(out) != "4194304" {
			t.Errorf("in %s the large file has %s bytes", to, out)
		}
		v.work()
	}
}

func haveBubblewrap() bool { _, err := os.Stat("/usr/bin/bwrap"); return err == nil }

// gitOf runs git on the repository of a workspace's project, beside the server.
func (d *death) gitOf(ws testkit.Workspace, args ...string) string {
	d.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", ws.Path}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}
