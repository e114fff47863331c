package testkit_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// In no place that isolates is another workspace's work readable, whether a sandbox lists all objects it has or knows a name: an
// uncommitted file, an ignored one that is kept, what was discarded and stashed, a private branch, what lies in the trash. A place without
// isolation works in the repository itself, and promises none of it.
func TestNoPlaceReadsOtherPeoplesObjects(t *testing.T) {
	t.Parallel()
	h := travelHarness(t)
	project := h.Sample()
	h.API("PATCH", "/projects/"+project, map[string]any{"keep_ignored": []string{".env"}}, nil)
	places := []string{"docker", "runner"}
	if _, err := exec.LookPath("bwrap"); err == nil {
		places = append(places, "bubblewrap")
	}
	if *everyplace {
		places = append(places, "e2b")
	}
	before := make(map[string]testkit.Workspace)
	for _, kind := range places {
		before[kind] = h.in(kind, project, "Before in "+kind)
		h.sh(t, before[kind], "git log -1")
	}
	hidden := make(map[string]string)
	for _, name := range []string{"mine", "gone"} {
		ws := h.in("local", project, name)
		h.API("PATCH", "/workspaces/"+ws.ID, map[string]any{"private": true}, nil)
		h.sh(t, ws, strings.ReplaceAll(`git config user.name A; git config user.email a@example.com
echo .env >> .gitignore; git add .gitignore; git commit -qm ignore; echo NAME-committed > committed; git add committed; git commit -qm committed
echo NAME-stashed >> README.md; git stash -q; echo NAME-uncommitted > uncommitted; echo NAME-ignored > .env; echo NAME-discarded > discarded`, "NAME", name))
		h.API("POST", "/workspaces/"+ws.ID+"/snapshots", map[string]any{"title": "before"}, nil)
		h.sh(t, ws, "rm discarded")
		for what, ask := range map[string]string{"committed": "git rev-parse HEAD:committed", "commit": "git rev-parse HEAD", "stash": "git rev-parse stash@{0}", "uncommitted": "git hash-object uncommitted",
			"ignored": "git hash-object .env", "discarded": "echo " + name + "-discarded | git hash-object --stdin"} {
			id := strings.TrimSpace(h.sh(t, ws, ask))
			h.sh(t, ws, "git cat-file -e "+id) // it is in the repository, where all of it is kept
			hidden[name+" "+what] = id
		}
		if name == "gone" {
			h.API("DELETE", "/workspaces/"+ws.ID, nil, nil)
		}
	}
	var ids []string
	for _, id := range hidden {
		ids = append(ids, id)
	}
	for _, kind := range places {
		for when, ws := range map[string]testkit.Workspace{"before": before[kind], "after": h.in(kind, project, "After in "+kind)} {
			h.sh(t, ws, "git config user.name A; git config user.email a@example.com; echo x > x; git add x; git commit -qm x") // which is fetched, and new refs are advertised
			all := h.sh(t, ws, "git cat-file --batch-all-objects --batch-check")
			found := h.sh(t, ws, "printf '%s\\n' "+strings.Join(ids, " ")+" | git cat-file --batch-check")
			if !strings.Contains(all, " commit ") {
				t.Fatalf("in %s %s no objects are listed: %s", kind, when, all)
			}
			for what, id := range hidden {
				if strings.Contains(all, id) || !strings.Contains(found, id+" missing") {
					t.Errorf("in %s, %s, %s can be read", kind, when, what)
				}
			}
		}
	}
}
