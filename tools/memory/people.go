package memory

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/textsearch"
)

// Get returns a fact of a project. The facts of sessions are not for people to find: a session may be private.
func (s *Service) Get(ctx context.Context, id string) (Fact, error) {
	f, err := s.cfg.Store.Fact(ctx, id)
	if err == nil && (f.SessionID != "" || f.ExpiresAt != 0 && f.ExpiresAt <= s.cfg.Now().UnixMilli()) {
		err = fault.New(fault.NotFound, "memory_not_found", "This fact is no longer remembered.")
	}
	return f, err
}

// List returns a page of a project's facts, the newest first; with a query those that have words of it.
func (s *Service) List(ctx context.Context, projectID, query string, p page.Page) (facts []Fact, next string, err error) {
	after, ok, err := p.Key()
	if err != nil {
		return nil, "", err
	}
	if facts, err = s.cfg.Store.Facts(ctx, projectID, "", s.cfg.Now().UnixMilli()); err != nil {
		return nil, "", err
	}
	asked := textsearch.Parse(query)
	facts = slices.DeleteFunc(facts, func(f Fact) bool {
		shown := ok && (f.CreatedAt > after.At || f.CreatedAt == after.At && f.ID >= after.ID)
		return shown || query != "" && score(f, asked) == 0
	})
	facts, next = page.Cut(p, facts, func(f Fact) page.Key { return page.Key{At: f.CreatedAt, ID: f.ID} })
	return facts, next, nil
}

// Add remembers a fact that a person wrote, for a number of days; 0 means forever. It replaces the fact that has its key. Errors:
// memory_invalid, memory_text_invalid, memory_full.
func (s *Service) Add(ctx context.Context, f Fact, days int) (Fact, error) {
	invalid := func(field, must string) (Fact, error) {
		return Fact{}, fault.New(fault.Invalid, "memory_invalid", "The %s of a fact must be %s.", field, must).With("field", field)
	}
	switch {
	case utf8.RuneCountInString(f.Key) > MaxKey:
		return invalid("key", "at most 100 characters")
	case len(f.Tags) > MaxTags || slices.ContainsFunc(f.Tags, func(t string) bool { return t == "" || utf8.RuneCountInString(t) > MaxTag }):
		return invalid("tags", "at most 10 words of 1 to 50 characters")
	case days < 0 || days > MaxDays:
		return invalid("expires_in_days", "1 to 3650, or left out")
	}
	f.SessionID, f.Tags = "", slices.Clone(f.Tags)
	return s.add(ctx, f, days)
}

// Delete forgets a fact of a project.
func (s *Service) Delete(ctx context.Context, f Fact) error {
	n, err := s.cfg.Store.Forget(ctx, f.ProjectID, "", f.ID, "")
	if n > 0 {
		s.changed(ctx, f.TeamID, f.ProjectID)
	}
	return err
}
