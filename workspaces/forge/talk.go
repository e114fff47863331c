package forge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// Limits of what is read of a pull request's conversation.
const (
	maxThreads     = 100
	maxComments    = 30      // of a thread, the newest
	maxCommentText = 8 << 10 // bytes
	maxLogs        = 5       // failed checks whose logs are read
	maxLogRead     = 64 << 20
	maxLogKept     = 512 << 10 // its end
	maxLogPart     = 6 << 10   // bytes: the failing part, and what the check says of itself
)

// Standing is how a pull request's branch stands to its base, as its forge says. It is not stored.
type Standing struct {
	Behind   bool // the forge wants the base in the branch first
	Conflict bool // the branch does not merge into the base; Gitea and Forgejo say so also while they look
	Queued   bool // somebody had the forge merge it by itself, or put it into its merge queue
}

// Comment is a comment of a review. It is untrusted text.
type Comment struct {
	ID     string
	Author string
	Text   string
	URL    string
	At     int64 // ms UTC
	Own    bool  // Parawork wrote it
	Writes bool  // its author may write to the repository, so it may instruct an agent

	person bool  // the author is a person's account
	userID int64 // on GitLab
}

// Thread is a conversation of a review.
type Thread struct {
	ID       string
	Path     string // "" = it is about the whole
	Line     int    // 0 = unknown
	Resolved bool
	Closed   bool // nobody can reply to it or resolve it: it is the text of a review itself
	Comments []Comment

	newLine, oldLine int64 // on Gitea
}

// Attended is what somebody who brings a pull request to its merge looks at.
type Attended struct {
	PullRequest
	Threads []Thread // those that are not resolved
}

// Failure is a failed check and why.
type Failure struct {
	Check
	Log string // the failing part of its log, or what it says of itself; "" = the forge does not show it
}

// talkClient speaks about the conversation and the checks of pull requests.
type talkClient interface {
	threads(ctx context.Context, number int64) ([]Thread, error)
	// mayWrite reports whether the author of a comment may write to the repository.
	mayWrite(ctx context.Context, c Comment) (bool, error)
	// logOf returns what a failed check says of itself, and the address of its log at the API; "" = it has none.
	logOf(ctx context.Context, c Check) (words, at string, err error)
	authorize(h http.Header)
	reply(ctx context.Context, number int64, t Thread, text string) error
	resolve(ctx context.Context, number int64, t Thread) error
	askAgain(ctx context.Context, number int64, who []string) error
	// enqueue has the forge merge a pull request by itself once its rules allow.
	enqueue(ctx context.Context, pr PullRequest, m MergeAsk) error
}

var (
	_ talkClient = (*githubClient)(nil)
	_ talkClient = (*gitlabClient)(nil)
	_ talkClient = (*giteaClient)(nil)
)

// ownMark ends a comment of Parawork. What stands behind it says what the comment answers.
const ownMark = "<!-- parawork:answers "

// Marked is a comment of Parawork's: text that mentions nobody and ends with what it answers.
func Marked(text, answers string) string {
	return escape(strings.TrimSpace(text)) + "\n\n" + ownMark + answers + " -->"
}

// answers returns what a comment of Parawork's answers; "" for those of others, also where they quote one.
func answers(text string) string {
	text = strings.TrimSpace(text)
	last := text[strings.LastIndexByte(text, '\n')+1:]
	what, ok := strings.CutPrefix(last, ownMark)
	if what, end := strings.CutSuffix(what, " -->"); ok && end {
		return what
	}
	return ""
}

// talk makes the client of a pull request's conversation.
func (s *Service) talk(ctx context.Context, actor accounts.Actor, pr PullRequest) (talkClient, Place, error) {
	at, err := s.placeOf(ctx, pr)
	if err != nil {
		return nil, at, err
	}
	c, err := s.client(ctx, at, actor.User.ID, pr.TeamID, pr.ProjectID)
	if err != nil {
		return nil, at, err
	}
	t, ok := c.(talkClient)
	if !ok {
		return nil, at, errNoTalk(at)
	}
	return t, at, nil
}

func errNoTalk(at Place) error {
	return fault.New(fault.Unsupported, "forge_unknown", "Comments of %q are not supported here.", at.Kind)
}

// Attend reads a workspace's pull request again, and the threads of it that are not resolved, with who of their authors may instruct. Errors:
// forge_*, pull_request_missing.
func (s *Service) Attend(ctx context.Context, actor accounts.Actor, workspaceID string) (Attended, error) {
	pr, err := s.Refresh(ctx, actor, workspaceID)
	if err != nil || pr.State != Open && pr.State != Draft {
		return Attended{PullRequest: pr}, err
	}
	c, at, err := s.talk(ctx, actor, pr)
	if err != nil {
		return Attended{PullRequest: pr}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := c.threads(ctx, pr.Number)
	if err != nil {
		return Attended{PullRequest: pr}, at.fail(err, "Reading the comments")
	}
	all = slices.DeleteFunc(all, func(t Thread) bool { return t.Resolved || len(t.Comments) == 0 })
	all = all[:min(len(all), maxThreads)]
	allowed := map[string]bool{}
	for i := range all {
		t := &all[i]
		t.Path = clean(t.Path, 1000)
		t.Comments = t.Comments[max(0, len(t.Comments)-maxComments):]
		for j := range t.Comments {
			if err := s.judge(ctx, c, &t.Comments[j], allowed); err != nil {
				return Attended{PullRequest: pr}, at.fail(err, "Reading what the authors of comments may do")
			}
		}
	}
	return Attended{PullRequest: pr, Threads: all}, nil
}

// judge cleans a comment and finds out whether its author may write. Who the forge does not vouch for may not.
func (s *Service) judge(ctx context.Context, c talkClient, one *Comment, allowed map[string]bool) error {
	one.Own = answers(one.Text) != ""
	if one.URL = link(one.URL); !one.Own {
		one.Text = text(one.Text, maxCommentText)
	}
	if one.Own || !one.person || one.Author == "" {
		return nil
	}
	may, known := allowed[one.Author]
	if !known {
		var err error
		if may, err = c.mayWrite(ctx, *one); err != nil {
			if a, ok := errors.AsType[*answer](err); !ok || a.Status != http.StatusNotFound && a.Status != http.StatusForbidden {
				return err
			}
			may = false
		}
		allowed[one.Author] = may
	}
	one.Writes, one.Author = may, clean(one.Author, maxName)
	return nil
}

// text makes several lines of a forge fit to be shown and to be given to an agent.
func text(s string, most int) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = clean(strings.ReplaceAll(l, "\t", "    "), most)
		if indent := len(l) - len(strings.TrimLeft(l, " \t")); lines[i] != "" && indent > 0 {
			lines[i] = strings.Repeat(" ", min(indent, 40)) + lines[i]
		}
	}
	s = strings.Trim(strings.Join(lines, "\n"), "\n")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "\n[The rest is left out.]"
	}
	return s
}

// Failures returns why the checks of a pull request failed. That a log cannot be read is no error.
func (s *Service) Failures(ctx context.Context, actor accounts.Actor, pr PullRequest) ([]Failure, error) {
	c, _, err := s.talk(ctx, actor, pr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out []Failure
	for _, check := range pr.Checks {
		if check.State != Failed {
			continue
		}
		f := Failure{Check: check}
		if len(out) < maxLogs {
			words, at, err := c.logOf(ctx, check)
			if err == nil && at != "" {
				var raw []byte
				if raw, err = s.tail(ctx, at, c.authorize); err == nil {
					f.Log = FailingPart(string(raw), maxLogPart*2/3)
				}
			}
			if err != nil {
				s.cfg.Log.InfoContext(ctx, "the log of a failed check could not be read", "pull_request_id", pr.ID, "check", check.Name, "error", err)
			}
			f.Log = strings.TrimSpace(text(words, maxLogPart/3) + "\n" + f.Log)
		}
		out = append(out, f)
	}
	return out, nil
}

// tail returns the end of a log. A log may be kept at another host, to which one redirect leads and where no token is shown.
func (s *Service) tail(ctx context.Context, at string, authorize func(http.Header)) ([]byte, error) {
	for hop := range 2 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("User-Agent", userAgent)
		if hop == 0 {
			authorize(r.Header)
		}
		resp, err := s.cfg.HTTP.RoundTrip(r)
		if err != nil {
			return nil, fmt.Errorf("reading a log: %s", egress.Words(err))
		}
		if resp.StatusCode == http.StatusFound || resp.StatusCode == http.StatusTemporaryRedirect {
			_ = resp.Body.Close()
			to, err := url.Parse(resp.Header.Get("Location"))
			if err != nil || to.Scheme != "https" || to.User != nil {
				return nil, errAnswer
			}
			at = to.String()
			continue
		}
		end, err := ending(resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusOK {
			err = &answer{Status: resp.StatusCode}
		}
		return end, err
	}
	return nil, errAnswer
}

// ending reads a stream and keeps its end.
func ending(r io.Reader) ([]byte, error) {
	var kept []byte
	buf := make([]byte, 64<<10)
	for sum := 0; sum < maxLogRead; {
		n, err := r.Read(buf)
		sum += n
		if kept = append(kept, buf[:n]...); len(kept) > 2*maxLogKept {
			kept = append(kept[:0], kept[len(kept)-maxLogKept:]...)
		}
		if errors.Is(err, io.EOF) {
			return kept, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errTooLarge
}

// What is no text of a log: colours, sections of GitLab, and the time at which each line of GitHub's begins.
var logNoise = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|(?m:^section_(?:start|end):\d+:\S*\r?)|(?m:^\x{FEFF}?\d{4}-\d\d-\d\dT[\d:.]+Z (?:\d\d[OE][ +])?)`)

// logEnds say that what comes after them is the host's tidying up.
var logEnds = []string{"##[error]", "ERROR: Job failed"}

// FailingPart is the end of a log up to the last error that its host reported, at most so many bytes.
func FailingPart(log string, most int) string {
	log = logNoise.ReplaceAllString(strings.ToValidUTF8(log, ""), "")
	end := -1
	for _, mark := range logEnds {
		if i := strings.LastIndex(log, mark); i > end {
			end = i
		}
	}
	if end >= 0 {
		if i := strings.IndexByte(log[end:], '\n'); i >= 0 {
			log = log[:end+i]
		}
	}
	log = text(log[max(0, len(log)-4*most):], 8*most)
	if len(log) <= most {
		return log
	}
	log = log[len(log)-most:]
	return "[The beginning is left out.]" + log[max(0, strings.IndexByte(log, '\n')):]
}

// Reply is what is said about a comment.
type Reply struct {
	ThreadID string
	Text     string
	About    string // names what it answers: it is said once
	Resolve  bool   // the thread is done with
}

// Reply answers threads and resolves them. What is there already is not said again, as Marked has it; a thread that is gone is left out, and so
// is what the forge refuses, such as in a conversation that was locked.
func (s *Service) Reply(ctx context.Context, actor accounts.Actor, pr PullRequest, replies ...Reply) error {
	if len(replies) == 0 {
		return nil
	}
	c, at, err := s.talk(ctx, actor, pr)
	if err != nil {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	all, err := c.threads(asked, pr.Number)
	cancel()
	if err != nil {
		return at.fail(err, "Reading the comments")
	}
	for _, r := range replies {
		i := slices.IndexFunc(all, func(t Thread) bool { return t.ID == r.ThreadID && !t.Closed })
		if i < 0 {
			continue
		}
		err := at.fail(replyTo(ctx, c, pr.Number, &all[i], r), "Replying to a comment")
		if fault.CodeOf(err) == "forge_refused" {
			s.cfg.Log.InfoContext(ctx, "a comment could not be answered", "pull_request_id", pr.ID, "error", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func replyTo(ctx context.Context, c talkClient, number int64, t *Thread, r Reply) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !slices.ContainsFunc(t.Comments, func(one Comment) bool { return answers(one.Text) == r.About }) {
		if err := c.reply(ctx, number, *t, Marked(r.Text, r.About)); err != nil {
			return err
		}
	}
	if !r.Resolve || t.Resolved {
		return nil
	}
	t.Resolved = true
	return c.resolve(ctx, number, *t)
}

// AskAgain asks people who wanted changes to look again.
func (s *Service) AskAgain(ctx context.Context, actor accounts.Actor, pr PullRequest, who []string) error {
	c, at, err := s.talk(ctx, actor, pr)
	if err != nil || len(who) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return at.fail(c.askAgain(ctx, pr.Number, who), "Asking for another review")
}

// Enqueue has the forge merge a pull request by itself: where its branch has a merge queue, or once what it still waits for is there. What
// keeps Parawork from merging keeps it from this, too.
func (s *Service) Enqueue(ctx context.Context, actor accounts.Actor, workspaceID string, m MergeAsk) error {
	w, err := s.mayMerge(ctx, workspaceID, m)
	if err != nil {
		return err
	}
	_, err = s.with(ctx, actor, workspaceID, func(ctx context.Context, pr PullRequest, c Client) error {
		at, err := s.placeOf(ctx, pr)
		if err != nil {
			return err
		}
		t, ok := c.(talkClient)
		if !ok {
			return errNoTalk(at)
		}
		if err := t.enqueue(ctx, pr, m); err != nil {
			return at.fail(err, "Having it merged by itself")
		}
		s.note(ctx, w, actor.User.ID, "pull_request.queued", fmt.Sprintf("Asked %s to merge %s %s once its rules allow (%s)", pr.Host, pr.Forge.Request(), pr.called(), m.Strategy), pr)
		return nil
	})
	return err
}
