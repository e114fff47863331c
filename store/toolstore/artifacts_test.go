package toolstore_test

import (
	"errors"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/workspaces"
)

func TestArtifactRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		rows, kept := toolstore.NewArtifacts(db), store.NewWorkspaces(db)
		user, team := storetest.Seed(t, db)
		_, other := storetest.Seed(t, db)
		ctx := tenant.In(t.Context(), team.ID)
		p := workspaces.Project{ID: id.New("prj"), TeamID: team.ID, Name: "p", CreatedBy: user.ID, CreatedAt: 1}
		open := workspaces.Workspace{ID: id.New("ws"), TeamID: team.ID, ProjectID: p.ID, Name: "open", CreatedBy: user.ID, CreatedAt: 1}
		private := open
		private.ID, private.Name, private.Private = id.New("ws"), "private", true
		if err := kept.InsertProject(ctx, p); err != nil {
			t.Fatal(err)
		}
		for _, w := range []workspaces.Workspace{open, private} {
			if _, err := kept.InsertWorkspace(ctx, w); err != nil {
				t.Fatal(err)
			}
		}
		save := func(w workspaces.Workspace, name string, at int64) artifacts.Artifact {
			t.Helper()
			a := artifacts.Artifact{ID: id.New("art"), TeamID: team.ID, ProjectID: p.ID, WorkspaceID: w.ID, CreatedBy: user.ID, Name: name, Size: 10, CreatedAt: at, Source: "s", SourceAt: 5, Metadata: map[string]string{"k": "ä"}}
			if err := rows.BeginArtifact(ctx, a, func(artifacts.Use) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if got, err := rows.PendingArtifact(ctx, w.ID, "s", 10, 5); err != nil || got.ID != a.ID {
				t.Fatalf("pending: %+v, %v", got, err)
			}
			a.SHA256, a.MIME = "aa", "text/plain"
			done, err := rows.FinishArtifact(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			if err := rows.ForgetArtifact(ctx, a.ID); !fault.Is(err, fault.NotFound) {
				t.Fatalf("a ready one was forgotten: %v", err)
			}
			return done
		}
		first, second, hidden := save(open, "a", 1), save(open, "a", 2), save(private, "a", 3)
		if first.Version != 1 || second.Version != 2 || second.Versions != 2 || hidden.Version != 1 || !hidden.Private || second.Metadata["k"] != "ä" {
			t.Errorf("%+v\n%+v\n%+v", first, second, hidden)
		}
		if u, err := rows.ArtifactUse(ctx, team.ID); err != nil || u.Bytes != 30 || u.Count != 3 {
			t.Errorf("%+v, %v", u, err)
		}
		full := fault.New(fault.Quota, "artifact_quota", "full")
		a := first
		a.ID = id.New("art")
		if err := rows.BeginArtifact(ctx, a, func(u artifacts.Use) error {
			if u.Bytes != 30 || u.InWorkspace != 2 {
				t.Errorf("%+v", u)
			}
			return full
		}); !errors.Is(err, full) {
			t.Errorf("over the limit: %v", err)
		}
		list := func(f artifacts.Filter, want ...string) {
			t.Helper()
			var got []string
			for pg := (page.Page{Limit: 1}); ; {
				items, next, err := rows.Artifacts(ctx, f, pg)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range items {
					got = append(got, a.ID)
				}
				if pg.Cursor = next; next == "" {
					break
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%+v: %v, want %v", f, got, want)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%+v: %v, want %v", f, got, want)
				}
			}
		}
		list(artifacts.Filter{WorkspaceID: open.ID}, second.ID)
		list(artifacts.Filter{WorkspaceID: open.ID, Name: "a"}, second.ID, first.ID)
		list(artifacts.Filter{ProjectID: p.ID}, second.ID)
		list(artifacts.Filter{ProjectID: p.ID, SeenFrom: private.ID}, hidden.ID, second.ID)
		list(artifacts.Filter{ProjectID: p.ID, SeenBy: user.ID}, hidden.ID, second.ID)

		// Another team sees and changes nothing.
		foreign := tenant.In(t.Context(), other.ID)
		if _, err := rows.Artifact(foreign, first.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team reads: %v", err)
		}
		if err := rows.DeleteArtifact(foreign, first.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team deletes: %v", err)
		}

		for _, s := range []artifacts.Source{{Path: ":a", Size: 1, Mtime: 1}, {Path: ":a", Size: 2, Mtime: 3}} {
			if err := rows.NoteArtifactSource(ctx, team.ID, open.ID, s); err != nil {
				t.Fatal(err)
			}
		}
		if known, err := rows.ArtifactSources(ctx, open.ID); err != nil || len(known) != 1 || known[":a"].Mtime != 3 {
			t.Errorf("%+v, %v", known, err)
		}

		l := artifacts.Link{ID: id.New("aln"), TeamID: team.ID, ArtifactID: first.ID, CreatedBy: user.ID, CreatedAt: 1, ExpiresAt: 100}
		if err := rows.InsertArtifactLink(ctx, l, "hash", 1); err != nil {
			t.Fatal(err)
		}
		more := l
		more.ID = id.New("aln")
		if err := rows.InsertArtifactLink(ctx, more, "hash2", 1); fault.CodeOf(err) != "too_many_links" {
			t.Errorf("one too many: %v", err)
		}
		if got, err := rows.ArtifactLinkByHash(ctx, "hash"); err != nil || got != l {
			t.Errorf("%+v, %v", got, err)
		}
		if err := errors.Join(rows.UseArtifactLink(ctx, l.ID, 9), rows.RevokeArtifactLink(ctx, l.ID, 10)); err != nil {
			t.Fatal(err)
		}
		if links, err := rows.ArtifactLinks(ctx, first.ID, 50); err != nil || len(links) != 0 {
			t.Errorf("%+v, %v", links, err)
		}
		if err := rows.DeleteArtifact(ctx, first.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := rows.ArtifactLink(ctx, l.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("the link of a deleted artifact: %v", err)
		}
		if n, err := rows.ExpireArtifacts(ctx, 3); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		left, err := rows.UnfinishedArtifacts(ctx, 100, 10)
		if err != nil || len(left) != 2 || left[0].State != artifacts.Deleting {
			t.Errorf("%+v, %v", left, err)
		}
		list(artifacts.Filter{WorkspaceID: open.ID})
	})
}
