package testkit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/testing/testkit"
)

// job is a job as the API shows it.
type job struct {
	ID, Status, Output, Code, Error string
	WorkspaceID                     string `json:"workspace_id"`
	SandboxID                       string `json:"sandbox_id"`
	CostNano                        *int64 `json:"cost_nano"`
	Artifacts                       []struct{ Name, URL string }
	Webhook                         *struct{ Deliveries []struct{ State string } }
}

func getJob(h *testkit.Instance, id string) (j job) {
	h.API("GET", "/jobs/"+id, nil, &j)
	return j
}

// Jobs of Parawork's own agent and of a program: killed in the middle, cancelled, timed out; with artifacts, a signed report and one job for
// one key.
func TestJobs(t *testing.T) {
	t.Parallel()
	const key = "0123456789abcdef"
	type report struct {
		Type string
		Job  job
	}
	reports := make(chan report, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got report
		body, err := io.ReadAll(r.Body)
		stamp, sum, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Parawork-Signature"), "t="), ",v1=")
		if err != nil || sum != notify.Sign(key, stamp, string(body)) || json.Unmarshal(body, &got) != nil {
			t.Errorf("%v, signature %q, body %s", err, r.Header.Get("Parawork-Signature"), body)
		}
		reports <- got
	}))
	t.Cleanup(hook.Close)
	h, _, _ := ownAgent(t)
	jobs, project := "/teams/"+h.Team+"/jobs", h.Sample()
	ends := func(id string) (j job) {
		h.Wait("the job ends", func() bool { j = getJob(h, id); return j.Status != "queued" && j.Status != "running" })
		return j
	}

	ask := map[string]any{"agent": "parawork", "project_id": project, "executor": "local", "confirm_no_boundary": true, "artifacts": []string{"*.txt"}, "webhook": map[string]string{"url": hook.URL, "secret": key},
		"prompt": script(t, map[string]any{"text": "I work.", "tools": calls("run_command", map[string]any{"command": "echo one >> made.txt; while [ ! -e go ]; do sleep 0.1; done"})}, says("All done.", 120, 5, 50, 0))}
	var j, again job
	h.API("POST", jobs, ask, &j, "Idempotency-Key", "k1")
	if j.Status != "queued" {
		t.Errorf("at first: %+v", j)
	}
	made := func(name string) string {
		var ws testkit.Workspace
		if err := h.Try("GET", "/workspaces/"+getJob(h, j.ID).WorkspaceID, nil, &ws); err != nil {
			return ""
		}
		b, _ := os.ReadFile(filepath.Join(ws.Path, name))
		return string(b)
	}
	h.Wait("the agent works", func() bool { return made("made.txt") != "" })
	var why struct {
		Executor string
		Steps    []struct {
			Rule    string
			Decided bool
		}
	}
	if h.API("GET", "/workspaces/"+getJob(h, j.ID).WorkspaceID+"/place-choice", nil, &why); why.Executor != "local" || len(why.Steps) == 0 || why.Steps[0].Rule != "named" || !why.Steps[0].Decided {
		t.Errorf("why its workspace is there: %+v", why)
	}
	h.Kill()
	h.Boot()
	h.API("POST", jobs, ask, &again, "Idempotency-Key", "k1")
	if again.ID != j.ID {
		t.Errorf("a second job for one key: %s", again.ID)
	}
	if j = ends(j.ID); j.Status != "completed" || j.Output != "All done." || j.CostNano == nil || len(j.Artifacts) != 1 || j.Artifacts[0].Name != "made.txt" {
		t.Errorf("%+v", j)
	}
	if r := <-reports; r.Type != "job.completed" || r.Job.ID != j.ID || r.Job.Output != "All done." || made("made.txt") != "one\n" {
		t.Errorf("reported %+v; the file %q", r, made("made.txt"))
	}
	h.Wait("the job shows that its report arrived", func() bool { return getJob(h, j.ID).Webhook.Deliveries[0].State == "delivered" })
	_, body, err := h.Do("GET", strings.TrimPrefix(j.Artifacts[0].URL, "/api/v1"), nil)
	if err != nil || string(body) != "one\n" {
		t.Errorf("the artifact: %q %v", body, err)
	}
	_, body, err = h.Do("GET", "/jobs/"+j.ID+"/events", nil)
	if err != nil || !strings.Contains(string(body), "event: text\n") || !strings.Contains(string(body), "All done.") || !strings.Contains(string(body), "event: artifacts\n") || !strings.Contains(string(body), "event: end\n") {
		t.Errorf("events: %v %s", err, body)
	}

	// A program in a sandbox of its own, which gets the prompt as one argument.
	program := func(more map[string]any, line, prompt string) (j job) {
		ask := map[string]any{"agent": "command", "executor": "local", "argv": []string{"sh", "-c", line, "sh"}, "prompt": prompt}
		for k, v := range more {
			ask[k] = v
		}
		h.API("POST", jobs, ask, &j)
		return j
	}
	j = ends(program(nil, `echo "got $1"; printf %s "$1" > "$PARAWORK_ARTIFACTS/said.txt"`, "$(exit 1); `x`").ID)
	if j.Status != "completed" || !strings.Contains(j.Output, "got $(exit 1); `x`") || len(j.Artifacts) != 1 || j.Artifacts[0].Name != "said.txt" {
		t.Errorf("%+v", j)
	}
	h.Wait("its sandbox is gone", func() bool { return h.Try("GET", "/sandboxes/"+j.SandboxID, nil, nil) != nil })
	if _, body, err = h.Do("GET", strings.TrimPrefix(j.Artifacts[0].URL, "/api/v1"), nil); err != nil || string(body) != "$(exit 1); `x`" {
		t.Errorf("what its sandbox left: %q %v", body, err)
	}
	if j = ends(program(nil, "exit 3", "p").ID); j.Status != "failed" || j.Code != "job_agent_exited" {
		t.Errorf("%+v", j)
	}
	if j = ends(program(map[string]any{"timeout_ms": 1000, "project_id": project}, "echo begun; exec sleep 1000", "p").ID); j.Status != "timeout" || j.Output != "begun" {
		t.Errorf("%+v", j)
	}
	j = program(map[string]any{"project_id": project}, "echo begun; exec sleep 1000", "p")
	h.Wait("it runs", func() bool { return getJob(h, j.ID).Status == "running" })
	h.API("POST", "/jobs/"+j.ID+"/cancel", nil, nil)
	if j = ends(j.ID); j.Status != "cancelled" || j.Code != "job_cancelled" {
		t.Errorf("%+v", j)
	}
	h.Refused(http.StatusConflict, "job_needs_isolation", "POST", jobs, map[string]any{"agent": "parawork", "executor": "local", "prompt": "p"})
}

func (d *death) job() {
	_ = d.Try("POST", "/teams/"+d.Team+"/jobs", map[string]any{"agent": "command", "argv": []string{"sh", "-c", "echo x >> ran; sleep 0.2", "sh"}, "prompt": "p", "project_id": d.project, "artifacts": []string{"ran"}}, nil)
}

// jobDoneOnce: the job that was cut ends as it would have, and its program ran once.
func (d *death) jobDoneOnce() {
	var all struct{ Items []job }
	d.Wait("the job ends", func() bool {
		d.API("GET", "/teams/"+d.Team+"/jobs", nil, &all)
		return len(all.Items) == 1 && all.Items[0].Status != "queued" && all.Items[0].Status != "running"
	})
	ws := d.only()
	b, err := os.ReadFile(filepath.Join(ws.Path, "ran"))
	if j := all.Items[0]; j.Status != "completed" || len(j.Artifacts) != 1 || err != nil || string(b) != "x\n" {
		d.t.Errorf("%+v; it left %q %v", j, b, err)
	}
}

// writeAutomation makes an automation that people start.
func (d *death) writeAutomation() {
	d.API("POST", "/teams/"+d.Team+"/automations", map[string]any{"name": "n", "trigger": map[string]any{"kind": "manual"},
		"work": map[string]any{"agent": "command", "argv": []string{"sh", "-c", "echo x >> ran; sleep 0.2", "sh"}, "prompt": "{{event.what}}", "project_id": d.project, "artifacts": []string{"ran"}}}, nil)
}

func (d *death) runAutomation() {
	var all struct{ Items []struct{ ID string } }
	d.API("GET", "/teams/"+d.Team+"/automations", nil, &all)
	_ = d.Try("POST", "/automations/"+all.Items[0].ID+"/run", map[string]any{"event": map[string]string{"what": "p"}}, nil)
}

// skill is a skill as the API shows it.
type skill struct {
	ID, Text       string
	Version, Draft int64
	InUse          int64 `json:"in_use"`
}

func (d *death) writeSkill() {
	d.API("POST", "/teams/"+d.Team+"/skills", map[string]any{"name": "release", "description": "How to release", "text": "one"}, nil)
}

func (d *death) onlySkill() (s skill, versions []string) {
	var all struct{ Items []skill }
	d.API("GET", "/teams/"+d.Team+"/skills?q=release", nil, &all)
	if len(all.Items) != 1 {
		d.t.Fatalf("%d skills, want one", len(all.Items))
	}
	d.API("GET", "/skills/"+all.Items[0].ID, nil, &s)
	var kept struct{ Items []struct{ Text string } }
	d.API("GET", "/skills/"+s.ID+"/versions", nil, &kept)
	for _, v := range kept.Items {
		versions = append(versions, v.Text)
	}
	return s, versions
}

func (d *death) saveSkill() {
	s, _ := d.onlySkill()
	_ = d.Try("PATCH", "/skills/"+s.ID, map[string]any{"text": "two", "version": s.Version}, nil)
}

// savedWholeOrNot: the version that was cut is not there, nor counted, and can be saved.
func (d *death) savedWholeOrNot() {
	if s, versions := d.onlySkill(); s.Version != 1 || s.InUse != 1 || s.Draft != 0 || s.Text != "one" || len(versions) != 1 {
		d.t.Errorf("after the crash: %+v, versions %q", s, versions)
	}
	d.saveSkill()
	if s, versions := d.onlySkill(); s.Version != 2 || s.InUse != 2 || s.Text != "two" || len(versions) != 2 {
		d.t.Errorf("saved again: %+v, versions %q", s, versions)
	}
}

// jobDone: a real agent does a job without a person, where its place keeps it in. It completes with the agent's last answer, the file that it
// made and what it cost, and goes with the file when it is deleted.
func jobDone(t *testing.T, h *testkit.Instance, agent string, step map[string]any) {
	t.Helper()
	var j job
	h.API("POST", "/teams/"+h.Team+"/jobs", map[string]any{"agent": agent, "project_id": h.Sample(), "executor": "bubblewrap", "artifacts": []string{"one.txt"}, "prompt": script(t, step, says("One is there.", 100, 10, 0, 0))}, &j)
	h.Wait("the job ends", func() bool { j = getJob(h, j.ID); return j.Status != "queued" && j.Status != "running" })
	if j.Status != "completed" || j.Output != "One is there." || j.CostNano == nil || *j.CostNano == 0 || len(j.Artifacts) != 1 || j.Artifacts[0].Name != "one.txt" {
		t.Fatalf("%+v", j)
	}
	h.API("DELETE", "/jobs/"+j.ID, nil, nil)
	h.Wait("its artifact is gone", func() bool { return h.Try("GET", strings.TrimPrefix(j.Artifacts[0].URL, "/api/v1"), nil, nil) != nil })
}
