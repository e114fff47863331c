package reviews

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

// Send makes a user's draft a review that the team sees, and puts it into an agent's queue if one is named; it resumes an agent that has
// ended. What cannot be queued stays a draft. Errors: nothing_to_send, invalid_review, session_*, queue_full, revision_*.
func (s *Service) Send(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, n SendRequest) (Review, error) {
	if err := checkVerdict(n.Verdict); err != nil {
		return Review{}, err
	}
	if n.Body != nil {
		if err := checkText("body", *n.Body, maxBody); err != nil {
			return Review{}, err
		}
	}
	if n.SessionID != "" {
		if err := s.takesReviews(ctx, w, n.SessionID); err != nil {
			return Review{}, err
		}
	}
	d, err := s.cfg.Store.Draft(ctx, w.ID, actor.User.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Review{}, err
	}
	body := d.Body
	if n.Body != nil {
		body = *n.Body
	}
	if n.Verdict != Approve && strings.TrimSpace(body) == "" && len(d.Comments) == 0 {
		return Review{}, fault.New(fault.Invalid, "nothing_to_send", "There is nothing to send: write a comment, or say what should change.")
	}
	read, from, err := s.wasRead(ctx, w, actor.User.ID, n)
	if err != nil {
		return Review{}, err
	}
	if d, err = s.openDraft(ctx, w, actor.User.ID); err != nil {
		return Review{}, err
	}
	s.hold(d.ID)
	defer s.letGo(d.ID)
	sent := func(r *Review) error {
		if r.State != Draft {
			return errMoved
		}
		r.State, r.Verdict, r.Body, r.Reason = Sent, n.Verdict, body, ""
		r.From, r.Tree, r.Revision = from.Commit, read.Tree, read.SnapshotID
		r.Revision = cmp.Or(r.Revision, read.Commit)
		r.SessionID, r.PromptID = n.SessionID, ""
		if n.SessionID != "" {
			r.State, r.PromptID = Queued, id.New("prm") // so that a later server knows whether it is in the queue
		}
		r.UpdatedAt = s.now()
		r.SentAt = r.UpdatedAt
		return nil
	}
	var r Review
	store := func() (err error) {
		r, err = s.cfg.Store.EditReview(ctx, d.ID, sent)
		return err
	}
	if read.SnapshotID != "" { // it may have expired since it was read: once the review refers to it, it stays
		err = s.cfg.Trees.Hold(ctx, w.ID, read.SnapshotID, store)
	} else {
		err = store()
	}
	if err != nil {
		return Review{}, err
	}
	if r.State == Queued {
		failpoint.Reach(failpoint.ReviewStored)
		if r, err = s.deliver(ctx, actor, r); err != nil {
			return Review{}, s.backToDraft(ctx, r, err)
		}
	}
	s.notify(ctx, w.ID, w.TeamID)
	s.poke(w.ID, w.TeamID)
	return s.Review(ctx, w, r.ID)
}

// takesReviews returns why a session cannot receive a review.
func (s *Service) takesReviews(ctx context.Context, w workspaces.Workspace, sessionID string) error {
	row, err := s.cfg.Sessions.Recipient(ctx, sessionID)
	if err != nil {
		return err
	}
	if row.WorkspaceID != w.ID {
		return fault.New(fault.NotFound, "session_not_found", "The workspace has no such session.").With("field", "session_id")
	}
	if row.Agent == "shell" || row.Agent == "command" || row.Agent == "setup" {
		return fault.New(fault.Conflict, "session_takes_no_review", "A %s cannot read a review: choose an agent, or send the review to people only.", row.Agent).With("field", "session_id")
	}
	return nil
}

// wasRead resolves the compared trees.
func (s *Service) wasRead(ctx context.Context, w workspaces.Workspace, userID string, n SendRequest) (read, from Tree, err error) {
	rev, base := n.Revision, n.From
	rev = cmp.Or(rev, "now")
	base = cmp.Or(base, "base")
	if read, err = s.cfg.Trees.Resolve(ctx, w, rev, userID); err != nil {
		return read, from, err
	}
	from, err = s.cfg.Trees.Resolve(ctx, w, base, userID)
	return read, from, err
}

// deliver puts a review into its agent's queue. It is idempotent: the prompt's id is fixed beforehand.
func (s *Service) deliver(ctx context.Context, actor accounts.Actor, r Review) (Review, error) {
	text, err := s.wordsOf(ctx, r.ID)
	if err != nil {
		return r, err
	}
	p, err := s.cfg.Sessions.Queue(ctx, actor, r.SessionID, r.PromptID, text)
	if err != nil {
		there, lookErr := s.cfg.Sessions.Prompt(ctx, r.PromptID)
		if lookErr != nil {
			return r, err
		}
		p = there
	}
	return s.cfg.Store.EditReview(ctx, r.ID, func(r *Review) error {
		r.SessionID = p.SessionID // an ended session was resumed under another id
		return nil
	})
}

// wordsOf formats a review for an agent. It reads the comments now: no more are added to it.
func (s *Service) wordsOf(ctx context.Context, reviewID string) (string, error) {
	r, err := s.cfg.Store.Review(ctx, reviewID)
	if err != nil {
		return "", err
	}
	answered := map[string]bool{}
	for _, c := range r.Comments {
		if c.ReplyTo != "" {
			answered[c.ReplyTo] = true
		}
	}
	replied, err := s.cfg.Store.Comments(ctx, slices.Collect(maps.Keys(answered)))
	if err != nil {
		return "", err
	}
	parents, people := map[string]Comment{}, map[string]bool{r.AuthorID: true}
	for _, p := range replied {
		parents[p.ID], people[p.AuthorID] = p, true
	}
	names := map[string]string{}
	for userID := range people { // each once: they are few
		if ByAgent(userID) {
			names[userID] = "an agent"
		} else if a, err := s.cfg.Accounts.Actor(ctx, userID); err == nil {
			names[userID] = a.User.Name
		}
	}
	return words(r, parents, names), nil
}

// backToDraft makes a review that could not be sent a draft again, and returns why.
func (s *Service) backToDraft(ctx context.Context, r Review, why error) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.redraft(ctx, r.ID); err != nil {
		s.cfg.Log.WarnContext(ctx, "a review that could not be sent is no draft again", "review_id", r.ID, "error", err)
		if _, err := s.cfg.Store.EditReview(ctx, r.ID, func(r *Review) error {
			r.State, r.Reason = Failed, whyFailed(why)
			return nil
		}); err != nil {
			s.cfg.Log.ErrorContext(ctx, "a review that could not be sent is not noted", "review_id", r.ID, "error", err)
		}
	}
	s.notify(ctx, r.WorkspaceID, r.TeamID)
	return why
}

// whyFailed is an error in words for the user.
func whyFailed(err error) string {
	if fault.KindOf(err) == fault.Internal {
		return "The server could not give it to the agent. Take it back and send it again."
	}
	var words string
	for e := err; e != nil; {
		if f, ok := e.(*fault.Error); ok {
			words = f.Message
			break
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	return words
}

// redraft makes a review its author's draft again: the row itself, or if there is a newer draft, the comments move there.
func (s *Service) redraft(ctx context.Context, reviewID string) error {
	r, err := s.cfg.Store.EditReview(ctx, reviewID, func(r *Review) error {
		r.State, r.Reason, r.SessionID, r.PromptID = Draft, "", "", ""
		r.SentAt, r.UpdatedAt = 0, s.now()
		return nil
	})
	if !fault.Is(err, fault.Conflict) {
		return err
	}
	if r, err = s.cfg.Store.Review(ctx, reviewID); err != nil {
		return err
	}
	d, err := s.cfg.Store.Draft(ctx, r.WorkspaceID, r.AuthorID)
	if err != nil {
		return err
	}
	if err := s.cfg.Store.MoveComments(ctx, r.ID, d.ID); err != nil {
		return err
	}
	if _, err = s.cfg.Store.EditReview(ctx, d.ID, func(d *Review) error {
		if body := strings.TrimSpace(r.Body); body != "" && !strings.Contains(d.Body, body) {
			d.Body = strings.TrimSpace(body + "\n\n" + d.Body)
		}
		d.UpdatedAt = s.now()
		return nil
	}); err != nil {
		return err
	}
	return s.cfg.Store.DropReview(ctx, r.ID)
}

// TakeBack makes a review that the agent does not have yet, or a discarded draft, its author's draft again. Of a review already sent it
// only withdraws the verdict. Errors: review_not_found, not_your_review, prompt_sent, review_sent.
func (s *Service) TakeBack(ctx context.Context, actor accounts.Actor, reviewID string) (Review, error) {
	r, err := s.lookAt(ctx, actor, reviewID)
	if err != nil {
		return Review{}, err
	}
	if r.AuthorID != actor.User.ID {
		return Review{}, fault.New(fault.Forbidden, "not_your_review", "This review is somebody else's. You can cancel the prompt it waits as, in the agent's queue.")
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, r.WorkspaceID)
	if err != nil {
		return Review{}, err
	}
	switch r.State {
	case Draft:
		return s.MyDraft(ctx, w, actor.User.ID)
	case Sent:
		if r.Verdict == Comments {
			return Review{}, fault.New(fault.Conflict, "review_sent", "This review was sent. Answer its comments, or send another one.")
		}
		if _, err := s.cfg.Store.EditReview(ctx, r.ID, func(r *Review) error {
			r.Verdict, r.UpdatedAt = Comments, s.now()
			return nil
		}); err != nil {
			return Review{}, err
		}
		s.notify(ctx, w.ID, w.TeamID)
		return s.Review(ctx, w, r.ID)
	case Queued:
		s.hold(r.ID)
		defer s.letGo(r.ID)
		if err := s.cfg.Sessions.Cancel(ctx, r.PromptID); err != nil && !fault.Is(err, fault.NotFound) {
			return Review{}, err
		}
	}
	if err := s.redraft(ctx, r.ID); err != nil {
		return Review{}, err
	}
	s.notify(ctx, w.ID, w.TeamID)
	return s.MyDraft(ctx, w, actor.User.ID)
}

// lookAt returns a review a user may see: only its author sees a draft, or one that was never sent.
func (s *Service) lookAt(ctx context.Context, actor accounts.Actor, reviewID string) (Review, error) {
	r, err := s.cfg.Store.Review(ctx, reviewID)
	if err == nil && r.AuthorID != actor.User.ID && r.SentAt == 0 {
		err = fault.New(fault.NotFound, "review_not_found", "There is no such review.")
	}
	return r, err
}

// Find returns a review that a user may see, as it is stored. Errors: review_not_found.
func (s *Service) Find(ctx context.Context, actor accounts.Actor, reviewID string) (Review, error) {
	return s.lookAt(ctx, actor, reviewID)
}

// hold prevents settle from processing a review that is being sent or taken back.
func (s *Service) hold(reviewID string) {
	s.mu.Lock()
	s.held[reviewID]++
	s.mu.Unlock()
}

func (s *Service) letGo(reviewID string) {
	s.mu.Lock()
	if s.held[reviewID]--; s.held[reviewID] <= 0 {
		delete(s.held, reviewID)
	}
	s.mu.Unlock()
}

func (s *Service) isHeld(reviewID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[reviewID] > 0
}

// settle updates a waiting review from the state of its prompt. again also gives it to the agent again if an earlier server could not.
func (s *Service) settle(ctx context.Context, r Review, again bool) error {
	if r.State != Queued || s.isHeld(r.ID) {
		return nil
	}
	p, err := s.cfg.Sessions.Prompt(ctx, r.PromptID)
	state, reason := Queued, ""
	switch {
	case fault.Is(err, fault.NotFound) && again:
		actor, err := s.cfg.Accounts.Actor(ctx, r.AuthorID)
		if err == nil {
			if _, err = s.deliver(ctx, actor, r); err == nil {
				s.notify(ctx, r.WorkspaceID, r.TeamID)
			}
		}
		if err != nil {
			state, reason = Failed, whyFailed(err)
		}
	case fault.Is(err, fault.NotFound):
		return nil // being put into the queue, perhaps by another server
	case err != nil:
		return err
	case p.State == PromptSent:
		state = Sent
	case p.State == PromptFailed:
		state, reason = Failed, p.Reason
	case p.State == PromptCancelled:
		state = Cancelled
	}
	if state == Queued && (p.SessionID == "" || p.SessionID == r.SessionID) {
		return nil
	}
	_, err = s.cfg.Store.EditReview(ctx, r.ID, func(r *Review) error {
		if r.State != Queued {
			return nil
		}
		if p.SessionID != "" {
			r.SessionID = p.SessionID // a resumed session has taken over the queue
		}
		r.State, r.Reason = state, reason
		if state != Queued {
			r.UpdatedAt = s.now()
		}
		if state == Sent && p.SentAt > 0 {
			r.SentAt = p.SentAt // from here on the agent can answer
		}
		return nil
	})
	if err == nil {
		s.notify(ctx, r.WorkspaceID, r.TeamID)
	}
	return err
}
