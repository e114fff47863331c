package testkit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// flow is one way in which files of a workspace are changed or removed, or its sandbox ends.
type flow struct {
	op     string // of the API; "" = nobody asks for it there
	name   string // where an operation has several
	before string // what the snapshot says it was kept before; "" = the flow leaves every file as it is
	do     func(f *flowing)
	ready  func(f *flowing) // goes before the files are edited; nil = nothing does
	back   bool             // it puts the workspace away: it is restored to be looked at
}

// flowing is a flow under way.
type flowing struct {
	*testkit.Instance
	t       *testing.T
	project string
	ws      testkit.Workspace
	dir     string // where its files are now
	base    string // the folder the project's base is in
	start   string // a snapshot from before its files were edited
	from    testkit.Workspace
}

func (f *flowing) call(method, rest string, body any) { f.into(method, rest, body, nil) }

func (f *flowing) into(method, rest string, body, into any) {
	f.t.Helper()
	if err := f.Try(method, "/workspaces/"+f.ws.ID+rest, body, into); err != nil {
		f.t.Fatalf("%s %s: %v", method, rest, err)
	}
}

// edited are the files of a workspace as somebody leaves them right before a flow: none is as in any commit, and nobody has looked.
var edited = map[string]string{"tracked.txt": "1\n2 dirty\n3\n4\n5\n6\n7\n8 dirty\n9\n", "untracked/new.txt": "nobody knows it\n", "staged.txt": "staged\n"}

// chosen is an ignored file the project wants kept, other is one it does not.
const chosen, other = "ignored/chosen.key", "ignored/other.o"

// edit leaves them so.
func (f *flowing) edit() {
	f.t.Helper()
	var lines []string // run where agents work, as who they are
	for name, text := range merged(edited, map[string]string{chosen: "a key\n", other: "built"}) {
		lines = append(lines, fmt.Sprintf("mkdir -p \"$(dirname '%s')\"; printf %%s '%s' > '%s'", name, text, name))
	}
	f.call("POST", "/exec", map[string]any{"command": strings.Join(append(lines, "git add staged.txt"), "\n")})
}

func (f *flowing) put(name, text string) {
	f.t.Helper()
	p := filepath.Join(f.dir, name)
	must(f.t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(f.t, os.WriteFile(p, []byte(text), 0o666))
}

// kept are the snapshots of a workspace's timeline that were kept before something, by their commits.
func (f *flowing) kept() map[string]string {
	f.t.Helper()
	out := make(map[string]string)
	var line struct {
		Items []struct {
			Snapshot *struct{ Commit, Reason string }
		}
	}
	f.into("GET", "/timeline?limit=200&kind=kept", nil, &line)
	for _, it := range line.Items {
		out[it.Snapshot.Commit] = it.Snapshot.Reason
	}
	return out
}

// wrong says what a snapshot lacks of what was edited, or has too much.
func (f *flowing) wrong(gitDir, commit string) string {
	f.t.Helper()
	show := func(rev string) (string, error) {
		out, err := exec.Command("git", "--git-dir="+gitDir, "show", rev).Output()
		return string(out), err
	}
	for name, want := range edited {
		if got, err := show(commit + ":" + name); err != nil || got != want {
			return fmt.Sprintf("%s is %q, %v", name, got, err)
		}
	}
	list, err := exec.Command("git", "--git-dir="+gitDir, "ls-tree", "-r", "--name-only", commit).Output()
	must(f.t, err)
	if want := ".gitignore\nkeep.txt\nstaged.txt\ntracked.txt\nuntracked/new.txt\n"; string(list) != want {
		return fmt.Sprintf("it has %q, not %q", list, want)
	}
	body, err := exec.Command("git", "--git-dir="+gitDir, "log", "-1", "--format=%b", commit).Output()
	must(f.t, err)
	var note struct{ Ignored string }
	must(f.t, json.Unmarshal(body, &note))
	if note.Ignored == "" {
		return "the chosen ignored file is not in it"
	}
	if got, err := show(note.Ignored + ":" + chosen); err != nil || got != "a key\n" {
		return fmt.Sprintf("the chosen ignored file is %q, %v", got, err)
	}
	if _, err := show(note.Ignored + ":" + other); err == nil {
		return "it has an ignored file nobody chose"
	}
	return ""
}

// part names hunks or lines of the dirty file, beginning with the first.
func (f *flowing) part(lines bool) map[string]any {
	f.t.Helper()
	var p struct {
		From, To string
		Hunks    []map[string]any
	}
	f.into("GET", "/parts?from=head&to=now&path=tracked.txt", nil, &p)
	if len(p.Hunks) != 2 {
		f.t.Fatalf("hunks: %+v", p.Hunks)
	}
	if lines {
		return map[string]any{"from": p.From, "to": p.To, "parts": []any{map[string]any{"path": "tracked.txt", "old_lines": []int{2}, "new_lines": []int{2}}}}
	}
	h := p.Hunks[0]
	return map[string]any{"from": p.From, "to": p.To, "parts": []any{map[string]any{"path": "tracked.txt", "hunks": []any{map[string]any{
		"old_start": h["old_start"], "old_lines": h["old_lines"], "new_start": h["new_start"], "new_lines": h["new_lines"]}}}}}
}

// baseMoves commits something to the base.
func (f *flowing) baseMoves() {
	f.t.Helper()
	base := &flowing{t: f.t, dir: f.base}
	base.put("keep.txt", "in the base, beside "+f.ws.ID+"\n")
	base.git("commit", "-q", "-am", "theirs")
}

// conflicts has the branch say otherwise.
func (f *flowing) conflicts() {
	f.t.Helper()
	f.baseMoves()
	f.put("keep.txt", "on the branch\n")
	f.git("commit", "-q", "-am", "mine")
}

// resolves begins to, with the conflict resolved in the files.
func (f *flowing) resolves() {
	f.t.Helper()
	f.conflicts()
	f.call("POST", "/update/resolve", map[string]any{"how": "shell", "strategy": "merge"})
	f.put("keep.txt", "both\n")
	f.git("add", "keep.txt")
}

func (f *flowing) git(args ...string) {
	f.t.Helper()
	if out, err := exec.Command("git", append([]string{"-C", f.dir, "-c", "safe.directory=*", "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput(); err != nil {
		f.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// file calls the editor's routes.
func (f *flowing) file(method, name, text string) {
	f.t.Helper()
	resp, out, err := f.Do(method, testkit.FilePath(f.ws.ID, name), strings.NewReader(text))
	if err != nil || resp.StatusCode >= 300 {
		f.t.Fatalf("%s %s: %v %s", method, name, err, out)
	}
}

// flows are all of them that can be seen on this server. Those of places elsewhere are in TestFlowsElsewhereKeepFirst.
var flows = []flow{
	{op: "destroySandbox", before: "stop", do: func(f *flowing) { f.call("POST", "/destroy-sandbox", nil) }},
	{op: "archiveWorkspace", before: "archive", back: true, do: func(f *flowing) { f.call("POST", "/archive", nil) }},
	{op: "deleteWorkspace", before: "delete", back: true, do: func(f *flowing) { f.call("DELETE", "", nil) }},
	{op: "discardParts", name: "files", before: "discard", do: func(f *flowing) {
		f.call("POST", "/discard", map[string]any{"parts": []any{map[string]any{"path": "tracked.txt"}, map[string]any{"path": "untracked/new.txt"}}})
	}},
	{op: "discardParts", name: "hunks", before: "discard", do: func(f *flowing) { f.call("POST", "/discard", f.part(false)) }},
	{op: "discardParts", name: "lines", before: "discard", do: func(f *flowing) { f.call("POST", "/discard", f.part(true)) }},
	{op: "updateFromBase", name: "merge", before: "update", ready: (*flowing).baseMoves, do: func(f *flowing) { f.call("POST", "/update", map[string]any{"strategy": "merge"}) }},
	{op: "updateFromBase", name: "rebase", before: "update", ready: (*flowing).baseMoves, do: func(f *flowing) { f.call("POST", "/update", map[string]any{"strategy": "rebase"}) }},
	{op: "resolveUpdate", name: "begin", before: "update", ready: (*flowing).conflicts, do: func(f *flowing) {
		f.git("commit", "-q", "-am", "it is refused while anything but untracked files is not committed")
		f.call("POST", "/update/resolve", map[string]any{"how": "shell", "strategy": "merge"})
	}},
	{op: "resolveUpdate", name: "finish", before: "update", ready: (*flowing).resolves, do: func(f *flowing) {
		f.call("POST", "/update/resolve", map[string]any{"how": "finish"})
	}},
	{op: "resolveUpdate", name: "abort", before: "update", ready: (*flowing).resolves, do: func(f *flowing) {
		f.call("POST", "/update/resolve", map[string]any{"how": "abort"})
	}},
	{op: "decideConflicts", before: "update", ready: func(f *flowing) {
		f.conflicts()
		f.call("POST", "/update/resolve", map[string]any{"how": "shell", "strategy": "merge"})
	}, do: func(f *flowing) {
		var open struct {
			Items []struct{ Path, Version string }
		}
		f.into("GET", "/update/conflicts", nil, &open)
		if len(open.Items) != 1 {
			f.t.Fatalf("conflicts: %+v", open)
		}
		f.call("POST", "/update/conflicts", map[string]any{"decisions": []any{map[string]any{"path": open.Items[0].Path, "version": open.Items[0].Version, "take": "branch"}}})
	}},
	{op: "takeFiles", before: "take", do: func(f *flowing) {
		f.call("POST", "/take", map[string]any{"from_workspace": f.from.ID, "paths": []string{"tracked.txt"}, "on_conflict": "overwrite"})
	}},
	{op: "restoreSnapshot", before: "restore", do: func(f *flowing) {
		f.API("POST", "/snapshots/"+f.start+"/restore", map[string]any{"into": "same"}, nil)
	}},
	{op: "writeFile", before: "edit", do: func(f *flowing) { f.file("PUT", "tracked.txt", "written over\n") }},
	{op: "deleteFile", before: "edit", do: func(f *flowing) { f.file("DELETE", "untracked/new.txt", "") }},
	{op: "renameFile", before: "edit", do: func(f *flowing) {
		f.call("POST", "/rename", map[string]any{"from": "untracked/new.txt", "to": "untracked/newer.txt"})
	}},
	{op: "moveWorkspace", before: "move", do: func(f *flowing) {
		f.call("POST", "/move", map[string]any{"to": "bubblewrap"})
		if m := moved(f.t, f.Instance, f.ws.ID); m.State != "done" {
			f.t.Fatalf("%+v", m)
		}
	}},
	{op: "updateWorkspace", name: "executor", before: "move", do: func(f *flowing) { f.call("PATCH", "", map[string]any{"executor": "bubblewrap"}) }},
	{op: "commitWorkspace", do: func(f *flowing) {
		f.call("POST", "/commit", map[string]any{"message": "all of it"})
	}},
	{op: "stageParts", do: func(f *flowing) {
		f.call("POST", "/stage", map[string]any{"parts": []any{map[string]any{"path": "tracked.txt"}}})
	}},
	{op: "mergeWorkspace", do: func(f *flowing) { f.call("POST", "/merge", map[string]any{"strategy": "squash", "message": "done"}) }},
	{op: "enqueueMerge", do: func(f *flowing) {
		f.call("POST", "/merge-queue", map[string]any{"strategy": "rebase"})
		f.Wait("the queue is done with it", func() bool {
			var q struct{ Entry *entryView }
			f.into("GET", "/merge-queue", nil, &q)
			return q.Entry != nil && (q.Entry.State == "merged" || q.Entry.State == "failed")
		})
	}},
	{op: "pauseSandbox", do: func(f *flowing) { f.call("POST", "/pause", nil) }},
	{op: "setLimits", do: func(f *flowing) { f.call("PUT", "/limits", map[string]any{"pids": 500}) }},
	{op: "purgeTrashed", name: "refused", do: func(f *flowing) {
		f.Refused(0, "", "POST", "/teams/"+f.Team+"/trash/"+f.ws.ID+"/purge", nil)
	}},
	{op: "deleteProject", name: "refused", do: func(f *flowing) { f.Refused(0, "", "DELETE", "/projects/"+f.project, nil) }},
	{op: "freeDisk", do: func(f *flowing) {
		f.API("POST", "/teams/"+f.Team+"/disk/free", map[string]any{"what": []string{"leftovers", "loose"}}, nil)
	}},
}

// Whatever changes or removes files of a workspace, or ends its sandbox, keeps all of them first, whether anybody had looked at them or not:
// untracked ones, those that are changed, what is staged, and the ignored ones the project chose. What keeps nothing leaves them as they are.
func TestFlowsKeepFirst(t *testing.T) {
	t.Parallel()
	needsBubblewrap(t)
	h := testkit.Start(t, bothPlaces)
	dir := flowsRepo(t, h)
	project := flowsProject(h, dir)
	from := h.Workspace(project, "From")
	must(t, os.WriteFile(filepath.Join(from.Path, "tracked.txt"), []byte("from elsewhere\n"), 0o644))
	for _, fl := range flows {
		t.Run(strings.TrimSuffix(fl.op+" "+fl.name, " "), func(t *testing.T) {
			f := &flowing{Instance: h, t: t, project: project, from: from, base: dir}
			f.ws = h.Workspace(project, "Flow")
			f.run(fl, f.ws.Path, gitDirOf(t, dir))
		})
	}
}

// flowsRepo is a folder with a repository.
func flowsRepo(t *testing.T, h *testkit.Instance) string {
	t.Helper()
	dir := filepath.Join(h.Dir, "app")
	must(t, os.MkdirAll(dir, 0o755))
	in := &flowing{Instance: h, t: t, dir: dir}
	in.git("init", "-q", "-b", "main")
	in.put("tracked.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	in.put("keep.txt", "as it is\n")
	in.put(".gitignore", "ignored/\n")
	in.git("add", "-A")
	in.git("commit", "-q", "-m", "first")
	return dir
}

func flowsProject(h *testkit.Instance, dir string) string {
	p := h.Project(map[string]any{"source": map[string]string{"kind": "path", "path": dir}})
	h.API("PATCH", "/projects/"+p, map[string]any{"keep_ignored": []string{chosen}}, nil)
	return p
}

// run edits the files, goes through the flow and looks for them.
func (f *flowing) run(fl flow, dir, gitDir string) {
	t := f.t
	f.dir = dir
	var first struct{ ID string }
	f.into("POST", "/snapshots", map[string]any{"title": "start"}, &first)
	f.start = first.ID
	f.call("POST", "/exec", map[string]any{"command": "true"}) // there is a sandbox
	if fl.ready != nil {
		fl.ready(f)
	}
	f.edit()
	was := f.kept()
	fl.do(f)
	if fl.before == "" {
		for name, want := range merged(edited, map[string]string{chosen: "a key\n", other: "built"}) {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("it keeps nothing, and %s is %q, %v", name, got, err)
			}
		}
		return
	}
	if fl.back {
		f.call("POST", "/restore", nil)
	}
	var words []string
	for commit, before := range f.kept() {
		if _, old := was[commit]; old {
			continue
		}
		what := f.wrong(gitDir, commit)
		if before == fl.before && what == "" {
			return
		}
		words = append(words, fmt.Sprintf("kept before %q: %s", before, what))
	}
	t.Errorf("nothing holds what was there before %q: %s", fl.before, strings.Join(words, "; "))
}

func merged(all ...map[string]string) map[string]string {
	out := make(map[string]string)
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
