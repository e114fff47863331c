package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/store"
)

// buildImages joins projects' images and what makes them.
func (h *house) buildImages() {
	cfg := images.Config{Store: store.NewImages(h.db), Repositories: h.workspaces, Allowed: h.cfg.Sandboxing.Docker.ProjectImages, Default: h.cfg.Sandboxing.Docker.Image,
		HostImages: h.cfg.Sandboxing.Docker.HostImages, Teams: h.directory.CountTeams, Reach: images.PublicRegistries(&egress.Guard{Allow: exceptions(h.cfg.Outgoing)}, nil), Events: h.publisher,
		Log: h.log.With("room", "images")}
	if h.docker != nil {
		if b := h.docker.Builder(); b != nil {
			cfg.Builder = imageBuilder{b, h}
		}
	}
	h.images = images.New(cfg)
}

// image says what a sandbox's container is made from.
func (h *house) image(ctx context.Context, c executors.Capabilities, s *executors.Spec) (err error) {
	if c.Kind == docker.Kind {
		var m images.Made
		m, err = h.images.ForWorkspace(ctx, s.WorkspaceID)
		s.Image, s.ImageID, s.ImageFor = m.Name, m.ID, m.ProjectID
	}
	return err
}

// imageBuilder shows the images' room the engine in the shape it needs.
type imageBuilder struct {
	engine *docker.Builder
	h      *house
}

func (b imageBuilder) Build(ctx context.Context, o images.Order, log io.Writer) error {
	spec := docker.BuildSpec{Tag: o.Tag, Dockerfile: o.Dockerfile, Target: o.Target, Args: o.Args, Project: o.ProjectID,
		Network: b.h.cfg.Sandboxing.Docker.BuildNetwork, NoCache: o.NoCache, Bounded: true, Context: o.Context}
	if spec.Network == "" { // nothing the operator has fenced: what the project's sandboxes reach
		n, err := b.h.network.Project(ctx, o.TeamID, o.ProjectID)
		if err != nil {
			return err
		}
		if spec.Network = "none"; n.Mode != executors.NetworkNone {
			if spec.Gate, err = b.h.gate.Open(ctx, executors.Ticket{SandboxID: o.BuildID, TeamID: o.TeamID, Network: n}); err != nil {
				return err
			}
			defer b.h.gate.Close(o.BuildID)
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

const dockerUsage = `usage: parawork docker build [--config FILE] [--tag NAME] [--base IMAGE] [--no-cache] [--pull] [--print]

Builds the image that workspaces' containers are made from: git, the usual tools, Node and the agents' command lines.

  --tag NAME     name of the image (default: sandboxing.docker.image)
  --base IMAGE   what it is built upon: Debian with Node (default: node:22-bookworm-slim)
  --no-cache     do every step again
  --pull         ask for a newer version of what it is built upon
  --print        print the Dockerfile, to derive one of your own from, and build nothing
`

// docker is the command `parawork docker`.
func (p program) docker(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] != "build" {
		fmt.Fprint(p.stderr, dockerUsage)
		return errUsage
	}
	fs := flag.NewFlagSet("docker build", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(p.stderr, dockerUsage) }
	file := fs.String("config", "", "config.json")
	tag := fs.String("tag", "", "name of the image")
	base := fs.String("base", "", "what it is built upon")
	fresh := fs.Bool("no-cache", false, "do every step again")
	pull := fs.Bool("pull", false, "ask for a newer version of what it is built upon")
	show := fs.Bool("print", false, "print the Dockerfile and build nothing")
	if err := p.parse(fs, args[1:]); err != nil {
		return err
	}
	if *show {
		_, err := io.WriteString(p.stdout, docker.AgentDockerfile)
		return err
	}
	cfg, err := config.Load(*file, p.env)
	if err != nil {
		return err
	}
	if *tag == "" {
		*tag = cfg.Sandboxing.Docker.Image
	}
	b, err := docker.NewBuilder(cfg.Sandboxing.Docker.Host)
	if err != nil {
		return err
	}
	defer b.Close()
	files, err := docker.AgentContext()
	if err != nil {
		return err
	}
	spec := docker.BuildSpec{Tag: *tag, Dockerfile: "Dockerfile", NoCache: *fresh, Pull: *pull, Progress: true, Context: files}
	if *base != "" {
		spec.Args = map[string]string{"NODE_IMAGE": *base}
	}
	if err := b.Build(ctx, spec, p.stdout); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted: no image was built")
		}
		return err
	}
	fmt.Fprintf(p.stdout, "\nThe image %s is ready.\n", *tag)
	if *tag != cfg.Sandboxing.Docker.Image {
		fmt.Fprintf(p.stdout, "Set sandboxing.docker.image to %q to have containers made from it.\n", *tag)
	}
	return nil
}
