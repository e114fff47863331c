package testkit_test

import (
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
		f.Wait("it stands still", func() bool { return boxOf(f.House, f.ws).State == "paused" })
	}},
}

// The same where the files are on another machine, which ends with them: they come home first, and are kept.
func TestFlowsElsewhereKeepFirst(t *testing.T) {
	c := cloudHouse(t, e2btest.Config{})
	dir := flowsRepo(t, c.House)
	project := flowsProject(c.House, dir)
	for _, fl := range flowsElsewhere {
		t.Run(fl.op, func(t *testing.T) {
			f := &flowing{House: c.House, t: t, project: project, base: dir}
			f.ws = c.Workspace(project, "Flow")
			f.call("POST", "/exec", map[string]any{"command": "true"}) // there is a sandbox
			f.run(fl, c.inside(f.ws), gitDirOf(t, dir))
		})
	}
}
