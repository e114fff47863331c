package agent_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
)

func (h *harness) undo(threadID string, r agent.UndoRequest) (agent.UndoResult, error) {
	r.UserID = h.user
	return h.svc.Undo(h.ctx, threadID, r)
}

// writing starts a thread with two turns that change files, and one between them that changes none.
func (h *harness) writing() (th agent.Thread, prompts []agent.Message) {
	h.t.Helper()
	h.host.row.Permissions = agents.AllPermissions
	h.model.then(wants("file_write", `{"path":"a"}`, "file_write", `{"path":"b"}`), says("One."), wants("file_read", `{"path":"a"}`), says("Two."), wants("file_write", `{"path":"c"}`), says("Three."))
	th = h.open(agent.Options{})
	for _, text := range []string{"First.", "Second.", "Third."} {
		m := h.send(th.ID, text)
		h.next(th.ID, m)
		prompts = append(prompts, m)
	}
	return th, prompts
}

// Undoing a turn undoes what came after it, too, and the files of the turns that changed some: once.
func TestUndoATurn(t *testing.T) {
	h := newHarness(t)
	th, prompts := h.writing()
	if h.files.taken != 4 {
		t.Errorf("%d snapshots of two turns that changed files", h.files.taken)
	}
	h.files.writing = func() error { // meanwhile, no prompt is taken, and no other undo
		_, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "Now."})
		refused(t, err, "undo_running")
		_, err = h.undo(th.ID, agent.UndoRequest{Files: true})
		refused(t, err, "undo_running")
		return nil
	}
	if got, err := h.undo(th.ID, agent.UndoRequest{MessageID: prompts[1].ID, Files: true, DryRun: true}); err != nil || got.Messages != 6 || len(got.Paths) != 1 || got.Snapshot != "" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err := h.undo(th.ID, agent.UndoRequest{MessageID: prompts[1].ID, Files: true})
	if err != nil || got.MessageID != prompts[1].ID || got.Prompt != "Second." || got.Messages != 6 || got.Snapshot != "snp_safe" || !slices.Equal(h.files.spans, []agent.Span{{Before: "snp_3", After: "snp_4"}}) {
		t.Errorf("%+v, %+v, %v", got, h.files.spans, err)
	}
	_, err = h.undo(th.ID, agent.UndoRequest{TurnID: prompts[2].TurnID, Files: true})
	refused(t, err, "message_undone")
	h.files.writing = nil
	got, err = h.undo(th.ID, agent.UndoRequest{Files: true}) // the newest turn that is left
	if err != nil || got.MessageID != prompts[0].ID || !slices.Equal(h.files.spans, []agent.Span{{Before: "snp_1", After: "snp_2"}}) {
		t.Errorf("%+v, %+v, %v", got, h.files.spans, err)
	}
	_, err = h.undo(th.ID, agent.UndoRequest{})
	refused(t, err, "nothing_to_undo")
	h.model.then(says("Anew."))
	h.next(th.ID, h.send(th.ID, "Fourth."))
	equal(t, "sent", h.model.sent(6), []string{"user:Fourth."})
}

// What is undone is marked in the conversation of the session in which it was said, also in one that has ended.
func TestUndoInEarlierSessions(t *testing.T) {
	h := newHarness(t)
	th, prompts := h.writing()
	before := h.host.Row()
	before.ID, before.StartedAt = "ses_0", prompts[0].CreatedAt
	h.mu.Lock()
	h.earlier, h.now = []sessions.Session{before}, h.now.Add(time.Minute)
	h.host.row.StartedAt = h.now.UnixMilli()
	h.mu.Unlock()
	h.model.then(says("Four."))
	fourth := h.send(th.ID, "Fourth.")
	h.next(th.ID, fourth)
	if _, err := h.undo(th.ID, agent.UndoRequest{MessageID: prompts[2].ID}); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(h.amended, "ses_0 "+prompts[2].ID) || slices.Contains(h.amended, "ses_0 "+prompts[1].ID) || slices.Contains(h.amended, "ses_0 "+fourth.ID) {
		t.Errorf("changed in the earlier session: %q", h.amended)
	}
	h.host.mu.Lock()
	defer h.host.mu.Unlock()
	if !slices.ContainsFunc(h.host.items, func(it conversation.Item) bool { return it.ID == fourth.ID && it.Undone }) || slices.ContainsFunc(h.host.items, func(it conversation.Item) bool { return it.ID == prompts[2].ID && it.Undone }) {
		t.Error("the session has not what was undone of it, or what was not said in it")
	}
}

// Files that cannot be undone leave the messages as they are.
func TestUndoThatIsRefused(t *testing.T) {
	h := newHarness(t)
	th, _ := h.writing()
	h.files.writing = func() error { return fault.New(fault.Conflict, "file_busy", "Somebody writes.") }
	_, err := h.undo(th.ID, agent.UndoRequest{Files: true})
	refused(t, err, "file_busy")
	words, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: "/undo", UserID: h.user})
	refused(t, err, "file_busy")
	h.files.writing = nil
	if v, err := h.svc.View(h.ctx, th.ID, agent.Window{}); err != nil || slices.ContainsFunc(v.Messages, func(m agent.Message) bool { return m.State != agent.Complete }) {
		t.Errorf("%+v, %v", v.Messages, err)
	}
	if words, err = h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: "/undo", UserID: h.user}); err != nil || words == "" {
		t.Errorf("%q, %v", words, err)
	}
}

// A server that is killed after it wrote the files undoes the messages when it is back.
func TestUndoGoesOn(t *testing.T) {
	h := newHarness(t)
	th, prompts := h.writing()
	h.store.on(func(c agent.Change) error {
		if c.Undo != "" {
			return errors.New("killed")
		}
		return nil
	})
	ended := make(chan error)
	go func() {
		_, err := h.undo(th.ID, agent.UndoRequest{Files: true})
		ended <- err
	}()
	h.until(th.ID, func(v *view) bool { return true })
	h.kill()
	if err := <-ended; err == nil {
		t.Error("the undo ended well")
	}
	h.store.on(nil)
	h.boot()
	if err := h.svc.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.until(th.ID, func(v *view) bool {
		return slices.ContainsFunc(v.messages, func(m agent.Message) bool { return m.ID == prompts[2].ID && m.State == agent.Undone })
	})
	h.model.then(says("Anew."))
	h.next(th.ID, h.send(th.ID, "Fourth."))
}
