package sessions

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/workspaces"
)

// promptedSessions adapts the sessions for package prompt.
type promptedSessions struct{ s *Service }

// Open returns the session that a prompt for this one goes to.
func (p promptedSessions) Open(ctx context.Context, actor accounts.Actor, id string, resume bool) (prompt.About, error) {
	row, err := p.s.Get(ctx, id)
	if err != nil {
		return prompt.About{}, err
	}
	switch {
	case row.Agent == setupAgent:
		return prompt.About{}, fault.New(fault.Conflict, "session_takes_no_prompts", "A setup script takes no prompts.")
	case row.State.Ended() && !resume:
		return prompt.About{}, notRunning(row)
	case row.State.Ended():
		if row, err = p.s.Resume(ctx, actor, id); err != nil {
			return prompt.About{}, err
		}
		if row.State.Ended() {
			return prompt.About{}, fault.New(fault.Conflict, "session_not_running", "The agent could not be started again: %s.", row.StateReason)
		}
	}
	return promptedAbout(row), nil
}

// Hold returns the typing part of a session and keeps the session in memory.
func (p promptedSessions) Hold(id string) (*prompt.Session, func()) {
	l := p.s.ref(id)
	if l == nil {
		return nil, func() {}
	}
	return l.prompts, func() { p.s.release(l) }
}

// InMemory returns the typing part of a session.
func (p promptedSessions) InMemory(id string) *prompt.Session {
	if l := p.s.running(id); l != nil {
		return l.prompts
	}
	return nil
}

func promptedAbout(row Session) prompt.About {
	return prompt.About{ID: row.ID, TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, Agent: row.Agent, CreatedBy: row.CreatedBy}
}

// prompted adapts a session for package prompt.
type prompted struct{ l *live }

// Row is called under mu.
func (p prompted) Row() prompt.Row {
	l := p.l
	return prompt.Row{State: l.row.State, StateAt: l.row.StateAt, StartedAt: l.row.StartedAt, Prompt: l.row.Prompt, Stopping: l.stopper != "", HeldBy: l.held.holder, HeldName: l.held.name}
}

// Changed is called under mu.
func (p prompted) Changed() <-chan struct{} { return p.l.changed }

// Bump is called under mu.
func (p prompted) Bump() { p.l.bump() }

// Paused is called under mu.
func (p prompted) Paused(wake bool) (why string, wait time.Duration) {
	l := p.l
	if _, paused := l.paused(); !paused {
		return "", 0
	}
	switch {
	case l.svc.cfg.Places.Away(l.svc.hard, l.workspaceID) != nil:
		return "its machine is offline: it is sent once the machine is back", pausedLook
	case !l.asleep():
		return "the workspace is paused: wake it to continue", pausedLook
	case wake:
		l.stir()
		return "the workspace is being woken", pausedLook / 4
	}
	return "", 0
}

// Awake returns an error while the session's workspace is suspended.
func (p prompted) Awake(ctx context.Context) error { return p.l.awake(ctx) }

// Guest returns the guest the session runs in.
func (p prompted) Guest() (*client.Client, error) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if p.l.row.State.Ended() || p.l.guest == nil {
		return nil, notRunning(p.l.row)
	}
	return p.l.guest, nil
}

// Hold keeps the session in memory.
func (p prompted) Hold() (release func(), ok bool) {
	if p.l.svc.ref(p.l.id) == nil {
		return nil, false
	}
	return func() { p.l.svc.release(p.l) }, true
}

// Sent records that a prompt was sent.
func (p prompted) Sent(sent prompt.Prompt) { p.l.sent(sent) }

// Record adds a sent prompt to the workspace's timeline.
func (p prompted) Record(sent prompt.Prompt) {
	l := p.l
	r, ok := l.svc.cfg.Workspaces.(recorder)
	if !ok || sent.Text == l.snapshot().Prompt { // the start of the session already recorded it
		return
	}
	ctx, cancel := context.WithTimeout(l.svc.hard, 10*time.Second)
	defer cancel()
	err := r.Record(ctx, workspaces.Activity{TeamID: sent.TeamID, WorkspaceID: sent.WorkspaceID, At: sent.SentAt, ActorID: sent.CreatedBy, Kind: "prompt.sent",
		Text: "sent a prompt to " + l.svc.cfg.Agents.Name(l.snapshot().Agent), Data: map[string]any{"session_id": l.id, "prompt_id": sent.ID, "prompt": safetext.Cut(sent.Text, 500)}})
	if err != nil {
		l.svc.cfg.Log.Warn("timeline not written", "session_id", l.id, "error", err)
	}
}

// sent records that a prompt was sent, and when the initial one was.
func (l *live) sent(p prompt.Prompt) {
	l.mu.Lock()
	l.prompt = p.Text
	first := l.row.PromptSentAt == 0 && l.row.Prompt == p.Text
	if first {
		l.row.PromptSentAt = max(p.SentAt, 1)
	}
	l.mu.Unlock()
	l.markPrompt(p.Text)
	if first {
		l.svc.touch(l)
	}
}

// lines returns the session's screen as text.
func (l *live) lines(ctx context.Context) ([]string, error) {
	text, _, err := l.rec.Text(ctx, 0)
	return text.Lines, err
}

// brackets reports whether the program enabled bracketed paste. The screen remembers it across a restart.
func (l *live) brackets() (on bool) {
	l.out.mu.Lock()
	on = l.out.scan.Paste()
	l.out.mu.Unlock()
	if !on {
		l.rec.View(func(s *screen.Screen) { on = s.Modes().BracketedPaste })
	}
	return on
}
