package agents

import (
	"context"
	"os"
	"slices"

	"github.com/parawork/parawork/executors"
)

// Outfit shows places that use programs of this machine those of the agents.
func (r *Registry) Outfit(_ context.Context, c executors.Capabilities, s *executors.Spec) error {
	if !c.Host || s.MountSpec == nil {
		return nil
	}
	box := *s.MountSpec
	box.Mounts = slices.Clone(box.Mounts)
	for _, t := range r.Shown() {
		if _, err := os.Lstat(t.Source); err == nil { // else it was removed just now
			box.Mounts = append(box.Mounts, executors.Mount{Source: t.Source, Target: t.Target, ReadOnly: true})
		}
	}
	s.MountSpec = &box
	return nil
}
