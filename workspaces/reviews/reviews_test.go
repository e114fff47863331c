package reviews_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces/reviews"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

const before = "package a\n\nfunc one() {\n\treturn\n}\n\nfunc two() {\n\tprintln(2)\n}\n"

func refused(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func (h *harness) comment(n reviews.NewComment) reviews.Comment {
	h.t.Helper()
	c, err := h.room.AddComment(h.ctx(), h.ana, h.w, n)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (h *harness) send(n reviews.SendRequest) reviews.Review {
	h.t.Helper()
	r, err := h.room.Send(h.ctx(), h.ana, h.w, n)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func TestDraftsAreTheirAuthorsAndOutliveEverything(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := h.ctx()
	h.write(map[string]string{"a.go": before})
	first := h.snap("poll", "base", "")
	h.write(map[string]string{"a.go": "// new\n" + before})
	h.snap("poll", "now", "")

	c := h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 3, EndLine: 4, Revision: first, Body: "Say why."})
	if c.Quoted != "func one() {\n\treturn" || strings.Join(c.Around.Before, "|") != "package a|" || c.Around.After[0] != "}" || c.Commit != first {
		t.Errorf("the lines of what was read are not kept: %+v", c)
	}
	for code, n := range map[string]reviews.NewComment{
		"invalid_comment":    {Path: "a.go", Side: reviews.NewSide, Line: 99, Body: "x"},
		"file_not_found":     {Path: "b.go", Side: reviews.NewSide, Line: 1, Body: "x"},
		"revision_not_found": {Path: "a.go", Side: reviews.NewSide, Line: 1, Revision: "nope", Body: "x"},
		"comment_not_found":  {ReplyTo: "rcm_none", Body: "x"},
	} {
		_, err := h.room.AddComment(ctx, h.ana, h.w, n)
		refused(t, err, code)
	}
	for _, n := range []reviews.NewComment{{Path: "../a.go"}, {Path: "/etc/passwd"}, {Path: "a.go", Side: "left"}, {Path: "a.go", Side: reviews.NewSide, Line: 4, EndLine: 2},
		{Path: "a.go", Side: reviews.NewSide, Line: 1, EndLine: 900}, {Path: ""}} {
		n.Body = "x"
		_, err := h.room.AddComment(ctx, h.ana, h.w, n)
		refused(t, err, "invalid_comment")
	}
	if _, err := h.room.WriteDraft(ctx, h.w, h.ana.User.ID, "So far.", reviews.Changes); err != nil {
		t.Fatal(err)
	}
	h.room = h.open() // another server, another device
	d, err := h.room.MyDraft(ctx, h.w, h.ana.User.ID)
	if err != nil || d.Body != "So far." || d.Verdict != reviews.Changes || len(d.Comments) != 1 || d.Comments[0].Body != "Say why." {
		t.Fatalf("%+v %v", d, err)
	}

	// Nobody else sees it, changes it or answers it.
	if d, err := h.room.MyDraft(ctx, h.w, h.ben.User.ID); err != nil || d.ID != "" {
		t.Errorf("%+v %v", d, err)
	}
	if all, err := h.room.Reviews(ctx, h.w, h.ben.User.ID); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
	_, err = h.room.Comment(ctx, h.ben, c.ID)
	refused(t, err, "comment_not_found")
	_, err = h.room.EditComment(ctx, h.ben, c.ID, reviews.CommentEdit{Body: new("mine")})
	refused(t, err, "comment_not_found")
	refused(t, h.room.DeleteComment(ctx, h.ben, c.ID), "comment_not_found")
	_, err = h.room.AddComment(ctx, h.ben, h.w, reviews.NewComment{ReplyTo: c.ID, Body: "x"})
	refused(t, err, "comment_not_found")
	_, err = h.room.Find(ctx, h.ben, d.ID)
	refused(t, err, "review_not_found")

	// Discarded, and restored into what was written meanwhile.
	if _, err := h.room.EditComment(ctx, h.ana, c.ID, reviews.CommentEdit{Body: new("Say why, please.")}); err != nil {
		t.Error(err)
	}
	gone, err := h.room.ThrowAway(ctx, h.w, h.ana.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Body: "The whole file."})
	if d, err = h.room.TakeBack(ctx, h.ana, gone.ID); err != nil || len(d.Comments) != 2 || d.Body != "So far." || d.Comments[0].Body != "Say why, please." {
		t.Errorf("%+v %v", d, err)
	}
	_, err = h.room.EditComment(ctx, h.ana, c.ID, reviews.CommentEdit{State: new(reviews.Resolved)})
	refused(t, err, "comment_not_sent")
	if err := h.room.DeleteComment(ctx, h.ana, c.ID); err != nil {
		t.Error(err)
	}
}

func TestAReviewGoesToTheAgentAsOne(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := h.ctx()
	h.write(map[string]string{"a.go": before})
	h.snap("poll", "base", "")
	_, err := h.room.Send(ctx, h.ana, h.w, reviews.SendRequest{Verdict: reviews.Changes, SessionID: "ses_1"})
	refused(t, err, "nothing_to_send")
	c := h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 4, Body: "Return something."})
	_, err = h.room.Send(ctx, h.ana, h.w, reviews.SendRequest{Verdict: "maybe"})
	refused(t, err, "invalid_review")
	_, err = h.room.Send(ctx, h.ana, h.w, reviews.SendRequest{Verdict: reviews.Changes, SessionID: "ses_shell"})
	refused(t, err, "session_takes_no_review")
	_, err = h.room.Send(ctx, h.ana, h.w, reviews.SendRequest{Verdict: reviews.Changes, SessionID: "ses_elsewhere"})
	refused(t, err, "session_not_found")
	h.refuse = fault.New(fault.Conflict, "queue_full", "Full.")
	_, err = h.room.Send(ctx, h.ana, h.w, reviews.SendRequest{Verdict: reviews.Changes, SessionID: "ses_1"})
	refused(t, err, "queue_full")
	if d, err := h.room.MyDraft(ctx, h.w, h.ana.User.ID); err != nil || len(d.Comments) != 1 || d.SentAt != 0 {
		t.Errorf("what could not be sent is no draft: %+v %v", d, err)
	}
	h.refuse = nil

	r := h.send(reviews.SendRequest{Verdict: reviews.Changes, Body: new("Nearly."), SessionID: "ses_ended"})
	if r.State != reviews.Queued || r.Waits != "the agent works" || r.SessionID != "ses_resumed" || r.Tree == "" {
		t.Errorf("%+v", r)
	}
	if text := h.prompts[r.PromptID].Text; !strings.Contains(text, "Nearly.") || !strings.Contains(text, "1. a.go, line 4\n| \treturn\nReturn something.") {
		t.Errorf("the agent reads:\n%s", text)
	}
	_, err = h.room.EditComment(ctx, h.ana, c.ID, reviews.CommentEdit{Body: new("later")})
	refused(t, err, "comment_sent")
	refused(t, h.room.DeleteComment(ctx, h.ana, c.ID), "comment_sent")

	// While it waits its author can take it back, with what was written since.
	_, err = h.room.TakeBack(ctx, h.ben, r.ID)
	refused(t, err, "not_your_review")
	h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 8, Body: "And this."})
	d, err := h.room.TakeBack(ctx, h.ana, r.ID)
	if err != nil || d.State != reviews.Draft || len(d.Comments) != 2 || d.Body != "Nearly." || h.prompts[r.PromptID].State != reviews.PromptCancelled {
		t.Errorf("%+v %v", d, err)
	}

	// The prompt's state determines the review's.
	h.run()
	for _, to := range []struct {
		prompt reviews.PromptState
		state  reviews.State
	}{{reviews.PromptFailed, reviews.Failed}, {reviews.PromptCancelled, reviews.Cancelled}, {reviews.PromptSent, reviews.Sent}} {
		r = h.send(reviews.SendRequest{Verdict: reviews.Comments, SessionID: "ses_1"})
		h.becomes(r.PromptID, to.prompt, "why")
		h.soon(string(to.state), func(all []reviews.Review) bool { return all[len(all)-1].State == to.state })
		if to.state == reviews.Sent {
			break
		}
		if d, err = h.room.TakeBack(ctx, h.ana, r.ID); err != nil || len(d.Comments) != 2 {
			t.Fatalf("%+v %v", d, err)
		}
	}
	_, err = h.room.TakeBack(ctx, h.ana, r.ID)
	refused(t, err, "review_sent")

	// A thread: somebody answers, and it is resolved and opened again.
	if _, err := h.room.AddComment(ctx, h.ben, h.w, reviews.NewComment{ReplyTo: c.ID, Body: "I agree."}); err != nil {
		t.Fatal(err)
	}
	second, err := h.room.Send(ctx, h.ben, h.w, reviews.SendRequest{Verdict: reviews.Comments, SessionID: "ses_1"})
	if err != nil || len(second.Comments) != 1 || !strings.Contains(h.prompts[second.PromptID].Text, "In answer to "+h.ana.User.Name+":\n| Return something.\nI agree.") {
		t.Errorf("%+v %v\n%s", second, err, h.prompts[second.PromptID].Text)
	}
	got, err := h.room.EditComment(ctx, h.ben, c.ID, reviews.CommentEdit{State: new(reviews.Resolved)})
	if err != nil || got.ResolvedBy != h.ben.User.ID {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = h.room.EditComment(ctx, h.ana, c.ID, reviews.CommentEdit{State: new(reviews.Open)}); err != nil || got.ResolvedBy != "" {
		t.Errorf("%+v %v", got, err)
	}
}

// A server that ended between the row and the queue: the next one puts it there, once. The cost of sending a review does not grow with the
// comments that its replies answer.
func TestWhatAReviewAnswersIsReadAtOnce(t *testing.T) {
	t.Parallel()
	statements := func(replies int) int64 {
		h := newHarness(t)
		h.write(map[string]string{"a.go": before})
		h.snap("poll", "base", "")
		var asked []reviews.Comment
		for i := range replies {
			asked = append(asked, h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 1, Body: fmt.Sprintf("Question %d.", i)}))
		}
		if _, err := h.room.Send(h.ctx(), h.ana, h.w, reviews.SendRequest{Verdict: reviews.Comments}); err != nil {
			t.Fatal(err)
		}
		for _, c := range asked {
			if _, err := h.room.AddComment(h.ctx(), h.ben, h.w, reviews.NewComment{ReplyTo: c.ID, Body: "An answer."}); err != nil {
				t.Fatal(err)
			}
		}
		from := h.db.Statements()
		if _, err := h.room.Send(h.ctx(), h.ben, h.w, reviews.SendRequest{Verdict: reviews.Comments, SessionID: "ses_1"}); err != nil {
			t.Fatal(err)
		}
		count := h.db.Statements() - from
		for _, p := range h.prompts {
			if n := strings.Count(p.Text, "In answer to "+h.ana.User.Name); n != replies {
				t.Errorf("the prompt has %d comments that are answered, not %d:\n%s", n, replies, p.Text)
			}
		}
		return count
	}
	if one, many := statements(1), statements(20); one != many {
		t.Errorf("a review with one reply takes %d statements, with 20 %d", one, many)
	}
}

func TestInterruptedReviewIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.write(map[string]string{"a.go": before})
	h.snap("poll", "base", "")
	h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 4, Body: "Return something."})
	r := h.send(reviews.SendRequest{Verdict: reviews.Changes, SessionID: "ses_1"})
	text := h.prompts[r.PromptID].Text
	delete(h.prompts, r.PromptID)
	h.order = nil
	end := h.run()
	h.soon("delivery", func(all []reviews.Review) bool { return all[0].Waits != "" })
	end()
	if len(h.order) != 1 || h.prompts[r.PromptID].Text != text {
		t.Errorf("%v %+v", h.order, h.prompts)
	}

	// What cannot be delivered by then says so, and can be taken back.
	delete(h.prompts, r.PromptID)
	h.refuse = fault.New(fault.Conflict, "session_not_running", "The session has ended.")
	h.run()
	h.soon("failure", func(all []reviews.Review) bool {
		return all[0].State == reviews.Failed && all[0].Reason == "The session has ended."
	})
	if d, err := h.room.TakeBack(h.ctx(), h.ana, r.ID); err != nil || len(d.Comments) != 1 {
		t.Errorf("%+v %v", d, err)
	}
}

func TestCommentsFollowTheCodeAndKnowWhatAnsweredThem(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.write(map[string]string{"a.go": before, "old.txt": "keep\nme\n"})
	h.snap("poll", "base", "")
	h.write(map[string]string{"a.go": strings.Replace(before, "\treturn\n", "\treturn // wrong\n", 1), "b.go": "package b\n", "old.txt": "me\n"})
	h.snap("poll", "work", "")
	h.run()
	wrong := h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 4, Body: "Wrong."})
	two := h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 7, EndLine: 9, Body: "Fine."})
	file := h.comment(reviews.NewComment{Path: "b.go", Side: reviews.NewSide, Body: "A test?"})
	lost := h.comment(reviews.NewComment{Path: "old.txt", Side: reviews.OldSide, Line: 1, Body: "Why is it gone?"})
	r := h.send(reviews.SendRequest{Verdict: reviews.Changes, SessionID: "ses_1"})
	h.becomes(r.PromptID, reviews.PromptSent, "")
	h.soon("sent", func(all []reviews.Review) bool { return all[0].State == reviews.Sent })
	at := func(all []reviews.Review, id string) reviews.Comment {
		for _, r := range all {
			for _, c := range r.Comments {
				if c.ID == id {
					return c
				}
			}
		}
		t.Fatal("the comment is gone")
		return reviews.Comment{}
	}

	// The agent moves everything down and renames the file: the comments go with the lines.
	h.write(map[string]string{"a.go": "", "c.go": "// licence\n// more\n" + strings.Replace(before, "\treturn\n", "\treturn // wrong\n", 1)})
	h.snap("poll", "moved", "")
	all := h.soon("moved", func(all []reviews.Review) bool { return at(all, wrong.ID).NowLine == 6 })
	for id, line := range map[string]int{wrong.ID: 6, two.ID: 9} {
		if c := at(all, id); c.NowPath != "c.go" || c.NowLine != line || c.Outdated || c.Answer != nil || c.Path != "a.go" {
			t.Errorf("%+v", c)
		}
	}

	// Then it fixes the line, in steps: uncommitted, a commit, the turn's end.
	repaired := "// licence\n" + strings.Replace(before, "\treturn\n", "\treturn 1\n", 1)
	h.write(map[string]string{"c.go": repaired})
	h.snap("poll", "mending", "")
	all = h.soon("answered", func(all []reviews.Review) bool { return at(all, wrong.ID).Answer != nil })
	if c := at(all, wrong.ID); c.Answer.Kind != "snapshot" || !c.Outdated || c.NowLine != 5 || c.Quoted != "\treturn // wrong" {
		t.Errorf("%+v %+v", c, c.Answer)
	}
	h.write(map[string]string{"b.go": "package b\n\nfunc test() {}\n", "old.txt": "keep\nme\n"})
	commit := h.snap("commit", "Return one", "")
	all = h.soon("committed", func(all []reviews.Review) bool {
		c := at(all, wrong.ID)
		return c.Answer != nil && c.Answer.Kind == "commit"
	})
	for _, id := range []string{wrong.ID, file.ID, lost.ID} {
		if c := at(all, id); c.Answer == nil || c.Answer.Commit != commit || c.Answer.Title != "Return one" {
			t.Errorf("%s: %+v", c.Body, c.Answer)
		}
	}
	if c := at(all, two.ID); c.Answer != nil || c.Outdated || c.NowLine != 8 {
		t.Errorf("%+v", c)
	}
	h.snap("turn", "Fix it", "ses_1")
	later := h.comment(reviews.NewComment{Path: "c.go", Side: reviews.NewSide, Line: 1, Body: "Thanks."})
	got := h.soon("the turn", func([]reviews.Review) bool {
		d, err := h.room.MyDraft(h.ctx(), h.w, h.ana.User.ID)
		return err == nil && len(d.Comments) == 1
	})
	if c := at(got, wrong.ID); c.Answer.Kind != "commit" {
		t.Errorf("a turn took the place of the commit: %+v", c.Answer)
	}
	if later.Outdated {
		t.Error("a new comment is outdated")
	}

	// The author sees it until they have responded.
	waiting, err := h.room.AnsweredIn(h.ctx(), h.w.TeamID)
	if err != nil || len(waiting) != 1 || waiting[0].ReviewID != r.ID || waiting[0].Comments != 4 || waiting[0].Changed != 3 || waiting[0].AuthorID != h.ana.User.ID {
		t.Errorf("%+v %v", waiting, err)
	}

	// The old lines come back: that is not an answer.
	h.write(map[string]string{"c.go": "// licence\n" + strings.Replace(before, "\treturn\n", "\treturn // wrong\n", 1)})
	h.snap("poll", "back", "")
	all = h.soon("back", func(all []reviews.Review) bool { return at(all, wrong.ID).Answer == nil })
	if c := at(all, wrong.ID); c.Outdated || c.NowLine != 5 {
		t.Errorf("%+v", c)
	}
	h.write(map[string]string{"c.go": ""})
	h.snap("poll", "gone", "")
	h.soon("gone", func(all []reviews.Review) bool { c := at(all, wrong.ID); return c.NowPath == "" && c.Outdated })

	h.send(reviews.SendRequest{Verdict: reviews.Comments})
	if waiting, err = h.room.AnsweredIn(h.ctx(), h.w.TeamID); err != nil || len(waiting) != 0 {
		t.Errorf("%+v %v", waiting, err)
	}
}

// Lines that moved to another file take their comments along; lines with several equally good matches, or too little content, do not.
func TestCommentsFollowLinesToOtherFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	helper := "func helper(a, b int) int {\n\treturn a*31 + b\n}\n"
	other := "func other(name string) string {\n\treturn strings.ToUpper(name)\n}\n"
	rest := strings.Repeat("// a line that stays where it is\n", 12)
	h.write(map[string]string{"a.go": "package a\n\n" + helper + "\n" + other + rest, "small.go": "package a\n\nvar answer = computeTheAnswer(42)\nvar x = 1\n"})
	h.snap("poll", "base", "")
	h.run()
	block := h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 3, EndLine: 5, Body: "Name it."})
	inner := h.comment(reviews.NewComment{Path: "a.go", Side: reviews.NewSide, Line: 8, Body: "Faster?"})
	deleted := h.comment(reviews.NewComment{Path: "small.go", Side: reviews.NewSide, Line: 3, Body: "Why 42?"})
	little := h.comment(reviews.NewComment{Path: "small.go", Side: reviews.NewSide, Line: 4, Body: "Hm."})
	at := func(all []reviews.Review, id string) reviews.Comment {
		d, err := h.room.MyDraft(h.ctx(), h.w, h.ana.User.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range d.Comments {
			if c.ID == id {
				return c
			}
		}
		t.Fatalf("the comment is gone: %+v", all)
		return reviews.Comment{}
	}

	// The helper goes to a file of its own, indented; the other into two; the small file into one whose name needs quotes.
	h.write(map[string]string{
		"a.go":          "package a\n\n" + rest,
		"help er.go":    "package a\n\n// helped\n\t" + strings.ReplaceAll(strings.TrimSuffix(helper, "\n"), "\n", "\n\t") + "\n",
		"one.go":        other,
		"two.go":        other,
		"small.go":      "",
		"q\"uot\téd.go": "package b\n\nfunc init() {\n\tvar answer = computeTheAnswer(42)\n\tvar x = 1 + answer\n}\n" + rest,
	})
	h.snap("poll", "moved", "")
	all := h.soon("moved", func(all []reviews.Review) bool { return at(all, block.ID).NowPath == "help er.go" })
	if c := at(all, block.ID); c.NowLine != 4 || c.Outdated || c.Answer != nil {
		t.Errorf("%+v", c)
	}
	if c := at(all, deleted.ID); guest.DecodePath(c.NowPath) != "q\"uot\téd.go" || c.NowLine != 4 || c.Outdated {
		t.Errorf("%+v", c)
	}
	if c := at(all, inner.ID); c.NowPath != "a.go" || !c.Outdated {
		t.Errorf("of two places as good one was taken: %+v", c)
	}
	if c := at(all, little.ID); c.NowPath != "" || !c.Outdated {
		t.Errorf("too little was enough: %+v", c)
	}
	h.write(map[string]string{"two.go": ""})
	h.snap("poll", "one is left", "")
	all = h.soon("found", func(all []reviews.Review) bool { return at(all, inner.ID).NowPath == "one.go" })
	if c := at(all, inner.ID); c.NowLine != 2 || c.Outdated {
		t.Errorf("%+v", c)
	}
}

func TestAnApprovalIsForTheseFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := h.ctx()
	h.write(map[string]string{"a.go": before})
	h.snap("poll", "base", "")
	standing := func() reviews.Summary {
		t.Helper()
		all, err := h.room.Summaries(ctx, h.w.TeamID, h.ana.User.ID)
		if err != nil {
			t.Fatal(err)
		}
		return all[h.w.ID]
	}
	r := h.send(reviews.SendRequest{Verdict: reviews.Approve})
	ok, by, err := h.room.Approved(ctx, h.w.ID, r.Tree)
	if err != nil || !ok || by != h.ana.User.ID || standing().State != reviews.StandsApproved || r.State != reviews.Sent || r.Since != 0 {
		t.Errorf("%v %q %v %+v %+v", ok, by, err, standing(), r)
	}
	seen, err := h.room.Seen(ctx, h.w.ID, h.ana.User.ID)
	if err != nil || seen != r.Revision {
		t.Errorf("%q %v", seen, err)
	}
	h.write(map[string]string{"b.go": "b\n", "c.go": "c\n"})
	h.snap("poll", "more", "")
	tree := h.git("rev-parse", "HEAD^{tree}")
	if ok, _, err := h.room.Approved(ctx, h.w.ID, tree); err != nil || ok || standing().State != reviews.StandsStale {
		t.Errorf("%v %v %+v", ok, err, standing())
	}
	if all, err := h.room.Reviews(ctx, h.w, h.ben.User.ID); err != nil || len(all) != 1 || all[0].Since != 2 {
		t.Errorf("%+v %v", all, err)
	}
	// The last word counts.
	r = h.send(reviews.SendRequest{Verdict: reviews.Approve})
	second, err := h.room.Send(ctx, h.ben, h.w, reviews.SendRequest{Verdict: reviews.Changes, Body: new("No.")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, _, err := h.room.Approved(ctx, h.w.ID, r.Tree); err != nil || ok || standing().State != reviews.StandsChanges || standing().By != h.ben.User.ID {
		t.Errorf("%v %v %+v", ok, err, standing())
	}
	if got, err := h.room.TakeBack(ctx, h.ben, second.ID); err != nil || got.Verdict != reviews.Comments || got.State != reviews.Sent {
		t.Errorf("%+v %v", got, err)
	}
	if ok, _, err := h.room.Approved(ctx, h.w.ID, r.Tree); err != nil || !ok {
		t.Errorf("%v %v", ok, err)
	}
}

func TestViewedFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := h.ctx()
	for _, p := range []string{"../x", "", "/x", "a//b"} {
		refused(t, h.room.SetViewed(ctx, h.w, h.ana.User.ID, p, "m", true), "invalid_viewed")
	}
	refused(t, h.room.SetViewed(ctx, h.w, h.ana.User.ID, "a", "", true), "invalid_viewed")
	for _, v := range []struct {
		path, mark string
		on         bool
	}{{"a", "1", true}, {"b", "1", true}, {"a", "2", true}, {"b", "", false}} {
		if err := h.room.SetViewed(ctx, h.w, h.ana.User.ID, v.path, v.mark, v.on); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.room.Viewed(ctx, h.w.ID, h.ana.User.ID)
	if err != nil || len(got) != 1 || got["a"] != "2" {
		t.Errorf("%v %v", got, err)
	}
	if got, err = h.room.Viewed(ctx, h.w.ID, h.ben.User.ID); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
	v := reviews.ViewedFile{TeamID: h.w.TeamID, WorkspaceID: h.w.ID, UserID: h.ana.User.ID, Path: "z", Mark: "1"}
	refused(t, store.NewReviews(h.db).SetViewed(ctx, v, 1), "too_many_viewed")
}
