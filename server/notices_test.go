package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/inbox"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/noticestore"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/reviews"
)

type noLimits struct{}

func (noLimits) Graces(string) []quota.WorkGrace                        { return nil }
func (noLimits) News(context.Context, string) ([]quota.Crossing, error) { return nil, nil }
func (noLimits) Notifies(string) quota.Notify                           { return quota.Notify{} }

// Owners are notified of checks that failed on their work, of others' reviews of it, and of their machines that went offline.
func TestWhatHappensToOnesWork(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	ctx := tenant.All(t.Context(), "a test")
	now := time.Now().UnixMilli()
	people, err := h.cfg.Directory.Members(ctx, p.team.ID)
	if err != nil {
		t.Fatal(err)
	}
	member := people[slices.IndexFunc(people, func(m accounts.TeamMember) bool { return m.User.Name == "member" })].User.ID
	ws, err := h.cfg.Workspaces.Records.Workspace(ctx, p.ids["workspace"])
	if err != nil {
		t.Fatal(err)
	}
	run := func(id, batch, name string, required bool, state checks.RunState, queue string) checks.Run {
		return checks.Run{ID: id, TeamID: ws.TeamID, WorkspaceID: ws.ID, ProjectID: ws.ProjectID, BatchID: batch, QueueID: queue, CheckID: id, Name: name, Required: required, State: state,
			StartedBy: member, CreatedAt: now, EndedAt: now}
	}
	if err := store.NewChecks(h.db).InsertCheckRuns(ctx, []checks.Run{run("cru_1", "bat_1", "lint", true, checks.RunFailed, ""), run("cru_2", "bat_2", "slow", false, checks.RunFailed, ""),
		run("cru_3", "bat_3", "test", true, checks.RunPassed, ""), run("cru_4", "bat_4", "test", true, checks.RunFailed, checks.Baseline)}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []reviews.Review{{ID: "rev_1", AuthorID: member, State: reviews.Sent, Verdict: reviews.Changes, SentAt: now}, {ID: "rev_2", AuthorID: ws.CreatedBy, State: reviews.Sent, Verdict: reviews.Comments, SentAt: now},
		{ID: "rev_3", AuthorID: member, State: reviews.Draft}} {
		r.TeamID, r.WorkspaceID, r.CreatedAt = ws.TeamID, ws.ID, now
		if _, err := store.NewReviews(h.db).OpenDraft(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	feed := inbox.New(inbox.Config{Sessions: h.cfg.Sessions, Limits: noLimits{}, Reviews: h.cfg.Reviews, Workspaces: h.cfg.Workspaces, Directory: h.cfg.Directory, Happened: noticestore.New(h.db), Now: func() int64 { return now },
		Machines: func(context.Context, string) []machines.Machine {
			return []machines.Machine{{ID: "rnr_1", UserID: member, Name: "studio", OfflineAt: now, OfflineReason: "The connection was lost."}, {ID: "rnr_2", UserID: member, OfflineAt: now, OfflineReason: "The server is restarting."},
				{ID: "rnr_3", UserID: member, OfflineAt: now - 2*time.Hour.Milliseconds()}, {ID: "rnr_4", UserID: member, Online: true}}
		}})
	got := func() (texts []string, owners [][]string) {
		t.Helper()
		all, err := feed.Items(ctx, ws.TeamID)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range all {
			if it.Kind == notify.Checks || it.Kind == notify.Comment || it.Kind == notify.Machine {
				texts, owners = append(texts, it.Sentence()), append(owners, it.Owners)
			}
		}
		return texts, owners
	}
	texts, owners := got()
	if want := []string{"studio is offline. The connection was lost.", `The check "lint" failed.`, "member asks for changes."}; !slices.Equal(texts, want) {
		t.Fatalf("%q, want %q", texts, want)
	}
	for i, want := range [][]string{{member}, {ws.CreatedBy, member}, {ws.CreatedBy}} {
		if !slices.Equal(owners[i], want) {
			t.Errorf("%q is for %v, want %v", texts[i], owners[i], want)
		}
	}
}
