package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

const (
	// TagPrefix begins the names of images built for projects.
	TagPrefix = "parawork-project-"
	// keepImages is how many images of a project stay on the server.
	keepImages = 3
	// settleTimeout bounds the writes that must happen even though the server stops.
	settleTimeout = 20 * time.Second
)

// Config configures a Service.
type Config struct {
	Store        Store
	Repositories Repositories
	Builder      Builder // nil: this server cannot build
	Allowed      bool    // projects may have images of their own
	Default      string  // the image of containers where a project chooses nothing
	// HostImages are the engine's images that projects may use although no registry gives them to everybody: see Listed. None: all of them
	// while there is one team, only Default once there are more.
	HostImages []string
	Teams      func(ctx context.Context) (int, error) // how many teams there are; nil = one
	// Reach rejects registries, by host and port, that a project must not make the engine contact; nil = none.
	Reach   func(ctx context.Context, registry string) error
	Events  events.Publisher
	Timeout time.Duration // of one build; default 30 min
	Now     func() time.Time
	Log     *slog.Logger
}

// Service manages projects' images and their builds. Safe for concurrent use. Recover comes first, then Run.
type Service struct {
	cfg Config

	work *tasks.Scope // the builds under way

	mu     sync.Mutex
	builds map[string]*build // under way, by id
}

// build is one build under way.
type build struct {
	log    *logbook
	cancel context.CancelCauseFunc
	done   chan struct{}
}

var (
	errCancelled = errors.New("cancelled by a person")
	errStopped   = errors.New("the server was stopped")
)

// New makes a Service. It starts nothing; it panics without a required dependency.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Repositories == nil {
		panic("images: Store and Repositories are needed")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	work := tasks.NewScope(tenant.All(context.Background(), "builds go on when their caller has left"))
	return &Service{cfg: cfg, work: work, builds: make(map[string]*build)}
}

// Recover marks builds that an earlier server did not finish as failed.
func (s *Service) Recover(ctx context.Context) error {
	open, err := s.cfg.Store.OpenImageBuilds(ctx)
	if err != nil {
		return fmt.Errorf("reading builds of images: %w", err)
	}
	for _, b := range open {
		b.State, b.Reason, b.EndedAt = Failed, "The server was stopped during the build. Build it again.", s.now()
		if err := s.cfg.Store.EndImageBuild(ctx, b, ""); err != nil {
			return fmt.Errorf("closing build %s: %w", b.ID, err)
		}
	}
	return nil
}

// Run waits until ctx ends, then cancels the builds and waits for them.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	s.work.End(context.Canceled)
	return nil
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

func (s *Service) publish(ctx context.Context, b Build) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "image_build.updated", ID: b.ID, TeamID: b.TeamID, Version: s.now()})
	}
}

// allowed says whether projects may have images of their own on this server.
func (s *Service) allowed() error {
	switch {
	case s.cfg.Builder == nil:
		return fault.New(fault.Unsupported, "images_unavailable", "This server makes no containers: sandboxing.docker is switched off.")
	case !s.cfg.Allowed:
		return fault.New(fault.Forbidden, "images_not_allowed", "The operator does not allow projects to have images of their own (sandboxing.docker.projectImages).")
	}
	return nil
}

// SetChoice changes the image of a project's new sandboxes.
func (s *Service) SetChoice(ctx context.Context, projectID string, c Choice) error {
	c.Name, c.Build = strings.TrimSpace(c.Name), strings.TrimSpace(c.Build)
	if c.Public = ""; c.none() {
		return s.cfg.Store.SetImageChoice(ctx, projectID, c)
	}
	if err := s.allowed(); err != nil {
		return err
	}
	switch {
	case c.Name != "" && c.Build != "":
		return fault.New(fault.Invalid, "invalid_image", "Give the image's name or the file it is built from, not both.").With("field", "image")
	case c.Build == "" && len(c.Parts) > 0:
		return fault.New(fault.Invalid, "invalid_image", "Parts are installed in an image that is built from a file of the repository. Name the file in build.").With("field", "image")
	case c.Name != "":
		var err error
		if c, err = s.Check(ctx, projectID, c.Name); err != nil {
			return err
		}
	default:
		if err := checkSource(c.Build); err != nil {
			return err
		}
		if err := recipe.CheckSets(c.Parts); err != nil {
			return fault.New(fault.Invalid, "invalid_image", "%v.", err).With("field", "image")
		}
	}
	return s.cfg.Store.SetImageChoice(ctx, projectID, c)
}

// Check says whether workspaces of a project may be made from the image of this name, and returns it as a choice.
func (s *Service) Check(ctx context.Context, projectID, name string) (Choice, error) {
	if err := s.allowed(); err != nil {
		return Choice{}, err
	}
	img, err := s.judge(ctx, name, projectID, "", nil)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Name: name}
	if img.public {
		c.Public = img.ID
	}
	return c, nil
}

// ForWorkspace returns the image for a workspace's containers, judged again: a name may mean another image by now. It returns nothing for
// the server's own image.
func (s *Service) ForWorkspace(ctx context.Context, workspaceID string) (Made, error) {
	projectID, c, err := s.cfg.Store.ChoiceOfWorkspace(ctx, workspaceID)
	if err != nil || c.Name == "" && c.Build == "" {
		return Made{}, err
	}
	if err := s.allowed(); err != nil {
		return Made{}, err
	}
	name, err := s.resolve(ctx, projectID, c)
	if err == nil && name == "" {
		err = fault.New(fault.Conflict, "image_not_built", "The project's image has not been built from %s yet. Build it in the project's settings.", c.Build)
	}
	if err != nil {
		return Made{}, err
	}
	img, err := s.judge(ctx, name, projectID, c.Public, nil)
	return Made{Name: name, ID: img.ID, ProjectID: projectID}, err
}

// resolve returns the image a choice means now, "" when it is not built yet.
func (s *Service) resolve(ctx context.Context, projectID string, c Choice) (string, error) {
	if c.Build == "" {
		return c.Name, nil
	}
	ready, err := s.cfg.Store.ReadyImageBuilds(ctx, projectID)
	if err != nil {
		return "", err
	}
	for _, b := range ready {
		if b.Source == c.Build {
			return b.Tag, nil
		}
	}
	return "", nil
}

// Overview returns everything about a project's image.
func (s *Service) Overview(ctx context.Context, projectID string) (Overview, error) {
	var o Overview
	var err error
	if o.Choice, err = s.cfg.Store.ImageChoice(ctx, projectID); err != nil {
		return o, err
	}
	if o.Image, err = s.resolve(ctx, projectID, o.Choice); err != nil {
		return o, err
	}
	if o.Builds, _, err = s.cfg.Store.ImageBuilds(ctx, projectID, page.Page{Limit: 20}); err != nil {
		return o, err
	}
	commit, err := s.cfg.Repositories.DefaultCommit(ctx, projectID)
	if err == nil {
		o.Candidates, err = s.candidates(ctx, projectID, commit)
	}
	if err != nil { // an unreadable repository says nothing about the current image
		o.Problem = s.words(err)
	}
	return o, nil
}

// Start begins to build a project's image. source "" is the file the project has chosen.
func (s *Service) Start(ctx context.Context, teamID, projectID, userID, source string) (Build, error) {
	if err := s.allowed(); err != nil {
		return Build{}, err
	}
	if source == "" {
		c, err := s.cfg.Store.ImageChoice(ctx, projectID)
		if err != nil {
			return Build{}, err
		}
		if source = c.Build; source == "" {
			return Build{}, fault.New(fault.Invalid, "no_image_source", "Say which file the image is built from.").With("field", "source")
		}
	}
	if err := checkSource(source); err != nil {
		return Build{}, err
	}
	commit, err := s.cfg.Repositories.DefaultCommit(ctx, projectID)
	if err != nil {
		return Build{}, err
	}
	b := Build{ID: id.New("img"), TeamID: teamID, ProjectID: projectID, Source: source, Commit: commit, State: Building, CreatedBy: userID, CreatedAt: s.now()}
	w := &build{log: newLogbook(), done: make(chan struct{})}
	var life context.Context
	life, w.cancel = context.WithCancelCause(s.work.Context())
	leave, ok := s.work.Enter()
	if !ok {
		w.cancel(nil)
		return Build{}, fault.New(fault.Unavailable, "stopping", "The server is stopping. Try again in a moment.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cfg.Store.InsertImageBuild(ctx, b); err != nil {
		leave()
		w.cancel(nil)
		return Build{}, err
	}
	s.builds[b.ID] = w
	go func() { // the scope waits for it
		defer leave()
		s.carryOut(life, b, w)
	}()
	s.publish(ctx, b)
	return b, nil
}

// carryOut builds, and stores the result.
func (s *Service) carryOut(ctx context.Context, b Build, w *build) {
	defer w.cancel(nil)
	began := s.now()
	tctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("it took longer than %s", s.cfg.Timeout))
	tag, err := s.make(tctx, b, w.log)
	if err != nil && tctx.Err() != nil {
		err = context.Cause(tctx)
	}
	cancel()
	switch {
	case err == nil:
		b.State, b.Tag = Ready, tag
	case errors.Is(err, errCancelled):
		b.State, b.Reason = Cancelled, "It was cancelled."
	case ctx.Err() != nil:
		b.State, b.Reason = Failed, "The server was stopped during the build. Build it again."
	default:
		b.State, b.Reason = Failed, clip(s.words(err), 1000)
	}
	b.EndedAt = max(s.now(), began)
	if b.Reason != "" {
		fmt.Fprintf(w.log, "\n%s\n", b.Reason)
	}
	sctx, done := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer done()
	if err := s.cfg.Store.EndImageBuild(sctx, b, w.log.text()); err != nil {
		s.cfg.Log.Error("the end of an image's build could not be stored", "build_id", b.ID, "error", err)
	}
	s.publish(sctx, b)
	if b.State == Ready {
		s.prune(sctx, b.ProjectID)
	}
	w.log.close() // followers find all of it done
	s.mu.Lock()
	delete(s.builds, b.ID)
	s.mu.Unlock()
	close(w.done)
}

// prune removes a project's images that newer ones have replaced.
func (s *Service) prune(ctx context.Context, projectID string) {
	ready, err := s.cfg.Store.ReadyImageBuilds(ctx, projectID)
	if err != nil {
		s.cfg.Log.Warn("the builds of a project could not be read", "project_id", projectID, "error", err)
		return
	}
	kept := map[string]bool{}
	bySource := map[string]int{}
	for _, b := range ready {
		if bySource[b.Source]++; bySource[b.Source] <= keepImages {
			kept[b.Tag] = true
		}
	}
	for _, b := range ready {
		if !kept[b.Tag] {
			if err := s.cfg.Builder.Remove(ctx, b.Tag); err != nil {
				s.cfg.Log.Warn("an old image could not be removed", "tag", b.Tag, "error", err)
			}
		}
	}
}

// Get returns a build.
func (s *Service) Get(ctx context.Context, id string) (Build, error) {
	return s.cfg.Store.ImageBuild(ctx, id)
}

// List returns a page of a project's builds, newest first.
func (s *Service) List(ctx context.Context, projectID string, pg page.Page) ([]Build, string, error) {
	return s.cfg.Store.ImageBuilds(ctx, projectID, pg)
}

// Cancel cancels a build under way and waits for its end.
func (s *Service) Cancel(ctx context.Context, id string) (Build, error) {
	s.mu.Lock()
	w := s.builds[id]
	s.mu.Unlock()
	if w == nil {
		b, err := s.cfg.Store.ImageBuild(ctx, id)
		if err == nil && b.State == Building {
			err = fault.New(fault.Conflict, "build_on_other_server", "The build runs in another server process. Cancel it there.")
		}
		return b, err
	}
	w.cancel(errCancelled)
	select {
	case <-w.done:
	case <-ctx.Done():
		return Build{}, context.Cause(ctx)
	}
	return s.cfg.Store.ImageBuild(ctx, id)
}

// Follow calls fn with every line of a build, from the beginning or the oldest stored line, until the build has ended.
func (s *Service) Follow(ctx context.Context, id string, fn func(line string) error) error {
	s.mu.Lock()
	w := s.builds[id]
	s.mu.Unlock()
	if w != nil {
		return w.log.follow(ctx, fn)
	}
	text, err := s.cfg.Store.ImageBuildLog(ctx, id)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if err := fn(strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// words returns the text of an error for people. Internal errors go to the log.
func (s *Service) words(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind != fault.Internal {
		return f.Message
	}
	if errors.Is(err, context.DeadlineExceeded) || s.cfg.Timeout > 0 && strings.HasPrefix(err.Error(), "it took longer") {
		return "It took too long."
	}
	s.cfg.Log.Error("an image could not be built", "error", err)
	return "It could not be built because of an internal error. See the server's log."
}
