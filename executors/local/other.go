//go:build !linux && !darwin

package local

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
)

// Executor exists on this system only to report that it cannot work.
type Executor struct{}

var errSystem = errors.New("local places need Linux or macOS")

// New makes an Executor that is not available.
func New(cfg Config) (*Executor, error) { return &Executor{}, cfg.Validate() }

// Kind is executors.Local.
func (*Executor) Kind() executors.Kind { return executors.Local }

// Capabilities says that the local executor is not available on this system.
func (*Executor) Capabilities(context.Context) (executors.Capabilities, error) {
	return executors.Capabilities{Kind: executors.Local, Name: "This server", Reason: "it needs Linux or macOS",
		Cure:      "Run the server on Linux or macOS, or choose another executor.",
		Isolation: "No isolation: agents run with the rights of the server's user"}, nil
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
