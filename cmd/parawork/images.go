package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/sessions/agents"
)

const dockerUsage = `usage: parawork docker build [--config FILE] [--tag NAME] [--base IMAGE] [--no-cache] [--pull] [--print]

Builds the image that workspaces' containers are made from: git, the usual tools, Node and the agents' command lines.

  --tag NAME     name of the image (default: sandboxing.docker.image)
  --base IMAGE   what it is built upon: Debian with Node (default: ` + recipe.BaseImage + `)
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
		_, err := io.WriteString(p.stdout, recipe.Dockerfile(agents.Packages()))
		return err
	}
	cfg, err := fromconfig.Load(*file, p.env)
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
	files, err := docker.AgentContext(agents.Packages())
	if err != nil {
		return err
	}
	spec := docker.BuildSpec{Tag: *tag, Dockerfile: "Dockerfile", NoCache: *fresh, Pull: *pull, Progress: true, Context: files}
	if *base != "" {
		spec.Args = map[string]string{recipe.BaseArg: *base}
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
