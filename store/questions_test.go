package store_test

import (
	"reflect"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestQuestions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewSessions(db)
		team, user, ws := sessionHarness(t, db)
		ses := sessions.Session{ID: id.New("ses"), TeamID: team, WorkspaceID: ws[0], Agent: "codex", State: state.Working, Cols: 80, Rows: 24, CreatedBy: user, StartedAt: 1}
		if err := st.InsertSession(ctx, ses, "home"); err != nil {
			t.Fatal(err)
		}
		var all []question.Question
		for i := range 3 {
			q := question.Question{ID: id.New("qst"), TeamID: team, WorkspaceID: ws[0], SessionID: ses.ID, Key: "k", Source: question.AskedByHook, AskedAt: int64(10 + i/2),
				State: question.Open, Ask: agents.Ask{Kind: agents.Permission, Title: "May it run «é»?", Detail: "rm -rf\n/", Multi: i == 1, FreeText: true,
					Options: []agents.Option{{ID: "allow", Label: "Allow", Role: agents.Allow}, {ID: "deny", Label: "Deny", Description: "d", Role: agents.Deny}}}}
			if i == 2 {
				q.Options = []agents.Option{}
			}
			if err := st.InsertQuestion(ctx, q); err != nil {
				t.Fatal(err)
			}
			all = append(all, q)
		}
		if got, err := st.Question(ctx, all[1].ID); err != nil || !reflect.DeepEqual(got, all[1]) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := st.Question(ctx, "qst_none"); !fault.Is(err, fault.NotFound) || fault.CodeOf(err) != "question_not_found" {
			t.Errorf("got %v", err)
		}
		first, next, err := st.Questions(ctx, ses.ID, page.Page{Limit: 2})
		if err != nil || len(first) != 2 || first[0].ID != all[2].ID || first[1].ID != all[1].ID || next == "" {
			t.Fatalf("first page %v %q, %v", first, next, err)
		}
		rest, next, err := st.Questions(ctx, ses.ID, page.Page{Limit: 2, Cursor: next})
		if err != nil || len(rest) != 1 || rest[0].ID != all[0].ID || next != "" {
			t.Fatalf("second page %v %q, %v", rest, next, err)
		}
		done := all[0]
		done.State, done.AnsweredBy, done.AnsweredAt, done.Answer, done.Via = question.Answered, user, 20, "Allow", "api"
		foreign := done
		foreign.TeamID = "team_other"
		for i, q := range []question.Question{foreign, done, done} {
			if ok, err := st.CloseQuestion(ctx, q); err != nil || ok != (i == 1) {
				t.Fatalf("%d: closed %v, %v", i, ok, err)
			}
		}
		if err := st.WithdrawQuestions(ctx, ses.ID, 30); err != nil {
			t.Fatal(err)
		}
		if got, err := st.Question(ctx, done.ID); err != nil || !reflect.DeepEqual(got, done) {
			t.Errorf("an answered question changed: %+v, %v", got, err)
		}
		if got, err := st.Question(ctx, all[1].ID); err != nil || got.State != question.Withdrawn || got.AnsweredAt != 30 {
			t.Errorf("got %+v, %v", got, err)
		}
		if open, err := st.OpenQuestions(ctx, team); err != nil || len(open) != 0 {
			t.Errorf("open %v, %v", open, err)
		}
	})
}

func TestInboxMarks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewSessions(db)
		team, user, ws := sessionHarness(t, db)
		m := question.Mark{UserID: user, ItemID: "ses_1-5", TeamID: team, WorkspaceID: ws[0], SnoozedUntil: 7}
		want := func(marks map[string]question.Mark) {
			t.Helper()
			if got, err := st.Marks(ctx, user, team, []string{"ses_9", m.ItemID}); err != nil || !reflect.DeepEqual(got, marks) {
				t.Fatalf("got %v, %v; want %v", got, err, marks)
			}
		}
		put := func() {
			t.Helper()
			if err := st.PutMark(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
		want(map[string]question.Mark{})
		put()
		want(map[string]question.Mark{m.ItemID: m})
		m.SnoozedUntil, m.DoneAt = 0, 9
		put()
		want(map[string]question.Mark{m.ItemID: m})
		if other, err := st.Marks(ctx, "usr_other", team, []string{m.ItemID}); err != nil || len(other) != 0 {
			t.Errorf("another user has %v, %v", other, err)
		}
		if other, err := st.Marks(ctx, user, team, []string{"ses_9"}); err != nil || len(other) != 0 {
			t.Errorf("of another item there is %v, %v", other, err)
		}
		m.DoneAt = 0
		put()
		want(map[string]question.Mark{})
	})
}
