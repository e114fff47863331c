package artifacts_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools/artifacts"
)

// People attach artifacts of their own workspace only, and only those who may share make links. A refusal leaves no link behind.
func TestChoose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := tenant.In(t.Context(), w.w.TeamID)
	a, err := w.Upload(ctx, w.maker(), artifacts.SaveRequest{Name: "a"}, strings.NewReader("a"), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Upload(ctx, w.maker(), artifacts.SaveRequest{Name: "b"}, strings.NewReader("b"), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	owner, both := w.actor(accounts.Owner), []artifacts.Choice{{ID: b.ID}, {ID: a.ID, LinkMinutes: 60}}
	chosen, err := w.Choose(ctx, owner, w.w.ID, "Pull request", both)
	if err != nil || len(chosen) != 2 || chosen[0].ID != b.ID || chosen[0].Token != "" || chosen[1].Token == "" {
		t.Fatalf("%+v, %v", chosen, err)
	}
	if got, _, err := w.Shared(t.Context(), chosen[1].Token); err != nil || got.ID != a.ID {
		t.Errorf("%+v, %v", got, err)
	}
	if err := w.RevokeChosen(ctx, owner, chosen); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"another workspace's": func() error { _, err := w.Choose(ctx, owner, "ws_other", "", both); return err },
		"another team's": func() error {
			_, err := w.Choose(tenant.In(t.Context(), "team_other"), owner, w.w.ID, "", both)
			return err
		},
		"one that is missing": func() error {
			_, err := w.Choose(ctx, owner, w.w.ID, "", append(both, artifacts.Choice{ID: "art_none"}))
			return err
		},
		"one twice": func() error { _, err := w.Choose(ctx, owner, w.w.ID, "", append(both, both[0])); return err },
	} {
		if err := try(); fault.CodeOf(err) != "artifact_not_found" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Choose(ctx, w.actor(accounts.Viewer), w.w.ID, "", both); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a link of a viewer: %v", err)
	}
	if _, err := w.Choose(ctx, owner, w.w.ID, "", []artifacts.Choice{{ID: a.ID, LinkMinutes: 60}, {ID: b.ID, LinkMinutes: 1}}); fault.CodeOf(err) != "invalid_minutes" {
		t.Errorf("a link that is too short: %v", err)
	}
	if _, err := w.Choose(ctx, owner, w.w.ID, "", make([]artifacts.Choice, artifacts.MaxChosen+1)); fault.CodeOf(err) != "too_many_artifacts" {
		t.Errorf("too many: %v", err)
	}
	if links, err := w.Links(ctx, a.ID); err != nil || len(links) != 0 {
		t.Errorf("links that remain: %+v, %v", links, err)
	}
}
