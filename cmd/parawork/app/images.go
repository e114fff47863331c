package app

import (
	"context"
	"io"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/network"
)

// image says what a sandbox's container is made from.
func (s *sandboxes) image(ctx context.Context, c executors.Capabilities, spec *executors.Spec) (err error) {
	if e, ok := s.executors.OwnOf(c.Kind); ok && engineOf(e) != nil {
		var m images.Made
		m, err = s.images.ForWorkspace(ctx, spec.WorkspaceID)
		spec.Image, spec.ImageID, spec.ImageFor = m.Name, m.ID, m.ProjectID
	}
	return err
}

// engineOf is the engine that has the images an executor makes sandboxes from; nil where it makes them otherwise.
func engineOf(e executors.Executor) executors.ImageEngine {
	if i, ok := e.(executors.Imager); ok {
		return i.Images()
	}
	return nil
}

// imageBuilder shows the images' room the engine in the shape it needs.
type imageBuilder struct {
	engine  executors.ImageEngine
	fenced  string // a network the operator has made for builds; "" = none
	network *network.Service
	gate    *gate.Gate
}

func (b imageBuilder) Build(ctx context.Context, o images.Order, log io.Writer) error {
	spec := executors.ImageBuild{Tag: o.Tag, Dockerfile: o.Dockerfile, Target: o.Target, Args: o.Args, Project: o.ProjectID,
		Network: b.fenced, NoCache: o.NoCache, Bounded: true, Context: o.Context}
	if spec.Network == "" { // nothing the operator has fenced: what the project's sandboxes reach
		n, err := b.network.Project(ctx, o.TeamID, o.ProjectID)
		if err != nil {
			return err
		}
		if spec.Network = "none"; n.Mode != executors.NetworkNone {
			if spec.Gate, err = b.gate.Open(ctx, executors.Ticket{SandboxID: o.BuildID, TeamID: o.TeamID, Network: n}); err != nil {
				return err
			}
			defer b.gate.Close(o.BuildID)
		}
	}
	return b.engine.Build(ctx, spec, log)
}

func (b imageBuilder) Image(ctx context.Context, name string) (images.Image, error) {
	img, err := b.engine.Image(ctx, name)
	return images.Image(img), err
}

func (b imageBuilder) Public(ctx context.Context, digest string) (bool, error) {
	return b.engine.Public(ctx, digest)
}

func (b imageBuilder) Pull(ctx context.Context, name string, log io.Writer) error {
	return b.engine.Pull(ctx, name, log)
}

func (b imageBuilder) Remove(ctx context.Context, tag string) error { return b.engine.Remove(ctx, tag) }
