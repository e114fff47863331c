package choice

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Fit chooses a sandbox's size in an executor that has sizes: the smallest available one that covers the limits, or the default where they
// say nothing.
func Fit(c executors.Capabilities, l executors.Limits) (executors.Size, error) {
	if len(c.Sizes) == 0 {
		return executors.Size{}, nil
	}
	wish := l.CPUs > 0 || l.MemoryMB > 0
	var missed, refused *executors.Size // large enough, but not available, or not to the asking user
	for i, s := range c.Sizes {
		if wish && (float64(s.CPUs) < l.CPUs || s.MemoryMB < l.MemoryMB) || !wish && !s.Default {
			continue
		}
		if s.Refused != nil {
			if refused == nil {
				refused = &c.Sizes[i]
			}
			continue
		}
		if s.Available {
			return s, nil
		}
		if missed == nil {
			missed = &c.Sizes[i]
		}
	}
	if missed != nil {
		return executors.Size{}, fault.New(fault.Unavailable, "size_unavailable", "%s cannot make a sandbox with %s now: %s. %s", c.Name, missed.Words(),
			strings.TrimSuffix(missed.Reason, "."), missed.Cure).With("field", "resources").With("sizes", sizeList(c))
	}
	if refused != nil {
		return executors.Size{}, refused.Refused.With("field", "resources").With("sizes", sizeList(c))
	}
	return executors.Size{}, noSuchSize(c)
}

// ForWhom marks the sizes of an executor that a user of a team may not have.
func (ch *Chooser) ForWhom(ctx context.Context, teamID, userID string, c executors.Capabilities) (executors.Capabilities, error) {
	if ch.cfg.Sizes == nil || len(c.Sizes) == 0 {
		return c, nil
	}
	var err error
	if c.Sizes, err = ch.cfg.Sizes(ctx, teamID, userID, c); err != nil {
		return c, fmt.Errorf("reading which sizes are allowed in %s: %w", c.Kind, err)
	}
	return c, nil
}

// CheckSize refuses a workspace's requested size when the executor has no such size, or the asking user may not have it. It compares only
// CPUs and memory.
func (ch *Chooser) CheckSize(ctx context.Context, teamID string, k executors.Kind, l executors.Limits) error {
	e, ok := ch.cfg.Executors.Find(ctx, k)
	if !ok || l.CPUs == 0 && l.MemoryMB == 0 {
		return nil
	}
	c, err := ch.ForWhom(ctx, teamID, executors.AsOf(ctx).UserID, ch.CapabilitiesOf(ctx, e))
	if err != nil {
		return err
	}
	if len(c.Sizes) == 0 {
		return nil
	}
	for _, s := range c.Sizes {
		if (l.CPUs == 0 || float64(s.CPUs) == l.CPUs) && (l.MemoryMB == 0 || s.MemoryMB == l.MemoryMB) {
			_, err := Fit(executors.Capabilities{Name: c.Name, Sizes: []executors.Size{s}}, l)
			return err
		}
	}
	return noSuchSize(c)
}

func noSuchSize(c executors.Capabilities) error {
	var all []string
	for _, s := range c.Sizes {
		all = append(all, s.Words())
	}
	return fault.New(fault.Invalid, "size_unknown", "%s has no sandboxes of this size. There are: %s.", c.Name, strings.Join(all, "; ")).
		With("field", "resources").With("sizes", sizeList(c))
}

func sizeList(c executors.Capabilities) []map[string]any {
	out := []map[string]any{}
	for _, s := range c.Sizes {
		out = append(out, map[string]any{"cpus": s.CPUs, "memory_mb": s.MemoryMB, "available": s.Available})
	}
	return out
}
