package skills

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/textsearch"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/skills/repository"
)

// Changed is the type of the event that skills or instructions changed. Its ID is the project's, or the team's.
const Changed = "skills.changed"

// Config configures a Service. Store, Texts, Workspaces and Repository are required.
type Config struct {
	Store      Store
	Texts      Texts
	Workspaces Workspaces
	Repository Repository
	Secrets    tools.Secrets    // masked before a text is stored; nil = teams have none
	Events     events.Publisher // nil = none
	Now        func() time.Time
}

// Service keeps skills and instructions. Safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service. It panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Texts == nil || cfg.Workspaces == nil || cfg.Repository == nil {
		panic("skills: Store, Texts, Workspaces and Repository are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg}
}

// Get returns a skill.
func (s *Service) Get(ctx context.Context, id string) (Skill, error) {
	return s.cfg.Store.Skill(ctx, id)
}

// Versions returns the versions of a skill, the newest first.
func (s *Service) Versions(ctx context.Context, id string) ([]Version, error) {
	return s.cfg.Store.Versions(ctx, id)
}

// List returns a page of a team's skills without texts, the newest first.
func (s *Service) List(ctx context.Context, teamID string, f Filter, p page.Page) ([]Skill, string, error) {
	return s.cfg.Store.Skills(ctx, teamID, f, p)
}

// Create stores a new skill that a person wrote. Errors: skill_invalid, skills_full, skill_exists.
func (s *Service) Create(ctx context.Context, k Skill) (Skill, error) {
	if k.ProjectID != "" {
		if p, err := s.cfg.Workspaces.Project(ctx, k.ProjectID); err != nil || p.TeamID != k.TeamID {
			return Skill{}, cmp.Or(err, error(fault.New(fault.NotFound, "not_found", "There is no such project in this team.")))
		}
	}
	return s.Save(ctx, k, 0)
}

// Save stores a version of a skill: the next one of the skill with its team, project and name. mustBe is as with Store.SaveSkill. What an
// agent saves is a draft, unless its team accepts such skills. Errors: skill_invalid, skills_full, skill_changed.
func (s *Service) Save(ctx context.Context, k Skill, mustBe int64) (Skill, error) {
	invalid := func(field, must string) (Skill, error) {
		return Skill{}, fault.New(fault.Invalid, "skill_invalid", "The %s of a skill must be %s.", field, must).With("field", field)
	}
	now := s.cfg.Now().UnixMilli()
	k.ID, k.CreatedAt, k.UpdatedAt, k.SavedAt = id.New("skl"), now, now, now
	k.Description, k.Text = safetext.OneLine(strings.TrimSpace(k.Description)), strings.TrimSpace(safetext.Lines(k.Text))
	if err := tools.Hide(ctx, s.cfg.Secrets, k.TeamID, &k.Description, &k.Text); err != nil {
		return Skill{}, err
	}
	switch {
	case !repository.GoodName(k.Name):
		return invalid("name", "lower-case letters and digits in words with hyphens between them, at most 64 characters")
	case k.Description == "" || utf8.RuneCountInString(k.Description) > MaxDescription:
		return invalid("description", "1 to 400 characters that say what it is for and when to use it")
	case k.Text == "" || len(k.Text) > MaxText:
		return invalid("text", "1 to 32,768 bytes")
	}
	draft := k.Agent != ""
	if draft {
		team, err := s.cfg.Texts.Instructions(ctx, k.TeamID, "")
		if err != nil {
			return Skill{}, err
		}
		draft = !team.Accepts
	}
	saved, err := s.cfg.Store.SaveSkill(ctx, k, draft, mustBe)
	if err == nil {
		s.changed(ctx, saved.TeamID, saved.ProjectID)
	}
	return saved, err
}

// Use puts a version of a skill into use: it accepts a draft, rejects it in favour of the version in use, or goes back to an older one.
// Errors: skill_version_not_found.
func (s *Service) Use(ctx context.Context, k Skill, version int64) (Skill, error) {
	if err := s.cfg.Store.UseVersion(ctx, k.ID, version, s.cfg.Now().UnixMilli()); err != nil {
		return Skill{}, err
	}
	s.changed(ctx, k.TeamID, k.ProjectID)
	return s.cfg.Store.Skill(ctx, k.ID)
}

// Delete deletes a skill with its versions.
func (s *Service) Delete(ctx context.Context, k Skill) error {
	err := s.cfg.Store.DeleteSkill(ctx, k.ID)
	if err == nil {
		s.changed(ctx, k.TeamID, k.ProjectID)
	}
	return err
}

func (s *Service) changed(ctx context.Context, teamID, projectID string) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(context.WithoutCancel(ctx), events.Event{Type: Changed, ID: cmp.Or(projectID, teamID), TeamID: teamID, Version: s.cfg.Now().UnixMilli()})
	}
}

// InUse returns what agents of a project may read, without texts, by name.
func (s *Service) InUse(ctx context.Context, teamID, projectID string) ([]repository.Skill, error) {
	all, err := s.cfg.Store.InUse(ctx, teamID, projectID, textsearch.Query{})
	out := make([]repository.Skill, len(all))
	for i, k := range all {
		out[i] = repository.Skill{Name: k.Name, Description: k.Description}
	}
	return out, err
}

// Named returns one of them with its text. Errors: skill_not_found.
func (s *Service) Named(ctx context.Context, teamID, projectID, name string) (repository.Skill, error) {
	k, err := s.cfg.Store.Named(ctx, teamID, projectID, name)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "skill_not_found", "There is no skill %q.", safetext.Line(name))
	}
	return repository.Skill{Name: k.Name, Description: k.Description, Text: k.Text}, err
}

// Texts returns the instructions of a team and of a project.
func (s *Service) Texts(ctx context.Context, teamID, projectID string) (team, project string, err error) {
	t, err := s.cfg.Texts.Instructions(ctx, teamID, "")
	if err != nil {
		return "", "", err
	}
	p, err := s.cfg.Texts.Instructions(ctx, teamID, projectID)
	return t.Text, p.Text, err
}

// Instructions returns those of a project, or with "" of the team.
func (s *Service) Instructions(ctx context.Context, teamID, projectID string) (Instructions, error) {
	return s.cfg.Texts.Instructions(ctx, teamID, projectID)
}

// SetInstructions replaces them; accepts changes a team's Accepts, unless it is nil. Running conversations get the change with their next
// turn. Errors: instructions_too_long, instructions_invalid.
func (s *Service) SetInstructions(ctx context.Context, i Instructions, accepts *bool) (Instructions, error) {
	if accepts != nil && i.ProjectID != "" {
		return i, fault.New(fault.Invalid, "instructions_invalid", "Whether agents' skills are accepted without a review is a setting of the team.").With("field", "accept_skills")
	}
	i.Text, i.UpdatedAt = strings.TrimSpace(safetext.Lines(i.Text)), s.cfg.Now().UnixMilli()
	if len(i.Text) > MaxInstructions {
		return i, fault.New(fault.Invalid, "instructions_too_long", "Instructions have at most %d bytes. Put what is needed seldom into a skill.", MaxInstructions).With("field", "text")
	}
	if err := tools.Hide(ctx, s.cfg.Secrets, i.TeamID, &i.Text); err != nil {
		return i, err
	}
	err := s.cfg.Texts.SetInstructions(ctx, &i, accepts)
	if err == nil {
		s.changed(ctx, i.TeamID, i.ProjectID)
	}
	return i, err
}
