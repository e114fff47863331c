package reviews

import (
	"cmp"
	"context"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

// Limits of what people write.
const (
	maxBody     = 64 << 10 // per review
	maxComment  = 16 << 10
	maxComments = 300 // per draft
	maxReviews  = 200 // per list
)

func checkText(field, text string, most int) error {
	switch {
	case len(text) > most:
		return fault.New(fault.Invalid, "invalid_review", "The text is longer than %d KiB.", most>>10).With("field", field)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fault.New(fault.Invalid, "invalid_review", "The text must be UTF-8 without NUL characters.").With("field", field)
	}
	return nil
}

func checkVerdict(v Verdict) error {
	switch v {
	case Comments, Changes, Approve:
		return nil
	}
	return fault.New(fault.Invalid, "invalid_review", "verdict is one of comment, changes and approve.").With("field", "verdict")
}

// MyDraft returns a user's draft with its comments, or an empty one that is not stored.
func (s *Service) MyDraft(ctx context.Context, w workspaces.Workspace, userID string) (Review, error) {
	r, err := s.cfg.Store.Draft(ctx, w.ID, userID)
	if fault.Is(err, fault.NotFound) {
		return Review{TeamID: w.TeamID, WorkspaceID: w.ID, AuthorID: userID, State: Draft, Since: -1}, nil
	}
	if err == nil {
		err = s.explain(ctx, w, []Review{r})
	}
	return r, err
}

func (s *Service) openDraft(ctx context.Context, w workspaces.Workspace, userID string) (Review, error) {
	now := s.now()
	return s.cfg.Store.OpenDraft(ctx, Review{ID: id.New("rev"), TeamID: w.TeamID, WorkspaceID: w.ID, AuthorID: userID, State: Draft, CreatedAt: now, UpdatedAt: now})
}

// WriteDraft stores the text of a user's draft. Errors: invalid_review.
func (s *Service) WriteDraft(ctx context.Context, w workspaces.Workspace, userID, body string, verdict Verdict) (Review, error) {
	if err := checkText("body", body, maxBody); err != nil {
		return Review{}, err
	}
	if verdict != "" {
		if err := checkVerdict(verdict); err != nil {
			return Review{}, err
		}
	}
	d, err := s.openDraft(ctx, w, userID)
	if err != nil {
		return Review{}, err
	}
	_, err = s.cfg.Store.EditReview(ctx, d.ID, func(r *Review) error {
		if r.State != Draft {
			return errMoved
		}
		r.Body, r.Verdict, r.UpdatedAt = body, verdict, s.now()
		return nil
	})
	if err != nil {
		return Review{}, err
	}
	s.notify(ctx, w.ID, w.TeamID)
	return s.MyDraft(ctx, w, userID)
}

// errMoved is the error for changing a draft that was sent meanwhile.
var errMoved = fault.New(fault.Conflict, "review_sent", "This review was sent meanwhile. Write the comment into a new one.")

// ThrowAway discards a draft. Its author can restore it; an empty one is deleted. Errors: review_not_found.
func (s *Service) ThrowAway(ctx context.Context, w workspaces.Workspace, userID string) (Review, error) {
	d, err := s.cfg.Store.Draft(ctx, w.ID, userID)
	if err != nil {
		return Review{}, err
	}
	if len(d.Comments) == 0 && strings.TrimSpace(d.Body) == "" {
		err = s.cfg.Store.DropReview(ctx, d.ID)
	} else {
		_, err = s.cfg.Store.EditReview(ctx, d.ID, func(r *Review) error {
			if r.State != Draft {
				return errMoved
			}
			r.State, r.UpdatedAt = Cancelled, s.now()
			return nil
		})
	}
	if err != nil {
		return Review{}, err
	}
	s.notify(ctx, w.ID, w.TeamID)
	d.State = Cancelled
	return d, nil
}

// AddComment adds a comment to a user's draft. Line numbers refer to the revision the user looked at, not to the current one. Errors:
// invalid_comment, comment_not_found, too_many_comments, file_not_found, revision_*.
func (s *Service) AddComment(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, n NewComment) (Comment, error) {
	if err := checkText("body", n.Body, maxComment); err != nil {
		return Comment{}, err
	}
	if strings.TrimSpace(n.Body) == "" {
		return Comment{}, invalid("body", "The comment is empty: write what you want to say.")
	}
	now := s.now()
	c := Comment{ID: id.New("rcm"), TeamID: w.TeamID, WorkspaceID: w.ID, AuthorID: actor.User.ID, Body: n.Body, State: Open, CreatedAt: now, UpdatedAt: now}
	var err error
	if n.ReplyTo != "" {
		err = s.replyTo(ctx, &c, n.ReplyTo)
	} else {
		err = s.place(ctx, &c, w, n)
	}
	if err != nil {
		return Comment{}, err
	}
	d, err := s.openDraft(ctx, w, actor.User.ID)
	if err != nil {
		return Comment{}, err
	}
	c.ReviewID = d.ID
	if err := s.cfg.Store.AddComment(ctx, c, maxComments); err != nil {
		return Comment{}, err
	}
	s.notify(ctx, w.ID, w.TeamID)
	s.poke(w.ID, w.TeamID) // the files may have changed since the user read them
	return c, nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_comment", format, args...).With("field", field)
}

// replyTo places a reply where the comment it answers is. A reply to a reply answers the first comment.
func (s *Service) replyTo(ctx context.Context, c *Comment, to string) error {
	p, err := s.cfg.Store.Comment(ctx, to)
	if err != nil {
		return err
	}
	if p.WorkspaceID != c.WorkspaceID || !s.shown(ctx, p, c.AuthorID) {
		return errNoComment
	}
	c.ReplyTo, c.Path, c.Side, c.Line, c.EndLine, c.Quoted, c.Around, c.Commit = p.ID, p.Path, p.Side, p.Line, p.EndLine, p.Quoted, p.Around, p.Commit
	if p.ReplyTo != "" {
		c.ReplyTo = p.ReplyTo
	}
	c.NowPath, c.NowLine, c.Outdated, c.AnchoredTree = p.NowPath, p.NowLine, p.Outdated, p.AnchoredTree
	return nil
}

var errNoComment = fault.New(fault.NotFound, "comment_not_found", "There is no such comment.")

// shown reports whether a user may see a comment: only its author sees a draft.
func (s *Service) shown(ctx context.Context, c Comment, userID string) bool {
	if c.AuthorID == userID {
		return true
	}
	r, err := s.cfg.Store.Review(ctx, c.ReviewID)
	return err == nil && r.SentAt != 0
}

// place reads the lines a comment is about.
func (s *Service) place(ctx context.Context, c *Comment, w workspaces.Workspace, n NewComment) error {
	n.EndLine = cmp.Or(n.EndLine, n.Line)
	if err := n.check(); err != nil {
		return err
	}
	rev := n.Revision
	if rev == "" {
		if rev = "now"; n.Side == OldSide {
			rev = "base"
		}
	}
	t, err := s.cfg.Trees.Resolve(ctx, w, rev, c.AuthorID)
	if err != nil {
		return err
	}
	return s.placeAt(ctx, c, t, n)
}

// check refuses what cannot be a place.
func (n NewComment) check() error {
	if !inside(guest.DecodePath(n.Path)) {
		return invalid("path", "This is not the path of a file in the workspace.")
	}
	if n.Side != OldSide && n.Side != NewSide {
		return invalid("side", "side is old or new.")
	}
	if n.Line < 0 || n.EndLine < n.Line || n.Line == 0 && n.EndLine != 0 {
		return invalid("line", "Lines start at 1, and the last is not before the first; 0 is the whole file.")
	}
	if n.EndLine-n.Line >= maxLines {
		return invalid("end_line", "A comment is about %d lines at most. Choose fewer, or comment on the file.", maxLines)
	}
	return nil
}

// placeAt reads them in a tree.
func (s *Service) placeAt(ctx context.Context, c *Comment, t Tree, n NewComment) error {
	raw := guest.DecodePath(n.Path)
	c.Path, c.Side, c.Line, c.EndLine, c.Commit = guest.EncodePath(raw), n.Side, n.Line, n.EndLine, t.Commit
	c.NowPath, c.NowLine, c.AnchoredTree = c.Path, c.Line, t.Tree
	if n.Line == 0 {
		f, _, err := s.cfg.Trees.FileAt(ctx, c.WorkspaceID, t, raw)
		if err != nil {
			return err
		}
		return f.Close()
	}
	lines, err := s.linesAt(ctx, c.WorkspaceID, t, raw)
	if err != nil {
		return err
	}
	if n.EndLine > len(lines) {
		return invalid("line", "The file has %d lines in this version.", len(lines))
	}
	c.Quoted, c.Around = quote(lines, n.Line, n.EndLine)
	return nil
}

// inside reports whether a path is inside a worktree.
func inside(raw string) bool {
	return raw != "" && len(raw) <= 4096 && !path.IsAbs(raw) && path.Clean(raw) == raw && raw != "." && raw != ".." && !strings.HasPrefix(raw, "../")
}

// linesAt returns the lines of a file of a tree. Errors: file_not_found, file_too_large.
func (s *Service) linesAt(ctx context.Context, workspaceID string, t Tree, path string) ([]string, error) {
	f, size, err := s.cfg.Trees.FileAt(ctx, workspaceID, t, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxAnchorFile {
		return nil, fault.New(fault.TooLarge, "file_too_large", "This file is larger than %d MiB: comment on the file, not on lines of it.", maxAnchorFile>>20)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxAnchorFile))
	if err != nil {
		return nil, err
	}
	return splitLines(string(raw)), nil
}

// EditComment changes a comment: its author changes the text of a draft; anybody resolves or reopens a sent one. Errors: comment_not_found,
// not_your_comment, comment_sent, comment_not_sent, invalid_*.
func (s *Service) EditComment(ctx context.Context, actor accounts.Actor, commentID string, e CommentEdit) (Comment, error) {
	c, r, err := s.commentOf(ctx, actor, commentID)
	if err != nil {
		return Comment{}, err
	}
	if e.Body != nil {
		if err := checkText("body", *e.Body, maxComment); err != nil {
			return Comment{}, err
		}
		switch {
		case strings.TrimSpace(*e.Body) == "":
			return Comment{}, invalid("body", "The comment is empty: write what you want to say, or delete it.")
		case c.AuthorID != actor.User.ID:
			return Comment{}, fault.New(fault.Forbidden, "not_your_comment", "This comment is somebody else's. Answer it instead.")
		case r.State != Draft:
			return Comment{}, errCommentSent
		}
	}
	if st := e.State; st != nil {
		switch {
		case *st != Open && *st != Resolved:
			return Comment{}, invalid("state", "state is open or resolved.")
		case r.SentAt == 0:
			return Comment{}, fault.New(fault.Conflict, "comment_not_sent", "This comment is a draft: delete it, or send it first.")
		}
	}
	c, err = s.cfg.Store.EditComment(ctx, commentID, func(c *Comment) error {
		if e.Body != nil {
			if c.ReviewID != r.ID {
				return errCommentSent
			}
			c.Body = *e.Body
		}
		if st := e.State; st != nil && *st != c.State {
			c.State, c.ResolvedBy = *st, ""
			if *st == Resolved {
				c.ResolvedBy = actor.User.ID
			}
		}
		c.UpdatedAt = s.now()
		return nil
	})
	if err != nil {
		return Comment{}, err
	}
	if e.State != nil && *e.State == Open {
		s.poke(c.WorkspaceID, c.TeamID) // nobody searched for it while it was resolved
	}
	s.notify(ctx, c.WorkspaceID, c.TeamID)
	return c, nil
}

var errCommentSent = fault.New(fault.Conflict, "comment_sent", "This comment was sent. Answer it, or take the review back while the agent does not have it.")

// DeleteComment deletes a comment of a draft. Errors: comment_not_found, not_your_comment, comment_sent.
func (s *Service) DeleteComment(ctx context.Context, actor accounts.Actor, commentID string) error {
	c, r, err := s.commentOf(ctx, actor, commentID)
	switch {
	case err != nil:
		return err
	case c.AuthorID != actor.User.ID:
		return fault.New(fault.Forbidden, "not_your_comment", "This comment is somebody else's. Answer it instead.")
	case r.State != Draft:
		return errCommentSent
	}
	if err := s.cfg.Store.DropComment(ctx, commentID); err != nil {
		return err
	}
	s.notify(ctx, c.WorkspaceID, c.TeamID)
	return nil
}

// Comment returns a comment that a user may see: only its author sees a draft. Errors: comment_not_found.
func (s *Service) Comment(ctx context.Context, actor accounts.Actor, commentID string) (Comment, error) {
	c, _, err := s.commentOf(ctx, actor, commentID)
	return c, err
}

func (s *Service) commentOf(ctx context.Context, actor accounts.Actor, commentID string) (Comment, Review, error) {
	c, err := s.cfg.Store.Comment(ctx, commentID)
	if err != nil {
		return Comment{}, Review{}, err
	}
	r, err := s.cfg.Store.Review(ctx, c.ReviewID)
	if err != nil {
		return Comment{}, Review{}, err
	}
	if c.AuthorID != actor.User.ID && r.SentAt == 0 {
		return Comment{}, Review{}, errNoComment
	}
	return c, r, nil
}
