package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/tendingstore"
	"github.com/parawork/parawork/workspaces"
)

type inboxJSON struct {
	Count int
	Items []struct {
		ID, Kind, Reason, Agent, Question any
		WorkspaceKey                      string `json:"workspace_key"`
		ProjectName                       string `json:"project_name"`
		SessionID                         string `json:"session_id"`
		SnoozedUntil                      *int64 `json:"snoozed_until"`
	}
}

func (b inboxJSON) kinds() string {
	var out []string
	for _, it := range b.Items {
		out = append(out, fmt.Sprint(it.Kind))
	}
	return strings.Join(out, " ")
}

func TestInbox(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	ctx := t.Context()
	accounts, kept := store.NewSessions(h.db), store.NewWorkspaces(h.db)
	add := func(n int, state workspaces.State, s *sessions.Session) string {
		w := workspaces.Workspace{ID: id.New("ws"), TeamID: p.team.ID, ProjectID: p.ids["project"], Name: "w", Branch: fmt.Sprint("b", n), Base: "main", Executor: "fake",
			State: state, StateReason: "no disk", CreatedBy: "usr_1", CreatedAt: 1, UpdatedAt: int64(n)}
		if state == workspaces.Archived {
			w.ArchivedAt = 5
		}
		if _, err := kept.InsertWorkspace(ctx, w); err != nil {
			t.Fatal(err)
		}
		if s == nil {
			return w.ID
		}
		s.ID, s.TeamID, s.WorkspaceID, s.Cols, s.Rows, s.CreatedBy, s.StartedAt = id.New("ses"), p.team.ID, w.ID, 80, 24, "usr_1", 1
		if err := accounts.InsertSession(ctx, *s, "home"); err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	code := 0
	waiting := add(2, workspaces.Ready, &sessions.Session{Agent: agents.ClaudeCode, State: state.Waiting, StateReason: "needs your permission", StateAt: 50})
	add(3, workspaces.Failed, nil)
	finished := add(4, workspaces.Ready, &sessions.Session{Agent: agents.Codex, State: state.Exited, ExitCode: &code, StateReason: "exited with code 0", EndedAt: 60})
	add(5, workspaces.Ready, &sessions.Session{Agent: agents.Codex, State: state.Lost, StateReason: "the place it ran in is gone", EndedAt: 70})
	add(6, workspaces.Archived, &sessions.Session{Agent: agents.Codex, State: state.Lost, EndedAt: 80})
	asked := add(7, workspaces.Ready, &sessions.Session{Agent: agents.ClaudeCode, State: state.Waiting, StateAt: 40})
	q := question.Question{ID: id.New("qst"), TeamID: p.team.ID, SessionID: asked, Source: question.AskedByHook, State: question.Open, AskedAt: 40,
		Ask: agents.Ask{Kind: agents.Permission, Title: "Run rm?", Options: []agents.Option{{ID: "allow", Label: "Allow", Role: agents.Allow}}}}
	row, err := accounts.Session(ctx, asked)
	if err != nil {
		t.Fatal(err)
	}
	q.WorkspaceID = row.WorkspaceID
	if err := accounts.InsertQuestion(ctx, q); err != nil {
		t.Fatal(err)
	}
	see := func(who string) (b inboxJSON) {
		t.Helper()
		h.do("GET", "/api/v1/teams/"+p.team.Slug+"/inbox", "", bearer(p.tokens[who])...).into(t, &b)
		return b
	}
	b := see("member")
	if b.kinds() != "question question failed failed finished" || b.Count != 5 {
		t.Fatalf("inbox %s, %d", b.kinds(), b.Count)
	}
	if first := b.Items[0]; first.ID != q.ID || first.SessionID != asked || first.Reason != "Run rm?" || first.Question == nil || first.WorkspaceKey == "" || first.ProjectName != "p" {
		t.Errorf("first %+v", first)
	}
	if second := b.Items[1]; second.SessionID != waiting || second.Question != nil || second.ID != waiting+"-50" {
		t.Errorf("second %+v", second)
	}
	post := func(who, method, path, body string, want int) reply {
		t.Helper()
		r := h.do(method, "/api/v1"+path, body, bearer(p.tokens[who])...)
		if r.StatusCode != want {
			t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, r.body)
		}
		return r
	}
	// What one user puts away stays with the others.
	post("member", "POST", fmt.Sprintf("/inbox/%v/snooze", b.Items[1].ID), fmt.Sprintf(`{"until":%d}`, time.Now().Add(time.Hour).UnixMilli()), http.StatusNoContent)
	post("member", "POST", fmt.Sprintf("/inbox/%v/done", b.Items[2].ID), "", http.StatusNoContent)
	post("member", "POST", fmt.Sprintf("/inbox/%s/done", finished), "", http.StatusNoContent)
	if b := see("member"); b.kinds() != "question failed question" || b.Count != 2 || b.Items[2].SnoozedUntil == nil || b.Items[0].SnoozedUntil != nil {
		t.Errorf("inbox %s, %d", b.kinds(), b.Count)
	}
	if b := see("viewer"); b.Count != 5 {
		t.Errorf("the other sees %s", b.kinds())
	}
	post("member", "DELETE", fmt.Sprintf("/inbox/%s/done", finished), "", http.StatusNoContent)
	post("member", "POST", fmt.Sprintf("/inbox/%v/snooze", b.Items[1].ID), `{"until":5}`, http.StatusNoContent)
	if b := see("member"); b.kinds() != "question question failed finished" || b.Count != 4 {
		t.Errorf("inbox %s, %d", b.kinds(), b.Count)
	}
	if r := post("member", "POST", fmt.Sprintf("/inbox/%s/snooze", finished), fmt.Sprintf(`{"until":%d}`, time.Now().AddDate(3, 0, 0).UnixMilli()), http.StatusBadRequest); r.code() != "invalid_snooze" {
		t.Errorf("got %s", r.body)
	}
	// A pull request that needs somebody, beside an agent that has finished; its agent's question is the session's.
	row, err = accounts.Session(ctx, finished)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{tending.AgentAsks, tending.RoundsSpent} {
		err = tendingstore.New(h.db).PutTending(tenant.In(ctx, p.team.ID), tending.Tending{WorkspaceID: row.WorkspaceID, TeamID: p.team.ID, CreatedBy: "usr_1", State: tending.NeedsYou, Code: code, Because: "The limit is reached.", Since: 90, CreatedAt: 1})
		if err != nil {
			t.Fatal(err)
		}
		kinds, reason := "question question failed finished", api.AttentionReasonFinished
		if code == tending.RoundsSpent {
			kinds, reason = "question question failed stuck finished", api.AttentionReasonStuck
		}
		var w api.Workspace
		h.do("GET", "/api/v1/workspaces/"+row.WorkspaceID, "", bearer(p.tokens["member"])...).into(t, &w)
		if b := see("member"); b.kinds() != kinds || w.Attention == nil || w.Attention.Reason != reason {
			t.Errorf("%s: inbox %s, attention %+v", code, b.kinds(), w.Attention)
		}
	}
	post("member", "POST", fmt.Sprintf("/inbox/%s-90/done", row.WorkspaceID), "", http.StatusNoContent)
	if b := see("member"); b.kinds() != "question question failed finished" {
		t.Errorf("inbox %s", b.kinds())
	}
	post("outsider", "POST", fmt.Sprintf("/inbox/%s/done", q.ID), "", http.StatusNotFound)
	post("member", "POST", "/inbox/qst_none/done", "", http.StatusNotFound)
	post("member", "POST", "/inbox/other/done", "", http.StatusNotFound)

	// Answering: its own right; nothing is recorded that did not reach an agent.
	answer := fmt.Sprintf(`{"question_id":%q,"option_id":"allow"}`, q.ID)
	if r := post("viewer", "POST", "/sessions/"+asked+"/answer", answer, http.StatusForbidden); !strings.Contains(string(r.body), "question.answer") {
		t.Errorf("got %s", r.body)
	}
	for body, code := range map[string]string{
		answer: "session_not_ready",
		fmt.Sprintf(`{"question_id":%q,"option_id":"no"}`, q.ID):                       "invalid_answer",
		fmt.Sprintf(`{"question_id":%q}`, q.ID):                                        "invalid_answer",
		fmt.Sprintf(`{"question_id":%q,"text":"yes"}`, q.ID):                           "invalid_answer",
		fmt.Sprintf(`{"question_id":%q,"option_id":"allow","option_ids":["x"]}`, q.ID): "invalid_answer",
		fmt.Sprintf(`{"question_id":%q,"option_ids":["allow","allow"]}`, q.ID):         "invalid_answer",
		fmt.Sprintf(`{"question_id":%q,"option_id":"allow","via":"pigeon"}`, q.ID):     "invalid_answer",
		`{"question_id":"qst_none","option_id":"allow"}`:                               "question_not_found",
		`{"question_id":"../x","option_id":"allow"}`:                                   "question_not_found",
	} {
		if r := h.do("POST", "/api/v1/sessions/"+asked+"/answer", body, bearer(p.tokens["member"])...); r.code() != code {
			t.Errorf("%s: %d %s, want %s", body, r.StatusCode, r.body, code)
		}
	}
	if r := h.do("POST", "/api/v1/sessions/"+waiting+"/answer", answer, bearer(p.tokens["member"])...); r.code() != "question_not_found" {
		t.Errorf("a question of another session: %s", r.body)
	}
	q.State, q.Answer, q.Via, q.AnsweredAt = question.Answered, "Allow", question.ViaTerminal, 60
	if _, err := accounts.CloseQuestion(ctx, q); err != nil {
		t.Fatal(err)
	}
	if r := post("member", "POST", "/sessions/"+asked+"/answer", answer, http.StatusConflict); r.code() != "already_answered" || !strings.Contains(string(r.body), "in the terminal") {
		t.Errorf("got %s", r.body)
	}
	var list struct {
		Items []struct {
			ID, State, Answer, Via string
			AnsweredAt             *int64 `json:"answered_at"`
		}
	}
	h.do("GET", "/api/v1/sessions/"+asked+"/questions", "", bearer(p.tokens["viewer"])...).into(t, &list)
	if len(list.Items) != 1 || list.Items[0].Answer != "Allow" || list.Items[0].State != "answered" || list.Items[0].AnsweredAt == nil {
		t.Errorf("questions %+v", list)
	}
}

// An operator finds in the inbox that the instance's budget is nearly spent, which is about no workspace; nobody else does.
func TestTheInboxTellsOperatorsOfTheInstancesBudget(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	yes := true
	var me api.Me
	h.do("GET", "/api/v1/me", "", bearer(p.tokens["owner"])...).into(t, &me)
	if _, err := h.accounts.UpdateUser(t.Context(), me.User.Id, directory.UserChange{Operator: &yes}); err != nil {
		t.Fatal(err)
	}
	reported := func(who string) *api.InstanceBudgetNotice {
		t.Helper()
		var in api.Inbox
		r := h.do("GET", "/api/v1/teams/"+p.team.Slug+"/inbox", "", bearer(p.tokens[who])...)
		if r.into(t, &in); r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", who, r.StatusCode, r.body)
		}
		return in.InstanceBudget
	}
	now := time.Now().UnixMilli()
	for i, c := range []struct {
		cost    int64
		percent int
	}{{449 * billing.Nano, 0}, {billing.Nano, 90}, {50 * billing.Nano, 100}} {
		if _, err := h.db.Exec(t.Context(), `/* every team: a test */ INSERT INTO segments (id, team_id, sandbox_id, executor, price_nano, started_at, seen_at, ended_at, cost_nano)
			VALUES (?, ?, ?, 'e2b', 1, ?, ?, ?, ?)`, fmt.Sprint("seg", i), p.team.ID, fmt.Sprint("sbx", i), now, now, now, c.cost); err != nil {
			t.Fatal(err)
		}
		got := reported("owner")
		if c.percent == 0 && got != nil || c.percent != 0 && (got == nil || got.Percent != c.percent || !strings.Contains(got.Text, "$500.00") || !strings.HasSuffix(got.Id, fmt.Sprint("-", c.percent))) {
			t.Errorf("at %d %% the operator sees %+v", c.percent, got)
		}
		if got := reported("admin"); got != nil {
			t.Errorf("an admin sees %+v", got)
		}
	}
}
