package memory

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/internal/textsearch"
	"github.com/parawork/parawork/tools"
)

// Changed is the type of the event that a project's facts changed. Its ID is the project's; facts of sessions make none.
const Changed = "memory.changed"

// Config configures a Service.
type Config struct {
	Store      Store
	Workspaces Workspaces
	Secrets    tools.Secrets    // masked before a fact is stored; nil = teams have none
	Events     events.Publisher // nil = none
	// Embedder and EmbeddingModel find facts by meaning, too; without both, words alone count.
	Embedder       Embedder
	EmbeddingModel string
	Now            func() time.Time
	Log            *slog.Logger
}

// Service remembers. Safe for concurrent use.
type Service struct {
	cfg       Config
	embedding embedding
}

// New makes a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Workspaces == nil {
		panic("memory: Store and Workspaces are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, embedding: embedding{queue: make(chan project, embedQueue), paused: map[string]time.Time{}}}
}

// Run deletes expired facts and computes vectors until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	if s.byMeaning() {
		for range embedWorkers {
			workers.Go(func() { s.embeds(ctx) })
		}
	}
	all := tenant.All(ctx, "what expired is deleted for all teams")
	every := time.NewTicker(time.Hour)
	defer every.Stop()
	for {
		if err := s.cfg.Store.DropExpired(all, s.cfg.Now().UnixMilli()); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "expired memory could not be deleted", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// project is the project of the caller's workspace.
func (s *Service) project(ctx context.Context, c tools.Caller) (string, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err == nil && w.TeamID != c.TeamID {
		err = fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace in this team.")
	}
	return w.ProjectID, err
}

func (s *Service) remember(ctx context.Context, c tools.Caller, a rememberArguments) (Fact, error) {
	project, err := s.project(ctx, c)
	if err != nil {
		return Fact{}, err
	}
	f := Fact{TeamID: c.TeamID, ProjectID: project, Key: a.Key, Text: a.Text, Tags: a.Tags, UserID: c.UserID, Agent: c.Agent}
	if a.Scope == "session" {
		if c.SessionID == "" {
			return Fact{}, fault.New(fault.Invalid, "memory_needs_session", "Only the agent of a session has a session's memory. Use the scope project.").With("field", "scope")
		}
		f.SessionID = c.SessionID
	}
	return s.add(ctx, f, a.ExpiresInDays)
}

// add stores a fact with secrets masked. It is forgotten after some days; 0 is the default of its scope.
func (s *Service) add(ctx context.Context, f Fact, days int) (Fact, error) {
	now, most := s.cfg.Now(), MaxFacts
	f.ID, f.Key, f.Text, f.CreatedAt = id.New("mem"), strings.TrimSpace(f.Key), strings.TrimSpace(f.Text), now.UnixMilli()
	if f.SessionID != "" {
		f.ExpiresAt, most = now.Add(sessionFactsFor).UnixMilli(), MaxSessionFacts
	}
	if days > 0 {
		f.ExpiresAt = now.Add(time.Duration(days) * 24 * time.Hour).UnixMilli()
	}
	if f.Text == "" || len(f.Text) > MaxText {
		return Fact{}, fault.New(fault.Invalid, "memory_text_invalid", "A fact has 1 to %d bytes of text.", MaxText).With("field", "text")
	}
	texts := []*string{&f.Text, &f.Key}
	for i := range f.Tags {
		texts = append(texts, &f.Tags[i])
	}
	if err := tools.Hide(ctx, s.cfg.Secrets, f.TeamID, texts...); err != nil {
		return Fact{}, err
	}
	if err := s.cfg.Store.Remember(ctx, f, most); err != nil {
		return Fact{}, err
	}
	if f.SessionID == "" {
		s.changed(ctx, f.TeamID, f.ProjectID)
	}
	s.embedSoon(f.TeamID, f.ProjectID)
	return f, nil
}

// changed tells readers of a project's facts to read them again.
func (s *Service) changed(ctx context.Context, teamID, projectID string) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(context.WithoutCancel(ctx), events.Event{Type: Changed, ID: projectID, TeamID: teamID, Version: s.cfg.Now().UnixMilli()})
	}
}

// Rankings of an answer.
const (
	byWords     = "words"
	withMeaning = "meaning"
)

// recall returns the facts that have words of a query, those with most of them first, merged with those nearest in meaning where vectors are
// to be had; without a query the newest.
func (s *Service) recall(ctx context.Context, c tools.Caller, a recallArguments) (facts []Fact, ranking string, err error) {
	projectID, err := s.project(ctx, c)
	if err != nil {
		return nil, "", err
	}
	if facts, err = s.cfg.Store.Facts(ctx, projectID, c.SessionID, s.cfg.Now().UnixMilli()); err != nil {
		return nil, "", err
	}
	if a.Key != "" {
		facts = slices.DeleteFunc(facts, func(f Fact) bool { return f.Key != a.Key })
	}
	if strings.TrimSpace(a.Query) != "" {
		query := a.Query
		if err := tools.Hide(ctx, s.cfg.Secrets, c.TeamID, &query); err != nil {
			return nil, "", err
		}
		near, ok := s.near(ctx, project{c.TeamID, projectID}, c.SessionID, facts, query)
		facts = search(facts, a.Query)
		if ok {
			facts, ranking = merge(facts, near), withMeaning
		}
	}
	return facts[:min(len(facts), cmp.Or(a.Limit, 20))], cmp.Or(ranking, byWords), nil
}

func (s *Service) forget(ctx context.Context, c tools.Caller, a forgetArguments) (int64, error) {
	if a.ID == "" && a.Key == "" {
		return 0, fault.New(fault.Invalid, "memory_not_named", "Name what to forget: its id, or its key.")
	}
	project, err := s.project(ctx, c)
	if err != nil {
		return 0, err
	}
	n, err := s.cfg.Store.Forget(ctx, project, c.SessionID, a.ID, a.Key)
	if n > 0 {
		s.changed(ctx, c.TeamID, project)
	}
	return n, err
}

// search returns the facts that have words of a query, those with most of them first.
func search(facts []Fact, query string) []Fact {
	asked := textsearch.Parse(query)
	rank := make(map[string]int, len(facts))
	for _, f := range facts {
		rank[f.ID] = score(f, asked)
	}
	facts = slices.DeleteFunc(facts, func(f Fact) bool { return rank[f.ID] == 0 })
	slices.SortStableFunc(facts, func(a, b Fact) int { return cmp.Compare(rank[b.ID], rank[a.ID]) })
	return facts
}

// score counts the words of a query in a fact: its key and tags are its name.
func score(f Fact, asked textsearch.Query) int {
	return asked.Score(f.Key+" "+strings.Join(f.Tags, " "), f.Text)
}
