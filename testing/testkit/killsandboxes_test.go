package testkit_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// boxed is the part of config.json that says where the workspaces of a scenario live: those of sandboxes' commits in sandboxes.
func boxed(t *testing.T, p failpoint.Point) string {
	t.Helper()
	if ofLedger(p) {
		return paidPlace(t)
	}
	place := "local"
	switch p {
	case failpoint.PlanDecided, failpoint.PlanTasked:
		return `"sandboxing":{"defaultProvider":"local"},` + modelsHere
	case failpoint.ObjectsLent, failpoint.HomeChecked, failpoint.HomeTaken, failpoint.HomeMoved, failpoint.BoxCleared:
		if place = "bubblewrap"; os.Getenv("CI") == "" {
			if _, err := exec.LookPath("bwrap"); err != nil {
				t.Skip("bubblewrap is not installed (apt-get install bubblewrap): what a server's death does to sandboxes is not tested")
			}
		}
	}
	return `"sandboxing":{"defaultProvider":"` + place + `"}`
}

// workInBox commits in a sandbox, in a way that the server does not see at once.
func (d *death) workInBox() {
	d.ws = d.Workspace(d.project, "Precious")
	d.execIn(d.ws, "sh", "-ec", "echo one > one; git add one; git commit -qm one; printf '"+strings.TrimSpace(draft)+"\n' > draft.txt; git stash list; git branch side")
	d.Wait("the host knows the first commit", func() bool { return d.subjects() == "one" })
}

// list commits once more in the sandbox and asks for the commits, on which the server dies, if it did not before.
func (d *death) list() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/exec", map[string]any{"argv": []string{"sh", "-ec", "echo two > two; git add two; git commit -qm two"}}, nil)
	_ = d.Try("GET", "/workspaces/"+d.ws.ID+"/commits", nil, nil)
}

func (d *death) subjects() string {
	var list struct{ Items []struct{ Subject string } }
	if err := d.Try("GET", "/workspaces/"+d.ws.ID+"/commits", nil, &list); err != nil {
		return err.Error()
	}
	var out []string
	for _, c := range list.Items {
		out = append(out, c.Subject)
	}
	return strings.Join(out, " ")
}

// commitsSynced: whatever was committed in the sandbox is known, also when the sandbox died with the server, and comes back from the
// trash with what was not committed.
func (d *death) commitsSynced() {
	if strings.Contains(d.subjects(), "two") || d.execStillIn("two") {
		d.Wait("every commit is fetched", func() bool { return d.subjects() == "two one" })
	}
	want := d.subjects()
	if !strings.HasSuffix(want, "one") {
		d.t.Fatalf("the commits are %q", want)
	}
	if err := d.Try("DELETE", "/workspaces/"+d.ws.ID, nil, nil); err != nil && !strings.Contains(err.Error(), "already_deleted") {
		d.t.Fatal(err)
	}
	d.API("POST", "/workspaces/"+d.ws.ID+"/restore", nil, nil)
	var back testkit.Workspace
	d.Wait("it is back", func() bool { d.API("GET", "/workspaces/"+d.ws.ID, nil, &back); return back.State == "ready" })
	d.sameDraft(back.Path)
	if got := strings.Join(strings.Fields(d.execIn(back, "git", "log", "--format=%s", back.BaseCommit+"..HEAD")), " "); got != want {
		d.t.Errorf("the sandbox has %q, want %q", got, want)
	}
	if out := d.execIn(back, "git", "status", "--porcelain"); out != "?? draft.txt\n" {
		d.t.Errorf("git status says %q", out)
	}
	d.execIn(back, "git", "rev-parse", "--verify", "side")
}

// execStillIn reports whether the sandbox has the file.
func (d *death) execStillIn(name string) bool {
	var out struct {
		ExitCode *int `json:"exit_code"`
	}
	err := d.Try("POST", "/workspaces/"+d.ws.ID+"/exec", map[string]any{"argv": []string{"git", "cat-file", "-e", "HEAD:" + name}}, &out)
	return err == nil && out.ExitCode != nil && *out.ExitCode == 0
}
