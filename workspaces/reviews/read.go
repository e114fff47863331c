package reviews

import (
	"context"
	"slices"

	"github.com/parawork/parawork/workspaces"
)

// Reviews returns the newest reviews of a workspace, oldest first, as a user sees them: without their draft, but with those they discarded.
func (s *Service) Reviews(ctx context.Context, w workspaces.Workspace, userID string) ([]Review, error) {
	all, err := s.read(ctx, w, userID)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r Review) bool { return r.State == Draft })
	return all, s.explain(ctx, w, all)
}

// read returns the reviews of a workspace after settling those that waited.
func (s *Service) read(ctx context.Context, w workspaces.Workspace, userID string) ([]Review, error) {
	all, err := s.cfg.Store.Reviews(ctx, w.ID, userID, maxReviews)
	if err != nil {
		return nil, err
	}
	for i, r := range all {
		if r.State != Queued {
			continue
		}
		if err := s.settle(ctx, r, false); err != nil {
			return nil, err
		}
		if now, err := s.cfg.Store.Review(ctx, r.ID); err == nil {
			all[i] = now
		}
	}
	return all, nil
}

// Review returns a review with all details. Errors: review_not_found.
func (s *Service) Review(ctx context.Context, w workspaces.Workspace, reviewID string) (Review, error) {
	r, err := s.cfg.Store.Review(ctx, reviewID)
	if err != nil {
		return Review{}, err
	}
	all := []Review{r}
	err = s.explain(ctx, w, all)
	return all[0], err
}

// explain adds to reviews what is not stored with them: why they wait, what answered their comments, and how much changed since the newest
// verdict.
func (s *Service) explain(ctx context.Context, w workspaces.Workspace, all []Review) error {
	var commits []string
	newest := -1
	for i := range all {
		r := &all[i]
		r.Since = -1
		if r.State == Queued {
			r.Waits = s.waits(ctx, *r)
		}
		if r.standing() && (newest < 0 || r.SentAt >= all[newest].SentAt) {
			newest = i
		}
		for _, c := range r.Comments {
			if c.AnsweredCommit != "" {
				commits = append(commits, c.AnsweredCommit)
			}
		}
	}
	if newest >= 0 {
		all[newest].Since = s.since(ctx, w, all[newest])
	}
	if len(commits) == 0 {
		return nil
	}
	slices.Sort(commits)
	snaps, err := s.cfg.Store.SnapshotsOf(ctx, w.ID, slices.Compact(commits))
	if err != nil {
		return err
	}
	for i := range all {
		for j := range all[i].Comments {
			c := &all[i].Comments[j]
			if c.AnsweredCommit != "" {
				c.Answer = answerOf(*c, snaps)
			}
		}
	}
	return nil
}

// answerOf describes the commit that answered a comment. Of a snapshot that is no longer stored, only its time is known.
func answerOf(c Comment, snaps []Snapshot) *Answer {
	a := &Answer{Kind: "snapshot", At: c.AnsweredAt}
	for _, sn := range snaps {
		switch {
		case sn.Kind == "commit" && sn.Head == c.AnsweredCommit:
			return &Answer{Kind: "commit", Commit: sn.Head, SnapshotID: sn.ID, Title: sn.Title, At: sn.At}
		case sn.Commit == c.AnsweredCommit:
			*a = Answer{Kind: "snapshot", SnapshotID: sn.ID, Title: sn.Title, At: sn.At}
			if sn.Kind == "turn" {
				a.Kind = sn.Kind
			} else {
				a.Title = ""
			}
		}
	}
	return a
}

// waits returns why an agent does not have a review yet.
func (s *Service) waits(ctx context.Context, r Review) string {
	queue, err := s.cfg.Sessions.Prompts(ctx, r.SessionID)
	if err != nil {
		return ""
	}
	first := true
	for _, p := range queue {
		switch {
		case p.ID == r.PromptID && p.State == PromptSending:
			return "the agent is being given it"
		case p.ID == r.PromptID && first:
			return p.Waits
		case p.ID == r.PromptID:
			return "other prompts wait before it"
		case p.State == PromptQueued || p.State == PromptSending:
			first = false
		}
	}
	return ""
}

// standing reports whether a review's verdict counts.
func (r Review) standing() bool {
	return r.SentAt != 0 && (r.State == Sent || r.State == Queued) && (r.Verdict == Approve || r.Verdict == Changes)
}

// since counts the files that changed since a verdict, -1 when unknown.
func (s *Service) since(ctx context.Context, w workspaces.Workspace, r Review) int {
	snaps, err := s.cfg.Store.Snapshots(ctx, w.ID, s.now(), 1)
	if err != nil || len(snaps) == 0 || r.Tree == "" {
		return -1
	}
	now := snaps[len(snaps)-1]
	if now.Tree == r.Tree {
		return 0
	}
	files, err := s.cfg.Trees.Changed(ctx, w.ID, Tree{Commit: r.Tree, Tree: r.Tree}, Tree{Commit: now.Commit, Tree: now.Tree, SnapshotID: now.ID})
	if err != nil {
		return -1
	}
	return len(files)
}

// Approved reports whether exactly these files were approved, and by whom. The last verdict of all reviewers counts: a request for changes
// after an approval revokes it, and vice versa.
func (s *Service) Approved(ctx context.Context, workspaceID, tree string) (ok bool, by string, err error) {
	all, err := s.cfg.Store.Reviews(ctx, workspaceID, "", maxReviews)
	if err != nil {
		return false, "", err
	}
	var last Review
	for _, r := range all {
		if r.standing() && r.SentAt >= last.SentAt {
			last = r
		}
	}
	if last.Verdict != Approve || tree == "" || last.Tree != tree {
		return false, "", nil
	}
	return true, last.AuthorID, nil
}

// Seen returns what a user read when they last sent a review, to compare with it: a snapshot's id or a commit, "" when they sent none.
func (s *Service) Seen(ctx context.Context, workspaceID, userID string) (string, error) {
	all, err := s.cfg.Store.Reviews(ctx, workspaceID, userID, maxReviews)
	if err != nil {
		return "", err
	}
	var last Review
	for _, r := range all {
		if r.AuthorID == userID && r.Revision != "" && r.SentAt > last.SentAt {
			last = r
		}
	}
	return last.Revision, nil
}

// Summaries returns a line for every workspace of a team that has reviews, or for those that are named; drafts are those of userID.
func (s *Service) Summaries(ctx context.Context, teamID, userID string, workspaceIDs ...string) (map[string]Summary, error) {
	return s.cfg.Store.ReviewSummaries(ctx, teamID, userID, workspaceIDs...)
}

// Answered is a review an agent has worked on, for its author to look at.
type Answered struct {
	ReviewID, WorkspaceID, AuthorID, SessionID string
	At                                         int64 // when the agent's turn ended
	Comments, Changed                          int   // of the review: open comments, and those of them whose lines changed
}

// AnsweredIn returns the reviews of a team's people that agents have worked on and whose authors have not responded since.
func (s *Service) AnsweredIn(ctx context.Context, teamID string) ([]Answered, error) {
	return s.cfg.Store.AnsweredReviews(ctx, teamID)
}
