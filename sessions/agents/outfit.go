package agents

import (
	"context"
	"os"
	"slices"

	"github.com/parawork/parawork/executors"
)

// Outfit mounts the agents' programs into sandboxes that use programs of this server.
func (r *Registry) Outfit(_ context.Context, c executors.Capabilities, s *executors.Spec) error {
	if !c.Host || s.MountSpec == nil {
		return nil
	}
	box := *s.MountSpec
	box.Mounts = slices.Clone(box.Mounts)
	for _, t := range r.Shown() {
		if _, err := os.Lstat(t.Source); err == nil { // otherwise it was just removed
			box.Mounts = append(box.Mounts, executors.Mount{Source: t.Source, Target: t.Target, ReadOnly: true})
		}
	}
	s.MountSpec = &box
	return nil
}
