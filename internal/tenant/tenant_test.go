package tenant_test

import (
	"context"
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/tenant"
)

func TestWorkThatSaysNothingHasNoScope(t *testing.T) {
	t.Parallel()
	if _, ok := tenant.Of(context.Background()); ok {
		t.Error("a bare context has a scope")
	}
	teams := []string{"team_1", "team_2"}
	ctx := tenant.In(t.Context(), teams...)
	teams[0] = "team_3"
	s, ok := tenant.Of(ctx)
	if !ok || s.All() || !slices.Equal(s.Teams(), []string{"team_1", "team_2"}) {
		t.Errorf("scope %v %v", s, ok)
	}
	if s, _ = tenant.Of(tenant.In(ctx)); s.All() || len(s.Teams()) != 0 {
		t.Errorf("a scope of no team: %v", s)
	}
	if s, _ = tenant.Of(tenant.All(ctx, "a test")); !s.All() {
		t.Error("All is not all")
	}
}
