package e2b

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
)

const templateUsage = `usage: parawork e2b template build [--config FILE] [--size CPUSxMIB|all] [--name NAME] [--image IMAGE] [--with LIST] [--packages LIST] [--force]
       parawork e2b template list [--config FILE]

Makes the templates that workspaces' sandboxes at E2B are made from: git, the usual tools, Node, the agents' command lines and Parawork's
guest, on Debian. The key and addresses are those of config.json and the environment (E2B_API_KEY, E2B_DOMAIN, E2B_API_URL, E2B_SANDBOX_URL).

  --size SIZE      vCPUs and MiB, such as 4x4096, or all sizes that are offered (default: the default size)
  --name NAME      name of the template (default: sandboxing.e2b.template, with the size behind it where it is not the default one)
  --image IMAGE    what it is built upon: Debian with Node (default: ` + recipe.BaseImage + `)
  --with LIST      parts for tools: ` + "`parawork image --help`" + ` lists them
  --packages LIST  npm packages of other agents than the usual, such as @openai/codex@0.169.0, separated by commas; without a version the
                   newest (default: the agents Parawork knows, in the versions it was tried with)
  --force          do every step again
`

// The verbs of the command line.
var (
	buildVerb = executors.Verb{Name: "template build", Flags: "[--size CPUSxMIB|all] [--name NAME] [--image IMAGE] [--with LIST] [--packages LIST] [--force], --config FILE", Usage: templateUsage, Run: buildTemplates}
	listVerb  = executors.Verb{Name: "template list", Flags: "--config FILE", Usage: templateUsage, Run: listTemplates}
)

func flags(name string) (*flag.FlagSet, *string) {
	fs := flag.NewFlagSet("e2b template "+name, flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), templateUsage) }
	return fs, fs.String("config", "", "config.json")
}

func buildTemplates(ctx context.Context, c executors.CommandLine) error {
	fs, file := flags("build")
	size, name, image := fs.String("size", "", "vCPUs and MiB"), fs.String("name", "", "name of the template"), fs.String("image", "", "what it is built upon")
	with := fs.String("with", "", "parts for tools")
	packages, force := fs.String("packages", "", "npm packages of the agents"), fs.Bool("force", false, "do every step again")
	if err := c.Parse(fs, c.Args); err != nil {
		return err
	}
	parts, err := recipe.SplitSets(*with)
	if err != nil {
		return err
	}
	v, dataDir, err := c.Config(*file)
	if err != nil {
		return err
	}
	set := FromValues(v)
	full, err := set.Normal()
	if err != nil {
		return err
	}
	sizes, err := buildSizes(full, *size)
	if err != nil {
		return err
	}
	if *name != "" && len(sizes) > 1 {
		return errors.New("--name names one template: give one --size with it")
	}
	guest, err := c.Guest(dataDir)
	if err != nil {
		return err
	}
	agents := c.Agents
	if *packages != "" {
		agents = nil
		for name := range strings.SplitSeq(*packages, ",") {
			agents = append(agents, recipe.Parse(strings.TrimSpace(name)))
		}
	}
	for _, s := range sizes {
		spec := BuildSpec{Size: s, Name: *name, Image: *image, Holds: recipe.Image{Agents: agents, With: parts}, GuestPath: guest, Force: *force}
		if err := Build(ctx, set, spec, c.Output); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted: E2B goes on with the build; `parawork e2b template list` shows it")
			}
			return err
		}
		made := *name
		if made == "" {
			made = full.TemplateOf(s.CPUs, s.MemoryMB)
		}
		fmt.Fprintf(c.Output, "The template %s is ready.\n", made)
	}
	return nil
}

// buildSizes reads --size.
func buildSizes(set Settings, text string) ([]executors.Size, error) {
	switch text {
	case "":
		return []executors.Size{{CPUs: set.CPUs, MemoryMB: int64(set.MemoryMB)}}, nil
	case "all":
		return set.Sizes(), nil
	}
	cpus, memory, ok := strings.Cut(text, "x")
	n, cerr := strconv.Atoi(cpus)
	m, merr := strconv.ParseInt(memory, 10, 64)
	if !ok || cerr != nil || merr != nil {
		return nil, fmt.Errorf("--size %q must be vCPUs and MiB such as 4x4096, or all", text)
	}
	return []executors.Size{{CPUs: n, MemoryMB: m}}, nil
}

func listTemplates(ctx context.Context, c executors.CommandLine) error {
	fs, file := flags("list")
	if err := c.Parse(fs, c.Args); err != nil {
		return err
	}
	v, _, err := c.Config(*file)
	if err != nil {
		return err
	}
	set := FromValues(v)
	all, err := Templates(ctx, set)
	if err != nil {
		return err
	}
	full, err := set.Normal()
	if err != nil {
		return err
	}
	return printTemplates(c.Output, full, all)
}

// printTemplates lists templates, and the sizes that lack one.
func printTemplates(out io.Writer, set Settings, all []Template) error {
	missing := set.Sizes()
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVCPU\tMIB\tENVD\tSTATE\tUSED FOR")
	for _, t := range all {
		use := ""
		for i, s := range missing {
			if slices.Contains(t.Aliases, set.TemplateOf(s.CPUs, s.MemoryMB)) || slices.Contains(t.Names, set.TemplateOf(s.CPUs, s.MemoryMB)) {
				use = fmt.Sprintf("workspaces of %d vCPU", s.CPUs)
				missing = slices.Delete(missing, i, i+1)
				break
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", t.Name(), t.CPUs, t.MemoryMB, t.Envd, t.State, use)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range missing {
		fmt.Fprintf(out, "There is none for %d vCPU and %d MiB: %s\n", s.CPUs, s.MemoryMB, BuildCommand(set, s.CPUs, s.MemoryMB))
	}
	return nil
}
