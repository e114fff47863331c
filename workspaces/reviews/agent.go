package reviews

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

// Agents review, too. The author of what they write is their session. A comment of theirs is no draft: people see it at once, in the
// session's review, which is open until the session sums it up. Its verdict is always "comment": people decide.

const sessionPrefix = "ses_"

// ByAgent reports whether an author is an agent's session, and no person.
func ByAgent(authorID string) bool { return strings.HasPrefix(authorID, sessionPrefix) }

// Takes reports whether comments can be added to a review.
func (r Review) Takes() bool {
	return r.State == Draft || r.State == Sent && ByAgent(r.AuthorID) && r.Body == ""
}

// AgentComment adds a comment of a session to its review. It is about lines of the workspace's diff, or about a changed file as a whole. The
// same comment is added once. Errors: invalid_comment, not_in_diff, too_many_comments, file_too_large.
func (s *Service) AgentComment(ctx context.Context, sessionID string, w workspaces.Workspace, n NewComment) (Comment, error) {
	if err := checkText("text", n.Body, maxComment); err != nil {
		return Comment{}, err
	}
	if strings.TrimSpace(n.Body) == "" {
		return Comment{}, invalid("text", "The comment is empty: write what is wrong, when, and how to repair it.")
	}
	n.EndLine, n.Path = cmp.Or(n.EndLine, n.Line), guest.EncodePath(path.Clean(guest.DecodePath(n.Path)))
	if err := n.check(); err != nil {
		return Comment{}, err
	}
	read, from, err := s.wasRead(ctx, w, sessionID, SendRequest{})
	if err != nil {
		return Comment{}, err
	}
	if n.Path, err = s.inDiff(ctx, w.ID, from, read, n); err != nil {
		return Comment{}, err
	}
	now := s.now()
	c := Comment{ID: id.New("rcm"), TeamID: w.TeamID, WorkspaceID: w.ID, AuthorID: sessionID, Body: n.Body, State: Open, CreatedAt: now, UpdatedAt: now}
	tree := read
	if n.Side == OldSide {
		tree = from
	}
	if err := s.placeAt(ctx, &c, tree, n); err != nil {
		return Comment{}, err
	}
	r, err := s.agentReview(ctx, sessionID, w, read, from)
	if err != nil {
		return Comment{}, err
	}
	same := func(o Comment) bool {
		return o.Path == c.Path && o.Side == c.Side && o.Line == c.Line && o.EndLine == c.EndLine && o.Body == c.Body
	}
	if at := slices.IndexFunc(r.Comments, same); at >= 0 {
		return r.Comments[at], nil
	}
	c.ReviewID = r.ID
	if err := s.cfg.Store.AddComment(ctx, c, maxComments); err != nil {
		return Comment{}, err
	}
	s.notify(ctx, w.ID, w.TeamID)
	s.poke(w.ID, w.TeamID)
	return c, nil
}

// AgentSummary ends a session's review with a summary. A session that found nothing has a review of the summary alone. Errors:
// invalid_review, nothing_to_send.
func (s *Service) AgentSummary(ctx context.Context, sessionID string, w workspaces.Workspace, text string) (Review, error) {
	if err := checkText("text", text, maxBody); err != nil {
		return Review{}, err
	}
	if strings.TrimSpace(text) == "" {
		return Review{}, fault.New(fault.Invalid, "nothing_to_send", "The summary is empty: say what you reviewed and what you found.").With("field", "text")
	}
	read, from, err := s.wasRead(ctx, w, sessionID, SendRequest{})
	if err != nil {
		return Review{}, err
	}
	r, err := s.agentReview(ctx, sessionID, w, read, from)
	if err != nil {
		return Review{}, err
	}
	out, err := s.cfg.Store.EditReview(ctx, r.ID, func(r *Review) error {
		r.Body, r.UpdatedAt = text, s.now()
		return nil
	})
	if err != nil {
		return Review{}, err
	}
	out.Comments = r.Comments
	s.notify(ctx, w.ID, w.TeamID)
	return out, nil
}

// agentReview returns the open review of a session. A new one is sent from the beginning.
func (s *Service) agentReview(ctx context.Context, sessionID string, w workspaces.Workspace, read, from Tree) (r Review, err error) {
	all, err := s.cfg.Store.Reviews(ctx, w.ID, sessionID, maxReviews)
	if err != nil {
		return r, err
	}
	for _, r := range slices.Backward(all) {
		if r.AuthorID == sessionID && r.State == Sent && r.Takes() {
			return r, nil
		}
	}
	if r, err = s.openDraft(ctx, w, sessionID); err != nil {
		return r, err
	}
	store := func() (err error) {
		r, err = s.cfg.Store.EditReview(ctx, r.ID, func(r *Review) error {
			r.State, r.Verdict, r.From, r.Tree, r.Revision = Sent, Comments, from.Commit, read.Tree, cmp.Or(read.SnapshotID, read.Commit)
			r.UpdatedAt = s.now()
			r.SentAt = r.UpdatedAt
			return nil
		})
		return err
	}
	if read.SnapshotID == "" {
		return r, store()
	}
	err = s.cfg.Trees.Hold(ctx, w.ID, read.SnapshotID, store)
	return r, err
}

// inDiff returns the path, on its side, of a file that differs, and refuses lines that the diff does not show.
func (s *Service) inDiff(ctx context.Context, workspaceID string, from, to Tree, n NewComment) (string, error) {
	files, err := s.cfg.Trees.Changed(ctx, workspaceID, from, to)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(files, func(f File) bool { return f.Path == n.Path })
	if at < 0 {
		at = slices.IndexFunc(files, func(f File) bool { return f.OldPath == n.Path })
	}
	if at < 0 {
		return "", notInDiff("path", "%s is not part of the changes since the base. Changed are: %s.", plain(n.Path, 200), named(files))
	}
	f := files[at]
	was := cmp.Or(f.OldPath, f.Path)
	side := f.Path
	if n.Side == OldSide {
		side = was
	}
	if n.Line == 0 {
		return side, nil
	}
	patch, err := s.cfg.Trees.Patch(ctx, workspaceID, from, to, paths(guest.DecodePath(was), guest.DecodePath(f.Path)))
	if err != nil {
		return "", err
	}
	hunks, err := readHunks(patch)
	if cerr := patch.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", fmt.Errorf("reading what changed in a file: %w", err)
	}
	shown := shownLines(hunks, n.Side)
	if slices.ContainsFunc(shown, func(l [2]int) bool { return l[0] <= n.Line && n.EndLine <= l[1] }) {
		return side, nil
	}
	which := "as it is now"
	if n.Side == OldSide {
		which = "as it was at the base"
	}
	return "", notInDiff("line", "Lines %d to %d of %s are not in the diff. Of the file %s it shows %s. Comment on these, or on the whole file without line.", n.Line, n.EndLine, plain(side, 200), which, spansOf(shown))
}

func notInDiff(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "not_in_diff", format, args...).With("field", field)
}

// shownLines are the lines of a side that a diff shows: the changed ones with those around them. Neighbours are one.
func shownLines(hunks []hunk, side Side) (out [][2]int) {
	for _, h := range hunks {
		start, n := h.newStart, h.newLines
		if side == OldSide {
			start, n = h.oldStart, h.oldLines
		}
		if n == 0 { // the start is the line before
			start++
		}
		l := [2]int{max(1, start-around), start + n - 1 + around}
		if k := len(out); k > 0 && l[0] <= out[k-1][1]+1 {
			out[k-1][1] = l[1]
		} else {
			out = append(out, l)
		}
	}
	return out
}

const mostNamed = 30 // files or places in words for an agent

func spansOf(lines [][2]int) string {
	if len(lines) == 0 {
		return "no lines"
	}
	var words []string
	for _, l := range lines[:min(len(lines), mostNamed)] {
		words = append(words, fmt.Sprintf("%d to %d", l[0], l[1]))
	}
	return "lines " + strings.Join(words, ", ") + further(len(lines))
}

func named(files []File) string {
	if len(files) == 0 {
		return "no files"
	}
	var words []string
	for _, f := range files[:min(len(files), mostNamed)] {
		words = append(words, plain(f.Path, 200))
	}
	return strings.Join(words, ", ") + further(len(files))
}

func further(n int) string {
	if n <= mostNamed {
		return ""
	}
	return fmt.Sprintf(" and %d more", n-mostNamed)
}
