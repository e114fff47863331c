package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// scenario leads a server to a point and says what must hold once another has taken over.
type scenario struct {
	ready func(d *death) // before the server that dies starts
	act   func(d *death) // dies on the way
	check func(d *death) // with the next server
}

// death is one run of a scenario.
type death struct {
	*testkit.Instance
	t       *testing.T
	project string
	ws      testkit.Workspace
	session testkit.Session
	device  device
	born    time.Time
}

const draft = "not committed\n"

// scenarios has one for each point.
var scenarios = map[failpoint.Point]scenario{
	failpoint.ProjectStored: {nil, (*death).addProject, (*death).projectsSettled},

	failpoint.WorkspaceStored:     {nil, (*death).create, (*death).created},
	failpoint.WorkspaceBranched:   {nil, (*death).create, (*death).created},
	failpoint.WorkspaceLinked:     {nil, (*death).create, (*death).created},
	failpoint.WorkspaceCheckedOut: {nil, (*death).create, (*death).created},
	failpoint.WorkspaceBuilt:      {nil, (*death).create, (*death).created},
	failpoint.WorkspaceReady:      {nil, (*death).create, (*death).created},
	failpoint.SandboxStored:       {nil, (*death).create, (*death).created},
	failpoint.SandboxMade:         {nil, (*death).create, (*death).created},
	failpoint.SandboxPaused:       {(*death).workAndStart, (*death).pause, (*death).paused},

	failpoint.SandboxRowStored: {nil, (*death).obtain, (*death).obtained},
	failpoint.SandboxRowEnded:  {(*death).obtain, (*death).endSandbox, (*death).sandboxEnded},

	failpoint.CommitStaged: {(*death).work, (*death).commit, (*death).committed},
	failpoint.CommitMoved:  {(*death).work, (*death).commit, (*death).committed},
	failpoint.MergePlanned: {(*death).workAndCommit, (*death).merge, (*death).merged},
	failpoint.MergeLanded:  {(*death).workAndCommit, (*death).merge, (*death).merged},

	failpoint.UpdateApplied: {(*death).workBesideOthers, (*death).update, (*death).updated},

	failpoint.ObjectsLent: {nil, (*death).create, (*death).created},
	failpoint.HomeChecked: {(*death).workInBox, (*death).list, (*death).commitsSynced},
	failpoint.HomeTaken:   {(*death).workInBox, (*death).list, (*death).commitsSynced},
	failpoint.HomeMoved:   {(*death).workInBox, (*death).list, (*death).commitsSynced},
	failpoint.BoxCleared:  {(*death).workInBox, (*death).remove, (*death).commitsSynced},

	failpoint.PutAwayKept:    {(*death).work, (*death).remove, (*death).nothingLost},
	failpoint.PutAwayStored:  {(*death).work, (*death).remove, (*death).nothingLost},
	failpoint.PutAwayEnded:   {(*death).work, (*death).remove, (*death).nothingLost},
	failpoint.PutAwayDoomed:  {(*death).work, (*death).remove, (*death).nothingLost},
	failpoint.PutAwayCleared: {(*death).work, (*death).remove, (*death).nothingLost},
	failpoint.RestoreRebuilt: {(*death).workAndRemove, (*death).restore, (*death).restored},
	failpoint.RestoreStored:  {(*death).workAndRemove, (*death).restore, (*death).restored},

	failpoint.SessionStored:    {(*death).work, (*death).start, (*death).startedOrNot},
	failpoint.SessionStarted:   {(*death).work, (*death).start, (*death).runs},
	failpoint.SessionStopping:  {(*death).workAndStart, (*death).stop, (*death).stopped},
	failpoint.SessionEnded:     {(*death).work, (*death).startShort, (*death).endedWell},
	failpoint.SessionForgotten: {(*death).work, (*death).startShort, (*death).endedWell},
	failpoint.PromptPasted:     {(*death).work, (*death).startPrompted, (*death).promptArrived},
	failpoint.CommandStored:    {(*death).work, (*death).exec, (*death).execAgain},

	failpoint.QueueClaimed: {(*death).workAndRead, (*death).queue, (*death).queueArrived},
	failpoint.QueuePasted:  {(*death).workAndRead, (*death).queue, (*death).queueArrived},
	failpoint.QueueTyped:   {(*death).workAndRead, (*death).queue, (*death).queueArrived},

	failpoint.QuestionStored: {(*death).work, (*death).startAsking, (*death).askedOnce},
	failpoint.QuestionHanded: {(*death).workAndAsk, (*death).answer, (*death).answeredOnce},

	failpoint.CheckpointTaken: {(*death).work, (*death).checkpoint, (*death).checkpointed},

	failpoint.MachineEnrolled: {(*death).bringDevice, (*death).enrolDevice, (*death).enrolledOnce},
	failpoint.MachineOnline:   {(*death).bringKnownDevice, (*death).dieConnected, (*death).deviceBack},

	failpoint.SegmentOpened: {nil, (*death).makeAndRun, (*death).charged},
	failpoint.SegmentBeaten: {(*death).paidWork, (*death).wait, (*death).charged},
	failpoint.SegmentClosed: {(*death).paidWork, (*death).pause, (*death).charged},
	failpoint.HourRolled:    {(*death).leaveHours, (*death).wait, (*death).hoursAddUp},

	failpoint.RunMade:    {nil, (*death).run, (*death).ranOnce},
	failpoint.RunStarted: {nil, (*death).run, (*death).ranOnce},

	failpoint.FirstStarting: {nil, (*death).createAndStart, (*death).firstOnce},
	failpoint.FirstStarted:  {nil, (*death).createAndStart, (*death).firstOnce},

	failpoint.RunAsked:   {(*death).writeAutomation, (*death).runAutomation, (*death).jobDoneOnce},
	failpoint.JobStored:  {nil, (*death).job, (*death).jobDoneOnce},
	failpoint.JobStarted: {nil, (*death).job, (*death).jobDoneOnce},
	failpoint.JobEnding:  {nil, (*death).job, (*death).jobDoneOnce},

	failpoint.PlanDecided: {(*death).plan, (*death).approve, (*death).plannedOnce},
	failpoint.PlanTasked:  {(*death).plan, (*death).approve, (*death).plannedOnce},

	failpoint.SkillSaved: {(*death).writeSkill, (*death).saveSkill, (*death).savedWholeOrNot},
}

// The server is killed at every point there is: no work is lost, nothing stays half made, and what was asked for can be asked
// for again.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, p := range failpoint.All {
		sc, ok := scenarios[p]
		if !ok {
			t.Errorf("%s has no scenario", p)
			continue
		}
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			born := time.Now()
			h := testkit.Start(t, boxed(t, p), `"agents":{`+asker+`,"reader":{"command":"/bin/sh","defaultArgs":["-c","echo up; while read l; do echo got $l; done"],"prompt":"paste"}}`)
			d := &death{Instance: h, t: t, project: h.Sample(), born: born}
			if sc.ready != nil {
				sc.ready(d)
			}
			h.DieAt(p, func() { sc.act(d) })
			sc.check(d)
		})
	}
}

func (d *death) addProject() {
	_ = d.Try("POST", "/teams/"+d.Team+"/projects", map[string]any{"source": map[string]string{"kind": "sample"}}, nil)
}

func (d *death) projectsSettled() {
	d.Wait("every project is ready or says why not", func() bool {
		var all struct {
			Items []struct {
				State  string
				Reason string `json:"state_reason"`
			}
		}
		d.API("GET", "/teams/"+d.Team+"/projects", nil, &all)
		for _, p := range all.Items {
			if p.State == "cloning" || p.State == "failed" && p.Reason == "" {
				return false
			}
		}
		return len(all.Items) == 2
	})
	d.Workspace(d.Sample(), "Again")
}

func (d *death) create() {
	_ = d.Try("POST", "/teams/"+d.Team+"/workspaces", map[string]any{"project_id": d.project, "name": "Cut short"}, nil)
}

func (d *death) only() testkit.Workspace {
	d.t.Helper()
	var all struct{ Items []testkit.Workspace }
	d.API("GET", "/teams/"+d.Team+"/workspaces", nil, &all)
	if len(all.Items) != 1 {
		d.t.Fatalf("%d workspaces, want one: %+v", len(all.Items), all.Items)
	}
	d.Cleanup(all.Items[0].ID)
	return all.Items[0]
}

// created: what was being made is there or says why not and can be tried again; a second one of the same name is no trouble.
func (d *death) created() {
	var ws testkit.Workspace
	d.Wait("the workspace is settled", func() bool { ws = d.only(); return ws.State == "ready" || ws.State == "failed" })
	if ws.State == "failed" {
		if ws.StateReason == "" {
			d.t.Error("it failed without a reason")
		}
		d.API("POST", "/workspaces/"+ws.ID+"/retry", nil, nil)
		d.Wait("it is ready at the second try", func() bool {
			d.API("GET", "/workspaces/"+ws.ID, nil, &ws)
			if ws.State == "failed" {
				d.t.Fatalf("it failed again: %s", ws.StateReason)
			}
			return ws.State == "ready"
		})
	}
	for _, w := range []testkit.Workspace{ws, d.Workspace(d.project, "Cut short")} {
		if _, err := os.Stat(filepath.Join(w.Path, "README.md")); err != nil {
			d.t.Errorf("%s has no files: %v", w.Key, err)
		}
		d.execIn(w, "git", "-C", w.Path, "status", "--porcelain")
	}
}

func (d *death) execIn(ws testkit.Workspace, argv ...string) string {
	d.t.Helper()
	var out struct {
		State, Stdout, Stderr string
		ExitCode              *int `json:"exit_code"`
	}
	d.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"argv": argv}, &out)
	if out.ExitCode == nil || *out.ExitCode != 0 {
		d.t.Fatalf("%v: %+v", argv, out)
	}
	return out.Stdout
}

func (d *death) work() {
	d.ws = d.Workspace(d.project, "Precious")
	must(d.t, os.WriteFile(filepath.Join(d.ws.Path, "draft.txt"), []byte(draft), 0o644))
}

func (d *death) commit() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/commit", map[string]any{"message": "The draft"}, nil)
}

func (d *death) checkpoint() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/checkpoints", map[string]any{"note": "cut short"}, nil)
}

// checkpointed: the files of the checkpoint that was cut are in the timeline, the next one works, and can be restored.
func (d *death) checkpointed() {
	d.sameDraft(d.ws.Path)
	type checkpoint struct {
		ID   string
		Note string
	}
	var all struct{ Items []checkpoint }
	d.API("GET", "/workspaces/"+d.ws.ID+"/checkpoints", nil, &all)
	if len(all.Items) != 0 {
		d.t.Errorf("a checkpoint without an answer is listed: %+v", all.Items)
	}
	var timeline struct {
		Items []struct{ Snapshot struct{ Kind, Title string } }
	}
	d.API("GET", "/workspaces/"+d.ws.ID+"/timeline?kind=manual", nil, &timeline)
	if len(timeline.Items) != 1 || timeline.Items[0].Snapshot.Title != "cut short" {
		d.t.Errorf("the timeline has %+v", timeline.Items)
	}
	var made checkpoint
	d.API("POST", "/workspaces/"+d.ws.ID+"/checkpoints", map[string]any{"note": "again"}, &made)
	must(d.t, os.WriteFile(filepath.Join(d.ws.Path, "draft.txt"), []byte("worse\n"), 0o644))
	d.API("POST", "/checkpoints/"+made.ID+"/restore", map[string]any{}, nil)
	d.sameDraft(d.ws.Path)
}

func (d *death) workAndCommit() {
	d.work()
	d.API("POST", "/workspaces/"+d.ws.ID+"/commit", map[string]any{"message": "The draft"}, nil)
}

// committed: the file is there, and exactly one commit has it in the end.
func (d *death) committed() {
	d.sameDraft(d.ws.Path)
	if err := d.Try("POST", "/workspaces/"+d.ws.ID+"/commit", map[string]any{"message": "The draft"}, nil); err != nil && !strings.Contains(err.Error(), "nothing_to_commit") {
		d.t.Fatal(err)
	}
	if log := d.execIn(d.ws, "git", "log", "--format=%s", d.ws.BaseCommit+"..HEAD"); strings.TrimSpace(log) != "The draft" {
		d.t.Errorf("the branch has %q", log)
	}
	if out := d.execIn(d.ws, "git", "status", "--porcelain"); out != "" {
		d.t.Errorf("git status says %q", out)
	}
	if c, ok := d.Changes(d.ws.ID).Find("draft.txt"); !ok || !c.Committed {
		d.t.Errorf("the change is %+v", c)
	}
}

func (d *death) merge() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/merge", map[string]any{"strategy": "squash", "message": "Bring the draft"}, nil)
}

func (d *death) merged() {
	var m struct {
		Merged   bool
		UpToDate bool `json:"up_to_date"`
	}
	d.API("POST", "/workspaces/"+d.ws.ID+"/merge", map[string]any{"strategy": "squash", "message": "Bring the draft"}, &m)
	if !m.Merged && !m.UpToDate {
		d.t.Errorf("merging again: %+v", m)
	}
	next := d.Workspace(d.project, "Look")
	d.sameDraft(next.Path)
	if log := d.execIn(next, "git", "log", "--format=%s"); strings.Count(log, "Bring the draft") != 1 {
		d.t.Errorf("the base has %q", log)
	}
}

// workBesideOthers is a draft with a commit below it, while the base moved on.
func (d *death) workBesideOthers() {
	d.workAndCommit()
	must(d.t, os.WriteFile(filepath.Join(d.ws.Path, "loose.txt"), []byte("not committed\n"), 0o644))
	other := d.Workspace(d.project, "Others")
	must(d.t, os.WriteFile(filepath.Join(other.Path, "others.txt"), []byte("theirs\n"), 0o644))
	d.API("POST", "/workspaces/"+other.ID+"/commit", map[string]any{"message": "Theirs"}, nil)
	d.API("POST", "/workspaces/"+other.ID+"/merge", map[string]any{"strategy": "merge"}, nil)
}

func (d *death) update() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/update", map[string]any{"strategy": "merge"}, nil)
}

// updated: it can be done again, everything is there once, and what was not committed still is not.
func (d *death) updated() {
	var u struct {
		Updated  bool
		UpToDate bool `json:"up_to_date"`
	}
	d.API("POST", "/workspaces/"+d.ws.ID+"/update", map[string]any{"strategy": "merge"}, &u)
	if !u.Updated && !u.UpToDate {
		d.t.Errorf("updating again: %+v", u)
	}
	d.sameDraft(d.ws.Path)
	if log := d.execIn(d.ws, "git", "log", "--format=%s", "--no-merges", d.ws.BaseCommit+"..HEAD"); strings.Count(log, "Theirs") != 1 || strings.Count(log, "The draft") != 1 {
		d.t.Errorf("the branch has %q", log)
	}
	if out := d.execIn(d.ws, "git", "status", "--porcelain"); out != "?? loose.txt\n" {
		d.t.Errorf("git status says %q", out)
	}
}

func (d *death) remove() { _ = d.Try("DELETE", "/workspaces/"+d.ws.ID, nil, nil) }

func (d *death) workAndRemove() {
	d.work()
	d.API("DELETE", "/workspaces/"+d.ws.ID, nil, nil)
}

func (d *death) restore() { _ = d.Try("POST", "/workspaces/"+d.ws.ID+"/restore", nil, nil) }

// nothingLost: it is there still, or it is in the trash and comes back.
func (d *death) nothingLost() {
	var after testkit.Workspace
	d.API("GET", "/workspaces/"+d.ws.ID, nil, &after)
	if _, err := os.Stat(after.Path); err != nil && after.State == "ready" && after.DeletedAt == 0 {
		d.t.Errorf("the workspace is ready and has no folder: %v", err)
	} else if after.State == "ready" && after.DeletedAt == 0 {
		d.execIn(after, "true")
	}
	if err := d.Try("DELETE", "/workspaces/"+d.ws.ID, nil, nil); err != nil && !strings.Contains(err.Error(), "already_deleted") {
		d.t.Fatal(err)
	}
	d.restored()
}

func (d *death) restored() {
	if err := d.Try("POST", "/workspaces/"+d.ws.ID+"/restore", nil, nil); err != nil && !strings.Contains(err.Error(), "not_archived") {
		d.t.Fatal(err)
	}
	var back testkit.Workspace
	d.Wait("it is back", func() bool { d.API("GET", "/workspaces/"+d.ws.ID, nil, &back); return back.State == "ready" })
	d.sameDraft(back.Path)
	d.execIn(back, "git", "status", "--porcelain")
	d.API("DELETE", "/workspaces/"+d.ws.ID, nil, nil) // and all of it once more, with nothing in the way
	d.API("POST", "/workspaces/"+d.ws.ID+"/restore", nil, nil)
	d.sameDraft(back.Path)
}

func (d *death) sameDraft(dir string) {
	d.t.Helper()
	if b, err := os.ReadFile(filepath.Join(dir, "draft.txt")); err != nil || string(b) != draft {
		d.t.Fatalf("the draft is %q, %v", b, err)
	}
}

func (d *death) begin(agent, prompt string, argv ...string) {
	body := map[string]any{"agent": agent, "cols": 80, "rows": 24}
	if prompt != "" {
		body["prompt"] = prompt
	}
	if len(argv) > 0 {
		body["argv"] = argv
	}
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/sessions", body, &d.session)
}

func (d *death) start() {
	d.begin("command", "", "sh", "-c", "echo up; while read l; do echo got $l; done")
}

func (d *death) startShort() { d.begin("command", "", "sh", "-c", "echo data; exit 7") }

func (d *death) workAndStart() {
	d.work()
	d.start()
}

func (d *death) sessions() []testkit.Session {
	d.t.Helper()
	var all struct{ Items []testkit.Session }
	d.API("GET", "/workspaces/"+d.ws.ID+"/sessions", nil, &all)
	return all.Items
}

func (d *death) one() testkit.Session {
	d.t.Helper()
	all := d.sessions()
	if len(all) != 1 {
		d.t.Fatalf("%d sessions, want one: %+v", len(all), all)
	}
	return all[0]
}

// startedOrNot: the session that never had a process has ended and says so; another one starts.
func (d *death) startedOrNot() {
	if s := d.Ended(d.one().ID); s.State != "failed" || s.StateReason == "" {
		d.t.Errorf("got %+v", s)
	}
	d.start()
	must(d.t, d.Attach(d.session.ID, "from=0").See("up"))
}

func (d *death) runs() {
	s := d.one()
	term := d.Attach(s.ID, "from=0")
	must(d.t, term.See("up"))
	must(d.t, term.Type("on\r"))
	must(d.t, term.See("got on"))
	if n := strings.Count(string(d.Output(s.ID, 0)), "up"); n != 1 {
		d.t.Errorf("it was started %d times", n)
	}
}

func (d *death) stop() { _ = d.Try("POST", "/sessions/"+d.session.ID+"/stop", nil, nil) }

func (d *death) stopped() {
	if s := d.Ended(d.session.ID); s.State != "exited" || !strings.HasPrefix(s.StateReason, "stopped by ") {
		d.t.Errorf("got %+v", s)
	}
}

func (d *death) endedWell() {
	s := d.Ended(d.one().ID)
	if s.State != "exited" || s.ExitCode == nil || *s.ExitCode != 7 {
		d.t.Errorf("got %+v", s)
	}
	if out := string(d.Output(s.ID, 0)); out != "data\r\n" {
		d.t.Errorf("output %q", out)
	}
}

func (d *death) startPrompted() { d.begin("reader", "Do it") }

func (d *death) promptArrived() {
	must(d.t, d.Attach(d.one().ID, "from=0").See("got Do it\r"))
}

func (d *death) exec() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/exec", map[string]any{"argv": []string{"touch", "made"}}, nil)
}

func (d *death) execAgain() { d.execIn(d.ws, "touch", "made") }

func (d *death) workAndRead() {
	d.work()
	d.begin("reader", "")
	must(d.t, d.Attach(d.session.ID, "from=0").See("up"))
}

func (d *death) queue() {
	for _, text := range []string{"first in line", "second in line"} {
		_ = d.Try("POST", "/sessions/"+d.session.ID+"/prompts", map[string]string{"text": text}, nil)
	}
}

// queueArrived: each prompt whose queueing was answered is typed once, in order. The server may have died over the second.
func (d *death) queueArrived() {
	var list struct {
		Items []struct{ Text, State, Reason string }
	}
	d.Wait("the queue is sent", func() bool {
		d.API("GET", "/sessions/"+d.session.ID+"/prompts", nil, &list)
		for _, p := range list.Items {
			if p.State != "sent" {
				return false
			}
		}
		return len(list.Items) > 0
	})
	var want string
	for _, p := range list.Items {
		want += "got " + p.Text + " "
	}
	d.Wait("the program got the queue", func() bool {
		return strings.Count(string(d.Output(d.session.ID, 0)), "got ") >= len(list.Items)
	})
	var got string
	for line := range strings.Lines(string(d.Output(d.session.ID, 0))) {
		if strings.HasPrefix(line, "got ") {
			got += strings.TrimSpace(line) + " "
		}
	}
	if got != want {
		d.t.Errorf("the program got %q, want %q", got, want)
	}
}

func (d *death) run() {
	_ = d.Try("POST", "/teams/"+d.Team+"/runs", map[string]any{"project_id": d.project, "prompt": "Try it",
		"attempts": []map[string]string{{"agent": "reader"}, {"agent": "reader"}}}, nil)
}

func (d *death) createAndStart() {
	_ = d.Try("POST", "/teams/"+d.Team+"/workspaces", map[string]any{"project_id": d.project, "name": "With an agent",
		"start": map[string]any{"agent": "reader", "prompt": "Try it", "attachments": []map[string]string{{"name": "note.txt", "data": "aGVsbG8="}}}}, nil)
}

// firstOnce: the workspace has one session, with its prompt and its file, however far the first server came; git does not see the file.
func (d *death) firstOnce() {
	var all struct{ Items []testkit.Workspace }
	d.Wait("its session runs", func() bool {
		d.API("GET", "/teams/"+d.Team+"/workspaces", nil, &all)
		d.ws = all.Items[0]
		return len(d.sessions()) == 1 && d.sessions()[0].State != "starting"
	})
	must(d.t, d.Attach(d.sessions()[0].ID, "from=0").See("note.txt"))
	if out := d.execIn(d.ws, "/bin/sh", "-c", "cat .parawork/attachments/*-note.txt && git status --porcelain"); out != "hello" {
		d.t.Errorf("the file and what git sees: %q", out)
	}
	d.Wait("nothing waits to be started", func() bool {
		var w struct{ Start *struct{ State string } }
		d.API("GET", "/workspaces/"+d.ws.ID, nil, &w)
		return w.Start == nil
	})
	if n := len(d.sessions()); n != 1 {
		d.t.Errorf("%d sessions", n)
	}
}

// ranOnce: every attempt has one workspace of its own with one session, however far the first server came.
func (d *death) ranOnce() {
	var list struct {
		Items []struct {
			Attempts []struct {
				State     string
				Reason    string
				Workspace struct{ ID string }
			}
		}
	}
	d.Wait("both attempts have started", func() bool {
		d.API("GET", "/teams/"+d.Team+"/runs", nil, &list)
		n := 0
		for _, r := range list.Items {
			for _, a := range r.Attempts {
				if a.State == "failed" {
					d.t.Fatalf("an attempt failed: %s", a.Reason)
				}
				if a.State == "started" {
					n++
				}
			}
		}
		return n == 2
	})
	var all struct{ Items []testkit.Workspace }
	d.API("GET", "/teams/"+d.Team+"/workspaces", nil, &all)
	if len(all.Items) != 2 || list.Items[0].Attempts[0].Workspace.ID == list.Items[0].Attempts[1].Workspace.ID {
		d.t.Errorf("%d workspaces for two attempts", len(all.Items))
	}
	for _, d.ws = range all.Items {
		n := 0
		for _, s := range d.sessions() {
			if s.State == "failed" { // the server died before it had a process
				continue
			}
			n++
			must(d.t, d.Attach(s.ID, "from=0").See("got Try it"))
		}
		if n != 1 {
			d.t.Errorf("%d sessions of one attempt ran", n)
		}
	}
}
