package store_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// A list of workspaces that are named has those of the team alone, in brief too.
func TestNamedWorkspacesAreTheTeams(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		team, user, ws := sessionHarness(t, db)
		other, _, foreign := sessionHarness(t, db)
		st := store.NewWorkspaces(db)
		for _, c := range []struct {
			team string
			f    workspaces.Filter
			want []string
		}{
			{team, workspaces.Filter{IDs: []string{ws[1], foreign[0], "ws_none"}, For: user}, []string{ws[1]}},
			{team, workspaces.Filter{IDs: []string{ws[1]}, Brief: true}, []string{ws[1]}},
			{other, workspaces.Filter{IDs: []string{ws[1]}}, nil},
			{team, workspaces.Filter{IDs: []string{}}, nil},
		} {
			got, _, err := st.Workspaces(ctx, c.team, c.f, page.Page{})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, w := range got {
				ids = append(ids, w.ID)
			}
			if !slices.Equal(ids, c.want) {
				t.Errorf("%+v: %v, not %v", c.f, ids, c.want)
			}
		}
	})
}

// What is asked about workspaces that are named looks for these, never through the whole team; and a page of a team's workspaces comes in its
// order out of an index. A plan says so whatever there is in the tables: the bench's figures depend on the machine.
func TestListsReadWhatTheyShow(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	team, user, ws := sessionHarness(t, db)
	ctx := t.Context()
	shown := slices.Clone(ws[:]) // a page: SQLite may go through the rows in another way for few
	for len(shown) < page.MaxLimit {
		shown = append(shown, id.New("ws"))
	}
	var (
		all      = store.NewWorkspaces(db)
		sessions = store.NewSessions(db)
		through  = regexp.MustCompile(`^SCAN [a-z]\b( USING|$)|\(team_id=\?( AND (user_id|state)=\?)?\)`) // a table, or a team
		copies   = regexp.MustCompile(through.String() + `|^CO-ROUTINE`)                                  // or all columns of all sessions, to number them
		sorts    = regexp.MustCompile(`TEMP B-TREE`)
		fetches  = regexp.MustCompile(`^SEARCH [wxm] USING INDEX`) // a row beside an index's entry
	)
	list := func(f workspaces.Filter) func() error {
		return func() error { _, _, err := all.Workspaces(ctx, team, f, page.Page{}); return err }
	}
	for what, c := range map[string]struct {
		ask func() error
		bad *regexp.Regexp
	}{
		"a page":            {list(workspaces.Filter{For: user, Orphans: true}), sorts},
		"those that failed": {list(workspaces.Filter{For: user, State: workspaces.Failed, Brief: true}), sorts},
		"named workspaces":  {list(workspaces.Filter{For: user, IDs: shown, Brief: true}), through},
		"sessions":          {func() error { _, err := sessions.TeamSessions(ctx, team, shown...); return err }, copies},
		"sandboxes":         {func() error { _, err := store.NewExecutors(db).TeamSandboxes(ctx, team, shown...); return err }, through},
		"changes":           {func() error { _, err := store.NewChanges(db).ChangeSummaries(ctx, team, shown...); return err }, through},
		"pull requests":     {func() error { _, err := store.NewForge(db).PullRequests(ctx, team, shown...); return err }, through},
		"runs":              {func() error { _, err := store.NewRuns(db).RunsByWorkspace(ctx, team, shown...); return err }, through},
		"reviews":           {func() error { _, err := store.NewReviews(db).ReviewSummaries(ctx, team, user, shown...); return err }, through},
		"checks":            {func() error { _, err := store.NewChecks(db).LatestRuns(ctx, team, shown...); return err }, through},
		"files of checks":   {func() error { _, err := store.NewChecks(db).FilesNow(ctx, team, shown...); return err }, through},
		"overlaps":          {func() error { _, err := store.NewOverlaps(db).TeamOverlaps(ctx, team, shown...); return err }, through},
		"costs":             {func() error { _, err := store.NewBilling(db).Costs(ctx, shown); return err }, through},
		"marks":             {func() error { _, err := sessions.Marks(ctx, user, team, shown); return err }, through},
		"what asks":         {func() error { _, err := sessions.AttentionSessions(ctx, team, user); return err }, fetches},
	} {
		t.Run(what, func(t *testing.T) {
			plans, err := db.Plans(ctx, c.ask)
			if err != nil {
				t.Fatal(err)
			}
			if len(plans) == 0 {
				t.Fatal("nothing was asked")
			}
			for _, steps := range plans {
				for _, s := range steps {
					if c.bad.MatchString(s) {
						t.Errorf("%s\n\t%s", s, strings.Join(steps, "\n\t"))
					}
				}
			}
		})
	}
}
