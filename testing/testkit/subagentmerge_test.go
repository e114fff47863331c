package testkit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

type subagentRow struct {
	ID, Status, Result, Error string
	WorkspaceID               string `json:"workspace_id"`
}

// A caller starts a sibling with its uncommitted files, goes on working, and merges what the sibling did: both sides' changes are there. The
// server is killed while the sibling works, and again in the middle of a merge, which goes on where it was.
func TestSiblingsWorkIsMerged(t *testing.T) {
	toolPlaces(t, func(t *testing.T, place string) {
		h := testkit.Start(t)
		ws := h.WorkspaceIn(place, h.Sample(), "Caller")
		d := &death{Instance: h, t: t, ws: ws}
		sub := func(id string) (a subagentRow) {
			h.API("GET", "/subagents/"+id, nil, &a)
			return a
		}
		write := func(name, text string) { must(t, os.WriteFile(filepath.Join(ws.Path, name), []byte(text), 0o644)) }
		write("draft.txt", "draft\n")
		ended := startScript(t, h, ws, `
run spawn parawork subagent spawn --name part --agent command --sibling --keep --task 'while [ ! -e go ]; do sleep 0.1; done; cat draft.txt > theirs.txt; echo theirs >> theirs.txt' --json
id=$(sed 's/.*"id":"\([^"]*\)".*/\1/' kept/spawn.out)
run early parawork subagent merge $id --json
until [ -e merge ]; do sleep 0.1; done
run merge parawork subagent merge $id --json
run again parawork subagent merge $id --json
`)
		var all struct{ Items []subagentRow }
		h.Wait("the sibling works", func() bool {
			h.API("GET", "/workspaces/"+ws.ID+"/subagents", nil, &all)
			return len(all.Items) == 1 && all.Items[0].Status == "working"
		})
		id := all.Items[0].ID
		h.Kill()
		h.Boot()
		write("draft.txt", "my second draft\n")
		d.execIn(testkit.Workspace{ID: sub(id).WorkspaceID}, "touch", "go")
		h.Wait("the sibling has ended", func() bool { return sub(id).Status == "completed" })
		h.DieAt(failpoint.UpdateApplied, func() { _ = h.Try("POST", "/subagents/"+id+"/merge", nil, nil) })
		write("merge", "")
		of := ended()
		of("spawn").ran("0")
		of("early").ran("1").says("subagent_")
		if m := decodeLine[struct{ Merged bool }](of("merge").ran("0")); !m.Merged {
			t.Error("nothing was merged")
		}
		if m := decodeLine[struct {
			UpToDate bool `json:"up_to_date"`
		}](of("again").ran("0")); !m.UpToDate {
			t.Error("it was merged twice")
		}
		for file, want := range map[string]string{"theirs.txt": "draft\ntheirs\n", "draft.txt": "my second draft\n"} {
			if got := d.execIn(ws, "cat", file); got != want {
				t.Errorf("%s: %q", file, got)
			}
		}
		if got := d.execIn(ws, "git", "show", "--name-only", "--format=%s", "HEAD^2"); got == "" {
			t.Error("the head is no merge")
		}
	})
}

// Where both sides changed a file, nothing is merged, and the caller can merge the commit that the error names with its own git.
func TestASiblingsConflictsAreForItsCaller(t *testing.T) {
	toolPlaces(t, func(t *testing.T, place string) {
		h := testkit.Start(t)
		ws := h.WorkspaceIn(place, h.Sample(), "Caller")
		of := startScript(t, h, ws, `
git() { command git -c user.name=Caller -c user.email=caller@example.com "$@"; }
run spawn parawork subagent spawn --name part --agent command --sibling --task 'echo theirs > both.txt' --json
id=$(sed 's/.*"id":"\([^"]*\)".*/\1/' kept/spawn.out)
run wait parawork subagent wait $id --json
echo mine > both.txt
git add -A
run commit git commit -m Mine
run merge parawork subagent merge $id --json
run file cat both.txt
run own git merge $(sed 's/.*git merge \([0-9a-f]*\),.*/\1/' kept/merge.err)
run both cat both.txt
`)()
		of("wait").ran("0")
		of("commit").ran("0")
		of("merge").ran("1").says("subagent_conflicts").says("both.txt")
		of("file").says("mine")
		of("own").ran("1").says("CONFLICT")
		of("both").says("theirs")
	})
}
