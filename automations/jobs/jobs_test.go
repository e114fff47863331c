package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/usagelimit"
	"github.com/parawork/parawork/tools/artifacts"
)

// A job in a project: its agent gets the prompt as it is, its answer is the output, its files are artifacts, its workspace stays and its end is
// reported.
func TestJobInAProject(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	j := h.create(s, jobs.Request{ProjectID: "prj_1", Model: "opus", Branch: "topic", Artifacts: []string{"out/*.txt", "missing.txt", "*.none"}, Webhook: &jobs.Webhook{URL: "https://hooks.example/x", Secret: "0123456789abcdef"}})
	if j.Status != jobs.Queued || j.Request.TimeoutMs != jobs.DefTimeout {
		t.Errorf("at first: %+v", j)
	}
	j = h.until(s, j.ID, is(jobs.Running))
	h.says(j.SessionID, "The secret is "+secret+". All done.")
	h.idle(j.SessionID)
	j = h.until(s, j.ID, done)
	if j.Status != jobs.Completed || !strings.HasSuffix(j.Output, "All done.") || strings.Contains(j.Output, secret) || j.Code != "" || j.CostNano == nil || *j.CostNano != 7 {
		t.Errorf("in the end: %+v", j)
	}
	if len(j.Files) != 2 || j.Files[0].Name != "out/a.txt" || len(j.Warnings) != 2 {
		t.Errorf("artifacts %+v, warnings %q", j.Files, j.Warnings)
	}
	if r := h.starts[0]; r.Prompt != "do it; $(rm -rf /)" || r.Permissions != "all" || !slices.Equal(r.Argv, []string{"--model", "opus"}) {
		t.Errorf("started with %+v", r)
	}
	if w := h.ws[j.WorkspaceID]; w.Branch != "topic" || w.Name != "do it; $(rm -rf /)" || len(h.ended) != 0 {
		t.Errorf("workspace %+v, ended sandboxes %v", w, h.ended)
	}
	if one := h.sessions[j.SessionID]; one.State != state.Exited || len(h.keys) != 0 {
		t.Errorf("the session is %s, interrupted %v", one.State, h.keys)
	}
	if len(h.posts) != 1 || h.posts[0].Kind != "job.completed" || h.posts[0].SecretID != "sec_"+j.ID || h.targets[j.ID].Key != "0123456789abcdef" {
		t.Fatalf("reported: %+v", h.posts)
	}
	var r jobs.Report
	if err := json.Unmarshal([]byte(h.posts[0].Body), &r); err != nil || r.Type != "job.completed" || r.Job.ID != j.ID || r.Job.Artifacts[1].URL != "https://pw.example/api/v1/artifacts/art_out/b.txt/content" {
		t.Errorf("%v %+v", err, r)
	}
}

// A program that ends is a job of its own sandbox, which is removed once its artifacts are collected, and never before.
func TestJobInItsOwnSandbox(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.collect = errors.New("the sandbox does not answer")
	s, _ := h.serve()
	run := func(keep bool, code int) jobs.Job {
		j := h.create(s, jobs.Request{Agent: "command", Argv: []string{"tool", "{prompt}", "-v"}, Prompt: "$(x)", Keep: keep})
		j = h.until(s, j.ID, is(jobs.Running))
		h.prints(j.SessionID, "said\r\n")
		h.exits(j.SessionID, code)
		return j
	}
	j := run(false, 0)
	if r := h.starts[0]; !slices.Equal(r.Argv, []string{"tool", "$(x)", "-v"}) || r.Prompt != "" || r.Permissions != "" {
		t.Errorf("started with %+v", r)
	}
	h.until(s, j.ID, func(j jobs.Job) bool { return j.Step == jobs.Ending })
	h.mu.Lock()
	h.collect = nil
	h.mu.Unlock()
	j = h.until(s, j.ID, done)
	if j.Status != jobs.Completed || j.Output != "said" || !slices.Equal(h.ended, []string{j.SandboxID}) {
		t.Errorf("%+v; ended %v", j, h.ended)
	}
	if j = h.until(s, run(true, 3).ID, done); j.Status != jobs.Failed || j.Code != "job_agent_exited" || len(h.ended) != 1 {
		t.Errorf("%+v; ended %v", j, h.ended)
	}
	h.mu.Lock()
	h.collect = errors.New("never")
	h.mu.Unlock()
	j = run(false, 0)
	h.until(s, j.ID, func(j jobs.Job) bool { return j.Step == jobs.Ending })
	h.pass(time.Hour)
	if j = h.until(s, j.ID, done); j.Status != jobs.Completed || len(j.Warnings) != 1 || len(h.ended) != 1 {
		t.Errorf("what was not collected is lost: %+v; ended %v", j, h.ended)
	}
}

func TestEndsOfJobs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	for name, c := range map[string]struct {
		do     func(j jobs.Job)
		status jobs.Status
		code   string
		keys   int
	}{
		"timeout":   {func(jobs.Job) { h.pass(6 * time.Minute) }, jobs.Timeout, "job_timeout", 1},
		"cancelled": {func(j jobs.Job) { _, _ = s.Cancel(t.Context(), j.ID, "Ann") }, jobs.Cancelled, "job_cancelled", 1},
		"asked": {func(j jobs.Job) {
			h.becomes(j.SessionID, func(one *sessions.Session) {
				one.State, one.Question = state.Waiting, &question.Question{Ask: agents.Ask{Title: "May I?"}}
			})
		}, jobs.Failed, "job_asked", 1},
		"failed turn": {func(j jobs.Job) {
			h.becomes(j.SessionID, func(one *sessions.Session) {
				one.State, one.Basis.Failed, one.StateReason = state.Idle, true, "the model is overloaded"
			})
		}, jobs.Failed, "job_agent_failed", 1},
		"spend limit": {func(j jobs.Job) {
			h.becomes(j.SessionID, func(one *sessions.Session) {
				one.State, one.Basis.Failed, one.Basis.Limit = state.Idle, true, usagelimit.Of(usagelimit.Spend, h.now, time.Time{})
			})
		}, jobs.Failed, "job_agent_failed", 1},
		"stopped": {func(j jobs.Job) {
			h.becomes(j.SessionID, func(one *sessions.Session) { one.State, one.StateReason = state.Exited, "stopped by Bob" })
		}, jobs.Cancelled, "job_stopped", 0},
		"lost": {func(j jobs.Job) {
			h.becomes(j.SessionID, func(one *sessions.Session) { one.State, one.StateReason = state.Lost, "its sandbox is gone" })
		}, jobs.Failed, "job_session_lost", 0},
	} {
		j := h.until(s, h.create(s, jobs.Request{ProjectID: "prj_1"}).ID, is(jobs.Running))
		before := len(h.keys)
		c.do(j)
		j = h.until(s, j.ID, done)
		if j.Status != c.status || j.Code != c.code || j.Error == "" || len(h.keys)-before != c.keys || !h.sessions[j.SessionID].State.Ended() {
			t.Errorf("%s: %s %s %q, interrupted %d times", name, j.Status, j.Code, j.Error, len(h.keys)-before)
		}
		if again, err := s.Cancel(t.Context(), j.ID, "Ann"); err != nil || again.Status != c.status {
			t.Errorf("%s: cancelled afterwards: %s %v", name, again.Status, err)
		}
	}
}

// An agent that waits for a limit of its provider has neither done its work nor failed.
func TestAJobOutlastsALimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	j := h.until(s, h.create(s, jobs.Request{ProjectID: "prj_1"}).ID, is(jobs.Running))
	h.becomes(j.SessionID, func(one *sessions.Session) {
		one.State, one.Basis.Failed, one.Basis.Limit = state.Idle, true, usagelimit.Of(usagelimit.Session, h.now, time.Time{})
	})
	other := h.until(s, h.create(s, jobs.Request{ProjectID: "prj_1"}).ID, is(jobs.Running)) // meanwhile
	h.exits(other.SessionID, 0)
	h.until(s, other.ID, done)
	if j, err := s.Get(t.Context(), j.ID); err != nil || j.Status != jobs.Running {
		t.Fatalf("at the limit: %s %s, %v", j.Status, j.Error, err)
	}
	h.becomes(j.SessionID, func(one *sessions.Session) {
		one.Basis.Failed, one.Basis.Limit, one.Basis.DoneAt = false, nil, h.now.UnixMilli()
	})
	if j = h.until(s, j.ID, done); j.Status != jobs.Completed {
		t.Errorf("after the limit: %s %s", j.Status, j.Error)
	}
}

// A job that is deleted is seen by nobody at once. It is cancelled when it runs, and goes with its artifacts, also when the server dies meanwhile.
func TestDeletedJobs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, kill := h.serve()
	ask := jobs.Request{Prompt: "p", Agent: "claude-code", ProjectID: "prj_1", Artifacts: []string{"a.txt", "gone.txt"}, Webhook: &jobs.Webhook{URL: "https://hooks.example/x", Secret: "0123456789abcdef"}}
	over, _, err := s.Create(t.Context(), h.ann, h.team, "k", ask)
	if err != nil {
		t.Fatal(err)
	}
	h.until(s, over.ID, is(jobs.Running))
	h.exits(over.SessionID, 0)
	over = h.until(s, over.ID, done)
	if err := (files{h}).Delete(t.Context(), artifacts.Artifact{ID: over.Files[1].ID}); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.discard = fault.New(fault.Internal, "disk", "the disk is away")
	h.mu.Unlock()
	runs := h.create(s, jobs.Request{Artifacts: []string{"b.txt"}})
	h.until(s, runs.ID, is(jobs.Running))
	waits := h.create(s, jobs.Request{ProjectID: "prj_1"})
	for _, j := range []jobs.Job{over, runs, waits} {
		for range 2 {
			if err := s.Delete(t.Context(), j.ID, "Ann"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Get(t.Context(), j.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("it is still seen: %v", err)
		}
	}
	if all, _, err := s.List(t.Context(), h.team, jobs.Filter{Viewer: h.ann.User.ID}, page.Page{}); err != nil || len(all) != 0 {
		t.Errorf("they are still listed: %v %v", all, err)
	}
	if again, made, err := s.Create(t.Context(), h.ann, h.team, "k", ask); err != nil || !made || again.ID == over.ID {
		t.Errorf("asked again with its key: %v %v", made, err)
	} else if err := s.Delete(t.Context(), again.ID, "Ann"); err != nil {
		t.Fatal(err)
	}
	kill()
	h.mu.Lock()
	h.discard = nil
	h.mu.Unlock()
	h.serve()
	rows := func() int { live, _ := h.store.LiveJobs(t.Context()); return len(live) }
	for end := time.Now().Add(30 * time.Second); rows() > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	for _, j := range []jobs.Job{over, runs, waits} {
		if _, err := h.store.Job(t.Context(), j.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("it has a row: %v", err)
		}
	}
	if h.count(func() int { return len(h.saved) }) != 0 || !h.sessions[runs.SessionID].State.Ended() || len(h.ended) != 1 {
		t.Errorf("left: artifacts %+v, session %s, sandboxes ended %v", h.saved, h.sessions[runs.SessionID].State, h.ended)
	}
	if kinds := h.reported(over.ID); len(kinds) != 1 || kinds[0] != "job.completed" {
		t.Errorf("reported %v", kinds)
	}
	if err := s.Delete(t.Context(), over.ID, "Ann"); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted once more: %v", err)
	}
}

// reported are the reports about a job.
func (h *harness) reported(id string) (kinds []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.posts {
		if p.About == id {
			kinds = append(kinds, p.Kind)
		}
	}
	return kinds
}

// An agent that has just started and is idle has not done its work, and one that says so has.
func TestIdleIsNotDone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	j := h.until(s, h.create(s, jobs.Request{Agent: "plain", ProjectID: "prj_1"}).ID, is(jobs.Running))
	h.becomes(j.SessionID, func(one *sessions.Session) { one.State = state.Idle })
	h.pass(10 * time.Second)
	if _, err := s.Cancel(t.Context(), "job_unknown", "Ann"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	looked := h.create(s, jobs.Request{Agent: "plain", ProjectID: "prj_1"})
	h.until(s, looked.ID, is(jobs.Running)) // a look has passed
	if j, _ = s.Get(t.Context(), j.ID); j.Status != jobs.Running {
		t.Fatalf("it counts as done: %+v", j)
	}
	h.pass(11 * time.Second)
	h.until(s, j.ID, is(jobs.Completed))
}

// A team without a free place has its jobs wait, and the next places go to the member with the fewest jobs.
func TestJobsWaitForAPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	places := 1
	h.refuse = func(string) error {
		if places == 0 {
			return fault.New(fault.RateLimited, "concurrency_limit", "The team has a sandbox, which is all.").With("scope", "team_concurrency")
		}
		places--
		return nil
	}
	s, _ := h.serve()
	first := h.until(s, h.create(s, jobs.Request{ProjectID: "prj_1"}).ID, is(jobs.Running))
	second := h.until(s, h.create(s, jobs.Request{ProjectID: "prj_1"}).ID, func(j jobs.Job) bool { return j.Refusals == 1 })
	if second.Status != jobs.Queued || !strings.Contains(second.Reason, "which is all") {
		t.Errorf("%+v", second)
	}
	theirs, _, err := s.Create(t.Context(), h.bob, h.team, "", jobs.Request{Prompt: "p", Agent: "command", Argv: []string{"x"}, ProjectID: "prj_1"})
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	places = 1
	h.mu.Unlock()
	h.pass(2 * time.Minute)
	h.until(s, theirs.ID, is(jobs.Running))
	if j, _ := s.Get(t.Context(), second.ID); j.Status != jobs.Queued {
		t.Errorf("the member with a running job came first: %+v", j)
	}
	h.mu.Lock()
	places = 1
	h.mu.Unlock()
	h.idle(first.SessionID)
	h.pass(2 * time.Minute)
	h.until(s, second.ID, is(jobs.Running))
	if n := len(h.workspaceNames()); n != 3 {
		t.Errorf("%d workspaces for three jobs", n)
	}
}

func TestJobsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve(func(c *jobs.Config) { c.AtOnce = 2 })
	var all []jobs.Job
	for range 4 {
		all = append(all, h.create(s, jobs.Request{ProjectID: "prj_1"}))
	}
	one := h.until(s, all[0].ID, is(jobs.Running))
	h.until(s, all[1].ID, is(jobs.Running))
	if j, err := s.Cancel(t.Context(), all[3].ID, "Ann"); err != nil || j.Step != jobs.Ending {
		t.Errorf("%+v %v", j, err)
	}
	if j := h.until(s, all[3].ID, done); j.Status != jobs.Cancelled || j.StartedAt != 0 {
		t.Errorf("%+v", j)
	}
	h.idle(one.SessionID)
	h.until(s, all[2].ID, is(jobs.Running))
	if n := h.count(func() int { return len(h.starts) }); n != 3 {
		t.Errorf("%d sessions", n)
	}
}

// One request with a key makes one job, whoever repeats it.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, kill := h.serve()
	r := jobs.Request{Prompt: "p", Agent: "claude-code", ProjectID: "prj_1"}
	first, made, err := s.Create(t.Context(), h.ann, h.team, "k", r)
	if err != nil || !made {
		t.Fatal(made, err)
	}
	kill()
	s, _ = h.serve()
	again, made, err := s.Create(t.Context(), h.ann, h.team, "k", r)
	if err != nil || made || again.ID != first.ID {
		t.Errorf("%s %v %v", again.ID, made, err)
	}
	if other, made, err := s.Create(t.Context(), h.bob, h.team, "k", r); err != nil || !made || other.ID == first.ID {
		t.Errorf("another user's key: %v %v", made, err)
	}
	r.Prompt = "q"
	if _, _, err := s.Create(t.Context(), h.ann, h.team, "k", r); fault.CodeOf(err) != "idempotency_key_reused" {
		t.Error(err)
	}
}

// A server that dies at any step is followed by one that goes on: nothing is made or started twice.
func TestJobsSurviveServers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, kill := h.serve()
	started := make(chan struct{})
	h.onStart = func() bool { close(started); return false }
	j := h.create(s, jobs.Request{})
	<-started
	kill()
	h.onStart = nil
	s, kill = h.serve()
	j = h.until(s, j.ID, is(jobs.Running))
	kill()
	h.says(j.SessionID, "Done while nobody looked.")
	h.idle(j.SessionID)
	h.collect = errors.New("not yet")
	s, kill = h.serve()
	h.until(s, j.ID, func(j jobs.Job) bool { return j.Step == jobs.Ending })
	kill()
	h.collect = nil
	s, _ = h.serve()
	j = h.until(s, j.ID, done)
	if j.Status != jobs.Completed || j.Output != "Done while nobody looked." || len(h.starts) != 1 || len(h.boxes) != 1 || len(h.ended) != 1 {
		t.Errorf("%+v; %d starts, %d sandboxes, ended %v", j, len(h.starts), len(h.boxes), h.ended)
	}
}

func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	ok := jobs.Request{Prompt: "p", Agent: "claude-code"}
	for name, c := range map[string]struct {
		change func(*jobs.Request)
		code   string
	}{
		"no prompt":       {func(r *jobs.Request) { r.Prompt = " " }, "invalid_job"},
		"a NUL":           {func(r *jobs.Request) { r.Prompt = "a\x00b" }, "invalid_job"},
		"a shell":         {func(r *jobs.Request) { r.Agent = "shell" }, "invalid_job"},
		"no program":      {func(r *jobs.Request) { r.Agent = "command" }, "invalid_job"},
		"unknown agent":   {func(r *jobs.Request) { r.Agent = "missing" }, "agent_not_installed"},
		"short":           {func(r *jobs.Request) { r.TimeoutMs = 1 }, "invalid_job"},
		"long":            {func(r *jobs.Request) { r.TimeoutMs = jobs.MaxTimeout + 1 }, "invalid_job"},
		"both":            {func(r *jobs.Request) { r.ProjectID, r.SandboxID = "prj_1", "asb_1" }, "invalid_job"},
		"another's":       {func(r *jobs.Request) { r.ProjectID = "prj_2" }, "not_found"},
		"no such sandbox": {func(r *jobs.Request) { r.SandboxID = "asb_9" }, "sandbox_not_found"},
		"a way out":       {func(r *jobs.Request) { r.Artifacts = []string{"../x"} }, "invalid_job"},
		"a branch alone":  {func(r *jobs.Request) { r.Branch = "b" }, "invalid_job"},
	} {
		r := ok
		c.change(&r)
		if _, _, err := s.Create(t.Context(), h.ann, h.team, "", r); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	h.isolate = false
	if _, _, err := s.Create(t.Context(), h.ann, h.team, "", ok); fault.CodeOf(err) != "job_needs_isolation" {
		t.Error(err)
	}
	ok.ConfirmNoBoundary = true
	if _, _, err := s.Create(t.Context(), h.ann, h.team, "", ok); err != nil {
		t.Error(err)
	}
	h.bob.Memberships = nil
	j, _, err := s.Create(t.Context(), h.bob, h.team, "", ok)
	if err != nil {
		t.Fatal(err)
	}
	if j = h.until(s, j.ID, done); j.Status != jobs.Failed || j.Code == "" || j.StartedAt != 0 {
		t.Errorf("who may not any more: %+v", j)
	}
}

// Who follows a job reads each thing once, also with a second connection.
func TestFollow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	j := h.until(s, h.create(s, jobs.Request{ProjectID: "prj_1", Artifacts: []string{"a"}}).ID, is(jobs.Running))
	h.says(j.SessionID, "first")
	errStop := errors.New("enough")
	var last string
	var got []string
	note := func(e jobs.Event) {
		what := e.Kind
		switch e.Kind {
		case jobs.TextEvent:
			what += " " + e.Text.Text
		case jobs.StatusEvent, jobs.EndEvent:
			what += " " + string(e.Job.Status)
		}
		got, last = append(got, what), e.ID
	}
	if err := s.Follow(t.Context(), j.ID, "", func(e jobs.Event) error {
		note(e)
		if e.Kind == jobs.TextEvent {
			return errStop
		}
		return nil
	}); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	h.says(j.SessionID, "second "+secret)
	h.idle(j.SessionID)
	h.until(s, j.ID, done)
	if err := s.Follow(t.Context(), j.ID, last, func(e jobs.Event) error { note(e); return nil }); err != nil {
		t.Fatal(err)
	}
	want := "status running, text first, status completed, text second *********************, artifacts, end completed"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("%s\nwant %s", all, want)
	}
	got = nil
	if err := s.Follow(t.Context(), j.ID, last, func(e jobs.Event) error { note(e); return nil }); err != nil || len(got) != 1 {
		t.Errorf("after the end: %v %v", got, err)
	}
	if err := s.Follow(t.Context(), j.ID, "x", nil); fault.CodeOf(err) != "invalid_parameter" {
		t.Error(err)
	}

	// A program's terminal is read in whole lines, without control sequences.
	j = h.until(s, h.create(s, jobs.Request{Agent: "command", Argv: []string{"x"}}).ID, is(jobs.Running))
	h.prints(j.SessionID, "\x1b[31mred\x1b[0m\r\nhalf")
	ctx, cancel := context.WithCancel(t.Context())
	got = nil
	_ = s.Follow(ctx, j.ID, "", func(e jobs.Event) error {
		note(e)
		if e.Kind == jobs.TextEvent {
			h.prints(j.SessionID, " whole\n")
			if len(got) > 2 {
				cancel()
			}
		}
		return nil
	})
	if len(got) != 3 || got[1] != "text red\n" || got[2] != "text half whole\n" {
		t.Errorf("%q", got)
	}
}

func TestListOfJobs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	open, mine := h.create(s, jobs.Request{ProjectID: "prj_1"}), h.create(s, jobs.Request{})
	seen := func(who accounts.Actor, f jobs.Filter) string {
		t.Helper()
		var ids []string
		f.Viewer = who.User.ID
		for pg := (page.Page{Limit: 1}); ; {
			some, next, err := s.List(t.Context(), h.team, f, pg)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range some {
				ids = append(ids, j.ID)
			}
			if pg.Cursor = next; next == "" {
				return fmt.Sprint(ids)
			}
		}
	}
	h.until(s, open.ID, is(jobs.Running))
	h.until(s, mine.ID, is(jobs.Running))
	if got := seen(h.bob, jobs.Filter{}); got != fmt.Sprint([]string{open.ID}) {
		t.Errorf("another member sees %s", got)
	}
	if got := seen(h.ann, jobs.Filter{Status: jobs.Running}); !strings.Contains(got, open.ID) || !strings.Contains(got, mine.ID) {
		t.Errorf("its user sees %s", got)
	}
	if got := seen(h.ann, jobs.Filter{Status: jobs.Failed}); got != "[]" {
		t.Errorf("failed: %s", got)
	}
}
