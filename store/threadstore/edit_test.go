package threadstore_test

import (
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// A message is undone with what is complete after it, and the change's own messages are not; each of them once.
func TestUndo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, th := thread(t, db)
		cut := message("msg_3", "cut")
		cut.State = agent.Discarded
		apply(ctx, t, s, agent.Change{Messages: []*agent.Message{message("msg_1", "one"), message("msg_2", "two"), cut, message("msg_4", "four")}})
		before := apply(ctx, t, s, agent.Change{})
		apply(ctx, t, s, agent.Change{Undo: "msg_2", Messages: []*agent.Message{message("msg_5", "five")}})
		v, err := s.View(ctx, "thr_1", agent.Window{Since: before})
		if err != nil || len(v.Messages) != 3 || v.Messages[0].ID != "msg_2" || v.Messages[1].State != agent.Undone || v.Messages[2].State != agent.Complete {
			t.Errorf("%+v, %v", v.Messages, err)
		}
		for id, code := range map[string]string{"msg_2": "message_undone", "msg_3": "message_undone", "msg_9": "message_not_found"} {
			if _, err := s.Apply(ctx, "thr_1", agent.Change{Undo: id, Messages: []*agent.Message{message("msg_6", "six")}}); fault.CodeOf(err) != code {
				t.Errorf("%s: %v", id, err)
			}
		}
		fork := th
		fork.ID, fork.ParentID, fork.Conversation = "thr_2", "thr_1", "d"
		if err := s.CreateThread(ctx, fork); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(ctx, "thr_2", agent.Change{Undo: "msg_1"}); fault.CodeOf(err) != "message_not_found" {
			t.Errorf("a message of another thread: %v", err)
		}
		if err := s.DropFork(tenant.In(t.Context(), "team_other"), "", 100); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Thread(ctx, "thr_2"); err != nil {
			t.Errorf("another team removed the fork: %v", err)
		}
		for _, before := range []int64{5, 6} { // it was made at 5
			if err := s.DropFork(tenant.All(t.Context(), "test"), "", before); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Thread(ctx, "thr_2"); before == 5 && err != nil {
				t.Errorf("a fork that is being started is gone: %v", err)
			}
		}
		if _, err := s.Thread(ctx, "thr_2"); !fault.Is(err, fault.NotFound) {
			t.Errorf("the fork is still there: %v", err)
		}
		if _, err := s.Thread(ctx, "thr_1"); err != nil {
			t.Errorf("a thread that is no fork: %v", err)
		}
	})
}
