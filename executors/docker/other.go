//go:build !linux && !darwin

package docker

import (
	"context"
	"errors"
	"io"

	"github.com/parawork/parawork/executors"
)

// Executor exists on this system only to report that it cannot work: containers need a Linux engine on the server's machine.
type Executor struct{}

var errSystem = errors.New("containers need Linux")

// Builder builds no images here.
type Builder struct{}

// NewBuilder returns an error: images cannot be built on this system.
func NewBuilder(string) (*Builder, error) { return nil, errSystem }

// PrepareImage does nothing.
func (*Executor) PrepareImage(context.Context) error { return nil }

// Images returns nil: there is no engine.
func (*Executor) Images() executors.ImageEngine { return nil }

// Build fails.
func (*Builder) Build(context.Context, executors.ImageBuild, io.Writer) error { return errSystem }

// Remove does nothing.
func (*Builder) Remove(context.Context, string) error { return nil }

// Image fails.
func (*Builder) Image(context.Context, string) (executors.Image, error) {
	return executors.Image{}, errSystem
}

// Public fails.
func (*Builder) Public(context.Context, string) (bool, error) { return false, errSystem }

// Pull fails.
func (*Builder) Pull(context.Context, string, io.Writer) error { return errSystem }

// Close does nothing.
func (*Builder) Close() error { return nil }

// New makes an Executor that is not available.
func New(cfg Config) (*Executor, error) { return &Executor{}, cfg.Validate() }

// Kind is docker.
func (*Executor) Kind() executors.Kind { return Kind }

// Close does nothing.
func (*Executor) Close() error { return nil }

// Capabilities says that containers are not available on this system.
func (*Executor) Capabilities(context.Context) (executors.Capabilities, error) {
	return executors.Capabilities{Kind: Kind, Name: "Docker", Reason: "it needs Linux", Isolated: true, Boundary: executors.ContainerBoundary,
		Cure:      "Run the server on Linux, or choose another place.",
		Isolation: "Container: its own processes, file system and network, on this server's kernel"}, nil
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

// TrustedHere finds no certificates.
func TrustedHere() ([]byte, error) { return nil, nil }
