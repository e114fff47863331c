package images_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// Registries inside are refused, whatever port is named; one that an operator allows, and a name nobody knows, are the engine's business.
func TestRegistriesInsideAreRefused(t *testing.T) {
	t.Parallel()
	known := map[string]string{"public.example": "203.0.113.7", "inside.example": "10.0.0.5", "allowed.example": "10.1.0.5"}
	guard := &egress.Guard{Allow: []egress.Exception{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}, {Prefix: netip.MustParsePrefix("203.0.113.0/24")}}}
	reach := images.PublicRegistries(guard, func(_ context.Context, host string) ([]netip.Addr, error) {
		if at, ok := known[host]; ok {
			return []netip.Addr{netip.MustParseAddr(at)}, nil
		}
		return nil, errors.New("no such host")
	})
	for registry, code := range map[string]string{"": "", "public.example": "", "public.example:5000": "", "allowed.example": "", "unknown.example": "",
		"inside.example": "registry_not_allowed", "inside.example:5000": "registry_not_allowed"} {
		if err := reach(t.Context(), registry); fault.CodeOf(err) != code {
			t.Errorf("%q: %v", registry, err)
		}
	}
}
