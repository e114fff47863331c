package testkit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/testing/testkit"
)

// cloud is an instance whose workspaces live at a stand-in for E2B.
type cloud struct {
	*testkit.Instance
	t   *testing.T
	e2b *e2btest.Server
}

// cloudHarness boots one. After it has closed, nothing of it is left at E2B, and the log there contains no secret.
func cloudHarness(t *testing.T, cfg e2btest.Config) *cloud {
	t.Helper()
	t.Parallel()
	s := e2btest.New(t, cfg)
	var secrets []string
	t.Cleanup(func() {
		if left := s.All(); len(left) > 0 {
			t.Errorf("left at E2B: %+v", left)
		}
		for _, one := range s.Starts() {
			text, err := json.Marshal(one)
			must(t, err)
			for _, secret := range append(secrets, s.Key()) {
				if bytes.Contains(text, []byte(secret)) {
					t.Errorf("a secret is in what E2B logs: %s", text)
				}
			}
		}
	})
	h := testkit.Start(t, fmt.Sprintf(`"sandboxing":{"defaultProvider":"e2b","e2b":{"apiKey":%q,"apiUrl":%q,"sandboxUrl":%q}}`, s.Key(), s.APIURL(), s.SandboxURL()))
	t.Cleanup(func() { // before the instance is closed: its sandboxes' tokens are still on its disk
		found, _ := filepath.Glob(filepath.Join(h.DataDir(), "sandboxes", "*", "token"))
		for _, f := range found {
			if b, err := os.ReadFile(f); err == nil && len(bytes.TrimSpace(b)) > 0 {
				secrets = append(secrets, string(bytes.TrimSpace(b)))
			}
		}
	})
	return &cloud{h, t, s}
}

// box is the workspace's sandbox at E2B.
func (c *cloud) box(ws testkit.Workspace) e2btest.Sandbox {
	c.t.Helper()
	for _, b := range c.e2b.All() {
		if b.Metadata["workspace"] == ws.ID {
			return b
		}
	}
	c.t.Fatalf("workspace %s has no sandbox among %+v", ws.ID, c.e2b.All())
	return e2btest.Sandbox{}
}

// inside is the worktree in the workspace's sandbox, as a folder of this machine.
func (c *cloud) inside(ws testkit.Workspace) string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.box(ws).Root, "work", "*", ".git"))
	if err != nil || len(found) != 1 {
		c.t.Fatalf("worktrees in the sandbox: %v, %v", found, err)
	}
	return filepath.Dir(found[0])
}

// tree tells what is in a worktree: for each path its kind, whether it can be executed, and its contents.
func tree(dir string) map[string]string {
	out := map[string]string{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if err != nil || rel == "." {
			return nil
		}
		if rel == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return nil
		}
		switch {
		case st.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			out[rel] = "link " + to
		case st.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err == nil {
				out[rel] = fmt.Sprintf("file %v %x", st.Mode()&0o100 != 0, sha256.Sum256(b))
			}
		}
		return nil
	})
	return out
}

// differences names what two trees do not share.
func differences(host, far map[string]string) []string {
	var out []string
	for p, what := range far {
		if host[p] != what {
			out = append(out, fmt.Sprintf("%q is %q on the server, %q in the sandbox", p, host[p], what))
		}
	}
	for p := range host {
		if _, ok := far[p]; !ok {
			out = append(out, fmt.Sprintf("%q is on the server alone", p))
		}
	}
	slices.Sort(out)
	return out
}

// same waits until the worktree on the server is the one in the sandbox.
func (c *cloud) same(ws testkit.Workspace) {
	c.t.Helper()
	inside := c.inside(ws)
	var last []string
	defer func() {
		if len(last) > 0 {
			c.t.Logf("%d differences, such as %v", len(last), last[:min(len(last), 10)])
		}
	}()
	c.Wait("every file is synced", func() bool {
		last = differences(tree(ws.Path), tree(inside))
		return len(last) == 0
	})
}

// sh runs a line in the workspace to its end.
func (c *cloud) sh(ws testkit.Workspace, line string) string {
	c.t.Helper()
	s := c.Run(ws.ID, "sh", "-c", line)
	if got := c.Ended(s.ID); got.State != "exited" || got.ExitCode == nil || *got.ExitCode != 0 {
		c.t.Fatalf("%s: %+v\n%s", line, got, c.Output(s.ID, 0))
	}
	return strings.ReplaceAll(string(c.Output(s.ID, 0)), "\r\n", "\n")
}

// Files of a cloud sandbox are synced: thousands at once, modes, links, deletions, unusual names, and nothing that leads out of
// the worktree; the sandbox ends, and the next one begins from there.
func TestACloudSandboxesFilesAreSynced(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{})
	ws := c.Workspace(c.Sample(), "Far")
	if out := c.sh(ws, "pwd; id -un; env"); !strings.HasPrefix(out, "/work/") || !strings.Contains(out, "\nuser\n") || strings.Contains(out, c.Dir) || strings.Contains(out, c.e2b.Key()) {
		t.Errorf("it says %q", out)
	}
	c.same(ws)
	runsCode(t, c.Instance, ws.ID)
	c.sh(ws, `set -e; for d in $(seq 100); do mkdir -p many/$d; for f in $(seq 50); do echo "file $f of $d" > many/$d/$f.txt; done; done`)
	c.same(ws)
	if n := len(tree(filepath.Join(ws.Path, "many"))); n != 5000 {
		t.Errorf("%d files are synced", n)
	}
	outside := filepath.Join(c.Dir, "outside")
	must(t, os.Mkdir(outside, 0o755))
	c.sh(ws, `set -e; rm -r many; mkdir odd; cd odd
printf x > 'new
line'; printf x > "$(printf 'esc\033[31m')"; printf x > ' lead'; printf x > '-rf'; printf x > 'a\b'; printf x > 'ü"q$(x)'; printf x > '...'
printf run > run.sh; chmod 755 run.sh; : > empty; head -c 3000000 /dev/urandom > big
ln -s /etc/passwd abs; ln -s ../../../../../../../../tmp up; ln -s loop loop; ln -s `+outside+` out
mkfifo pipe; mkdir -p deep/.git; printf x > deep/.git/config; printf '[core]\n\tfsmonitor = touch `+outside+`/ran\n' > .gitconfig`)
	c.Wait("the unusual ones are synced", func() bool {
		host, far := tree(ws.Path), tree(c.inside(ws))
		for p := range maps.Clone(far) {
			if strings.HasPrefix(p, "odd/deep") || host[p] == "" && strings.HasPrefix(far[p], "link ") { // nested repositories and links out may be left
				delete(far, p)
			}
		}
		return len(differences(host, far)) == 0
	})
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside of the worktree: %v, %v", left, err)
	}
	if st, err := os.Lstat(filepath.Join(ws.Path, "odd", "pipe")); err == nil {
		t.Errorf("a pipe was synced: %v", st.Mode())
	}
	// A folder of the worktree becomes a link out of it: what is written below it stays in the sandbox.
	c.sh(ws, "set -e; mkdir turned; echo a > turned/f")
	c.same2(ws, "turned/f")
	c.sh(ws, "set -e; rm -r turned; mkdir -p "+outside+" 2>/dev/null || true; ln -s "+outside+" turned; echo b > turned/g 2>/dev/null || true")
	c.sh(ws, "echo after > after")
	c.same2(ws, "after")
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("through a link: %v, %v", left, err)
	}
	c.sh(ws, "set -e; rm -rf odd turned; git add -A; git -c user.name=x -c user.email=x@example.com commit -qm far; echo loose > loose")
	c.same(ws)
	want := tree(ws.Path)
	c.API("POST", "/workspaces/"+ws.ID+"/destroy-sandbox", nil, nil)
	if left := c.e2b.All(); len(left) != 0 {
		t.Errorf("destroyed, but there is %+v", left)
	}
	if got := tree(ws.Path); len(differences(got, want)) != 0 {
		t.Errorf("the end has changed %v", differences(got, want))
	}
	if out := c.sh(ws, "cat loose; git --no-pager log -1 --format=%s; git status --porcelain"); out != "loose\nfar\n?? loose\n" {
		t.Errorf("the next sandbox has %q", out)
	}
	c.same(ws)
}

// same2 waits until one file is synced.
func (c *cloud) same2(ws testkit.Workspace, path string) {
	c.t.Helper()
	c.Wait(path+" is synced", func() bool { return tree(ws.Path)[path] != "" && tree(ws.Path)[path] == tree(c.inside(ws))[path] })
}

// kill -9 of the server again and again while files arrive, and once while it is paused: every file is synced in the end.
func TestAServerKilledWhileFilesAreSynced(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{})
	ws := c.Workspace(c.Sample(), "Killed")
	s := c.Run(ws.ID, "sh", "-c", `set -e; for i in $(seq 1500); do mkdir -p d$((i%20)); echo "$i" > d$((i%20))/f$i; if [ $i -gt 5 ]; then rm -f d$(((i-3)%20))/f$((i-3)); fi; echo "$i" >> grown; [ $((i%10)) -ne 0 ] || sleep 0.02; done; git add -A; git -c user.name=x -c user.email=x@example.com commit -qm poured; echo END`)
	for round := range 3 {
		c.Wait("some of it is synced", func() bool {
			b, err := os.ReadFile(filepath.Join(ws.Path, "grown"))
			return err == nil && bytes.Count(b, []byte("\n")) > round*200
		})
		c.Kill()
		c.Boot()
	}
	if got := c.Ended(s.ID); got.State != "exited" || *got.ExitCode != 0 {
		t.Fatalf("%+v\n%s", got, c.Output(s.ID, 0))
	}
	c.same(ws)
	for p := range tree(ws.Path) {
		if strings.Contains(p, ".server-") {
			t.Errorf("%s was kept beside the sandbox's, and nobody but the sandbox wrote it", p)
		}
	}
	head := strings.TrimSpace(c.sh(ws, "git rev-parse HEAD"))
	c.Wait("the commit is fetched", func() bool {
		var w struct {
			HeadCommit string `json:"head_commit"`
		}
		c.API("GET", "/workspaces/"+ws.ID+"/changes", nil, &w)
		return w.HeadCommit == head
	})
}

// Every stream is cut at random points, and the sandbox is paused and woken under load: not a byte of a terminal is lost or doubled.
func TestCutsAndPausesLoseNoByte(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{})
	ws := c.Workspace(c.Sample(), "Cut")
	shell := c.Run(ws.ID, "sh", "-c", "while read l; do echo got $l; done")
	gate := c.Run(ws.ID, "sh", "-c", "read go; "+burst)
	term := c.Attach(gate.ID, "from=0")
	c.e2b.CutAtRandom(e2btest.Cuts{From: 100_000, To: 900_000, Times: 12, Seed: 5})
	must(t, term.Type("go\r"))
	c.e2b.CutStreams("")
	c.Wait("some of it came", func() bool { from, b := term.Bytes(); return from+int64(len(b)) > 500_000 })
	for range 2 {
		c.API("POST", "/workspaces/"+ws.ID+"/pause", nil, nil)
		if b := c.box(ws); b.State != "paused" {
			t.Errorf("paused, it is %s", b.State)
		}
		c.API("POST", "/workspaces/"+ws.ID+"/wake", nil, nil)
	}
	if got := c.Ended(gate.ID); got.State != "exited" || *got.ExitCode != 0 {
		t.Fatalf("%+v", got)
	}
	c.e2b.Heal()
	want := append([]byte("go\r\n"), wantBurst()...)
	if got := c.Output(gate.ID, 0); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d; first difference at %d", len(got), len(want), firstDifference(got, want))
	}
	// Its time runs out while an agent works and nobody extends it: it is suspended with everything in it, and resumes when somebody opens it.
	must(t, c.Attach(shell.ID, "from=0").Type("first\r"))
	must(t, c.Attach(shell.ID, "from=0").See("got first"))
	c.e2b.Expire(c.box(ws).ID)
	c.Wait("it takes what is typed", func() bool {
		c.API("POST", "/workspaces/"+ws.ID+"/wake", nil, nil) // the server may not have noticed yet that it sleeps
		return c.Try("POST", "/sessions/"+shell.ID+"/input", map[string]string{"text": "second\r"}, nil) == nil
	})
	must(t, c.Attach(shell.ID, "from=0").See("got second"))
	// The machine dies: its sessions are reported lost, what was synced is there, and the workspace can be used again.
	c.sh(ws, "echo kept > kept")
	c.same(ws)
	c.e2b.Crash(c.box(ws).ID)
	if got := c.Ended(shell.ID); got.State != "lost" || got.StateReason == "" {
		t.Errorf("%+v", got)
	}
	if out := c.sh(ws, "cat kept"); out != "kept\n" {
		t.Errorf("the next sandbox has %q", out)
	}
}

// Answers get lost, the service has no room and other clocks: one sandbox comes of it.
func TestMakingSurvivesTheService(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{Skew: -5 * time.Hour})
	project := c.Sample()
	c.e2b.LoseCreateAnswers(1)
	c.e2b.Fail(e2btest.Fault{Match: "POST /v2/sandboxes", Status: http.StatusServiceUnavailable})
	ws := c.Workspace(project, "Lost answer")
	c.sh(ws, "echo here > here; touch -d '2001-01-01' old; touch -d '2090-01-01' later")
	c.same(ws)
	c.Wait("the unrecorded sandbox is gone", func() bool { return len(c.e2b.All()) == 1 })
	// Without a place left there is a reason and ways out, and nothing is made.
	c.e2b.SetPlan(e2btest.Plan{Concurrent: 1})
	var other testkit.Workspace
	c.API("POST", "/teams/"+c.Team+"/workspaces", map[string]any{"project_id": project, "name": "Full", "executor": "e2b"}, &other)
	c.Cleanup(other.ID)
	c.Wait("it is refused or made without a sandbox", func() bool {
		c.API("GET", "/workspaces/"+other.ID, nil, &other)
		return other.State == "failed" || other.State == "ready"
	})
	if other.State == "ready" {
		p := c.Refused(0, "place_cannot_serve", "POST", "/workspaces/"+other.ID+"/wake", nil)
		if p.Details["reason"] != "quota" {
			t.Errorf("%+v", p)
		}
	}
	if len(c.e2b.All()) != 1 {
		t.Errorf("%+v", c.e2b.All())
	}
	c.e2b.SetPlan(e2btest.Plan{})
}
