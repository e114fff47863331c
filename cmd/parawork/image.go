package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/sessions/agents"
)

const imageUsage = `usage: parawork image [--with LIST] [--host]

Prints the Dockerfile of the image that sandboxes are made from: Debian with git, ripgrep, Node, Python, the usual tools and the agents'
command lines, and the parts that you name. "parawork docker build" builds it, "parawork e2b template build" makes a template of it;
both take --with as well.

  --with LIST  parts for tools, separated by commas
%s  --host       print instead the command that installs what tools need on this machine (Debian or Ubuntu), for places that run its
               programs: local and bubblewrap. "parawork doctor" says what is missing
`

// image prints what is in images, as a Dockerfile or as a command for this machine.
func (p program) image(args []string) error {
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.Usage = func() {
		var sets strings.Builder
		for _, s := range recipe.Sets() {
			fmt.Fprintf(&sets, "                 %-8s %s (about %d MB)\n", s.Name, s.Title, s.SizeMB)
		}
		fmt.Fprintf(fs.Output(), imageUsage, sets.String())
	}
	with := fs.String("with", "", "parts for tools")
	host := fs.Bool("host", false, "print the command that installs them on this machine")
	if err := p.parse(fs, args); err != nil {
		return err
	}
	sets, err := recipe.SplitSets(*with)
	if err != nil {
		return err
	}
	text := recipe.Image{Agents: agents.Packages(), With: sets}.Dockerfile()
	if *host {
		text = recipe.Install(recipe.PartsOf(sets)) + "\n"
	}
	_, err = fmt.Fprint(p.stdout, text)
	return err
}
