package testkit_test

import "strings"

// plan has Parawork's own agent propose a plan, and waits for the question about it.
func (d *death) plan() {
	d.ws = d.Workspace(d.project, "Planned")
	d.API("PUT", "/me/agent-accounts/parawork", map[string]any{"kind": "api_key", "api_key": "sk-ant-api03-" + strings.Repeat("fghij-kl", 5), "base_url": scripted(d.t)}, nil)
	d.API("POST", "/workspaces/"+d.ws.ID+"/sessions", map[string]any{"agent": "parawork", "argv": []string{"--mode", "plan"}, "prompt": script(d.t,
		map[string]any{"text": "I plan.", "tools": calls("plan_propose", map[string]any{"title": "Add a cache", "steps": "1. Write it", "tasks": []any{
			map[string]any{"title": "Write the cache"}, map[string]any{"title": "Test the cache", "blocked_by": []int{1}}}})},
		says("Built.", 1, 1, 0, 0))}, &d.session)
	d.worker().reaches("waiting")
}

func (d *death) worker() *work { return &work{t: d.t, h: d.Instance, id: d.session.ID} }

func (d *death) approve() {
	var open struct{ Items []struct{ ID string } }
	d.API("GET", "/sessions/"+d.session.ID+"/questions", nil, &open)
	if len(open.Items) != 1 {
		d.t.Fatalf("%d questions are open", len(open.Items))
	}
	_ = d.Try("POST", "/sessions/"+d.session.ID+"/answer", map[string]any{"question_id": open.Items[0].ID, "option_ids": []string{"start"}}, nil)
}

// plannedOnce: the person is not asked again, the tasks are there once, and the agent has begun.
func (d *death) plannedOnce() {
	w := d.worker()
	w.waits("the agent builds", func() bool { return strings.Contains(w.screen(), "Built.") })
	w.reaches("idle")
	var made struct {
		Items []struct{ Title string }
	}
	d.API("GET", "/teams/"+d.Team+"/tasks", nil, &made)
	var titles []string
	for _, t := range made.Items {
		titles = append(titles, t.Title)
	}
	if all := strings.Join(titles, ", "); len(titles) != 2 || !strings.Contains(all, "Write the cache") || !strings.Contains(all, "Test the cache") {
		d.t.Errorf("the tasks of the plan: %s", all)
	}
	var thread struct {
		Thread struct{ Mode string }
		Calls  []struct{ Tool, State string }
	}
	var of struct{ ID string }
	d.API("GET", "/sessions/"+d.session.ID+"/thread", nil, &of)
	d.API("GET", "/threads/"+of.ID, nil, &thread)
	if thread.Thread.Mode != "build" || len(thread.Calls) != 1 || thread.Calls[0].State != "done" {
		d.t.Errorf("the thread: %+v", thread)
	}
	if qs := w.questions(); len(qs) != 1 {
		d.t.Errorf("the plan was asked about %d times", len(qs))
	}
}
