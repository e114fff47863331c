package toolstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/internal/textsearch"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/skills"
)

func TestSkillRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		_, team := storetest.Seed(t, db)
		_, other := storetest.Seed(t, db)
		ctx, foreign := tenant.In(t.Context(), team.ID), tenant.In(t.Context(), other.ID)
		s := toolstore.NewSkills(db)
		save := func(id, project, name, text string, draft bool, mustBe int64) (skills.Skill, error) {
			return s.SaveSkill(ctx, skills.Skill{ID: id, TeamID: team.ID, ProjectID: project, Name: name, CreatedAt: int64(len(id)), UpdatedAt: 1, Version: skills.Version{Description: "About " + name, Text: text, UserID: "usr", SavedAt: 1}}, draft, mustBe)
		}
		must := func(k skills.Skill, err error) skills.Skill {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		// Versions that are saved at once get numbers of their own, and the newest 50 are kept beside the one in use.
		must(save("a", "", "release", "one", false, 0))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if _, err := save("x", "", "release", fmt.Sprint("draft ", i), true, -1); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for range skills.MaxVersions - 8 + 2 {
			must(save("x", "", "release", "more", true, -1))
		}
		k := must(s.Skill(ctx, "a"))
		if k.InUse != 1 || k.Latest != skills.MaxVersions+3 || k.Draft != k.Latest || k.Text != "one" {
			t.Errorf("%+v", k)
		}
		if v, err := s.Versions(ctx, "a"); err != nil || len(v) != skills.MaxVersions+1 || v[0].Number != k.Latest || v[len(v)-1].Number != 1 {
			t.Errorf("%d versions %v", len(v), err)
		}
		for _, n := range []int64{2, 99} {
			if err := s.UseVersion(ctx, "a", n, 2); fault.CodeOf(err) != "skill_version_not_found" {
				t.Errorf("version %d: %v", n, err)
			}
		}
		if err := s.UseVersion(foreign, "a", 1, 2); fault.CodeOf(err) != "skill_version_not_found" {
			t.Errorf("by another team: %v", err)
		}
		if _, err := save("x", "", "release", "t", false, 3); fault.CodeOf(err) != "skill_changed" {
			t.Error(err)
		}
		if _, err := save("x", "", "release", "t", false, 0); fault.CodeOf(err) != "skill_exists" {
			t.Error(err)
		}
		if v, err := s.Versions(ctx, "a"); err != nil || len(v) != skills.MaxVersions+1 {
			t.Errorf("what was refused left %d versions, %v", len(v), err)
		}

		// Searches rate as in Go, in both databases alike; what the project has counts before the team's.
		must(save("bb", "p", "release", "deploy the fooBar", false, 0))
		must(save("ccc", "p", "draft", "foo", true, 0))
		q := textsearch.Parse("foo release")
		found := func(project string) string {
			t.Helper()
			got, err := s.InUse(ctx, team.ID, project, q)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, k := range got {
				fmt.Fprintf(&b, "%s %d; ", k.Name, k.Points)
			}
			return b.String()
		}
		if got, want := found("p"), fmt.Sprintf("release %d; ", q.Score("release About release", "deploy the fooBar")); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := found("q"), fmt.Sprintf("release %d; ", q.Score("release About release", "one")); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if n, err := s.Named(ctx, team.ID, "p", "release"); err != nil || n.Text != "deploy the fooBar" {
			t.Errorf("%+v %v", n, err)
		}
		if _, err := s.Named(ctx, team.ID, "p", "draft"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a draft is read: %v", err)
		}
		for want, f := range map[string]skills.Filter{"ccc bb a": {}, "a": {ProjectID: "q"}, "ccc bb": {Query: "fo bar"}, "ccc a": {Drafts: true}, "": {Query: "?!"}} {
			var got []string
			for pg := (page.Page{Limit: 1}); ; {
				items, next, err := s.Skills(ctx, team.ID, f, pg)
				if err != nil {
					t.Fatal(err)
				}
				for _, k := range items {
					got = append(got, k.ID)
					if k.Text != "" {
						t.Error("a list has texts")
					}
				}
				if pg.Cursor = next; next == "" {
					break
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%+v: %v, want %s", f, got, want)
			}
		}
		if _, err := s.Skill(foreign, "a"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team reads it: %v", err)
		}
		if err := s.DeleteSkill(foreign, "a"); err != nil {
			t.Error(err)
		}
		if err := s.DeleteSkill(ctx, "bb"); err != nil {
			t.Error(err)
		}
		if n, err := s.Named(ctx, team.ID, "p", "release"); err != nil || n.Text != "one" {
			t.Errorf("%+v %v", n, err)
		}

		yes := true
		for i, accepts := range []*bool{nil, &yes, nil} {
			in := skills.Instructions{TeamID: team.ID, Text: fmt.Sprint(i), UpdatedBy: "usr", UpdatedAt: 5}
			if err := s.SetInstructions(ctx, &in, accepts); err != nil || in.Accepts != (i > 0) {
				t.Errorf("%d: %+v %v", i, in, err)
			}
			if got, err := s.Instructions(ctx, team.ID, ""); err != nil || got != in {
				t.Errorf("%+v %v, want %+v", got, err, in)
			}
		}
	})
}
