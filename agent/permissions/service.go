package permissions

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/tools"
)

// Changed is the type of the event that rules of a team or a project changed. Its ID is the project's, or the team's.
const Changed = "permission_rules.changed"

// Store stores rules. A missing row is fault.NotFound.
type Store interface {
	// Rules returns the rules of a team, of one of its projects and of a session, oldest first; "" = of none.
	Rules(ctx context.Context, teamID, projectID, sessionID string) ([]Rule, error)
	Rule(ctx context.Context, id string) (Rule, error)
	// Add stores a rule, unless its owner has the same one, which is returned. It refuses one more than most: fault.Conflict.
	Add(ctx context.Context, r Rule, most int) (Rule, error)
	Delete(ctx context.Context, id string) error
}

// Config configures a Service. Store and Specs are required.
type Config struct {
	Store  Store
	Specs  []tools.Spec
	Events events.Publisher // nil = none
	Now    func() time.Time
}

// Service keeps rules. Safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service. It panics when a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || len(cfg.Specs) == 0 {
		panic(errors.New("permissions: Store and Specs are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg}
}

// Rules returns the rules that apply in a session: its own, those of its project and those of its team; "" leaves some out.
func (s *Service) Rules(ctx context.Context, teamID, projectID, sessionID string) ([]Rule, error) {
	return s.cfg.Store.Rules(ctx, teamID, projectID, sessionID)
}

// Rule returns a rule of a team or a project.
func (s *Service) Rule(ctx context.Context, ruleID string) (Rule, error) {
	r, err := s.cfg.Store.Rule(ctx, ruleID)
	if fault.Is(err, fault.NotFound) || err == nil && r.SessionID != "" {
		return r, fault.New(fault.NotFound, "permission_rule_not_found", "There is no such rule.")
	}
	return r, err
}

// Add stores a rule; the same one is stored once. Errors: invalid_permission_rule, permission_rules_full.
func (s *Service) Add(ctx context.Context, r Rule) (Rule, error) {
	if err := Check(r, s.cfg.Specs); err != nil {
		return r, err
	}
	r.ID, r.CreatedAt = id.New("prl"), s.cfg.Now().UnixMilli()
	r, err := s.cfg.Store.Add(ctx, r, MaxRules)
	if err == nil {
		s.changed(ctx, r)
	}
	return r, err
}

// Delete removes a rule.
func (s *Service) Delete(ctx context.Context, r Rule) error {
	err := s.cfg.Store.Delete(ctx, r.ID)
	if err == nil {
		s.changed(ctx, r)
	}
	return err
}

func (s *Service) changed(ctx context.Context, r Rule) {
	if s.cfg.Events == nil || r.SessionID != "" {
		return
	}
	of := r.ProjectID
	if of == "" {
		of = r.TeamID
	}
	s.cfg.Events.Publish(ctx, events.Event{Type: Changed, ID: of, TeamID: r.TeamID, Version: s.cfg.Now().UnixMilli()})
}

// Try says what a call would get in a project, or in a team's new project, and by which rule. Where no rule says anything, it is what the
// tool asks for by itself. Links of the worktree are not followed. Errors: tool_not_found, invalid_permission_rule.
func (s *Service) Try(ctx context.Context, teamID, projectID, tool string, args json.RawMessage, isolated bool) (Decision, error) {
	i := slices.IndexFunc(s.cfg.Specs, func(t tools.Spec) bool { return t.Name == tool })
	if i < 0 {
		return Decision{}, fault.New(fault.NotFound, "tool_not_found", "There is no tool with this name. GET /teams/{team}/tools lists them.").With("field", "tool")
	}
	rules, err := s.Rules(ctx, teamID, projectID, "")
	if err != nil {
		return Decision{}, err
	}
	d := Decide(rules, NewCall(s.cfg.Specs[i], args, nil), isolated)
	if d.Effect == "" {
		d.Effect = Effect(s.cfg.Specs[i].Permission)
	}
	return d, nil
}
