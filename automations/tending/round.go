package tending

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/result"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
)

// step does the next thing for a pull request.
func (s *Service) step(ctx context.Context, t Tending) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, t.WorkspaceID)
	if fault.Is(err, fault.NotFound) || err == nil && w.DeletedAt != 0 {
		return s.edit(ctx, t, func(t *Tending) { t.NextAt = 0 }) // it may be restored, and is switched on again by a person
	}
	if err != nil {
		return err
	}
	actor, err := s.actorOf(ctx, t, w)
	if err != nil {
		return err
	}
	rounds, err := s.cfg.Store.Rounds(ctx, w.ID, MaxRounds)
	if err != nil {
		return err
	}
	if len(rounds) > 0 && rounds[0].Step != Over && rounds[0].Step != Dropped {
		return s.goOn(ctx, actor, w, t, rounds[0])
	}
	f := Facts{Now: s.now(), Rounds: rounds, Ready: w.State == workspaces.Ready}
	if f.Pull, err = s.cfg.Forge.Attend(ctx, actor, w.ID); err != nil {
		return err
	}
	if f.Busy, err = s.busy(ctx, w.ID); err != nil {
		return err
	}
	for _, c := range f.Pull.Checks {
		if c.State == forge.Failed {
			f.Failed = append(f.Failed, forge.Failure{Check: c})
		}
	}
	m := decide(t, f)
	if len(f.Failed) > 0 && (m.do == begin || m.do == ask) { // only these need logs, which are long
		if f.Failed, err = s.cfg.Forge.Failures(ctx, actor, f.Pull.PullRequest); err != nil {
			return err
		}
		m = decide(t, f)
	}
	return s.do(ctx, actor, w, t, f, m)
}

// do makes a move.
func (s *Service) do(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, t Tending, f Facts, m move) error {
	others := comments(f.Pull, false)
	others = others[:min(len(others), maxSaid)]
	switch m.do {
	case begin:
		return s.begin(ctx, w, t, f, m.round, others)
	case update:
		return s.update(ctx, actor, w, t, f)
	case merge:
		return s.merge(ctx, actor, w, t, f.Pull)
	case ask:
		return s.ask(ctx, t, m.code, m.because)
	case finish:
		err := s.edit(ctx, t, func(t *Tending) {
			t.set(s.now(), Ended, m.code, m.because)
			t.NextAt, t.Tries = 0, 0
		})
		if err == nil {
			err = s.tell(ctx, t)
		}
		return err
	}
	if t.State == NeedsYou && t.Code == m.code { // a killed server may not have told it
		if err := s.tell(ctx, t); err != nil {
			return err
		}
	}
	return s.edit(ctx, t, func(t *Tending) {
		next := Watching
		if t.State == NeedsYou && t.Code == m.code {
			next = NeedsYou
		}
		t.set(s.now(), next, m.code, m.because)
		t.NextAt, t.Tries, t.Others = s.now()+m.in.Milliseconds(), 0, others
	})
}

// takesPrompts reports whether what a session runs is an agent that takes prompts.
func takesPrompts(agent string) bool {
	return agent != agents.Shell && agent != agents.Setup && agent != agents.Command
}

// busy reports whether an agent works in a workspace, or asks.
func (s *Service) busy(ctx context.Context, workspaceID string) (bool, error) {
	all, err := s.cfg.Sessions.List(ctx, workspaceID)
	return slices.ContainsFunc(all, func(one sessions.Session) bool {
		return takesPrompts(one.Agent) && (one.State == state.Starting || one.State == state.Working || one.State == state.Waiting)
	}), err
}

// begin stores a round: its prompt, and the IDs with which it can be sent once.
func (s *Service) begin(ctx context.Context, w workspaces.Workspace, t Tending, f Facts, d Detail, others []Said) error {
	d.Prompt = words(d, f.Failed)
	texts := []*string{&d.Prompt}
	for i := range d.Comments {
		texts = append(texts, &d.Comments[i].Text)
	}
	if err := tools.Hide(ctx, s.cfg.Secrets, t.TeamID, texts...); err != nil {
		return err
	}
	d.PromptID, d.SessionID = id.New("prm"), id.New("ses")
	now := s.now()
	r := Round{ID: id.New("rnd"), WorkspaceID: w.ID, TeamID: t.TeamID, N: t.Rounds + 1, Step: Asking, Detail: d, StartedAt: now}
	err := s.cfg.Store.BeginRound(ctx, r, func(t *Tending) {
		t.Rounds++
		t.Others, t.Tries, t.NextAt, t.UpdatedAt = others, 0, now, now
		t.set(now, Working, working, about(d))
	})
	if err == nil {
		s.notify(ctx, t)
	}
	return err
}

// about says what a round is about.
func about(d Detail) string {
	var parts []string
	if n := len(d.Checks); n > 0 {
		parts = append(parts, plural(n, "failed check"))
	}
	if n := len(d.Comments); n > 0 {
		parts = append(parts, plural(n, "comment"))
	}
	if d.Conflict {
		parts = append(parts, "conflicts with the base")
	}
	return "The agent is given " + strings.Join(parts, ", ") + "."
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// goOn takes a round to its next step.
func (s *Service) goOn(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, t Tending, r Round) error {
	pr, there, err := s.cfg.Forge.Of(ctx, w.ID)
	if err != nil {
		return err
	}
	if !there || pr.State == forge.Merged || pr.State == forge.Closed {
		return s.over(ctx, t, r, "", "")
	}
	switch r.Step {
	case Asking:
		return s.prompt(ctx, actor, w, t, r)
	case Turning:
		return s.turn(ctx, actor, t, r)
	case Pushing:
		return s.push(ctx, actor, w, t, r)
	}
	return s.answer(ctx, actor, t, r, pr)
}

// over ends a round. With a code a person has to decide.
func (s *Service) over(ctx context.Context, t Tending, r Round, code, why string) error {
	r.Step, r.EndedAt, r.Code, r.Error = Over, s.now(), code, s.masked(ctx, t.TeamID, why)
	err := s.cfg.Store.EditRound(ctx, r, func(t *Tending) {
		t.SpentNano += r.CostNano
		t.NextAt, t.Tries = s.now(), 0
		if code != "" {
			t.set(s.now(), NeedsYou, code, r.Error)
		}
	})
	if err == nil {
		s.notify(ctx, t)
		if code != "" {
			err = s.tell(ctx, t)
		}
	}
	return err
}

// to stores a round in its next step, which is done in so many ms.
func (s *Service) to(ctx context.Context, t Tending, r Round, next Step, in int64) error {
	r.Step = next
	return s.cfg.Store.EditRound(ctx, r, func(t *Tending) {
		t.set(s.now(), Working, working, about(r.Detail))
		t.NextAt, t.Tries = s.now()+in, 0
	})
}

// prompt gives the agent the prompt of a round, once: a prompt or a session that an earlier look made is found by its ID.
func (s *Service) prompt(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, t Tending, r Round) error {
	if p, err := s.cfg.Prompts.Prompt(ctx, r.PromptID); err == nil {
		r.SessionID = p.SessionID
		return s.to(ctx, t, r, Turning, 0)
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	if s.cfg.Admit != nil {
		if err := s.cfg.Admit(ctx, actor, w); err != nil {
			return err
		}
	}
	if r.Conflict && !strings.Contains(r.Prompt, conflictMark) {
		next, err := s.conflicts(ctx, actor, w, t, &r)
		if err != nil || !next {
			return err
		}
	}
	all, err := s.cfg.Sessions.List(ctx, w.ID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(one sessions.Session) bool { return one.ID == r.SessionID }) { // this round started it, with the prompt
		return s.to(ctx, t, r, Turning, 0)
	}
	i := slices.IndexFunc(all, func(one sessions.Session) bool {
		return takesPrompts(one.Agent) && (!one.State.Ended() || one.CanResume)
	})
	switch {
	case i < 0 && t.Agent == "":
		return s.over(ctx, t, r, AgentFailed, "The workspace has no session of an agent, and none was chosen. Start an agent in it, then continue.")
	case i < 0:
		if _, err := s.cfg.Sessions.Start(ctx, actor, w.ID, sessions.StartRequest{ID: r.SessionID, Agent: t.Agent, Prompt: r.Prompt}); err != nil {
			return s.refused(ctx, t, r, err)
		}
		return s.to(ctx, t, r, Turning, 0)
	}
	if r.SpentBefore = 0; !all[i].State.Ended() { // where it is resumed, that is another session
		if r.SpentBefore, err = s.spent(ctx, all[i].ID); err != nil {
			return err
		}
		if err := s.cfg.Store.EditRound(ctx, r, nil); err != nil {
			return err
		}
	}
	p, err := s.cfg.Prompts.AddPrompt(ctx, actor, all[i].ID, prompt.Request{ID: r.PromptID, Text: r.Prompt, Resume: true})
	if err != nil {
		return s.refused(ctx, t, r, err)
	}
	r.SessionID = p.SessionID
	return s.to(ctx, t, r, Turning, 0)
}

// conflicts brings the base in and puts what conflicts into the worktree and the prompt. It returns false when the round is past its prompt.
func (s *Service) conflicts(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, t Tending, r *Round) (bool, error) {
	res, err := s.cfg.Branch.Update(ctx, actor, w.ID, workspaces.UpdateRequest{Strategy: workspaces.StrategyMerge})
	var began workspaces.Resolve
	if err == nil && len(res.Conflicts) > 0 || fault.CodeOf(err) == "operation_in_progress" { // an earlier look began it
		began, err = s.cfg.Branch.BeginResolve(ctx, actor, w.ID, workspaces.StrategyMerge)
	}
	switch {
	case fault.Is(err, fault.Conflict) || err == nil && len(res.Dirty) > 0:
		return false, s.over(ctx, t, *r, Conflicts, fault.Words(err, "The base has moved, and files of the workspace are in the way. Update the branch from the base, then continue."))
	case err != nil:
		return false, err
	case len(began.Files) > 0:
		r.Prompt += "\n" + conflictMark + "\n" + began.Prompt
		return true, s.cfg.Store.EditRound(ctx, *r, nil)
	case len(r.Checks)+len(r.Comments) > 0:
		return true, nil
	}
	r.Answer = "The base merged into the branch without conflicts: no agent was asked."
	return false, s.to(ctx, t, *r, Pushing, 0)
}

// conflictMark heads the part of a prompt that is about conflicts.
const conflictMark = "The base has moved and conflicts with this branch."

// refused ends a round whose prompt nobody takes. What may pass by itself is tried again.
func (s *Service) refused(ctx context.Context, t Tending, r Round, err error) error {
	if fault.CodeOf(err) == "" || fault.Is(err, fault.RateLimited) || fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Timeout) {
		return err
	}
	return s.over(ctx, t, r, AgentFailed, "The agent could not be given the round: "+fault.Words(err, "see the server's log."))
}

// spent is what a session has spent on models.
func (s *Service) spent(ctx context.Context, sessionID string) (int64, error) {
	if s.cfg.Spent == nil {
		return 0, nil
	}
	sums, err := s.cfg.Spent(ctx, sessionID)
	return sums[sessionID], err
}

// turn looks whether the agent is done.
func (s *Service) turn(ctx context.Context, actor accounts.Actor, t Tending, r Round) error {
	one, err := s.cfg.Sessions.Get(ctx, r.SessionID)
	if fault.Is(err, fault.NotFound) {
		return s.over(ctx, t, r, AgentFailed, "The agent's session no longer exists.")
	}
	if err != nil {
		return err
	}
	sentAt := one.PromptSentAt
	p, err := s.cfg.Prompts.Prompt(ctx, r.PromptID)
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		return err
	case err == nil && (p.State == prompt.Failed || p.State == prompt.Cancelled):
		return s.over(ctx, t, r, AgentFailed, strings.TrimSpace("The prompt was not delivered to the agent. "+p.Reason))
	case err == nil:
		if sentAt = p.SentAt; p.State != prompt.Sent {
			sentAt = 0
		}
	}
	spent, err := s.spent(ctx, r.SessionID)
	if err != nil {
		return err
	}
	r.CostNano = max(0, spent-r.SpentBefore)
	if t.Limits.Nano > 0 && t.SpentNano+r.CostNano > t.Limits.Nano && !one.State.Ended() && one.State != state.Idle {
		if _, err := s.cfg.Sessions.Interrupt(ctx, actor, one.ID, false); err != nil && !fault.Is(err, fault.Conflict) {
			return err
		}
		return s.over(ctx, t, r, MoneySpent, "The limit of money is reached. The agent was interrupted in the middle of a round; what it did is in the workspace and was not pushed.")
	}
	switch why, reason, _ := sessions.Attention(one); {
	case one.State.Ended():
		if end, why := result.EndOf(one); end != result.Completed {
			return s.over(ctx, t, r, AgentFailed, why)
		}
		said, _ := result.Answer(ctx, s.cfg.Sessions, r.SessionID)
		return s.spoke(ctx, t, r, said)
	case one.Basis.Limit.Passes(): // the agent goes on when that is over
	case one.State == state.Waiting && (one.Question != nil || s.now()-one.StateAt >= asksFor):
		title := one.StateReason
		if one.Question != nil && one.Question.Title != "" {
			title = one.Question.Title
		}
		return s.ask(ctx, t, AgentAsks, "The agent asks: "+title)
	case one.State == state.Idle && sentAt != 0:
		said, recorded := result.Answer(ctx, s.cfg.Sessions, r.SessionID)
		is := result.Idle{Now: s.now(), Since: one.StateAt, AskedAt: sentAt, Begun: p.SentAt != 0 || one.Basis.DoneAt != 0 || one.Basis.Failed, Answered: said != "", Recorded: recorded, Settle: s.cfg.Settle}
		if !is.Done() {
			break
		}
		if why == "failed" || why == "limited" {
			return s.over(ctx, t, r, AgentFailed, "The agent failed: "+reason)
		}
		return s.spoke(ctx, t, r, said)
	}
	return s.to(ctx, t, r, Turning, lookAtTurn)
}

const (
	lookAtTurn = 15_000 // ms between looks at an agent's turn, besides at news of it
	asksFor    = 5_000  // ms; an agent that seems to ask is looked at again
	maxAnswer  = 16 << 10
)

// spoke stores what the agent said when it was done.
func (s *Service) spoke(ctx context.Context, t Tending, r Round, said string) error {
	r.Answer = result.Bounded(s.masked(ctx, t.TeamID, said), maxAnswer)
	r.Comments = heard(r.Comments, r.Answer)
	return s.to(ctx, t, r, Pushing, 0)
}

// push finishes a merge that the agent resolved, and pushes.
func (s *Service) push(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, t Tending, r Round) error {
	if r.Conflict {
		_, left, err := s.cfg.Branch.FinishResolve(ctx, actor, w.ID)
		code := fault.CodeOf(err)
		switch {
		case code == "unresolved_conflicts" || code == "undecided_conflicts" || err == nil && len(left) > 0:
			return s.over(ctx, t, r, Conflicts, fault.Words(err, "The agent left conflicts. Resolve them under Changes, then continue."))
		case err != nil && code != "no_operation_in_progress":
			return s.stopped(ctx, t, r, err)
		}
	}
	// What is not committed stays: it may be a person's.
	var err error
	if r.Pushed, err = s.cfg.Branch.Push(ctx, actor, w.ID); err != nil {
		return s.stopped(ctx, t, r, err)
	}
	r.Step = Answering
	return s.cfg.Store.EditRound(ctx, r, func(t *Tending) {
		if t.NextAt, t.Tries = s.now(), 0; r.Pushed != r.Head {
			t.PushedAt = s.now()
		}
	})
}

// stopped ends a round whose result cannot be pushed. What may pass by itself is tried again.
func (s *Service) stopped(ctx context.Context, t Tending, r Round, err error) error {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.Invalid, fault.Forbidden, fault.NotFound, fault.TooLarge:
		return s.over(ctx, t, r, PushRefused, fault.Words(err, "What the agent did could not be pushed."))
	}
	return err
}

// answer replies to the comments that the agent said something about, and resolves those it dealt with.
func (s *Service) answer(ctx context.Context, actor accounts.Actor, t Tending, r Round, pr forge.PullRequest) error {
	var replies []forge.Reply
	for _, c := range r.Comments {
		if c.Answer != "" {
			replies = append(replies, forge.Reply{ThreadID: c.ThreadID, Text: c.Answer, About: r.ID + "/" + c.CommentID, Resolve: !open(r, c)})
		}
	}
	if err := s.cfg.Forge.Reply(ctx, actor, pr, replies...); err != nil {
		return err
	}
	if r.Pushed != r.Head {
		if err := s.cfg.Forge.AskAgain(ctx, actor, pr, r.Changes); err != nil {
			s.cfg.Log.InfoContext(ctx, "reviewers could not be asked again", "workspace_id", t.WorkspaceID, "error", err) // they are notified of the replies
		}
	}
	return s.over(ctx, t, r, "", "")
}

// open reports whether a comment of the same thread was not dealt with.
func open(r Round, c Said) bool {
	return slices.ContainsFunc(r.Comments, func(o Said) bool { return o.ThreadID == c.ThreadID && !o.Done })
}

// update brings a base that moved into the branch and pushes it. Conflicts, which the Git host may not have seen yet, become a round.
func (s *Service) update(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, t Tending, f Facts) error {
	res, err := s.cfg.Branch.Update(ctx, actor, w.ID, workspaces.UpdateRequest{Strategy: workspaces.StrategyMerge})
	if err == nil && len(res.Conflicts) > 0 {
		return s.do(ctx, actor, w, t, f, start(t, f.Rounds, Detail{Head: f.Pull.HeadCommit, Conflict: true}))
	}
	if err == nil && len(res.Dirty) > 0 {
		return s.ask(ctx, t, Conflicts, "The base has moved, and files of the workspace are in the way. Update the branch from the base, then continue.")
	}
	pushed := ""
	if err == nil { // also what an earlier look brought in and did not push
		pushed, err = s.cfg.Branch.Push(ctx, actor, w.ID)
	}
	if fault.Is(err, fault.Conflict) {
		return s.ask(ctx, t, PushRefused, fault.Words(err, "The base could not be brought into the branch."))
	}
	if err != nil {
		return err
	}
	return s.edit(ctx, t, func(t *Tending) {
		if t.Tries = 0; pushed == f.Pull.HeadCommit {
			t.set(s.now(), Watching, waitsHost, "The branch has all of the base, and the Git host does not see that yet.")
			t.NextAt = s.now() + quietly.Milliseconds()
			return
		}
		t.set(s.now(), Watching, waitsChecks, "The base was brought into the branch. Its checks are about to begin.")
		t.PushedAt, t.NextAt = s.now(), s.now()+fresh.Milliseconds()
	})
}

// merge has the Git host merge by its rules. Where a merge queue is required it is put into that.
func (s *Service) merge(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, t Tending, pr forge.Attended) error {
	m := forge.MergeAsk{Strategy: t.Merge, Head: pr.HeadCommit}
	_, err := s.cfg.Forge.Merge(ctx, actor, w.ID, m)
	if fault.CodeOf(err) == "forge_refused" {
		if qerr := s.cfg.Forge.Enqueue(ctx, actor, w.ID, m); qerr == nil {
			err = nil
		}
	}
	switch {
	case fault.CodeOf(err) == "pull_request_moved":
		err = nil
	case denied(err):
	case fault.Is(err, fault.Conflict), fault.Is(err, fault.Unsupported), fault.Is(err, fault.Invalid): // also what the project's own checks still want
		because := fault.Words(err, "It could not be merged.")
		return s.edit(ctx, t, func(t *Tending) {
			t.set(s.now(), Watching, waitsMerge, because)
			t.NextAt, t.Tries = s.now()+quietly.Milliseconds(), 0
		})
	}
	if err != nil {
		return err
	}
	return s.edit(ctx, t, func(t *Tending) { t.NextAt, t.Tries = s.now()+hurry.Milliseconds(), 0 })
}
