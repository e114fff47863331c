package reviews_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/reviews"
)

// What an agent comments on is in the diff, is seen by people at once, and is answered and resolved like any comment. Its summary ends it.
func TestAgentsReviewTheDiff(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	long := strings.Repeat("same\n", 40)
	h.write(map[string]string{"a.go": before, "long.txt": long, "old.txt": before + "x\n", "gone.txt": "1\n2\n"})
	h.snap("poll", "base", "")
	h.write(map[string]string{"a.go": strings.Replace(before, "println(2)", "println(3)", 1), "long.txt": "new\n" + long, "old.txt": "", "moved.txt": before + "y\n", "gone.txt": "", "plain.txt": "p\n"})
	h.snap("poll", "now", "")

	for _, c := range []struct {
		n          reviews.NewComment
		code, says string
	}{
		{reviews.NewComment{Path: "missing.go", Side: reviews.NewSide, Line: 1}, "not_in_diff", "Changed are: a.go"},
		{reviews.NewComment{Path: "long.txt", Side: reviews.NewSide, Line: 30}, "not_in_diff", "it shows lines 1 to 4."},
		{reviews.NewComment{Path: "long.txt", Side: reviews.NewSide, Line: 3, EndLine: 9}, "not_in_diff", "Lines 3 to 9 of long.txt"},
		{reviews.NewComment{Path: "gone.txt", Side: reviews.NewSide, Line: 3, EndLine: 9}, "not_in_diff", ""},
		{reviews.NewComment{Path: "../a.go", Side: reviews.NewSide}, "invalid_comment", ""},
		{reviews.NewComment{Path: "a.go", Side: "left"}, "invalid_comment", ""},
		{reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: -1}, "invalid_comment", ""},
		{reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 10, EndLine: 11}, "invalid_comment", "The file has 9 lines"}, // what is shown ends with the file
	} {
		c.n.Body = "wrong"
		_, err := h.room.AgentComment(h.ctx(), "ses_1", h.w, c.n)
		refused(t, err, c.code)
		if words := fault.Words(err, ""); !strings.Contains(words, c.says) {
			t.Errorf("%+v: %q", c.n, words)
		}
	}
	if all, err := h.room.Reviews(h.ctx(), h.w, h.ana.User.ID); err != nil || len(all) != 0 {
		t.Errorf("refused comments left %+v, %v", all, err)
	}

	say := func(n reviews.NewComment) reviews.Comment {
		t.Helper()
		c, err := h.room.AgentComment(h.ctx(), "ses_1", h.w, n)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := say(reviews.NewComment{Path: "./a.go", Side: reviews.NewSide, Line: 8, Body: "This must be 2."})
	again := say(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 8, Body: "This must be 2."})
	was := say(reviews.NewComment{Path: "moved.txt", Side: reviews.OldSide, Line: 10, Body: "Why has this gone?"})
	whole := say(reviews.NewComment{Path: "gone.txt", Side: reviews.OldSide, Body: "Still used."})
	if first.Quoted != "\tprintln(3)" || again.ID != first.ID || was.Path != "old.txt" || was.Quoted != "x" || whole.Line != 0 {
		t.Errorf("got %+v, %s, %+v, %+v", first, again.ID, was, whole)
	}
	read := func() []reviews.Review {
		t.Helper()
		all, err := h.room.Reviews(h.ctx(), h.w, h.ana.User.ID)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := read()
	if len(all) != 1 || all[0].AuthorID != "ses_1" || !reviews.ByAgent(all[0].AuthorID) || all[0].State != reviews.Sent || all[0].Verdict != reviews.Comments || len(all[0].Comments) != 3 {
		t.Fatalf("people see %+v", all)
	}
	if sums, err := h.room.Summaries(h.ctx(), h.w.TeamID, h.ana.User.ID); err != nil || sums[h.w.ID].OpenComments != 3 || sums[h.w.ID].State != "" {
		t.Errorf("got %+v, %v", sums, err)
	}
	done := reviews.Resolved
	if c, err := h.room.EditComment(h.ctx(), h.ana, was.ID, reviews.CommentEdit{State: &done}); err != nil || c.State != done {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := h.room.AddComment(h.ctx(), h.ben, h.w, reviews.NewComment{ReplyTo: first.ID, Body: "Do it."}); err != nil || c.ReplyTo != first.ID {
		t.Errorf("got %+v, %v", c, err)
	}
	if seen, err := h.room.Seen(h.ctx(), h.w.ID, h.ana.User.ID); err != nil || seen != "" {
		t.Errorf("an agent's review counts as a person's: %q, %v", seen, err)
	}

	if r, err := h.room.AgentSummary(h.ctx(), "ses_1", h.w, "Three faults."); err != nil || r.ID != all[0].ID || r.Body != "Three faults." || len(r.Comments) != 3 {
		t.Errorf("got %+v, %v", r, err)
	}
	other := say(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Body: "One more."})
	if r, err := h.room.AgentSummary(h.ctx(), "ses_2", h.w, "Nothing found."); err != nil || len(r.Comments) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	_, err := h.room.AgentSummary(h.ctx(), "ses_2", h.w, " ")
	refused(t, err, "nothing_to_send")
	if all = read(); len(all) != 3 || all[1].ID != other.ReviewID || other.ReviewID == first.ReviewID {
		t.Errorf("got %+v", all)
	}
	if _, err := h.room.TakeBack(h.ctx(), h.ana, first.ReviewID); fault.CodeOf(err) != "not_your_review" {
		t.Errorf("a person took an agent's review back: %v", err)
	}
}
