package store_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestImageBuilds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		user, team := storetest.Seed(t, db)
		for _, p := range []string{"prj_1", "prj_2"} {
			if _, err := db.Exec(ctx, `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
				VALUES (?,?,'p','sample','','','ready',?,1)`, p, team.ID, user.ID); err != nil {
				t.Fatal(err)
			}
		}
		s := store.NewImages(db)
		if c, err := s.ImageChoice(ctx, "prj_1"); err != nil || !reflect.DeepEqual(c, images.Choice{}) {
			t.Errorf("choice %+v, %v", c, err)
		}
		want := images.Choice{Build: "Dockerfile", Parts: []string{"browser"}}
		if err := s.SetImageChoice(ctx, "prj_1", want); err != nil {
			t.Fatal(err)
		}
		if c, err := s.ImageChoice(ctx, "prj_1"); err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("choice %+v, %v", c, err)
		}
		for i := range 25 {
			b := images.Build{ID: fmt.Sprintf("img_%02d", i), TeamID: team.ID, ProjectID: "prj_1", Source: "Dockerfile", Commit: "c", State: images.Building, CreatedBy: user.ID, CreatedAt: int64(i)}
			if err := s.InsertImageBuild(ctx, b); err != nil {
				t.Fatal(err)
			}
			second := b
			second.ID += "_second"
			if err := s.InsertImageBuild(ctx, second); !fault.Is(err, fault.Conflict) {
				t.Fatalf("a second build: %v", err)
			}
			if open, err := s.OpenImageBuilds(ctx); err != nil || len(open) != 1 || open[0] != b {
				t.Fatalf("open %+v, %v", open, err)
			}
			b.State, b.Tag, b.EndedAt = images.Ready, "tag", 99
			if err := s.EndImageBuild(ctx, b, "log"); err != nil {
				t.Fatal(err)
			}
			late := b
			late.State = images.Failed
			if err := s.EndImageBuild(ctx, late, "other"); err != nil {
				t.Fatal(err)
			}
			if got, err := s.ImageBuild(ctx, b.ID); err != nil || got != b {
				t.Fatalf("build %+v, %v", got, err)
			}
		}
		other := images.Build{ID: "img_other", TeamID: team.ID, ProjectID: "prj_2", State: images.Building, CreatedBy: user.ID}
		if err := s.InsertImageBuild(ctx, other); err != nil {
			t.Errorf("another project's build: %v", err)
		}
		first, next, err := s.ImageBuilds(ctx, "prj_1", page.Page{Limit: 20})
		if err != nil || len(first) != 20 || first[0].ID != "img_24" || next == "" {
			t.Errorf("%d builds, %v", len(first), err)
		}
		if ready, err := s.ReadyImageBuilds(ctx, "prj_1"); err != nil || len(ready) != 25 || ready[0].ID != "img_24" {
			t.Errorf("%d ready, %v", len(ready), err)
		}
		if log, err := s.ImageBuildLog(ctx, "img_24"); err != nil || log != "log" {
			t.Errorf("log %q, %v", log, err)
		}
		if log, err := s.ImageBuildLog(ctx, "img_00"); err != nil || log != "" {
			t.Errorf("an old log %q, %v", log, err)
		}
		if _, err := s.ImageBuild(ctx, "img_none"); fault.CodeOf(err) != "image_build_not_found" {
			t.Errorf("a build that is not there: %v", err)
		}
	})
}
