package triggers

import (
	"cmp"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Events are what git hosts report that automations can wait for.
var Events = []string{IssueOpened, IssueLabelled, IssueAssigned, PullRequestOpened, PullRequestLabelled, Comment, Review, CheckFailed, Push} //nolint:gochecknoglobals // a list

// The events.
const (
	IssueOpened         = "issue_opened"
	IssueLabelled       = "issue_labelled"
	IssueAssigned       = "issue_assigned"
	PullRequestOpened   = "pull_request_opened"
	PullRequestLabelled = "pull_request_labelled"
	Comment             = "comment" // on an issue or a pull request, also on a line
	Review              = "review"  // submitted for a pull request
	CheckFailed         = "check_failed"
	Push                = "push"
)

// happened is what a git host reported, in the same words for all of them.
type happened struct {
	event  string // "" = nothing that automations know
	labels []string
	branch string // the target of a pull request, or what was pushed to
	head   string // the branch it is about: a pull request's own, or what was pushed to or checked
	author string // who did it
	// writes reports that the author may write to the repository: the host says so, or only who may write can do this.
	writes bool
	fields map[string]string
}

// payload is what the hosts' reports have in common, and where they differ, each of them. GitHub: docs.github.com, "Webhook events and
// payloads". Gitea and Forgejo follow it. GitLab: docs.gitlab.com, "Webhook events".
type payload struct {
	Action string `json:"action"`
	Ref    string `json:"ref"`
	After  string `json:"after"`
	Sender struct {
		Login string `json:"login"`
	} `json:"sender"`
	Repository struct {
		FullName string `json:"full_name"`
		HTMLURL  string `json:"html_url"`
	} `json:"repository"`
	Label       label    `json:"label"`
	Issue       *subject `json:"issue"`
	PullRequest *subject `json:"pull_request"`
	Comment     *said    `json:"comment"`
	Review      *said    `json:"review"`
	CheckRun    *check   `json:"check_run"`
	CheckSuite  *check   `json:"check_suite"`
	WorkflowRun *check   `json:"workflow_run"`
	HeadCommit  commit   `json:"head_commit"`

	// GitLab
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	UserUsername string `json:"user_username"`
	Project      struct {
		Path   string `json:"path_with_namespace"`
		WebURL string `json:"web_url"`
	} `json:"project"`
	Object struct {
		Action       string  `json:"action"`
		IID          int64   `json:"iid"`
		Title        string  `json:"title"`
		Description  string  `json:"description"`
		Note         string  `json:"note"`
		URL          string  `json:"url"`
		Status       string  `json:"status"`
		Ref          string  `json:"ref"`
		Sha          string  `json:"sha"`
		SourceBranch string  `json:"source_branch"`
		TargetBranch string  `json:"target_branch"`
		Labels       []label `json:"labels"`
	} `json:"object_attributes"`
	Changes struct {
		Labels    json.RawMessage `json:"labels"`
		Assignees json.RawMessage `json:"assignees"`
	} `json:"changes"`
	Labels       []label       `json:"labels"`
	MergeRequest *mergeRequest `json:"merge_request"`
}

type label struct {
	Name  string `json:"name"`
	Title string `json:"title"` // GitLab
}

type subject struct {
	Number  int64   `json:"number"`
	Title   string  `json:"title"`
	Body    string  `json:"body"`
	HTMLURL string  `json:"html_url"`
	Labels  []label `json:"labels"`
	User    struct {
		Login string `json:"login"`
	} `json:"user"`
	Association string `json:"author_association"`
	Base, Head  struct {
		Ref string `json:"ref"`
		Sha string `json:"sha"`
	}
}

type said struct {
	Body        string `json:"body"`
	Content     string `json:"content"` // of a review, Gitea
	HTMLURL     string `json:"html_url"`
	State       string `json:"state"`
	Path        string `json:"path"`
	Association string `json:"author_association"`
}

type check struct {
	Name       string `json:"name"`
	Conclusion string `json:"conclusion"`
	HTMLURL    string `json:"html_url"`
	HeadBranch string `json:"head_branch"`
	HeadSha    string `json:"head_sha"`
}

type commit struct {
	Message string `json:"message"`
	URL     string `json:"url"`
}

type mergeRequest struct {
	IID          int64  `json:"iid"`
	Title        string `json:"title"`
	SourceBranch string `json:"source_branch"`
	TargetBranch string `json:"target_branch"`
}

// read reads a report of a git host.
func read(h http.Header, body []byte) (happened, error) {
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return happened{}, fault.New(fault.Invalid, "invalid_event", "The body is no JSON of a git host (%v). Let the webhook send application/json.", err)
	}
	if kind := h.Get("X-Gitlab-Event"); kind != "" {
		return p.gitlab(kind), nil
	}
	kind := cmp.Or(h.Get("X-GitHub-Event"), h.Get("X-Gitea-Event"), h.Get("X-Forgejo-Event"))
	if kind == "" {
		return happened{}, fault.New(fault.Invalid, "invalid_event", "The request has no header that names its event (X-GitHub-Event, X-Gitea-Event or X-Gitlab-Event).")
	}
	return p.github(kind), nil
}

// may reports whether GitHub says of an author that they may write to the repository.
func may(association string) bool {
	return association == "OWNER" || association == "MEMBER" || association == "COLLABORATOR"
}

func (p payload) github(kind string) happened {
	out := happened{author: p.Sender.Login, fields: map[string]string{}}
	put(out.fields, "event.repository", p.Repository.FullName)
	put(out.fields, "event.url", p.Repository.HTMLURL)
	put(out.fields, "event.author", p.Sender.Login)
	about := p.Issue
	if p.PullRequest != nil {
		about = p.PullRequest
	}
	if about != nil {
		out.about(about)
	}
	labelled := p.Action == "labeled" || p.Action == "label_updated" // Gitea's word
	switch {
	case kind == "issues" && p.Action == "opened":
		out.event, out.writes = IssueOpened, may(p.Issue.association())
	case kind == "issues" && labelled: // who may label may triage: a maintainer vouches for it
		out.event, out.writes = IssueLabelled, true
	case kind == "issues" && p.Action == "assigned":
		out.event, out.writes = IssueAssigned, true
	case kind == "pull_request" && p.Action == "opened":
		out.event, out.writes = PullRequestOpened, may(p.PullRequest.association())
	case kind == "pull_request" && labelled:
		out.event, out.writes = PullRequestLabelled, true
	case (kind == "issue_comment" || kind == "pull_request_review_comment") && p.Action == "created" && p.Comment != nil:
		out.event = Comment
		out.says(p.Comment)
	case (p.Action == "submitted" || p.Action == "reviewed") && p.Review != nil:
		out.event = Review
		out.says(p.Review)
	case kind == "push" && strings.HasPrefix(p.Ref, "refs/heads/") && strings.Trim(p.After, "0") != "":
		out.event, out.writes = Push, true
		out.branch = strings.TrimPrefix(p.Ref, "refs/heads/")
		out.head = out.branch
		put(out.fields, "event.title", p.HeadCommit.Message)
		put(out.fields, "event.url", p.HeadCommit.URL)
		put(out.fields, "event.sha", p.After)
	default:
		if c := cmp.Or(p.CheckRun, p.CheckSuite, p.WorkflowRun); c != nil && p.Action == "completed" && (c.Conclusion == "failure" || c.Conclusion == "timed_out") {
			out.event, out.writes, out.head, out.branch = CheckFailed, true, c.HeadBranch, c.HeadBranch
			put(out.fields, "event.title", c.Name)
			put(out.fields, "event.url", c.HTMLURL)
			put(out.fields, "event.sha", c.HeadSha)
		}
	}
	if labelled {
		put(out.fields, "event.label", p.Label.Name)
	}
	return out.done()
}

func (s *subject) association() string {
	if s == nil {
		return ""
	}
	return s.Association
}

func (h *happened) about(s *subject) {
	if s.Number != 0 {
		h.fields["event.number"] = strconv.FormatInt(s.Number, 10)
	}
	put(h.fields, "event.title", s.Title)
	put(h.fields, "event.body", s.Body)
	put(h.fields, "event.url", s.HTMLURL)
	put(h.fields, "event.sha", s.Head.Sha)
	h.branch, h.head = s.Base.Ref, s.Head.Ref
	h.named(s.Labels)
}

func (h *happened) named(all []label) {
	for _, l := range all[:min(len(all), 100)] {
		h.labels = append(h.labels, cmp.Or(l.Name, l.Title))
	}
}

func (h *happened) says(c *said) {
	h.writes = may(c.Association)
	put(h.fields, "event.comment", cmp.Or(c.Body, c.Content))
	put(h.fields, "event.url", c.HTMLURL)
	put(h.fields, "event.path", c.Path)
	put(h.fields, "event.verdict", c.State)
}

func (p payload) gitlab(kind string) happened {
	o := p.Object
	out := happened{author: cmp.Or(p.User.Username, p.UserUsername), branch: o.TargetBranch, head: o.SourceBranch, fields: map[string]string{}}
	put(out.fields, "event.repository", p.Project.Path)
	put(out.fields, "event.author", out.author)
	put(out.fields, "event.url", cmp.Or(o.URL, p.Project.WebURL))
	put(out.fields, "event.title", o.Title)
	put(out.fields, "event.body", o.Description)
	if o.IID != 0 {
		out.fields["event.number"] = strconv.FormatInt(o.IID, 10)
	}
	out.named(p.Labels)
	out.named(o.Labels)
	labelled := len(p.Changes.Labels) > 0
	switch {
	case kind == "Issue Hook" && o.Action == "open":
		out.event = IssueOpened
	case kind == "Issue Hook" && labelled:
		out.event, out.writes = IssueLabelled, true
	case kind == "Issue Hook" && len(p.Changes.Assignees) > 0:
		out.event, out.writes = IssueAssigned, true
	case kind == "Merge Request Hook" && o.Action == "open":
		out.event = PullRequestOpened
	case kind == "Merge Request Hook" && labelled:
		out.event, out.writes = PullRequestLabelled, true
	case kind == "Note Hook": // GitLab does not say whether the author may write
		out.event = Comment
		put(out.fields, "event.comment", o.Note)
		if m := p.MergeRequest; m != nil {
			out.branch, out.head = m.TargetBranch, m.SourceBranch
			put(out.fields, "event.title", m.Title)
			out.fields["event.number"] = strconv.FormatInt(m.IID, 10)
		}
	case kind == "Pipeline Hook" && o.Status == "failed":
		out.event, out.writes, out.branch, out.head = CheckFailed, true, o.Ref, o.Ref
		put(out.fields, "event.title", "Pipeline")
		put(out.fields, "event.sha", o.Sha)
	case kind == "Push Hook" && strings.HasPrefix(p.Ref, "refs/heads/") && strings.Trim(p.After, "0") != "":
		out.event, out.writes = Push, true
		out.branch = strings.TrimPrefix(p.Ref, "refs/heads/")
		out.head = out.branch
		put(out.fields, "event.sha", p.After)
	}
	return out.done()
}

func (h happened) done() happened {
	put(h.fields, "event.branch", h.branch)
	put(h.fields, "event.head", h.head)
	put(h.fields, "event.name", h.event)
	put(h.fields, "event.labels", strings.Join(h.labels, ", "))
	return h
}

// ignores returns why an automation does not act on what happened; "" = it does.
func (t Trigger) ignores(h happened) string {
	same := func(a string) func(string) bool { return func(b string) bool { return strings.EqualFold(a, b) } }
	switch {
	case h.event == "" || !slices.Contains(t.Events, h.event):
		return "The automation does not wait for this event."
	case len(t.Labels) > 0 && !slices.ContainsFunc(h.labels, func(l string) bool { return slices.ContainsFunc(t.Labels, same(l)) }):
		return "It has none of the labels the automation waits for."
	case len(t.Branches) > 0 && !slices.ContainsFunc(t.Branches, func(p string) bool { ok, err := path.Match(p, h.branch); return ok && err == nil }):
		return "It is about another branch."
	case !h.writes && !slices.ContainsFunc(t.Authors, same(h.author)):
		return "Its author may not write to the repository, or the git host does not say so. Name them under authors if they may give agents instructions."
	}
	return ""
}
