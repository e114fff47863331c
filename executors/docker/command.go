package docker

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
)

const buildUsage = `usage: parawork docker build [--config FILE] [--tag NAME] [--base IMAGE] [--with LIST] [--no-cache] [--pull]

Builds the image that workspaces' containers are made from: git, the usual tools, Node, Python and the agents' command lines.
` + "`parawork image`" + ` prints its Dockerfile.

  --tag NAME     name of the image (default: sandboxing.docker.image)
  --base IMAGE   what it is built upon: Debian with Node (default: ` + recipe.BaseImage + `)
  --with LIST    parts for tools: ` + "`parawork image --help`" + ` lists them
  --no-cache     do every step again
  --pull         ask for a newer version of what it is built upon
`

// buildVerb is the command parawork docker build.
var buildVerb = executors.Verb{Name: "build", Flags: "[--tag NAME] [--base IMAGE] [--with LIST] [--no-cache] [--pull], --config FILE", Usage: buildUsage, Run: buildImage}

func buildImage(ctx context.Context, c executors.CommandLine) error {
	fs := flag.NewFlagSet("docker build", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), buildUsage) }
	file := fs.String("config", "", "config.json")
	tag := fs.String("tag", "", "name of the image")
	with := fs.String("with", "", "parts for tools")
	base := fs.String("base", "", "what it is built upon")
	fresh := fs.Bool("no-cache", false, "do every step again")
	pull := fs.Bool("pull", false, "ask for a newer version of what it is built upon")
	if err := c.Parse(fs, c.Args); err != nil {
		return err
	}
	sets, err := recipe.SplitSets(*with)
	if err != nil {
		return err
	}
	v, _, err := c.Config(*file)
	if err != nil {
		return err
	}
	if *tag == "" {
		*tag = v.Text("image")
	}
	b, err := NewBuilder(v.Text("host"))
	if err != nil {
		return err
	}
	defer b.Close()
	files, err := AgentContext(recipe.Image{Agents: c.Agents, With: sets})
	if err != nil {
		return err
	}
	spec := executors.ImageBuild{Tag: *tag, Dockerfile: "Dockerfile", NoCache: *fresh, Pull: *pull, Progress: true, Context: files}
	if *base != "" {
		spec.Args = map[string]string{recipe.BaseArg: *base}
	}
	if err := b.Build(ctx, spec, c.Output); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted: no image was built")
		}
		return err
	}
	fmt.Fprintf(c.Output, "\nThe image %s is ready.\n", *tag)
	if *tag != v.Text("image") {
		fmt.Fprintf(c.Output, "Set sandboxing.docker.image to %q to have containers made from it.\n", *tag)
	}
	return nil
}
