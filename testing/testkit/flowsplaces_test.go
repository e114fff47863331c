package testkit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

// flowsElsewhere end, still or leave a sandbox with a disk of its own.
var flowsElsewhere = []flow{
	{op: "destroySandbox", before: "stop", do: func(f *flowing) { f.call("POST", "/destroy-sandbox", nil) }},
	{op: "pauseSandbox", before: "stop", do: func(f *flowing) { f.call("POST", "/pause", nil) }},
	{op: "archiveWorkspace", before: "archive", back: true, do: func(f *flowing) { f.call("POST", "/archive", nil) }},
	{op: "deleteWorkspace", before: "delete", back: true, do: func(f *flowing) { f.call("DELETE", "", nil) }},
	{op: "discardParts", before: "discard", do: func(f *flowing) {
		f.call("POST", "/discard", map[string]any{"parts": []any{map[string]any{"path": "tracked.txt"}}})
	}},
	{op: "writeFile", before: "edit", do: func(f *flowing) { f.file("PUT", "tracked.txt", "written over\n") }},
	{op: "renameFile", before: "edit", do: func(f *flowing) {
		f.call("POST", "/rename", map[string]any{"from": "untracked/new.txt", "to": "untracked/newer.txt"})
	}},
	{op: "updateFromBase", before: "update", ready: (*flowing).baseMoves, do: func(f *flowing) { f.call("POST", "/update", map[string]any{"strategy": "rebase"}) }},
	{op: "setTeamBudget", before: "stop", do: func(f *flowing) { // last: nothing runs any more
		f.API("PUT", "/teams/"+f.Team+"/budget", map[string]any{"limit_nano": 1, "grace_seconds": 1}, nil)
		f.Wait("it is suspended", func() bool { return boxOf(f.Instance, f.ws).State == "paused" })
	}},
}

// The same with the files on another machine, which is lost with them: they are synced first, and stored.
func TestFlowsElsewhereKeepFirst(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{})
	dir := flowsRepo(t, c.Instance)
	project := flowsProject(c.Instance, dir)
	for _, fl := range flowsElsewhere {
		t.Run(fl.op, func(t *testing.T) {
			f := &flowing{Instance: c.Instance, t: t, project: project, base: dir}
			f.ws = c.Workspace(project, "Flow")
			f.call("POST", "/exec", map[string]any{"command": "true"}) // there is a sandbox
			f.run(fl, c.inside(f.ws), gitDirOf(t, dir))
		})
	}
}

// The git of a sandbox elsewhere may be unable to keep its files: a filter the files ask for has no program there. What this server has of
// them may be old: the workspace is put away with what was in the sandbox, not with that, or not at all.
func TestPutAwayWithoutGitElsewhere(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{})
	dir := flowsRepo(t, c.Instance)
	project := flowsProject(c.Instance, dir)
	for _, put := range []struct{ method, rest string }{{"POST", "/archive"}, {"DELETE", ""}} {
		f := &flowing{Instance: c.Instance, t: t, project: project, base: dir}
		f.ws = c.Workspace(project, "Filtered")
		f.call("POST", "/exec", map[string]any{"command": "git config filter.gone.required true && git config filter.gone.clean no-such-program && " +
			"echo '*.bin filter=gone' > .gitattributes && echo large > picture.bin"})
		f.call(put.method, put.rest, nil)
		f.call("POST", "/restore", nil)
		f.dir = f.ws.Path
		if got, err := os.ReadFile(filepath.Join(f.dir, "picture.bin")); err != nil || string(got) != "large\n" {
			t.Errorf("%s %s lost a file: %q, %v", put.method, put.rest, got, err)
		}
	}

	// Whoever writes into the sandbox's repository can have it so that nobody reads the files: then nothing is given up.
	f := &flowing{Instance: c.Instance, t: t, project: project, base: dir}
	f.ws = c.Workspace(project, "Broken")
	f.call("POST", "/exec", map[string]any{"command": "true"})
	inside := c.inside(f.ws)
	f.call("POST", "/exec", map[string]any{"command": "echo new > new.txt && echo rubbish > .git/HEAD"})
	f.Refused(409, "sandbox_not_synced", "POST", "/workspaces/"+f.ws.ID+"/archive", nil)
	if got, err := os.ReadFile(filepath.Join(inside, "new.txt")); err != nil || string(got) != "new\n" {
		t.Errorf("the file in the sandbox is %q, %v", got, err)
	}
	f.call("POST", "/destroy-sandbox?discard=true", nil)
	f.call("POST", "/archive", nil)
}
