package directory

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// pages are the first parts of the web app's own addresses. A team of such a name could not be reached in it.
var pages = map[string]bool{
	"api": true, "assets": true, "confirm": true, "demo": true, "email": true, "instance": true, "join": true, "login": true, "logout": true, "mcp": true, "oauth": true, "reset": true, "setup": true, "watch": true,
}

var slugForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$`)

// CreateTeam makes a team that actor owns. An empty slug is made from the name, and made unique; a given one must be free.
func (s *Service) CreateTeam(ctx context.Context, actor accounts.Actor, name, slug string) (accounts.Team, error) {
	if actor.User.ID == "" {
		return accounts.Team{}, fault.New(fault.Unauthorized, "signed_out", "Sign in first.")
	}
	t, err := s.newTeam(name, slug)
	if err != nil {
		return accounts.Team{}, err
	}
	var made accounts.Team
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		made, err = s.insertTeam(ctx, t, actor.User.ID, slug != "")
		return err
	})
	if err != nil {
		return accounts.Team{}, fmt.Errorf("creating a team: %w", err)
	}
	return made, nil
}

// newTeam checks a team's name and slug.
func (s *Service) newTeam(name, slug string) (accounts.Team, error) {
	name, err := accounts.CleanName("team", name)
	if err != nil {
		return accounts.Team{}, err
	}
	if slug == "" {
		slug = slugOf(name)
	} else if !slugForm.MatchString(slug) {
		return accounts.Team{}, fault.New(fault.Invalid, "invalid_slug",
			"A team's short name needs 1 to 40 lower-case letters, digits and dashes, and begins and ends with a letter or digit.").With("field", "slug")
	}
	return accounts.Team{ID: id.New("team"), Slug: slug, Name: name, CreatedAt: s.now()}, nil
}

// insertTeam stores t with its owner. Unless exact, a slug that is taken gets a number.
func (s *Service) insertTeam(ctx context.Context, t accounts.Team, ownerID string, exact bool) (accounts.Team, error) {
	base := t.Slug
	for n := 2; ; n++ {
		if !pages[t.Slug] {
			ok, err := s.store.InsertTeam(ctx, t)
			if err != nil {
				return accounts.Team{}, fmt.Errorf("storing a team: %w", err)
			}
			if ok {
				break
			}
		}
		if exact || n > 1000 {
			return accounts.Team{}, fault.New(fault.Conflict, "slug_taken", "Another team has the short name %q. Choose another one.", base).With("field", "slug")
		}
		suffix := fmt.Sprintf("-%d", n)
		t.Slug = strings.TrimRight(base[:min(len(base), 40-len(suffix))], "-") + suffix
	}
	if _, err := s.store.InsertMember(tenant.In(ctx, t.ID), t.ID, ownerID, accounts.Owner, t.CreatedAt); err != nil {
		return accounts.Team{}, fmt.Errorf("storing the owner of a team: %w", err)
	}
	return t, nil
}

// slugOf makes a slug of a name: letters and digits of ASCII, dashes between.
func slugOf(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == 40 {
			break
		}
	}
	if slug := strings.Trim(b.String(), "-"); slug != "" {
		return slug
	}
	return "team"
}

// Team returns a team the actor may see.
func (s *Service) Team(ctx context.Context, actor accounts.Actor, teamID string) (accounts.Team, error) {
	if err := accounts.Can(actor, accounts.ViewTeam, accounts.InTeam(teamID)); err != nil {
		return accounts.Team{}, err
	}
	return s.store.TeamByID(ctx, teamID)
}

// TeamBySlug returns any team. For the command line: what others may see is decided by Can.
func (s *Service) TeamBySlug(ctx context.Context, slug string) (accounts.Team, error) {
	return s.store.TeamBySlug(ctx, slug)
}

// UpdateTeam renames a team; the slug stays, since links hold it.
func (s *Service) UpdateTeam(ctx context.Context, actor accounts.Actor, teamID, name string) (accounts.Team, error) {
	if err := accounts.Can(actor, accounts.ManageTeam, accounts.InTeam(teamID)); err != nil {
		return accounts.Team{}, err
	}
	name, err := accounts.CleanName("team", name)
	if err != nil {
		return accounts.Team{}, err
	}
	if err := s.store.RenameTeam(ctx, teamID, name); err != nil {
		return accounts.Team{}, fmt.Errorf("renaming a team: %w", err)
	}
	return s.store.TeamByID(ctx, teamID)
}

// CountTeams returns how many teams the instance has.
func (s *Service) CountTeams(ctx context.Context) (int, error) { return s.store.CountTeams(ctx) }

// CountUsers returns how many people the instance has.
func (s *Service) CountUsers(ctx context.Context) (int, error) { return s.store.CountUsers(ctx) }

// TeamByID returns a team, for services that work for it without a request from a user.
func (s *Service) TeamByID(ctx context.Context, teamID string) (accounts.Team, error) {
	return s.store.TeamByID(ctx, teamID)
}
