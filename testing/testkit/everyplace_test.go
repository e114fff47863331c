package testkit_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/testing/testdocker"
	"github.com/parawork/parawork/testing/testkit"
)

var everyplace = flag.Bool("everyplace", false, "TestEveryPlace goes to the places that take long, too: bubblewrap, E2B's stand-in and, for the mile, a machine")

// travels is an instance whose workspaces can live in several kinds of place at once: this server, a container, a member's machine and, with
// -everyplace, a process sandbox and the cloud.
type travels struct {
	*testkit.Instance
	t       *testing.T
	machine *testkit.Machine
	e2b     *e2btest.Server // nil without -everyplace
}

func travelHarness(t *testing.T) *travels {
	t.Helper()
	d, err := testdocker.Start()
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	h := &travels{t: t}
	cloud := ""
	if *everyplace {
		needsBubblewrap(t)
		h.e2b = e2btest.New(t, e2btest.Config{})
		cloud = fmt.Sprintf(`,"e2b":{"apiKey":%q,"apiUrl":%q,"sandboxUrl":%q}`, h.e2b.Key(), h.e2b.APIURL(), h.e2b.SandboxURL())
	}
	h.Instance = testkit.Start(t, fmt.Sprintf(`"sandboxing":{"defaultProvider":"local","local":{"enabled":true},"docker":{"host":%q,"image":%q}%s}`,
		d.Host, testdocker.Image, cloud))
	h.machine = h.Connect("Laptop", "--dangerous")
	return h
}

// in makes a workspace in a kind of place.
func (h *travels) in(kind, project, name string) testkit.Workspace {
	h.t.Helper()
	if kind == "runner" {
		return h.WorkspaceOn(h.machine, project, name)
	}
	return h.WorkspaceIn(kind, project, name)
}

// sh runs a line in a workspace to its end.
func (h *travels) sh(t *testing.T, ws testkit.Workspace, line string) string {
	t.Helper()
	var c command
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "set -e\n" + line, "timeout_ms": 60000}, &c)
	if c.ExitCode == nil || *c.ExitCode != 0 {
		t.Fatalf("%q: %+v", line, c)
	}
	return c.Stdout
}

// numbered are forty lines, some of them others.
func numbered(other map[int]string) string {
	var b strings.Builder
	for i := range 40 {
		if o, ok := other[i+1]; ok {
			b.WriteString(o + "\n")
			continue
		}
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

// Workspaces do the same in every kind of place, and go from any to any other. All of it takes minutes: see docs/testing.md.
func TestEveryPlace(t *testing.T) {
	t.Parallel()
	h := travelHarness(t)
	miles, way := []string{"docker"}, []string{"docker", "runner", "local"}
	if *everyplace {
		miles, way = []string{"docker", "e2b", "runner"}, []string{"bubblewrap", "docker", "e2b", "runner", "local", "e2b", "bubblewrap"}
	}
	for _, kind := range miles { // others do it on this server in many tests
		t.Run("mile in "+kind, func(t *testing.T) {
			t.Parallel()
			m := &mile{travels: h, t: t, kind: kind}
			m.run()
		})
	}
	t.Run("tour", func(t *testing.T) { t.Parallel(); h.tour(t, way) })
}

// plan is what tests need of a move's plan.
type plan struct {
	Possible      bool
	Code, Reason  string
	Carried, Lost []struct{ What, Detail string }
}

func (p plan) says(what string) string {
	for _, i := range append(p.Carried, p.Lost...) {
		if i.What == what {
			return i.Detail
		}
	}
	return ""
}

func (h *travels) planTo(ws testkit.Workspace, kind string) (p plan) {
	h.t.Helper()
	to := kind
	if kind == "runner" {
		to += "&runner_id=" + h.machine.ID
	}
	h.API("GET", "/workspaces/"+ws.ID+"/move?to="+to, nil, &p)
	return p
}

func (h *travels) to(kind string) map[string]any {
	if kind == "runner" {
		return map[string]any{"to": kind, "runner_id": h.machine.ID}
	}
	return map[string]any{"to": kind}
}

// far are the kinds with a disk of their own.
func far(kind string) bool { return kind == "e2b" || kind == "runner" }

// tour takes a workspace with work in every state through places.
func (h *travels) tour(t *testing.T, way []string) {
	from, project := way[0], h.Sample()
	ws := h.in(from, project, "Tour")
	h.API("PATCH", "/projects/"+project, map[string]any{"keep_ignored": []string{"chosen.out"}}, nil)
	h.sh(t, ws, `git config user.name A; git config user.email a@example.com; echo '*.out' >> .gitignore; git add .gitignore; git commit -qm ignore
echo stashed >> README.md; git stash -q; git tag mine; git branch other HEAD~1
echo one > one; git add one; git commit -qm one
echo staged > staged; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh; git add staged run.sh; echo more >> staged
rm wordcount.py; ln -s one link; printf 'a\0b' > bin; mkdir -p 'sub dir'; echo odd > "sub dir/$(printf 'tab\tname')"; echo kept > kept.out; echo 0 > chosen.out; chmod +x chosen.out`)
	var sh testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell", "cols": 90, "rows": 20}, &sh)
	term := h.Attach(sh.ID, "from=0")
	must(t, term.Type("echo remember; sleep 1000\r"))
	must(t, term.See("remember"))
	look := `git log --format=%s -3; git status --porcelain -z | tr '\0' '\n'; git diff --cached; git diff; cat staged sub*/*; od -An -c bin; readlink link; test -x run.sh`
	want := h.sh(t, ws, look)
	files := strings.TrimSpace(h.sh(t, ws, "git status --porcelain -z --no-renames -uall | tr -cd '\\0' | wc -c")) + " uncommitted files"
	for i, to := range way[1:] {
		p := h.planTo(ws, to)
		if !p.Possible || !strings.HasPrefix(p.says("files"), files) {
			t.Fatalf("the plan from %s to %s: %+v", from, to, p)
		}
		ignored := p.says("ignored")
		switch {
		case far(from) && strings.Contains(ignored, "They are lost with the old sandbox"), !far(from) && far(to) && strings.Contains(ignored, "kept.out"),
			!far(from) && !far(to) && strings.Contains(ignored, "the same folder"):
		default:
			t.Errorf("from %s to %s ignored files are reported as %q", from, to, ignored)
		}
		if chosen := p.says("kept_ignored"); (far(from) || far(to)) && chosen != "1 ignored file that the project selects, 2 bytes: chosen.out." {
			t.Errorf("from %s to %s those that are kept are reported as %q", from, to, chosen)
		}
		h.API("POST", "/workspaces/"+ws.ID+"/move", h.to(to), nil)
		if m := moved(t, h.Instance, ws.ID); m.State != "done" || executorOf(h.Instance, ws.ID) != to {
			t.Fatalf("from %s to %s: %+v", from, to, m)
		}
		if got := h.sh(t, ws, look); got != want {
			t.Fatalf("from %s to %s it became\n%s\nand was\n%s", from, to, got, want)
		}
		if to != "local" { // there they are in the project's repository
			if refs := h.sh(t, ws, "git show -s --format=%s mine other; git stash list | cut -d' ' -f1"); refs != "ignore\nWrite down what is missing\nstash@{0}:\n" {
				t.Errorf("in %s its other refs: %q", to, refs)
			}
		}
		if there := h.sh(t, ws, "ls kept.out 2>/dev/null || true"); (there == "") != far(to) {
			t.Errorf("in %s the ignored file: %q", to, there)
		}
		if chosen := h.sh(t, ws, fmt.Sprintf("test -x chosen.out; cat chosen.out; echo %d > chosen.out", i+1)); chosen != fmt.Sprintln(i) {
			t.Errorf("in %s the ignored file that the project selects: %q", to, chosen)
		}
		from = to
	}
	if !strings.Contains(string(h.Output(sh.ID, 0)), "remember") {
		t.Error("the first terminal is not readable any more")
	}
	if h.e2b != nil {
		h.under(t, ws)
		h.fails(t, ws, want, look)
	}
}

// under shows that half a merge is not left behind.
func (h *travels) under(t *testing.T, ws testkit.Workspace) {
	h.sh(t, ws, "git stash -q -u; git switch -q -c side HEAD~1; echo two > one; git add one; git commit -qm two; git switch -q -; git merge -q side || true")
	if p := h.planTo(ws, "docker"); p.Code == "operation_in_progress" {
		t.Errorf("to a place that works with the same git dir: %+v", p)
	}
	if p := h.planTo(ws, "e2b"); p.Possible || p.Code != "operation_in_progress" {
		t.Errorf("half a merge would be left behind: %+v", p)
	}
	h.Refused(http.StatusConflict, "operation_in_progress", "POST", "/workspaces/"+ws.ID+"/move", h.to("local"))
	h.sh(t, ws, "git merge --abort; git branch -qD side; git stash pop -q --index")
}

// fails shows that a move which fails after a far place was left goes back to it, with everything that was there.
func (h *travels) fails(t *testing.T, ws testkit.Workspace, want, look string) {
	h.API("POST", "/workspaces/"+ws.ID+"/move", h.to("runner"), nil)
	if m := moved(t, h.Instance, ws.ID); m.State != "done" {
		t.Fatalf("to the machine: %+v", m)
	}
	h.e2b.Fail(e2btest.Fault{Match: "POST /v2/sandboxes", Skip: 1, Times: 20, Status: http.StatusInternalServerError})
	defer h.e2b.Heal()
	h.API("POST", "/workspaces/"+ws.ID+"/move", h.to("e2b"), nil)
	m := moved(t, h.Instance, ws.ID)
	if m.State != "failed" || executorOf(h.Instance, ws.ID) != "runner" || m.Steps[len(m.Steps)-1].Name != "back" || m.Steps[len(m.Steps)-1].State == "failed" {
		t.Fatalf("to a place that fails: %+v", m)
	}
	if got := h.sh(t, ws, look); got != want {
		t.Fatalf("back on the machine it is\n%s\nand was\n%s", got, want)
	}
}

// mile is one workspace's way home.
type mile struct {
	*travels
	t           *testing.T
	kind        string
	project     string
	ws, helper  testkit.Workspace
	hunk        []map[string]any
	snapshotted string
}

func (m *mile) api(method, rest string, body, into any) {
	m.t.Helper()
	if err := m.Try(method, "/workspaces/"+m.ws.ID+rest, body, into); err != nil {
		m.t.Fatalf("%s %s in %s: %v", method, rest, m.kind, err)
	}
}

func (m *mile) put(ws testkit.Workspace, path, text string, header ...string) (status int, etag string) {
	m.t.Helper()
	resp, out, err := m.Do("PUT", testkit.FilePath(ws.ID, path), strings.NewReader(text), header...)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(header) == 0 && resp.StatusCode != http.StatusOK {
		m.t.Fatalf("writing %s: %s", path, out)
	}
	return resp.StatusCode, resp.Header.Get("ETag")
}

func (m *mile) get(path string) (text, etag string) {
	m.t.Helper()
	resp, out, err := m.Do("GET", testkit.FilePath(m.ws.ID, path), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", ""
	}
	return string(out), resp.Header.Get("ETag")
}

func (m *mile) want(what, got, want string) {
	m.t.Helper()
	if got != want {
		m.t.Errorf("%s: %s: got %q, want %q", m.kind, what, got, want)
	}
}

// inBase commits a file to the base, by way of a workspace on this server.
func (m *mile) inBase(name, text string) {
	m.t.Helper()
	if m.helper.ID == "" {
		m.helper = m.WorkspaceIn("local", m.project, "Helper")
	}
	m.put(m.helper, name, text)
	m.API("POST", "/workspaces/"+m.helper.ID+"/commit", map[string]any{"message": "write " + name, "paths": []string{name}}, nil)
	var r struct{ Merged bool }
	m.API("POST", "/workspaces/"+m.helper.ID+"/merge", map[string]any{"strategy": "merge"}, &r)
	if !r.Merged {
		m.t.Fatalf("%s did not reach the base", name)
	}
}

func (m *mile) run() {
	m.project = m.Sample()
	m.inBase("notes.txt", numbered(nil))
	m.ws = m.in(m.kind, m.project, "Mile")
	m.parts()
	m.edit()
	m.takes()
	m.snapshots()
	m.update()
	m.queue()
}

// hunks reads the hunks of a file.
func (m *mile) hunks(from, to string) (out []map[string]any) {
	m.t.Helper()
	var f struct{ Hunks []map[string]any }
	m.api("GET", "/parts?path=notes.txt&from="+from+"&to="+to, nil, &f)
	for _, h := range f.Hunks {
		out = append(out, map[string]any{"old_start": h["old_start"], "old_lines": h["old_lines"], "new_start": h["new_start"], "new_lines": h["new_lines"]})
	}
	return out
}

func (m *mile) part(h map[string]any) []map[string]any {
	return []map[string]any{{"path": "notes.txt", "hunks": []any{h}}}
}

func (m *mile) parts() {
	m.sh(m.t, m.ws, "sed -i 's/^line 3$/three/; s/^line 20$/twenty/; s/^line 37$/thirty-seven/' notes.txt; echo draft > draft.txt")
	hunks := m.hunks("index", "now")
	if len(hunks) != 3 {
		m.t.Fatalf("%s: hunks %v", m.kind, hunks)
	}
	m.api("POST", "/stage", map[string]any{"parts": m.part(hunks[1])}, nil)
	diff := m.sh(m.t, m.ws, "git diff --cached")
	if !strings.Contains(diff, "+twenty") || strings.Contains(diff, "+three") {
		m.t.Errorf("%s: staged %q", m.kind, diff)
	}
	m.api("POST", "/commit", map[string]any{"message": "twenty", "staged": true}, nil)
	m.api("POST", "/commit", map[string]any{"message": "three", "parts": map[string]any{"from": "head", "parts": m.part(m.hunks("head", "now")[0])}}, nil)
	m.want("the last commit", m.sh(m.t, m.ws, "git log -1 --format=%s; git show --format= | grep '^+[a-z]'"), "three\n+three\n")
	var d struct {
		SnapshotID string `json:"snapshot_id"`
		After      string
	}
	m.api("POST", "/discard", map[string]any{"parts": append(m.part(m.hunks("head", "now")[0]), map[string]any{"path": "draft.txt"})}, &d)
	m.want("after the discard", m.sh(m.t, m.ws, "cat notes.txt; ls draft.txt 2>&1 || true; git status --porcelain"),
		numbered(map[int]string{3: "three", 20: "twenty"})+"ls: cannot access 'draft.txt': No such file or directory\n")
	m.api("POST", "/discard", map[string]any{"from": d.SnapshotID, "to": d.After, "parts": []any{map[string]any{"path": "notes.txt"}, map[string]any{"path": "draft.txt"}}}, nil)
	m.want("undone", m.sh(m.t, m.ws, "cat notes.txt draft.txt"), numbered(map[int]string{3: "three", 20: "twenty", 37: "thirty-seven"})+"draft\n")
}

func (m *mile) edit() {
	_, etag := m.get("draft.txt")
	if status, _ := m.put(m.ws, "draft.txt", "mine\n", "If-Match", etag); status != http.StatusOK {
		m.t.Errorf("%s: a write over what was read: %d", m.kind, status)
	}
	if status, _ := m.put(m.ws, "draft.txt", "late\n", "If-Match", etag); status != http.StatusPreconditionFailed {
		m.t.Errorf("%s: a write over something else: %d", m.kind, status)
	}
	if status, _ := m.put(m.ws, "draft.txt", "late\n", "If-None-Match", "*"); status != http.StatusConflict {
		m.t.Errorf("%s: a new file where one is: %d", m.kind, status)
	}
	m.api("POST", "/rename", map[string]any{"from": "draft.txt", "to": "sub/draft.txt"}, nil)
	m.want("edited", m.sh(m.t, m.ws, "cat sub/draft.txt"), "mine\n")
}

func (m *mile) takes() {
	m.put(m.helper, "taken.txt", "from there\n")
	m.put(m.helper, "sub/draft.txt", "theirs\n")
	take := map[string]any{"from_workspace": m.helper.ID, "paths": []string{"taken.txt", "sub/draft.txt"}, "dry_run": true}
	var r struct {
		Items []struct {
			Path, State string
			KeptAs      string `json:"kept_as"`
		}
	}
	m.api("POST", "/take", take, &r)
	if len(r.Items) != 2 || !slices.ContainsFunc(r.Items, func(i struct {
		Path, State string
		KeptAs      string `json:"kept_as"`
	}) bool {
		return i.Path == "sub/draft.txt" && i.State == "conflict"
	}) {
		m.t.Errorf("%s: what would be taken: %+v", m.kind, r.Items)
	}
	delete(take, "dry_run")
	m.Refused(http.StatusConflict, "take_conflicts", "POST", "/workspaces/"+m.ws.ID+"/take", take)
	take["on_conflict"] = "keep_both"
	m.api("POST", "/take", take, &r)
	m.want("taken", m.sh(m.t, m.ws, "cat taken.txt sub/draft.txt; cat sub/*.txt | sort"), "from there\nmine\nmine\ntheirs\n")
	m.sh(m.t, m.ws, "cd sub; ls | grep -v '^draft.txt$' | tr '\\n' '\\0' | xargs -0 rm")
	// And the other way: a workspace here takes what lies far away.
	m.API("POST", "/workspaces/"+m.helper.ID+"/take", map[string]any{"from_workspace": m.ws.ID, "paths": []string{"sub"}, "on_conflict": "overwrite"}, nil)
	m.want("taken from there", m.sh(m.t, m.helper, "cat sub/draft.txt"), "mine\n")
}

func (m *mile) snapshots() {
	m.sh(m.t, m.ws, "chmod +x sub/draft.txt; ln -s notes.txt link; printf 'a\\0b' > bin; echo odd > \"$(printf 'tab\\tname')\"")
	var s struct {
		ID    string
		Files int
	}
	m.api("POST", "/snapshots", map[string]any{"title": "good"}, &s)
	m.sh(m.t, m.ws, "rm -r sub bin link; echo changed > notes.txt; mkdir link; echo later > link/later.txt; git add -A notes.txt")
	var r struct{ Changed, Conflicts []string }
	m.API("POST", "/snapshots/"+s.ID+"/restore", map[string]any{"into": "same"}, &r)
	all := "cat notes.txt sub/draft.txt; test -x sub/draft.txt && readlink link; od -An -c bin; cat tab*"
	want := numbered(map[int]string{3: "three", 20: "twenty", 37: "thirty-seven"}) + "mine\nnotes.txt\n   a  \\0   b\nodd\n"
	m.want("restored", m.sh(m.t, m.ws, all), want)
	if len(r.Conflicts) != 0 {
		m.t.Errorf("%s: %+v", m.kind, r)
	}
	var made struct{ Workspace testkit.Workspace }
	m.API("POST", "/snapshots/"+s.ID+"/restore", map[string]any{"into": "new", "name": "Again"}, &made)
	m.Cleanup(made.Workspace.ID)
	m.Wait("the new workspace is ready", func() bool {
		m.API("GET", "/workspaces/"+made.Workspace.ID, nil, &made.Workspace)
		return made.Workspace.State == "ready"
	})
	m.want("restored into a new one", m.sh(m.t, made.Workspace, all), want)
	m.API("DELETE", "/workspaces/"+made.Workspace.ID, nil, nil)
	m.sh(m.t, m.ws, "rm -f bin link tab*")
}

type updateView struct {
	Updated   bool
	Conflicts []struct{ Path string }
	Dirty     []string
	Carried   []string
}

func (m *mile) update() {
	m.inBase("notes.txt", numbered(map[int]string{10: "ten"}))
	m.inBase("news.txt", "news\n")
	var u updateView
	m.api("POST", "/update", map[string]any{"strategy": "merge", "dry_run": true}, &u)
	if u.Updated || len(u.Conflicts)+len(u.Dirty) != 0 {
		m.t.Errorf("%s: the update ahead: %+v", m.kind, u)
	}
	m.api("POST", "/update", map[string]any{"strategy": "merge"}, &u)
	if !u.Updated || !slices.Equal(u.Carried, []string{"notes.txt"}) {
		m.t.Errorf("%s: the update: %+v", m.kind, u)
	}
	m.want("updated", m.sh(m.t, m.ws, "cat notes.txt news.txt; git diff | grep '^[-+][a-z]'"),
		numbered(map[int]string{3: "three", 10: "ten", 20: "twenty", 37: "thirty-seven"})+"news\n-line 37\n+thirty-seven\n")
	m.sh(m.t, m.ws, "git add -A; git -c user.name=A -c user.email=a@example.com commit -qm rest")
	m.inBase("notes.txt", numbered(map[int]string{10: "TEN", 37: "THIRTY-SEVEN"}))
	m.api("POST", "/update", map[string]any{"strategy": "rebase", "dry_run": true}, &u)
	if len(u.Conflicts) != 1 {
		m.t.Errorf("%s: conflicts ahead: %+v", m.kind, u)
	}
	var left struct {
		Files []string
	}
	for _, strategy := range []string{"rebase", "merge"} {
		m.api("POST", "/update/resolve", map[string]any{"how": "shell", "strategy": strategy}, &left)
		if !slices.Equal(left.Files, []string{"notes.txt"}) || !strings.Contains(m.sh(m.t, m.ws, "cat notes.txt"), "<<<<<<<") {
			m.t.Errorf("%s: left to resolve of a %s: %+v", m.kind, strategy, left)
		}
		if strategy == "rebase" {
			m.api("POST", "/update/resolve", map[string]any{"how": "abort"}, &left)
			m.want("given up", m.sh(m.t, m.ws, "git status --porcelain; git log -1 --format=%s"), "rest\n")
		}
	}
	text := numbered(map[int]string{3: "three", 10: "TEN", 20: "twenty", 37: "thirty-seven"})
	m.put(m.ws, "notes.txt", text)
	m.sh(m.t, m.ws, "git add notes.txt; git -c user.name=A -c user.email=a@example.com commit -q --no-edit")
	m.Wait("it stands on the base", func() bool {
		var st struct{ Ahead, Behind int }
		m.api("GET", "/merge-status", nil, &st)
		return st.Behind == 0 && st.Ahead > 0
	})
}

func (m *mile) queue() {
	m.API("PATCH", "/projects/"+m.project, map[string]any{"setup_script": "echo set up > setup.out", "merging": map[string]any{"queue": true},
		"checks": []any{map[string]any{"id": "chk_whole", "name": "whole", "command": "echo checked; grep -c thirty-seven notes.txt; test -f news.txt", "required": true}}}, nil)
	m.api("POST", "/checks/run", map[string]any{}, nil)
	var c checksView
	m.Wait("the checks end", func() bool {
		c = checksView{}
		m.api("GET", "/checks", nil, &c)
		return c.State != "waiting" && c.State != "running"
	})
	if c.State != "passed" {
		m.t.Errorf("%s: checks %+v", m.kind, c)
	}
	if _, out, err := m.Do("GET", "/check-runs/"+c.Items[0].Run.ID+"/output", nil); err != nil || !bytes.Contains(out, []byte("checked")) {
		m.t.Errorf("%s: output %q, %v", m.kind, out, err)
	}
	m.api("POST", "/merge-queue", map[string]any{"strategy": "squash"}, nil)
	var q struct{ Entry *entryView }
	m.Wait("the queue is done with it", func() bool {
		q.Entry = nil
		m.api("GET", "/merge-queue", nil, &q)
		return q.Entry != nil && slices.Contains([]string{"merged", "failed", "cancelled"}, q.Entry.State)
	})
	if q.Entry.State != "merged" {
		m.t.Fatalf("%s: the queue: %+v", m.kind, q.Entry)
	}
	m.want("in the base", m.sh(m.t, m.helper, "git show "+m.ws.Base+":notes.txt"), numbered(map[int]string{3: "three", 10: "TEN", 20: "twenty", 37: "thirty-seven"}))
}
