package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/origin"
)

// Config configures a Service.
type Config struct {
	Store       Store
	Workspaces  Workspaces
	Origin      Origin
	Credentials Credentials
	People      People
	Events      events.Publisher
	// Push pushes the workspace's branch to the remote its project came from, in the actor's name.
	Push func(ctx context.Context, actor accounts.Actor, workspaceID string) (Pushed, error)
	// Gate returns why a commit of a workspace must not be merged yet; nil = it may.
	Gate func(ctx context.Context, w workspaces.Workspace, head string) error
	// Prompts are what people asked the workspace's agents to do, the oldest first, without secrets; nil = they are left out.
	Prompts func(ctx context.Context, w workspaces.Workspace, userID string) ([]string, error)
	// Link is the workspace's page; "" where the server has no public address. May be nil.
	Link func(ctx context.Context, w workspaces.Workspace) string

	HTTP     http.RoundTripper      // for addresses people enter; it follows no redirect
	CheckURL func(raw string) error // validates an address somebody enters

	Every time.Duration // interval of polling an active pull request; default 1 min
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// patience bounds all requests of one poll.
const patience = 45 * time.Second

// Service opens, follows and merges pull requests. Safe for concurrent use; New starts nothing.
type Service struct {
	cfg  Config
	wire *wire

	mu   sync.Mutex
	plan map[string]plan // when each pull request is polled next
	wake chan struct{}

	turns locks.Keyed // by workspace id: one operation on its pull request at a time
}

// New makes a Service. It panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Workspaces == nil || cfg.Origin == nil || cfg.Credentials == nil || cfg.People == nil || cfg.Push == nil || cfg.HTTP == nil {
		panic("forge: Store, Workspaces, Origin, Credentials, People, Push and HTTP are required")
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, wire: newWire(cfg.HTTP, cfg.Now), plan: map[string]plan{}, wake: make(chan struct{}, 1)}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// About describes a project's forge.
type About struct {
	Place
	Settings      Settings
	HasCredential bool   // for the asking user
	TokenHost     string // the host a git credential must be for
	Reason        string // why no pull request can be opened; "" = one can
}

// About returns where a project's pull requests are, and whether the asking user could open one.
func (s *Service) About(ctx context.Context, actor accounts.Actor, projectID string) (About, error) {
	p, err := s.cfg.Workspaces.Project(ctx, projectID)
	if err != nil {
		return About{}, err
	}
	at, settings, why, err := s.place(ctx, p)
	if err != nil {
		return About{}, err
	}
	a := About{Place: at, Settings: settings, Reason: why}
	if why != "" {
		return a, nil
	}
	a.TokenHost = tokenHost(at.APIURL)
	if _, a.HasCredential, err = s.cfg.Credentials.CredentialFor(ctx, actor.User.ID, p.TeamID, p.ID, a.TokenHost); err != nil {
		a.Reason = sentence(err)
		return a, nil
	}
	if !a.HasCredential {
		a.Reason = noToken(a.TokenHost)
	}
	return a, nil
}

func noToken(host string) string {
	return "No git credential for " + host + " is stored. Add one under your secrets, or the project's: its token opens and merges pull requests."
}

func (s *Service) place(ctx context.Context, p workspaces.Project) (Place, Settings, string, error) {
	settings, err := s.cfg.Store.ProjectForge(ctx, p.ID)
	if err != nil {
		return Place{}, settings, "", err
	}
	origin, err := s.cfg.Origin.Origin(ctx, p.ID)
	if err != nil {
		return Place{}, settings, "", err
	}
	at, why := locate(origin, settings)
	return at, settings, why, nil
}

// CheckSettings validates and cleans the settings somebody enters. Errors: forge_invalid, invalid_url, url_not_public.
func (s *Service) CheckSettings(n Settings) (Settings, error) { return n.clean(s.cfg.CheckURL) }

// SetProject stores a project's forge settings. Errors: those of CheckSettings.
func (s *Service) SetProject(ctx context.Context, projectID string, n Settings) error {
	n, err := s.CheckSettings(n)
	if err != nil {
		return err
	}
	return s.cfg.Store.SetProjectForge(ctx, projectID, n)
}

// client makes a client for a repository that acts as a user.
func (s *Service) client(ctx context.Context, at Place, userID, teamID, projectID string) (Client, error) {
	host := tokenHost(at.APIURL)
	cred, ok, err := s.cfg.Credentials.CredentialFor(ctx, userID, teamID, projectID, host)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.Conflict, "forge_token_missing", "%s", noToken(host)).With("host", host)
	}
	switch at.Kind {
	case GitHub:
		return newGitHub(at, cred.Token, s.wire)
	case GitLab:
		return newGitLab(at, cred.Token, s.wire)
	case Gitea, Forgejo:
		return newGitea(at, cred.Token, s.wire), nil
	}
	return nil, fault.New(fault.Unsupported, "forge_unknown", "Pull requests of %q are not supported here.", at.Kind)
}

// placeOf is the repository of an existing pull request. Settings changed since then apply only if they have the same host.
func (s *Service) placeOf(ctx context.Context, pr PullRequest) (Place, error) {
	at := Place{Kind: pr.Forge, Host: pr.Host, Repository: pr.Repository, APIURL: apiOf(pr.Forge, pr.Host)}
	settings, err := s.cfg.Store.ProjectForge(ctx, pr.ProjectID)
	if err != nil {
		return at, err
	}
	if settings.APIURL != "" && settings.Kind == pr.Forge {
		p, err := s.cfg.Workspaces.Project(ctx, pr.ProjectID)
		if err != nil {
			return at, err
		}
		if now, _, why, err := s.place(ctx, p); err == nil && why == "" && now.Host == pr.Host {
			at.APIURL = now.APIURL
		}
	}
	return at, nil
}

// Of returns the workspace's pull request; false when it has none.
func (s *Service) Of(ctx context.Context, workspaceID string) (PullRequest, bool, error) {
	pr, err := s.cfg.Store.PullRequest(ctx, workspaceID)
	if fault.Is(err, fault.NotFound) {
		return PullRequest{}, false, nil
	}
	return pr, err == nil, err
}

// Get returns the workspace's pull request and the local commit of its branch. Errors: pull_request_missing.
func (s *Service) Get(ctx context.Context, workspaceID string) (PullRequest, string, error) {
	pr, ok, err := s.Of(ctx, workspaceID)
	if err != nil {
		return pr, "", err
	}
	if !ok {
		return pr, "", errMissing
	}
	s.look(pr.ID) // somebody is looking at it
	ahead, err := s.cfg.Origin.Ahead(ctx, workspaceID)
	return pr, ahead.Head, err
}

var errMissing = fault.New(fault.NotFound, "pull_request_missing", "The workspace has no pull request yet. Open one.")

// PullRequests returns the pull request of each workspace of a team that has one.
func (s *Service) PullRequests(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]PullRequest, error) {
	return s.cfg.Store.PullRequests(ctx, teamID, workspaceIDs...)
}

// called is its short name: #12, !12 on GitLab.
func (p PullRequest) called() string {
	if p.Forge == GitLab {
		return fmt.Sprintf("!%d", p.Number)
	}
	return fmt.Sprintf("#%d", p.Number)
}

// note adds what happened to the workspace's timeline.
func (s *Service) note(ctx context.Context, w workspaces.Workspace, actorID, kind, text string, pr PullRequest, artifacts ...workspaces.AttachedArtifact) {
	err := s.cfg.Workspaces.Record(context.WithoutCancel(ctx), workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actorID, Kind: kind, Text: text,
		Data: workspaces.Attach(pr.data(), artifacts)})
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "activity could not be recorded", "workspace_id", w.ID, "kind", kind, "error", err)
	}
}

func (p PullRequest) data() map[string]any {
	return map[string]any{"number": p.Number, "url": p.URL, "forge": string(p.Forge), "repository": p.Repository, "base": p.Base}
}

// read reads a pull request from its forge, stores it, and fetches what was merged.
func (s *Service) read(ctx context.Context, pr PullRequest, c Client) (PullRequest, error) {
	before := pr
	seen, err := c.Read(ctx, pr.Number)
	if err != nil {
		return pr, s.failed(ctx, pr, err)
	}
	pr.Seen, pr.SyncedAt, pr.Error = seen, s.now(), seen.Hidden
	if pr.State == Merged && (before.State != Merged || before.Error != "") {
		if pr.Error = ""; pr.MergedAt == 0 {
			pr.MergedAt = s.now()
		}
		return s.fetchMerged(ctx, pr, before)
	}
	return pr, s.save(ctx, pr, before)
}

// awaited is stored with a merge until it is fetched, so that after a crash the next server fetches it.
const awaited = "Its merge is being fetched."

// fetchMerged stores that a pull request was merged, then fetches the new commits of the base.
func (s *Service) fetchMerged(ctx context.Context, pr, before PullRequest) (PullRequest, error) {
	if before.State != Merged {
		pr.Error = awaited
		if err := s.save(ctx, pr, before); err != nil {
			return pr, err
		}
		before = pr
		failpoint.Reach(failpoint.PullAwaited)
	}
	at := Place{Kind: pr.Forge}
	err := s.cfg.Origin.MergedThere(ctx, pr.WorkspaceID, origin.MergedThere{Base: pr.Base, Head: pr.HeadCommit, Commit: pr.MergedCommit, Data: pr.data(),
		Text: fmt.Sprintf("%s %s was merged into %s on %s", title(at.Kind.Request()), pr.called(), pr.Base, pr.Host)})
	pr.Error = ""
	if err != nil {
		pr.Error = "It was merged there, but the result could not be fetched: " + clean(sentence(err), maxWords)
		s.cfg.Log.InfoContext(ctx, "merge on the Git host not fetched", "pull_request_id", pr.ID, "error", err)
	}
	if ctx.Err() != nil {
		return pr, context.Cause(ctx) // the next poll tries again
	}
	failpoint.Reach(failpoint.PullHome)
	return pr, s.save(ctx, pr, before)
}

func title(s string) string { return string(s[0]-'a'+'A') + s[1:] }

// failed stores why a poll failed, and returns the error.
func (s *Service) failed(ctx context.Context, pr PullRequest, err error) error {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return err // the caller left: it says nothing about the forge
	}
	before := pr
	if pr.State != Merged { // its message says that its merge is not fetched yet
		pr.Error = clean(sentence(err), maxWords)
	}
	if serr := s.save(context.WithoutCancel(ctx), pr, before); serr != nil {
		s.cfg.Log.WarnContext(ctx, "pull request not stored", "pull_request_id", pr.ID, "error", serr)
	}
	return err
}

// save stores a pull request, and publishes it if something visible changed.
func (s *Service) save(ctx context.Context, pr, before PullRequest) error {
	if err := s.cfg.Store.SavePullRequest(ctx, pr); err != nil {
		return fmt.Errorf("storing the pull request: %w", err)
	}
	s.replan(pr, before)
	if s.cfg.Events != nil && !same(pr, before) {
		s.cfg.Events.Publish(ctx, events.Event{Type: "pull_request.updated", ID: pr.ID, WorkspaceID: pr.WorkspaceID, TeamID: pr.TeamID, Version: s.now()})
	}
	return nil
}

// Refresh polls the forge now. Errors: forge_*, pull_request_missing.
func (s *Service) Refresh(ctx context.Context, actor accounts.Actor, workspaceID string) (PullRequest, error) {
	return s.with(ctx, actor, workspaceID, nil)
}

// Merge has the forge merge the pull request as the user saw it, and fetches the result. Errors: pull_request_moved, forge_*, those of the
// gate.
func (s *Service) Merge(ctx context.Context, actor accounts.Actor, workspaceID string, m MergeAsk) (PullRequest, error) {
	w, err := s.mayMerge(ctx, workspaceID, m)
	if err != nil {
		return PullRequest{}, err
	}
	return s.with(ctx, actor, workspaceID, func(ctx context.Context, pr PullRequest, c Client) error {
		if pr.State == Merged || pr.State == Closed {
			return fault.New(fault.Conflict, "pull_request_not_open", "The %s is already %s.", pr.Forge.Request(), pr.State)
		}
		if err := c.Merge(ctx, pr.Number, m); err != nil {
			return err
		}
		failpoint.Reach(failpoint.PullMerged)
		s.note(ctx, w, actor.User.ID, "pull_request.merged", fmt.Sprintf("Had %s merge %s %s (%s)", pr.Host, pr.Forge.Request(), pr.called(), m.Strategy), pr, m.Artifacts...)
		return nil
	})
}

// mayMerge checks what somebody wants merged, and that nothing of Parawork's keeps it from that.
func (s *Service) mayMerge(ctx context.Context, workspaceID string, m MergeAsk) (workspaces.Workspace, error) {
	switch {
	case m.Strategy != workspaces.StrategyMerge && m.Strategy != workspaces.StrategySquash && m.Strategy != workspaces.StrategyRebase:
		return workspaces.Workspace{}, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge, squash or rebase.")
	case !isCommit(m.Head):
		return workspaces.Workspace{}, fault.New(fault.Invalid, "expected_head_invalid", "expected_head is the full id of the commit you saw: head_commit of the pull request.").With("field", "expected_head")
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err == nil && s.cfg.Gate != nil {
		err = s.cfg.Gate(ctx, w, m.Head)
	}
	return w, err
}

// Ready marks a draft as ready.
func (s *Service) Ready(ctx context.Context, actor accounts.Actor, workspaceID string) (PullRequest, error) {
	return s.with(ctx, actor, workspaceID, func(ctx context.Context, pr PullRequest, c Client) error {
		return c.Ready(ctx, pr.Number)
	})
}

// Close closes the pull request without merging it. The branch stays.
func (s *Service) Close(ctx context.Context, actor accounts.Actor, workspaceID string) (PullRequest, error) {
	return s.with(ctx, actor, workspaceID, func(ctx context.Context, pr PullRequest, c Client) error {
		if pr.State == Merged {
			return fault.New(fault.Conflict, "pull_request_not_open", "The %s is already merged.", pr.Forge.Request())
		}
		return c.Close(ctx, pr.Number)
	})
}

// lock waits until no other operation on a workspace's pull request runs. The returned func unlocks it.
func (s *Service) lock(ctx context.Context, workspaceID string) (release func(), err error) {
	if release, err = s.turns.LockContext(ctx, workspaceID); err != nil {
		return nil, fault.Wrap(err, fault.Timeout, "pull_request_busy", "Another operation on this pull request is running. Try again in a moment.")
	}
	return release, nil
}

// with runs an operation on a workspace's pull request as a user, and reads it again.
func (s *Service) with(ctx context.Context, actor accounts.Actor, workspaceID string, do func(context.Context, PullRequest, Client) error) (PullRequest, error) {
	release, err := s.lock(ctx, workspaceID)
	if err != nil {
		return PullRequest{}, err
	}
	defer release()
	pr, ok, err := s.Of(ctx, workspaceID)
	if err != nil {
		return pr, err
	}
	if !ok {
		return pr, errMissing
	}
	at, err := s.placeOf(ctx, pr)
	if err != nil {
		return pr, err
	}
	c, err := s.client(ctx, at, actor.User.ID, pr.TeamID, pr.ProjectID)
	if err != nil {
		return pr, err
	}
	if do != nil {
		asked, cancel := context.WithTimeout(ctx, patience)
		err := do(asked, pr, c)
		cancel()
		if err != nil {
			return pr, err
		}
	}
	// The operation is done: read the result even if the caller has left.
	ctx, cancel := context.WithTimeout(tenant.In(context.WithoutCancel(ctx), pr.TeamID), 2*patience)
	defer cancel()
	return s.read(ctx, pr, c)
}
