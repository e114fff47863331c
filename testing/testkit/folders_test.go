package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A folder of a member's machine, from the project that is made of it to the branch its owner is given back: with the machine's real program.
func TestWorkOnAFolderOfAMachine(t *testing.T) {
	t.Parallel()
	modes := map[string][]string{"direct": {"--dangerous"}, "bubblewrap": {"--mode", "bubblewrap"}}
	if _, err := exec.LookPath("bwrap"); err != nil {
		delete(modes, "bubblewrap")
	}
	for mode, flags := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := testkit.Start(t)
			d := &death{Instance: h, t: t}
			code, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			dir := filepath.Join(code, "app")
			owner := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Owner", "-c", "user.email=o@localhost"}, args...)...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("git %q: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			must(t, os.Mkdir(dir, 0o755))
			owner("init", "-q", "-b", "main")
			for name, text := range map[string]string{"a.txt": "one\n", ".gitignore": ".env\n", ".env": "SECRET=1\n"} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			owner("add", "-A")
			owner("commit", "-q", "-m", "one")
			m := h.Connect("Laptop", append(flags, "--folder", code)...)

			var folders struct {
				Items []struct {
					Path, Name, Branch string
					Git                bool
				}
			}
			h.API("GET", "/runners/"+m.ID+"/folders", nil, &folders)
			if len(folders.Items) != 2 || folders.Items[1].Path != dir || !folders.Items[1].Git || folders.Items[1].Branch != "main" {
				t.Fatalf("%+v", folders.Items)
			}
			project := h.Project(map[string]any{"source": map[string]string{"kind": "runner", "runner_id": m.ID, "path": dir}})
			h.API("PATCH", "/projects/"+project, map[string]any{"copy_ignored": []string{".env"}}, nil)
			ws := h.WorkspaceOn(m, project, "Work")
			d.project = project
			if got := d.execIn(ws, "sh", "-ec", "cat .git/objects/info/alternates a.txt .env; git count-objects -v | grep -E '^(count|in-pack)'; git status --porcelain"); got !=
				dir+"/.git/objects\none\nSECRET=1\ncount: 0\nin-pack: 0\n" {
				t.Errorf("it is not borrowed: %q", got)
			}
			if mode != "direct" { // the owner's repository is out of reach, and what is shown of it cannot be written
				if got := d.execIn(ws, "sh", "-c", "ls "+dir+"/.git/config 2>&1; touch "+dir+"/.git/objects/x 2>&1; true"); strings.Count(got, "No such file")+strings.Count(got, "Read-only") != 2 {
					t.Errorf("%q", got)
				}
			}
			d.execIn(ws, "sh", "-ec", "echo two > b.txt; git add b.txt; git -c user.name=A -c user.email=a@localhost commit -qm two")
			tip := strings.TrimSpace(d.execIn(ws, "git", "rev-parse", "HEAD"))

			var done struct{ Branch, Commit string }
			h.API("POST", "/workspaces/"+ws.ID+"/deliver", map[string]any{}, &done)
			if done.Branch != ws.Branch || done.Commit != tip || owner("rev-parse", "refs/heads/"+ws.Branch) != tip || owner("status", "--porcelain") != "" {
				t.Errorf("%+v, want %s at %s", done, ws.Branch, tip)
			}
			// The owner commits: the next workspace starts there.
			must(t, os.WriteFile(filepath.Join(dir, "c.txt"), []byte("three\n"), 0o644))
			owner("add", "-A")
			owner("commit", "-q", "-m", "three")
			next := h.WorkspaceOn(m, project, "Next")
			if got := d.execIn(next, "git", "log", "-1", "--format=%H %s"); strings.TrimSpace(got) != owner("rev-parse", "main")+" three" {
				t.Errorf("it starts at %q", got)
			}
			owner("fsck", "--strict")
			if refs := owner("for-each-ref", "refs/parawork/borrowed"); refs == "" {
				t.Error("nothing keeps what is borrowed")
			}
			// With the workspaces goes what the repository kept for them, and nothing else.
			for _, w := range []testkit.Workspace{ws, next} {
				h.API("DELETE", "/workspaces/"+w.ID, nil, nil)
			}
			h.Wait("the repository keeps nothing for workspaces", func() bool { return owner("for-each-ref", "refs/parawork/borrowed") == "" })
			if owner("rev-parse", "refs/heads/"+ws.Branch) != tip {
				t.Error("what was delivered is gone")
			}
		})
	}
}
