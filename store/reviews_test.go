package store_test

import (
	"reflect"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces/reviews"
)

func TestReviews(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewReviews(db)
		team, user, ws := sessionHarness(t, db)
		draft := func(at int64) reviews.Review {
			t.Helper()
			r, err := st.OpenDraft(ctx, reviews.Review{ID: id.New("rev"), TeamID: team, WorkspaceID: ws[0], AuthorID: user, State: reviews.Draft, CreatedAt: at, UpdatedAt: at})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := draft(1)
		if again := draft(2); again.ID != r.ID {
			t.Errorf("two drafts of one person: %s %s", r.ID, again.ID)
		}
		c := reviews.Comment{ID: id.New("rcm"), TeamID: team, WorkspaceID: ws[0], ReviewID: r.ID, AuthorID: user, Path: `a\xff"é`, Side: reviews.NewSide, Line: 3, EndLine: 4,
			Quoted: "a\nb é", Around: reviews.Around{Before: []string{"x"}, After: []string{"y", ""}}, Commit: "c1", NowPath: "a", NowLine: 3, AnchoredTree: "t1",
			Body: "why?\n", State: reviews.Open, CreatedAt: 5, UpdatedAt: 6}
		if err := st.AddComment(ctx, c, 1); err != nil {
			t.Fatal(err)
		}
		if got, err := st.Comment(ctx, c.ID); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("got %+v, %v", got, err)
		}
		more := c
		more.ID = id.New("rcm")
		if err := st.AddComment(ctx, more, 1); fault.CodeOf(err) != "too_many_comments" {
			t.Errorf("got %v", err)
		}
		c.NowLine, c.Outdated, c.AnsweredCommit, c.AnsweredAt = 9, true, "s3", 30
		if err := st.Anchor(ctx, c); err != nil {
			t.Fatal(err)
		}
		if got, err := st.EditComment(ctx, c.ID, func(c *reviews.Comment) error { c.Body = "because"; return nil }); err != nil || got.Body != "because" || got.NowLine != 9 {
			t.Errorf("got %+v, %v", got, err)
		}
		if open, err := st.OpenComments(ctx, ws[0]); err != nil || len(open) != 1 || !open[0].Outdated {
			t.Errorf("got %+v, %v", open, err)
		}
		if all, err := st.CommentedWorkspaces(ctx); err != nil || len(all) != 1 || all[ws[0]] != team {
			t.Errorf("got %v, %v", all, err)
		}
		r, err := st.EditReview(ctx, r.ID, func(r *reviews.Review) error {
			r.State, r.Verdict, r.Tree, r.SessionID, r.PromptID, r.SentAt = reviews.Queued, reviews.Approve, "t2", "ses_1", "prm_1", 20
			return nil
		})
		if err != nil || len(r.Comments) != 1 {
			t.Fatalf("got %+v, %v", r, err)
		}
		for session, want := range map[string]int{"": 1, "ses_1": 1, "ses_2": 0} {
			if q, err := st.QueuedReviews(ctx, session); err != nil || len(q) != want {
				t.Errorf("%q: got %+v, %v", session, q, err)
			}
		}
		for i, s := range []struct{ kind, commit, tree, head string }{{"poll", "s1", "t1", "h1"}, {"turn", "s2", "t2", "h1"}, {"commit", "s3", "t2", "h2"}, {"poll", "s4", "t2", "h2"}} {
			if _, err := db.Exec(ctx, `INSERT INTO snapshots (id, team_id, workspace_id, at, kind, session_id, commit_id, tree_id, head, base_commit) VALUES (?,?,?,?,?,'ses_1',?,?,?,'b')`,
				id.New("snp"), team, ws[0], 10*(i+1)+5, s.kind, s.commit, s.tree, s.head); err != nil {
				t.Fatal(err)
			}
		}
		names := func(all []reviews.Snapshot, err error) (out string) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				out += s.Commit + " "
			}
			return out
		}
		if got := names(st.Snapshots(ctx, ws[0], 0, 10)); got != "s2 s3 s4 " {
			t.Errorf("snapshots %q", got)
		}
		if got := names(st.Snapshots(ctx, ws[0], 30, 10)); got != "s3 s4 " {
			t.Errorf("snapshots %q", got)
		}
		if got := names(st.Snapshots(ctx, ws[1], 0, 10)); got != "" {
			t.Errorf("snapshots %q", got)
		}
		if got := names(st.SnapshotsOf(ctx, ws[0], []string{"s1", "h2"})); got != "s1 s3 " {
			t.Errorf("snapshots %q", got)
		}
		sums, err := st.ReviewSummaries(ctx, team, user)
		if want := (reviews.Summary{State: reviews.StandsApproved, By: user, At: 20, OpenComments: 1}); err != nil || sums[ws[0]] != want || len(sums) != 1 {
			t.Errorf("got %+v, %v", sums, err)
		}
		if a, err := st.AnsweredReviews(ctx, team); err != nil || len(a) != 0 {
			t.Errorf("one that waits was answered: %+v %v", a, err)
		}
		if _, err := st.EditReview(ctx, r.ID, func(r *reviews.Review) error { r.State = reviews.Sent; return nil }); err != nil {
			t.Fatal(err)
		}
		if a, err := st.AnsweredReviews(ctx, team); err != nil || len(a) != 1 || a[0].At != 25 || a[0].Comments != 1 || a[0].Changed != 1 {
			t.Errorf("got %+v, %v", a, err)
		}
		d := draft(3)
		if _, err := st.EditReview(ctx, r.ID, func(r *reviews.Review) error { r.State = reviews.Draft; return nil }); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second draft: %v", err)
		}
		if err := st.MoveComments(ctx, r.ID, d.ID); err != nil {
			t.Fatal(err)
		}
		if sums, err = st.ReviewSummaries(ctx, team, user); err != nil || sums[ws[0]].Drafts != 1 || sums[ws[0]].OpenComments != 0 {
			t.Errorf("got %+v, %v", sums, err)
		}
		for who, want := range map[string]int{user: 2, "usr_other": 1} {
			if all, err := st.Reviews(ctx, ws[0], who, 10); err != nil || len(all) != want || len(all[len(all)-1].Comments) != want-1 {
				t.Errorf("%s: got %+v, %v", who, all, err)
			}
		}
		if err := st.DropComment(ctx, c.ID); err != nil {
			t.Fatal(err)
		}
		if err := st.DropReview(ctx, d.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Draft(ctx, ws[0], user); fault.CodeOf(err) != "review_not_found" {
			t.Errorf("got %v", err)
		}
		if _, err := st.Comment(ctx, c.ID); fault.CodeOf(err) != "comment_not_found" {
			t.Errorf("got %v", err)
		}
	})
}
