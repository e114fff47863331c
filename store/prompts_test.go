package store_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestPrompts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewSessions(db)
		team, user, ws := sessionHarness(t, db)
		add := func(session, text string) prompt.Prompt {
			t.Helper()
			p, err := st.AddPrompt(ctx, prompt.Prompt{ID: id.New("prm"), TeamID: team, WorkspaceID: ws[0], SessionID: session, Text: text,
				State: prompt.Queued, CreatedBy: user, CreatedAt: 7}, 4)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		order := func(session string) string {
			t.Helper()
			all, err := st.Prompts(ctx, session, 1)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, p := range all {
				out = append(out, p.Text)
			}
			return strings.Join(out, " ")
		}
		a, b, c := add("s1", "a"), add("s1", "b"), add("s1", "c")
		add("s2", "z")
		if got, err := st.Prompt(ctx, b.ID); err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := st.Prompt(ctx, "prm_none"); fault.CodeOf(err) != "prompt_not_found" {
			t.Errorf("got %v", err)
		}
		add("s1", "d")
		if _, err := st.AddPrompt(ctx, prompt.Prompt{ID: id.New("prm"), TeamID: team, WorkspaceID: ws[0], SessionID: "s1", Text: "e"}, 4); fault.CodeOf(err) != "queue_full" {
			t.Errorf("got %v", err)
		}
		keep := func(*prompt.Prompt) error { return nil }
		for _, step := range []struct {
			id   string
			at   int
			want string
		}{{c.ID, 0, "c a b d"}, {c.ID, 2, "a b c d"}, {a.ID, 99, "b c d a"}, {a.ID, -1, "b c d a"}} {
			if _, err := st.EditPrompt(ctx, step.id, step.at, keep); err != nil || order("s1") != step.want {
				t.Errorf("placed at %d: %s, want %s (%v)", step.at, order("s1"), step.want, err)
			}
		}
		boom := errors.New("boom")
		if _, err := st.EditPrompt(ctx, b.ID, 2, func(p *prompt.Prompt) error { p.Text = "lost"; return boom }); !errors.Is(err, boom) || order("s1") != "b c d a" {
			t.Errorf("a refused edit: %v, %s", err, order("s1"))
		}
		if n, err := st.HoldPrompts(ctx, "s1", "why"); err != nil || n != 4 {
			t.Errorf("held %d, %v", n, err)
		}
		got, err := st.EditPrompt(ctx, b.ID, -1, func(p *prompt.Prompt) error {
			p.State, p.Frame, p.Frames, p.Bracketed, p.SentAt, p.Urgent = prompt.Sending, 1<<40, 3, true, 9, true
			return nil
		})
		if again, err2 := st.Prompt(ctx, b.ID); err != nil || err2 != nil || !reflect.DeepEqual(got, again) || again.Held != "why" {
			t.Errorf("got %+v, read %+v, %v, %v", got, again, err, err2)
		}
		if next, err := st.NextPrompt(ctx, "s1"); err != nil || next.ID != b.ID {
			t.Errorf("next is %q, %v", next.Text, err)
		}
		if err := st.EndPrompts(ctx, "s1", "ended"); err != nil {
			t.Fatal(err)
		}
		if again, err := st.Prompt(ctx, b.ID); err != nil || again.State != prompt.Sent || again.Reason != "" {
			t.Errorf("got %+v, %v", again, err)
		}
		if _, err := st.EditPrompt(ctx, d(st, t, "s1"), -1, func(p *prompt.Prompt) error { p.State = prompt.Sending; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := st.EndPrompts(ctx, "s1", "ended"); err != nil {
			t.Fatal(err)
		}
		if n, err := st.MovePrompts(ctx, "s1", "s2"); err != nil || n != 2 || order("s2") != "z d a" && order("s2") != "d z a" {
			t.Errorf("moved %d, %v: %s", n, err, order("s2"))
		}
		if all, _ := st.Prompts(ctx, "s1", 0); len(all) != 1 || all[0].State != prompt.Failed || all[0].Reason != "ended" {
			t.Errorf("left: %+v", all)
		}
		if _, err := st.NextPrompt(ctx, "s1"); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v", err)
		}
	})
}

// d is the id of the next prompt.
func d(st *store.Sessions, t *testing.T, session string) string {
	t.Helper()
	p, err := st.NextPrompt(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}
