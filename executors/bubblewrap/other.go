//go:build !linux || !(amd64 || arm64)

package bubblewrap

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
)

// Executor exists on this system only to report that it cannot work.
type Executor struct{ cfg Config }

var errSystem = errors.New("process sandboxes need Linux on amd64 or arm64")

// New makes an Executor that is not available.
func New(cfg Config) (*Executor, error) { return &Executor{cfg: cfg}, cfg.Validate() }

// Kind is bubblewrap.
func (*Executor) Kind() executors.Kind { return Kind }

// Capabilities says that process sandboxes are not available on this system.
func (e *Executor) Capabilities(context.Context) (executors.Capabilities, error) {
	c := e.cfg.words()
	c.Reason, c.Cure = "it needs Linux on amd64 or arm64", "Choose another executor."
	return c, nil
}

// Create fails.
func (*Executor) Create(context.Context, executors.Spec) (executors.Sandbox, error) {
	return nil, errSystem
}

// Recover finds nothing.
func (*Executor) Recover(context.Context, executors.Handle) (executors.Sandbox, error) {
	return nil, executors.ErrGone
}

// End does nothing.
func (*Executor) End(context.Context, string) error { return nil }

// List finds nothing.
func (*Executor) List(context.Context) ([]executors.Handle, error) { return nil, nil }
