package forge

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parawork/parawork/internal/fault"
)

const userAgent = "Parawork"

// Limits of what is stored of a pull request.
const (
	maxTitle   = 300
	maxName    = 200
	maxChecks  = 200
	maxReviews = 100
)

// stay follows no redirect: the credential is for the original host.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// opinions are the last verdicts of each person, in the order in which they came.
type opinions struct{ list []Review }

func (o *opinions) add(who, state string) {
	for i := range o.list {
		if o.list[i].Who == who {
			if state != "comment" || o.list[i].State == "waiting" { // a comment withdraws nothing
				o.list[i].State = state
			}
			return
		}
	}
	o.list = append(o.list, Review{Who: who, State: state})
}

func (o *opinions) drop(who string) {
	o.list = slices.DeleteFunc(o.list, func(r Review) bool { return r.Who == who })
}

// noteHidden reports whether err says that the token may not see one aspect of the pull request, and notes that.
func (s *Seen) noteHidden(err error, what string) bool {
	a, ok := errors.AsType[*answer](err)
	if !ok || a.Status != http.StatusForbidden && a.Status != http.StatusNotFound {
		return false
	}
	if s.Hidden != "" {
		s.Hidden += " and "
	}
	s.Hidden += what
	return true
}

// checked rejects what cannot be an answer about a pull request, and makes the rest fit to be shown.
func (s Seen) checked(at Place) (Seen, error) {
	if s.Number <= 0 || s.State == "" || !isCommit(s.HeadCommit) || s.Head == "" || s.Base == "" || s.MergedCommit != "" && !isCommit(s.MergedCommit) {
		return s, at.fail(errAnswer, "Reading the "+at.Kind.Request())
	}
	s.Title = clean(s.Title, maxTitle)
	s.Head, s.Base = clean(s.Head, 500), clean(s.Base, 500)
	s.Blocked = clean(s.Blocked, maxWords)
	if s.URL = link(s.URL); hostOf(s.URL) != at.Host {
		s.URL = at.page(s.Number) // a page on another host is not a pull request's
	}
	s.Checks = s.Checks[:min(len(s.Checks), maxChecks)]
	for i, c := range s.Checks {
		s.Checks[i] = Check{ID: clean(c.ID, 40), Name: clean(c.Name, maxName), State: c.State, URL: link(c.URL), Text: clean(c.Text, maxName)}
	}
	s.Reviews = s.Reviews[:min(len(s.Reviews), maxReviews)]
	for i, r := range s.Reviews {
		s.Reviews[i].Who = clean(r.Who, maxName)
	}
	s.ChecksState = sum(s.Checks)
	if s.Hidden != "" {
		s.Hidden = "The token may not see " + s.Hidden + ". " + scopesOf(at.Kind)
	}
	return s, nil
}

// sum is the state of all checks: a failed one outweighs a running one.
func sum(checks []Check) string {
	out := ""
	for _, c := range checks {
		switch {
		case c.State == Failed:
			return Failed
		case c.State == Pending:
			out = Pending
		case c.State == Passed && out == "":
			out = Passed
		}
	}
	return out
}

// statusState maps GitHub's and Gitea's statuses and conclusions of checks.
func statusState(s string) string {
	switch s {
	case "success", "warning":
		return Passed
	case "failure", "error", "timed_out", "cancelled", "action_required", "startup_failure":
		return Failed
	case "neutral", "skipped", "stale":
		return Skipped
	}
	return Pending
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(u.Host), ":443")
}

// page is the web page of a pull request.
func (p Place) page(number int64) string {
	n := strconv.FormatInt(number, 10)
	switch p.Kind {
	case GitHub:
		return "https://" + p.Host + "/" + p.Repository + "/pull/" + n
	case GitLab:
		return "https://" + p.Host + "/" + p.Repository + "/-/merge_requests/" + n
	}
	return "https://" + p.Host + "/" + p.Repository + "/pulls/" + n
}

// headMoved is the error that the commit to be merged is not the one the user saw.
func (p Place) headMoved(err error) error {
	words := ""
	if a, ok := errors.AsType[*answer](err); ok && a.Words != "" {
		words = " It said: " + a.Words
	}
	return fault.Wrap(err, fault.Conflict, "pull_request_moved", "The %s has other commits than you saw, or is being changed. Look at it again, then merge.%s", p.Kind.Request(), words)
}

// draftMarks are the title prefixes of drafts, where a draft is marked by its title: docs.gitlab.com/user/project/merge_requests/drafts,
// and WORK_IN_PROGRESS_PREFIXES of docs.gitea.com/administration/config-cheat-sheet.
var draftMarks = []string{"draft:", "[draft]", "(draft)", "wip:", "[wip]"}

// plainTitle is a title without its draft prefix.
func plainTitle(title string) string {
	for rest := strings.TrimSpace(title); ; {
		cut := false
		for _, m := range draftMarks {
			if len(rest) >= len(m) && strings.EqualFold(rest[:len(m)], m) {
				rest, cut = strings.TrimLeftFunc(rest[len(m):], unicode.IsSpace), true
				title = rest
			}
		}
		if !cut {
			return title
		}
	}
}

func draftTitle(mark, title string) string { return mark + plainTitle(title) }
