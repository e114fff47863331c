package forge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// IssuesPerPage is how many issues one page has.
const IssuesPerPage = 100

// issuePatience bounds one call about issues.
const issuePatience = 20 * time.Second

// Issue is an issue as its forge has it. It is untrusted text.
type Issue struct {
	Number    int64
	URL       string
	Title     string
	Body      string
	Closed    bool
	Labels    []string
	Assignee  string // names there, separated by commas
	UpdatedAt int64  // ms UTC
}

// IssueQuery asks for a page of issues. Pages only grow while they are read: an issue that enters the answer moves others to a later page.
type IssueQuery struct {
	Since int64  // only those that changed since; 0 = all
	Label string // only those with the label; "" = all
	Open  bool   // only open ones
	Page  int    // from 1
}

// IssuePage is one page of issues, without pull requests.
type IssuePage struct {
	Issues []Issue
	More   bool
	At     int64 // the forge's own time of the answer; 0 = it did not say
}

// IssueChange changes fields of an issue; nil fields stay as they are.
type IssueChange struct {
	Title, Body *string
	Closed      *bool
	Labels      *[]string
}

// issueClient speaks about the issues of one repository.
type issueClient interface {
	listIssues(ctx context.Context, q IssueQuery) ([]Issue, bool, http.Header, error)
	getIssue(ctx context.Context, number int64) (Issue, error)
	createIssue(ctx context.Context, title, body string, labels []string) (Issue, error)
	editIssue(ctx context.Context, number int64, c IssueChange) (Issue, error)
}

// Issues are the issues of a project's repository on its forge, as the project's own token sees them. Errors have the stable codes forge_*.
type Issues struct {
	Place
	client issueClient
}

// Issues finds the issues of a project. Only a credential of the project or of its team is used, never a person's.
func (s *Service) Issues(ctx context.Context, teamID, projectID string) (*Issues, error) {
	p, err := s.cfg.Workspaces.Project(ctx, projectID)
	if err != nil {
		return nil, err
	}
	if p.TeamID != teamID {
		return nil, fault.New(fault.NotFound, "project_not_found", "The team has no such project.")
	}
	at, _, why, err := s.place(ctx, p)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return nil, fault.New(fault.Conflict, "forge_unknown", "%s", why)
	}
	c, err := s.client(ctx, at, "", p.TeamID, p.ID)
	if fault.CodeOf(err) == "forge_token_missing" {
		host := tokenHost(at.APIURL)
		return nil, fault.New(fault.Conflict, "forge_token_missing", "Neither the project nor its team has a git credential for %s. Add one: issues are never synced with a person's own token.", host).With("host", host)
	}
	if err != nil {
		return nil, err
	}
	client, ok := c.(issueClient)
	if !ok {
		return nil, fault.New(fault.Unsupported, "forge_unknown", "Issues of %q are not supported here.", at.Kind)
	}
	return &Issues{Place: at, client: client}, nil
}

// List reads a page of issues.
func (i *Issues) List(ctx context.Context, q IssueQuery) (IssuePage, error) {
	ctx, cancel := context.WithTimeout(ctx, issuePatience)
	defer cancel()
	list, more, header, err := i.client.listIssues(ctx, q)
	if err != nil {
		return IssuePage{}, i.failIssue(err, "Reading the issues", 0)
	}
	page := IssuePage{Issues: make([]Issue, 0, len(list)), More: more}
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		page.At = at.UnixMilli()
	}
	for _, one := range list {
		if one.Number <= 0 {
			return IssuePage{}, i.failIssue(errAnswer, "Reading the issues", 0)
		}
		page.Issues = append(page.Issues, one.cleaned())
	}
	return page, nil
}

// Get reads one issue.
func (i *Issues) Get(ctx context.Context, number int64) (Issue, error) {
	ctx, cancel := context.WithTimeout(ctx, issuePatience)
	defer cancel()
	one, err := i.client.getIssue(ctx, number)
	return i.checked(one, err, "Reading the issue", number)
}

// Create opens an issue.
func (i *Issues) Create(ctx context.Context, title, body string, labels []string) (Issue, error) {
	ctx, cancel := context.WithTimeout(ctx, issuePatience)
	defer cancel()
	one, err := i.client.createIssue(ctx, title, body, labels)
	return i.checked(one, err, "Creating the issue", 0)
}

// Edit changes an issue.
func (i *Issues) Edit(ctx context.Context, number int64, c IssueChange) (Issue, error) {
	ctx, cancel := context.WithTimeout(ctx, issuePatience)
	defer cancel()
	one, err := i.client.editIssue(ctx, number, c)
	return i.checked(one, err, "Changing the issue", number)
}

func (i *Issues) checked(one Issue, err error, doing string, number int64) (Issue, error) {
	if err == nil && (one.Number <= 0 || number > 0 && one.Number != number) {
		err = errAnswer
	}
	if err != nil {
		return Issue{}, i.failIssue(err, doing, number)
	}
	return one.cleaned(), nil
}

// failIssue words a failed call about issues.
func (p Place) failIssue(err error, doing string, number int64) error {
	a, ok := errors.AsType[*answer](err)
	switch {
	case ok && (a.Status == http.StatusNotFound || a.Status == http.StatusGone) && number > 0:
		return fault.Wrap(err, fault.Conflict, "forge_issue_gone", "%s: %s shows this token no issue %d of %s. It was deleted or moved, or the token may no longer see it.", doing, p.Host, number, p.Repository)
	case ok && (a.Status == http.StatusNotFound || a.Status == http.StatusGone):
		return fault.Wrap(err, fault.Conflict, "forge_not_found", "%s: %s shows this token no issues of %s. Check the repository's name, whether its issues are switched on, and the token. %s", doing, p.Host, p.Repository, issueScopesOf(p.Kind))
	case ok && a.Status == http.StatusForbidden:
		return fault.Wrap(err, fault.Conflict, "forge_not_allowed", "%s: the token may not do that on %s. %s", doing, p.Host, issueScopesOf(p.Kind))
	}
	return p.fail(err, doing)
}

// issueScopesOf says which scopes a token needs for issues.
func issueScopesOf(k Kind) string {
	switch k {
	case GitHub:
		return "A classic token needs the scope repo; a fine-grained one Issues (read and write)."
	case GitLab:
		return "The token needs the scope api, and the role Reporter or higher."
	}
	return "The token needs write for issue, and read for repository."
}

// cleaned bounds what is not the issue's own text; title and body are for the caller to bound.
func (i Issue) cleaned() Issue {
	i.URL, i.Assignee = link(i.URL), clean(i.Assignee, 200)
	if len(i.Labels) > 100 {
		i.Labels = i.Labels[:100]
	}
	return i
}

// names joins the login names of people.
func names(list []string) string {
	list = slices.DeleteFunc(list, func(n string) bool { return n == "" })
	return strings.Join(list[:min(len(list), 10)], ", ")
}

// sinceTime is a moment as forges compare it: in whole seconds, rounded down.
func sinceTime(ms int64) time.Time { return time.UnixMilli(ms).UTC().Truncate(time.Second) }
