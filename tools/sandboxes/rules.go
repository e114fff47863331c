package sandboxes

import (
	"context"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/fault"
)

// Rules say where sandboxes run, what they are made from and what they reach.
type Rules interface {
	// Executor returns the executor of a user's new sandbox: the one asked for, or the team's default.
	Executor(ctx context.Context, teamID, userID string, asked executors.Kind) (Executor, error)
	// Image checks that the project's sandboxes may be made from the image of this name.
	Image(ctx context.Context, projectID, name string) (images.Choice, error)
	// Network checks that a policy takes away from what the project's sandboxes reach. Open becomes the zero Policy.
	Network(ctx context.Context, teamID, projectID string, p network.Policy) (network.Policy, error)
}

// Executor is what a sandbox needs to know of the executor that makes it.
type Executor struct {
	Kind    executors.Kind
	Images  bool // it makes sandboxes from images that are named
	Network bool // it enforces what they reach
}

// NewRules returns the rules of the instance, which are those of workspaces and projects.
func NewRules(c *choice.Chooser, all *executors.Registry, i *images.Service, n *network.Service) Rules {
	return rules{c, all, i, n}
}

type rules struct {
	choice    *choice.Chooser
	executors *executors.Registry
	images    *images.Service
	network   *network.Service
}

func (r rules) Executor(ctx context.Context, teamID, userID string, asked executors.Kind) (Executor, error) {
	kind, err := r.choice.Choose(executors.As(ctx, "", userID), teamID, asked)
	if err != nil {
		return Executor{}, err
	}
	out := Executor{Kind: kind}
	if c, ok := r.choice.Place(ctx, kind); ok {
		out.Network = c.Isolated && c.Network
	}
	if e, ok := r.executors.OwnOf(kind); ok {
		i, is := e.(executors.Imager)
		out.Images = is && i.Images() != nil
	}
	return out, nil
}

func (r rules) Image(ctx context.Context, projectID, name string) (images.Choice, error) {
	return r.images.Check(ctx, projectID, name)
}

func (r rules) Network(ctx context.Context, teamID, projectID string, p network.Policy) (network.Policy, error) {
	return r.network.Narrow(ctx, teamID, projectID, p)
}

// plan is what a request asks for, checked as far as a sandbox that is there already needs it.
type plan struct {
	Request
	projectID string // of sandboxes; "" = not needed
	network   network.Policy
}

// plan checks the network that a request asks for.
func (s *Service) plan(ctx context.Context, teamID, userID string, r Request) (plan, error) {
	p := plan{Request: r}
	if r.Image == "" && r.Network == nil {
		return p, nil
	}
	project, err := s.cfg.Workspaces.Sandboxes(ctx, teamID, userID)
	if err != nil {
		return p, err
	}
	p.projectID = project.ID
	if r.Network != nil {
		p.network, err = s.cfg.Rules.Network(ctx, teamID, project.ID, *r.Network)
	}
	return p, err
}

// differs returns what a sandbox has otherwise than a request asks for, "" for nothing.
func (p plan) differs(sb Sandbox) string {
	switch {
	case p.Image != "" && p.Image != sb.Image.Name:
		return "image"
	case p.Network != nil && (p.network.Mode != sb.Network.Mode || !slices.Equal(p.network.Allow, sb.Network.Allow)):
		return "network"
	}
	return ""
}

// furnish gives a new sandbox the image and the network that its request asks for, and the executor that can.
func (s *Service) furnish(ctx context.Context, sb *Sandbox, p plan) error {
	if p.Image == "" && p.network.Mode == "" {
		return nil
	}
	e, err := s.cfg.Rules.Executor(ctx, sb.TeamID, sb.UserID, p.Executor)
	switch {
	case err != nil:
		return err
	case p.Image != "" && !e.Images:
		return fault.New(fault.Unsupported, "sandbox_image_unsupported", "The executor %q does not make sandboxes from images. Name one that does, such as docker, or leave out image.", e.Kind).With("field", "image")
	case p.network.Mode != "" && !e.Network:
		return fault.New(fault.Unsupported, "sandbox_network_unsupported", "The executor %q does not keep its sandboxes from the network. Name one that isolates them, or leave out network.", e.Kind).With("field", "network")
	}
	sb.Executor, sb.Network = string(e.Kind), p.network
	if p.Image != "" {
		sb.Image, err = s.cfg.Rules.Image(ctx, p.projectID, p.Image)
	}
	return err
}

func errDiffers(sb Sandbox, field string) error {
	return fault.New(fault.Conflict, "sandbox_differs", "Your sandbox with this key has another %s. Leave out %s, use another key, or set replace to end it and make a new one.", field, field).
		With("field", field).With("sandbox_id", sb.ID)
}
