package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

func ids(a agents.Ask) (out []string) {
	for _, o := range a.Options {
		out = append(out, o.ID)
	}
	return out
}

// Rules decide before anybody is asked, also in a session that asks nothing.
func TestRulesDecide(t *testing.T) {
	for _, permitted := range []string{agents.AskPermissions, agents.AllPermissions} {
		h := newHarness(t)
		h.host.row.Permissions = permitted
		h.rules.all = []permissions.Rule{{ID: "1", Tool: "run_command", Pattern: "go test *", Effect: permissions.Allow}, {ID: "2", Tool: "commands", Pattern: "git push *", Effect: permissions.Deny},
			{ID: "3", ProjectID: "prj_1", Tool: "run_command", Pattern: "rm *", Effect: permissions.Ask}, {ID: "4", Tool: "file_read", Effect: permissions.Ask}}
		h.model.then(wants("run_command", `{"command":"cd a && go test ./..."}`, "run_command", `{"command":"git -C . push"}`, "run_command", `{"command":"rm x"}`, "file_read", `{"path":"a"}`), says("Done."))
		th := h.open(agent.Options{})
		h.send(th.ID, "Go.")
		q := h.question()
		if !strings.Contains(q.ask.Title, "rm x") || !strings.Contains(q.ask.Detail, "rule of the project asks: ask run_command: rm *") {
			t.Errorf("asked %+v", q.ask)
		}
		equal(t, "options where a rule asks", ids(q.ask), []string{"allow", "deny"})
		q.choose("deny", "")
		h.question().choose("allow", "") // reading
		v := h.rest(th.ID)
		var got []string
		for _, c := range v.calls {
			got = append(got, string(c.State))
		}
		if s := strings.Join(got, " "); s != "done denied denied done" || !strings.Contains(v.outcomes()[1], "A permission rule of the team forbids this call: deny commands: git push *") {
			t.Errorf("%s: %s %q", permitted, s, v.outcomes())
		}
		h.kill()
	}
}

// What is allowed for ever is a rule of the project, which only people add who may change it; what is allowed for the session outlives the turn.
func TestAnswersThatAddRules(t *testing.T) {
	h := newHarness(t)
	h.host.admin = accounts.Actor{User: accounts.User{ID: h.user}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: h.team}, Role: accounts.Admin}}}
	h.model.then(wants("run_command", `{"command":"go test ./a"}`), wants("run_command", `{"command":"go test ./b"}`), wants("run_command", `{"command":"go run ."}`), says("Done."),
		wants("run_command", `{"command":"go env"}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	q := h.question()
	if always := q.ask.Options[2]; always.Label != "Always in this project: run_command: go test *" || !strings.Contains(always.Description, `"allow run_command: go test *"`) {
		t.Errorf("%+v", always)
	}
	q.choose("always", "")
	h.question().choose("session", "")
	h.rest(th.ID)
	equal(t, "rules", h.rules.list(), []string{"project allow run_command: go test *", "session allow run_command: go *"})
	h.send(th.ID, "And the environment.") // nobody is asked
	v := h.until(th.ID, func(v *view) bool { return len(v.calls) == 4 && v.State == agent.Idle })
	if v.calls[3].State != agent.CallDone {
		t.Errorf("%q", v.outcomes())
	}
	h.kill()

	h = newHarness(t)
	h.host.admin = accounts.Actor{User: accounts.User{ID: h.user}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: h.team}, Role: accounts.Member}}}
	h.model.then(wants("run_command", `{"command":"go test ./a"}`))
	th = h.open(agent.Options{})
	h.send(th.ID, "Go.")
	h.question().choose("always", "")
	if v := h.rest(th.ID); v.Code != "permission_rule_refused" || len(h.rules.list()) != 0 {
		t.Errorf("%s, rules %q", v.Code, h.rules.list())
	}
}

// Paths are judged where they lead, and what allows everything counts only where the place isolates.
func TestRulesLookIntoThePlace(t *testing.T) {
	h := newHarness(t)
	h.place = func(context.Context, string) (agent.Place, error) {
		return agent.Place{Real: func(p string) (string, string, error) {
			if p == "src/link" {
				return p, "secret", nil
			}
			if p == "cut" {
				return "", "", fault.New(fault.Unavailable, "x", "no")
			}
			return p, p, nil
		}}, nil
	}
	h.rules.all = []permissions.Rule{{ID: "1", Tool: "files", Pattern: "src/**", Effect: permissions.Allow}, {ID: "2", Tool: "*", Effect: permissions.Allow}}
	h.model.then(wants("run_command", `{"command":"ls"}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	h.question().choose("deny", "")
	if v := h.rest(th.ID); v.calls[0].State != agent.CallDenied {
		t.Errorf("%q", v.outcomes())
	}
}

// In the modes that change nothing, commands run only when they are known to change nothing, and then without a question.
func TestModesRunOnlyWhatReads(t *testing.T) {
	for _, mode := range []agent.Mode{agent.Plan, agent.Ask, agent.Review} {
		h := newHarness(t)
		h.model.then(wants("run_command", `{"command":"git log --oneline | head -3"}`, "run_command", `{"command":"git log > x"}`, "run_command", `{"command":"touch x"}`, "browser_screenshot", `{"name":"x"}`, "browser_screenshot", `{}`, "task_export", `{"file":"x"}`), says("Done."))
		th := h.open(agent.Options{Mode: mode})
		h.send(th.ID, "Go.")
		var got []string
		for _, c := range h.rest(th.ID).calls {
			got = append(got, string(c.State))
		}
		if s := strings.Join(got, " "); s != "done denied denied denied done denied" {
			t.Errorf("%s: %s", mode, s)
		}
		var offered []string
		for _, tool := range h.model.asked()[0].Tools {
			offered = append(offered, tool.Name)
		}
		if !slices.Contains(offered, "run_command") || slices.Contains(offered, "file_write") {
			t.Errorf("%s offers %q", mode, offered)
		}
		h.kill()
	}
}
